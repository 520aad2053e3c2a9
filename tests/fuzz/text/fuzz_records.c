/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the reader of recordings (record_allocs), their replay, and all that is printed.
 *
 *	fuzz: -max_len=4096
 *
 * The first byte of an input chooses the limit of the lists, the second how the file is cut
 * into pieces, which must change nothing. It must neither crash nor run on; sums must hold,
 * and what was alive at the peak, replayed up to there, must be that many bytes.
 */

#include <stdlib.h>
#include <string.h>

#include "report/records/formats.h"

#include "golden.h"

/* A file, and in pieces of how many bytes it comes. */
struct input {
	const char *text;
	size_t size;
	size_t piece;
	struct ms_recording_until until;
};

/* From memory of exactly that length, so that a sanitizer sees a read behind it. */
static enum ms_status feed_piece(struct ms_recording_reader *reader, const char *at, size_t len,
                                 struct ms_error *err)
{
	char *copy = malloc(len);
	enum ms_status st;

	memcpy(copy, at, len);
	st = ms_recording_feed(reader, copy, len, err);
	free(copy);
	return st;
}

static bool replay(const struct input *input, struct ms_arena *arena, struct ms_recording *ret)
{
	struct ms_recording_reader reader = {
		.recording = ret, .arena = arena, .file = "fuzz", .until = input->until
	};
	struct ms_error err;
	enum ms_status st;

	memset(&err, 0, sizeof(err));
	memset(ret, 0, sizeof(*ret));
	st = ms_recording_begin(&reader, &err);
	for (size_t at = 0; !st && at < input->size; at += input->piece) {
		size_t len = input->size - at;

		st = feed_piece(&reader, input->text + at, len < input->piece ? len : input->piece,
		                &err);
	}
	if (!st)
		st = ms_recording_end(&reader, &err);
	require(st == MS_OK || st == MS_E_CORRUPT, "an input is good or corrupt");
	require(st == MS_OK || (err.text[0] && err.advice[0]), "an error is told");
	return st == MS_OK;
}

static void check_live(const struct ms_recording *r)
{
	const struct ms_recorded_block *block;
	const struct ms_recorded_size *size;
	const struct ms_recorded_thread *thread;
	uint64_t blocks = 0, bytes = 0, by_size = 0, by_thread = 0, operations = 0;

	ms_vec_for_each (block, &r->blocks) {
		blocks += block->live;
		bytes += block->live ? block->size : 0;
	}
	ms_vec_for_each (size, &r->sizes)
		by_size += size->live_blocks * size->size;
	ms_vec_for_each (thread, &r->threads) {
		by_thread += thread->live_bytes;
		operations += thread->operations;
	}
	require(blocks == r->end.blocks && bytes == r->end.bytes, "the live are as many as told");
	require(by_size == bytes && by_thread == bytes, "sizes and threads have them all");
	require(operations == r->operations, "each operation is of a thread");
	require(r->peak.bytes >= bytes, "a peak is the most");
	require(r->allocations == r->end.blocks + r->freed + r->lost, "no block goes missing");
}

static void check_sums(const struct ms_recording *r)
{
	uint64_t calls = 0, ages = 0;

	for (int i = 0; i < MS_OP_KINDS; i++)
		calls += r->calls[i].calls;
	for (int i = 0; i < MS_RECORDING_AGES; i++)
		ages += r->ages[i];
	require(calls == r->operations, "each operation is of a kind");
	require(ages == r->aged && ages <= r->freed, "each freed block has one age");
	require(r->freed_foreign <= r->freed && r->moved <= r->resized, "a part is no more");
	for (size_t i = 1; i < r->n_chains; i++)
		require(r->chains[i].resized <= r->chains[i - 1].resized, "the longest first");
}

static bool sink_write(struct ms_sink *sink, const char *bytes, size_t len)
{
	(void)sink;
	require(!memchr(bytes, '\0', len) && !memchr(bytes, '\033', len), "plain text");
	return true;
}

static void write_all(struct ms_recording *r, uint64_t limit, struct ms_arena *arena)
{
	static const char *const formats[] = { "text", "json" };
	struct ms_sink sink = { sink_write, false };
	struct ms_error err;

	require(!ms_recording_list(r, limit, arena, &err), "there is memory for lists");
	require(r->oldest.n <= limit && r->oldest.n <= r->end.blocks, "a list has its limit");
	for (size_t i = 1; i < r->live_sizes.n; i++) {
		const struct ms_recorded_size *a = &r->sizes.at[r->live_sizes.at[i - 1]];
		const struct ms_recorded_size *b = &r->sizes.at[r->live_sizes.at[i]];

		require(a->size * a->live_blocks >= b->size * b->live_blocks, "in order");
	}
	for (size_t i = 0; i < 2; i++)
		require(ms_recording_writer_find(formats[i])->write(r, &sink), "it is written");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { .piece = 1 + (size > 1 ? data[1] : 0) };
	struct ms_recording whole;
	struct ms_recording other;
	struct ms_arena arena;

	if (size < 2)
		return -1;
	input.text = (const char *)data + 2;
	input.size = size - 2;
	ms_arena_init(&arena);
	if (replay(&input, &arena, &whole)) {
		check_live(&whole);
		check_sums(&whole);
		write_all(&whole, data[0], &arena);
		input.piece = input.size;
		require(replay(&input, &arena, &other), "pieces change nothing");
		require(other.end.bytes == whole.end.bytes && other.freed == whole.freed &&
		                other.operations == whole.operations,
		        "pieces change no sum");
		input.until = (struct ms_recording_until){ MS_UNTIL_LINE, whole.peak.line };
		require(replay(&input, &arena, &other), "a part of it can be read");
		require(other.end.bytes == whole.peak.bytes, "the peak is what lived there");
		input.until = (struct ms_recording_until){ MS_UNTIL_NS, whole.peak.ns };
		require(replay(&input, &arena, &other), "up to a time it can be read");
		check_live(&other);
	}
	ms_arena_deinit(&arena);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	take_golden(take, "\3\100", 2, "tests/golden/records/old.txt");
	take_golden(take, "\377\7", 2, "tests/golden/records/present.txt");
	take_golden(take, "\1\377", 2, "tests/golden/records/threads.txt");
}
