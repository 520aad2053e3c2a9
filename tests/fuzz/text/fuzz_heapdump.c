/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the reader of Android's heap dumps, and all that is printed of them.
 *
 *	fuzz: -max_len=4096
 *
 * The first byte of an input chooses how the tree is made, and whether the text is cut
 * into two dumps, of which the difference is told. It must neither crash nor run on; the
 * sums of a tree must be those of its dump, no node may have less than what is below it,
 * and a branch can only be as large as the one printed before it.
 */

#include <string.h>

#include "report/heapdump/view.h"

#include "golden.h"

static bool parse(const char *text, size_t size, struct ms_arena *arena, struct ms_heapdump *ret)
{
	const struct ms_heapdump_file file = { "fuzz", text, size };
	struct ms_error err;

	memset(&err, 0, sizeof(err));
	if (!ms_heapdump_parse(&file, arena, ret, &err))
		return true;
	require(err.text[0] && err.advice[0], "an error is told");
	return false;
}

static void check_dump(const struct ms_heapdump *dump)
{
	const struct ms_heapdump_record *record;
	uint64_t bytes = 0;

	ms_vec_for_each (record, &dump->records) {
		require(record->n_frames > 0, "a record has a stack");
		require(record->first + record->n_frames <= dump->pcs.n, "its frames are there");
		require(record->info == SIZE_MAX ||
		                record->info + record->n_frames <= dump->infos.n,
		        "its names are there");
		bytes += record->size * record->count;
	}
	require(bytes == dump->bytes, "a dump's bytes are those of its records");
}

static void check_children(const struct ms_amount_tree *tree, const struct ms_amount_node *node)
{
	struct ms_amount_sum now = node->now;
	int64_t before = INT64_MAX;

	now.bytes -= node->now.own_bytes;
	now.count -= node->now.own_count;
	for (uint32_t i = node->first; i != MS_AMOUNT_NONE; i = tree->nodes.at[i].next) {
		const struct ms_amount_node *child = &tree->nodes.at[i];
		int64_t change = (int64_t)(child->now.bytes - child->old.bytes);

		require(change <= before, "the largest stands first");
		require(child->depth == node->depth + 1, "a child is one deeper");
		before = change;
		now.bytes -= child->now.bytes;
		now.count -= child->now.count;
	}
	require(now.bytes == 0 && now.count == 0, "a node is the sum of what is below it");
}

static void check_tree(const struct ms_heapdump_view *view)
{
	const struct ms_amount_node *node = ms_amounts_begin(&view->tree);
	uint64_t bytes[2] = { 0, 0 };
	size_t n = 0;

	for (; node; node = ms_amounts_next(&view->tree, node, false)) {
		n++;
		check_children(&view->tree, node);
		bytes[0] += node->now.own_bytes;
		bytes[1] += node->old.own_bytes;
	}
	require(n == view->tree.nodes.n, "each node is printed once");
	for (size_t i = 0; i < view->n_dumps; i++)
		require(bytes[i] == view->dumps[i]->bytes, "a tree has the bytes of its dump");
}

static bool sink_write(struct ms_sink *sink, const char *bytes, size_t len)
{
	(void)sink;
	require(!memchr(bytes, '\0', len) && !memchr(bytes, '\033', len), "plain text");
	return true;
}

static void write_all(const struct ms_heapdump_view *view)
{
	static const char *const formats[] = { "text", "html", "folded", "json" };
	struct ms_sink sink = { sink_write, false };

	for (size_t i = 0; i < 4; i++)
		require(ms_heapdump_writer_find(formats[i])->write(view, &sink), "it is written");
}

static void view_all(struct ms_heapdump_view *view, struct ms_arena *arena)
{
	struct ms_error err;

	require(!ms_heapdump_list_places(view, arena, &err), "there is memory for places");
	require(!ms_heapdump_grow(view, arena, &err), "there is memory for a tree");
	check_tree(view);
	write_all(view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	struct ms_heapdump dumps[2];
	struct ms_heapdump_view view = { .files = { "a", "b" }, .symbols = "/" };
	const char *cut;
	struct ms_arena arena;
	bool good;

	if (!size)
		return -1;
	size--;
	view.reversed = data[0] & 1;
	view.by_size = data[0] & 2;
	view.verbose = data[0] & 4;
	cut = data[0] & 8 ? memmem(text, size, "END\n", 4) : NULL;
	ms_arena_init(&arena);
	good = parse(text, cut ? (size_t)(cut + 4 - text) : size, &arena, &dumps[0]);
	view.n_dumps = 1;
	if (good && cut && parse(cut + 4, (size_t)(text + size - cut - 4), &arena, &dumps[1]))
		view.n_dumps = 2;
	for (size_t i = 0; good && i < view.n_dumps; i++) {
		view.dumps[i] = &dumps[i];
		check_dump(&dumps[i]);
	}
	if (good)
		view_all(&view, &arena);
	ms_arena_deinit(&arena);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	take_golden(take, "\0", 1, "tests/golden/heapdump/v1.0.txt");
	take_golden(take, "\1", 1, "tests/golden/heapdump/v1.1-arm.txt");
	take_golden(take, "\2", 1, "tests/golden/heapdump/v1.2-arm64.txt");
	take_golden(take, "\3", 1, "tests/golden/heapdump/v1.2-arm64-later.txt");
}
