/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decoding against reading.
 *
 * A child allocates N blocks; its memory is copied, and the same copy is decoded
 * (every chunk walked, checked and entered into the table) and read once, word by
 * word. Prints the best of five runs of each. Aim: at most 3 times one read.
 *
 *	build/bench/decode
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/decoders.h"
#include "base/clock.h"
#include "target/target.h"

enum { RUNS = 5 };

struct shape {
	const char *name;
	size_t n;
	size_t least; /* bytes of a block */
	size_t most;
	unsigned int freed; /* of 16 blocks, so many are freed again */
};

static const struct shape shapes[] = {
	{ "5 M blocks of 48 bytes", 5000000, 48, 48, 0 },
	{ "5 M blocks of 16 to 200 bytes, 1 of 4 freed", 5000000, 16, 200, 4 },
	{ "1 M blocks of 16 to 2000 bytes, 1 of 8 freed", 1000000, 16, 2000, 2 },
};

static void die(const char *what)
{
	fprintf(stderr, "decode: %s\n", what);
	exit(1);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Allocate, free some, tell the parent, and wait to be killed. */
static void allocate(const struct shape *shape, int ready)
{
	void **blocks = malloc(shape->n * sizeof(*blocks));
	uint32_t state = 1;

	for (size_t i = 0; i < shape->n; i++) {
		size_t len = shape->least + next_random(&state) % (shape->most - shape->least + 1);

		blocks[i] = malloc(len);
		memset(blocks[i], 1, len);
	}
	for (size_t i = 0; i < shape->n; i++)
		if (next_random(&state) % 16 < shape->freed)
			free(blocks[i]);
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static pid_t start(const struct shape *shape)
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		die("no pipe");
	pid = fork();
	if (pid == 0)
		allocate(shape, ready[1]);
	if (pid < 0 || read(ready[0], &c, 1) != 1)
		die("no child");
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* Freeze and copy @pid. */
static struct ms_source *hold(pid_t pid, struct ms_arena *arena)
{
	struct ms_collection *shared;
	struct ms_source *copy;
	struct ms_notes warnings = { 0 };
	struct ms_error err;
	int channel[2];
	pid_t collection;

	if (ms_collection_create(pid, UINT64_C(30000000000), &shared, &err) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel))
		die("no shared memory");
	collection = fork();
	if (collection == 0) {
		close(channel[0]);
		_exit(ms_collection_serve(shared, channel[1]));
	}
	close(channel[1]);
	if (ms_collection_freeze(shared, channel[0], &err) ||
	    ms_copy_open(shared, arena, &warnings, &copy, &err) ||
	    ms_collection_release(shared, channel[0], &err))
		die(err.text);
	close(channel[0]);
	waitpid(collection, NULL, 0);
	return copy;
}

static uint64_t decode(struct ms_source *copy, struct ms_ranges *owned, uint64_t *ret_blocks)
{
	struct ms_arena arena = { 0 };
	struct ms_regions regions = { 0 };
	struct ms_blocks blocks;
	struct ms_report report = { 0 };
	struct ms_decoding d = { .src = copy,
		                 .regions = &regions,
		                 .arena = &arena,
		                 .blocks = &blocks,
		                 .heaps = &report.heaps,
		                 .evidence = &report.evidence,
		                 .warnings = &report.warnings };
	struct ms_error err;
	uint64_t since;

	if (ms_classify(copy, &arena, &regions, &err))
		die(err.text);
	ms_blocks_init(&blocks, copy, &arena);
	since = ms_now_ns();
	if (ms_glibc_decoder.decode(&d, &err) || ms_blocks_seal(&blocks))
		die(err.text);
	since = ms_now_ns() - since;
	if (!report.heaps.n || !report.heaps.at[0].verified)
		die("the heap was not verified");
	*ret_blocks = blocks.n;
	owned->n = 0;
	for (size_t i = 0; i < d.owned.n; i++)
		if (d.owned.at[i].end - d.owned.at[i].begin > 1 << 20)
			owned->at[owned->n++] = d.owned.at[i];
	ms_arena_deinit(&arena);
	return since;
}

static uint64_t read_once(struct ms_source *copy, const struct ms_ranges *owned,
                          uint64_t *ret_bytes)
{
	static volatile uint64_t sink;
	uint64_t since = ms_now_ns();
	const struct ms_range *r;
	uint64_t sum = 0;

	*ret_bytes = 0;
	ms_vec_for_each (r, owned) {
		const uint64_t *words = ms_source_view(copy, r->begin, ms_range_len(*r));

		for (size_t i = 0; i < ms_range_len(*r) / 8; i++)
			sum += words[i];
		*ret_bytes += ms_range_len(*r);
	}
	sink = sum;
	(void)sink;
	return ms_now_ns() - since;
}

static void measure(const struct shape *shape)
{
	struct ms_range big[64];
	struct ms_ranges owned = { .at = big };
	struct ms_arena arena = { 0 };
	pid_t pid = start(shape);
	struct ms_source *copy = hold(pid, &arena);
	uint64_t best_decode = UINT64_MAX;
	uint64_t best_read = UINT64_MAX;
	uint64_t blocks = 0;
	uint64_t bytes = 0;

	for (int i = 0; i < RUNS; i++) {
		uint64_t decoded = decode(copy, &owned, &blocks);
		uint64_t was_read = read_once(copy, &owned, &bytes);

		best_decode = decoded < best_decode ? decoded : best_decode;
		best_read = was_read < best_read ? was_read : best_read;
	}
	printf("%-46s %6.1f M blocks/s, %5.0f MB: decode %7.1f ms, read %6.1f ms, ratio %.2f\n",
	       shape->name, (double)blocks * 1e3 / (double)best_decode, (double)bytes / 1e6,
	       (double)best_decode / 1e6, (double)best_read / 1e6,
	       (double)best_decode / (double)best_read);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	copy->ops->close(copy);
	ms_arena_deinit(&arena);
}

int main(void)
{
	printf("decoding a glibc heap against one read of it, best of %d (aim: ratio at most 3)\n",
	       RUNS);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		measure(&shapes[i]);
	return 0;
}
