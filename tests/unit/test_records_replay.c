/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/records/recording.h"

static struct ms_arena arena;
static struct ms_recording recording;
static struct ms_error err;

static void setup(void)
{
	ms_arena_init(&arena);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(records_replay, .init = setup, .fini = teardown);

static void replay_until(const char *text, struct ms_recording_until until)
{
	struct ms_recording_reader reader = {
		.recording = &recording, .arena = &arena, .file = "a.txt", .until = until
	};

	memset(&recording, 0, sizeof(recording));
	cr_assert_eq(ms_recording_begin(&reader, &err), MS_OK);
	cr_assert_eq(ms_recording_feed(&reader, text, strlen(text), &err), MS_OK, "%s", err.text);
	cr_assert_eq(ms_recording_end(&reader, &err), MS_OK, "%s", err.text);
}

static void replay(const char *text)
{
	replay_until(text, (struct ms_recording_until){ MS_UNTIL_END, 0 });
}

/* ---- what each operation does ---- */

#define S(bytes, blocks, peak, all, ...)                                              \
	{                                                                             \
		.live_bytes = (bytes), .live_blocks = (blocks), .peak_bytes = (peak), \
		.allocations = (all), __VA_ARGS__                                     \
	}

struct sums {
	uint64_t live_bytes, live_blocks, peak_bytes, allocations, freed, foreign, unseen, lost;
	uint64_t resized, moved, copied;
};

static struct sums sums_of(const struct ms_recording *r)
{
	return (struct sums){ r->end.bytes, r->end.blocks,    r->peak.bytes,   r->allocations,
		              r->freed,     r->freed_foreign, r->freed_unseen, r->lost,
		              r->resized,   r->moved,         r->copied_bytes };
}

static void expect_sums(const char *name, const struct sums *expected)
{
	struct sums is = sums_of(&recording);
	const uint64_t *a = &is.live_bytes;
	const uint64_t *b = &expected->live_bytes;

	for (size_t i = 0; i < sizeof(is) / sizeof(*a); i++)
		cr_expect_eq(a[i], b[i], "%s: sum %zu is %" PRIu64 ", not %" PRIu64, name, i, a[i],
		             b[i]);
}

Test(records_replay, does_what_each_operation_does)
{
	static const struct {
		const char *name;
		const char *text;
		struct sums sums;
	} cases[] = {
		{ "a block", "1: malloc 0x1 5\n", S(5, 1, 5, 1) },
		{ "of no bytes", "1: malloc 0x1 0\n", S(0, 1, 0, 1) },
		{ "of several elements", "1: calloc 0x1 3 5\n", S(15, 1, 15, 1) },
		{ "aligned", "1: memalign 0x10 16 5\n", S(5, 1, 5, 1) },
		{ "freed", "1: malloc 0x1 5\n1: free 0x1\n", S(0, 0, 5, 1, .freed = 1) },
		{ "freed by another", "1: malloc 0x1 5\n2: free 0x1\n",
		  S(0, 0, 5, 1, .freed = 1, .foreign = 1) },
		{ "not seen", "1: free 0x1\n", S(0, 0, 0, 0, .unseen = 1) },
		{ "freed twice", "1: malloc 0x1 5\n1: free 0x1\n1: free 0x1\n",
		  S(0, 0, 5, 1, .freed = 1, .unseen = 1) },
		{ "free of nothing", "1: free 0x0\n", S(0, 0, 0, 0) },
		{ "failed", "1: malloc 0x0 5\n1: calloc 0x0 3 5\n1: realloc 0x0 0x0 5\n",
		  S(0, 0, 0, 0) },
		{ "grown in place", "1: malloc 0x1 5\n1: realloc 0x1 0x1 9\n",
		  S(9, 1, 9, 1, .resized = 1) },
		{ "grown", "1: malloc 0x1 5\n1: realloc 0x2 0x1 9\n",
		  S(9, 1, 9, 1, .resized = 1, .moved = 1, .copied = 5) },
		{ "made smaller", "1: malloc 0x1 5\n1: realloc 0x2 0x1 2\n",
		  S(2, 1, 5, 1, .resized = 1, .moved = 1, .copied = 2) },
		{ "not grown", "1: malloc 0x1 5\n1: realloc 0x0 0x1 9\n", S(5, 1, 5, 1) },
		{ "freed by realloc", "1: malloc 0x1 5\n2: realloc 0x0 0x1 0\n",
		  S(0, 0, 5, 1, .freed = 1, .foreign = 1) },
		{ "made by realloc", "1: realloc 0x1 0x0 5\n", S(5, 1, 5, 1) },
		{ "resized, not seen", "1: realloc 0x2 0x1 5\n", S(5, 1, 5, 1, .unseen = 1) },
		{ "belongs to who resized it",
		  "1: malloc 0x1 5\n2: realloc 0x2 0x1 9\n2: free 0x2\n",
		  S(0, 0, 9, 1, .freed = 1, .resized = 1, .moved = 1, .copied = 5) },
		{ "the end of a thread", "1: malloc 0x1 5\n1: thread_done 0x0\n", S(5, 1, 5, 1) },
		{ "given out again, no times, freed late",
		  "1: malloc 0x1 5\n2: malloc 0x1 9\n1: free 0x1\n", S(9, 1, 9, 2, .freed = 1) },
		{ "given out three times, no times, freed twice",
		  "1: malloc 0x1 5\n2: malloc 0x1 9\n3: malloc 0x1 7\n1: free 0x1\n3: free 0x1\n",
		  S(0, 0, 9, 3, .freed = 2, .foreign = 1, .lost = 1) },
		{ "given out again and never freed", "1: malloc 0x1 5 1 2\n2: malloc 0x1 9 3 4\n",
		  S(9, 1, 9, 2, .lost = 1) },
		{ "given out again, freed once",
		  "1: malloc 0x1 5 1 2\n2: malloc 0x1 9 3 4\n2: free 0x1 5 6\n",
		  S(0, 0, 9, 2, .freed = 1, .lost = 1) },
		{ "freed late", "1: malloc 0x1 5 1 2\n2: malloc 0x1 9 3 6\n1: free 0x1 4 5\n",
		  S(9, 1, 9, 2, .freed = 1) },
		{ "freed late and freed",
		  "1: malloc 0x1 5 1 2\n2: malloc 0x1 9 3 6\n1: free 0x1 4 5\n2: free 0x1 7 8\n",
		  S(0, 0, 9, 2, .freed = 2) },
		{ "an unseen one freed late", "2: malloc 0x1 9 3 6\n1: free 0x1 4 5\n",
		  S(9, 1, 9, 1, .unseen = 1) },
		{ "given out by a call that began first",
		  "2: malloc 0x1 9 1 8\n1: malloc 0x1 5 2 3\n1: free 0x1 4 5\n",
		  S(9, 1, 9, 2, .freed = 1) },
		{ "resized late",
		  "1: malloc 0x1 5 1 2\n2: malloc 0x1 9 3 6\n"
		  "1: realloc 0x3 0x1 7 4 7\n",
		  S(16, 2, 16, 2, .resized = 1, .moved = 1, .copied = 5) },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		replay(cases[i].text);
		expect_sums(cases[i].name, &cases[i].sums);
	}
}

Test(records_replay, counts_calls)
{
	replay("1: malloc 0x1 5\n1: malloc 0x0 7\n1: calloc 0x2 2 3\n2: realloc 0x3 0x1 8\n"
	       "1: realloc 0x0 0x3 9\n2: realloc 0x0 0x3 0\n1: free 0x2\n2: thread_done 0x0 50\n");
	cr_assert_eq(recording.operations, 8);
	cr_assert_eq(recording.calls[MS_OP_MALLOC].calls, 2);
	cr_assert_eq(recording.calls[MS_OP_MALLOC].failed, 1);
	cr_assert_eq(recording.calls[MS_OP_MALLOC].bytes, 5);
	cr_assert_eq(recording.calls[MS_OP_CALLOC].bytes, 6);
	cr_assert_eq(recording.calls[MS_OP_REALLOC].calls, 3);
	cr_assert_eq(recording.calls[MS_OP_REALLOC].failed, 1);
	cr_assert_eq(recording.calls[MS_OP_REALLOC].bytes, 8);
	cr_assert_eq(recording.calls[MS_OP_FREE].calls, 1);
	cr_assert_eq(recording.asked_bytes, 19);
	cr_assert_eq(recording.threads.n, 2);
	cr_assert_not(recording.threads.at[0].ended);
	cr_assert(recording.threads.at[1].ended);
	cr_assert_eq(recording.threads.at[0].operations, 5);
	cr_assert_eq(recording.threads.at[0].allocations, 2);
	cr_assert_eq(recording.threads.at[0].allocated_bytes, 11);
	cr_assert_eq(recording.threads.at[0].frees, 1);
}

static const char course[] = "1: malloc 0x1 100 1000 1010\n"
			     "2: malloc 0x2 50 1005 1020\n"
			     "1: free 0x1 1030 1050\n"
			     "2: malloc 0x3 20 1040 1060\n"
			     "2: free 0x2 1090 1095\n"
			     "1: malloc 0x4 1 1070 1080\n";

Test(records_replay, finds_the_peak_and_the_span)
{
	replay(course);
	cr_assert_eq(recording.first_ns, 1000);
	cr_assert_eq(recording.last_ns, 1095);
	cr_assert_eq(recording.peak.bytes, 150);
	cr_assert_eq(recording.peak.blocks, 2);
	cr_assert_eq(recording.peak.line, 2);
	cr_assert_eq(recording.peak.ns, 1020);
	cr_assert_eq(recording.end.bytes, 21);
	cr_assert_eq(recording.end.ns, 1095);
	cr_assert_eq(recording.end.line, 6);
}

Test(records_replay, tells_the_first_of_equal_peaks)
{
	replay("1: malloc 0x1 5\n1: free 0x1\n1: malloc 0x1 5\n");
	cr_assert_eq(recording.peak.line, 1);
	cr_assert_eq(recording.end.bytes, 5);
}

/* A block is there from the end of its call to the beginning of its free. */
Test(records_replay, goes_up_to_a_moment)
{
	static const struct {
		uint64_t ns;
		uint64_t bytes;
	} cases[] = {
		{ 999, 0 },    { 1009, 0 },  { 1010, 100 }, { 1019, 100 }, { 1020, 150 },
		{ 1029, 150 }, { 1030, 50 }, { 1059, 50 },  { 1060, 70 },  { 1080, 71 },
		{ 1089, 71 },  { 1090, 21 }, { 9999, 21 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		replay_until(course, (struct ms_recording_until){ MS_UNTIL_NS, cases[i].ns });
		cr_expect_eq(recording.end.bytes, cases[i].bytes, "%" PRIu64, cases[i].ns);
	}
	replay_until(course, (struct ms_recording_until){ MS_UNTIL_LINE, 2 });
	cr_assert_eq(recording.end.bytes, 150);
	cr_assert_eq(recording.operations, 2);
}

Test(records_replay, tells_how_long_blocks_lived)
{
	replay("1: malloc 0x1 1 0 10\n1: free 0x1 10 11\n" /* 0 ns: less than 1 */
	       "1: malloc 0x1 1 0 10\n1: free 0x1 11 11\n" /* 1 */
	       "1: malloc 0x1 1 0 10\n1: free 0x1 13 14\n" /* 3 */
	       "1: malloc 0x1 1 0 10\n1: free 0x1 14 15\n" /* 4 */
	       "1: malloc 0x1 1 0 10\n1: realloc 0x2 0x1 9 20 30\n1: free 0x2 1034 1040\n" /* 1024
	                                                                                    */
	       "1: malloc 0x1 1\n1: free 0x1 1 2\n"); /* nobody knows */
	cr_assert_eq(recording.ages[0], 1);
	cr_assert_eq(recording.ages[1], 1);
	cr_assert_eq(recording.ages[2], 1);
	cr_assert_eq(recording.ages[3], 1);
	cr_assert_eq(recording.ages[11], 1);
	cr_assert_eq(recording.aged, 5);
	cr_assert_eq(recording.freed, 6);
}

Test(records_replay, keeps_the_blocks_that_were_resized_most)
{
	char text[8192] = "";
	size_t at = 0;

	/* Block n is resized n times; half of them are freed. */
	for (int n = 0; n < 20; n++) {
		at += (size_t)sprintf(text + at, "1: malloc 0x%x 1\n", n + 1);
		for (int i = 0; i < n; i++)
			at += (size_t)sprintf(text + at, "1: realloc 0x%x 0x%x %d\n", n + 1, n + 1,
			                      i + 2);
		if (n % 2)
			at += (size_t)sprintf(text + at, "1: free 0x%x\n", n + 1);
	}
	replay(text);
	cr_assert_eq(recording.n_chains, MS_RECORDING_CHAINS);
	for (uint32_t i = 0; i < MS_RECORDING_CHAINS; i++) {
		cr_assert_eq(recording.chains[i].resized, 19 - i);
		cr_assert_eq(recording.chains[i].first_size, 1);
		cr_assert_eq(recording.chains[i].size, 20 - i);
	}
}

Test(records_replay, lists_what_stands_first)
{
	replay("1: malloc 0x1 10 1 2\n1: malloc 0x2 10 3 4\n2: malloc 0x3 30 5 6\n"
	       "2: malloc 0x4 5 7 8\n2: free 0x4 9 10\n2: malloc 0x5 5 11 12\n"
	       "2: free 0x5 13 14\n2: malloc 0x6 5 15 16\n");
	cr_assert_eq(ms_recording_list(&recording, 2, &arena, &err), MS_OK);
	cr_assert_eq(recording.n_live_sizes, 3);
	cr_assert_eq(recording.live_sizes.n, 2);
	cr_assert_eq(recording.sizes.at[recording.live_sizes.at[0]].size, 30);
	cr_assert_eq(recording.sizes.at[recording.live_sizes.at[1]].size, 10);
	cr_assert_eq(recording.sizes.at[recording.all_sizes.at[0]].size, 5);
	cr_assert_eq(recording.sizes.at[recording.all_sizes.at[0]].allocations, 3);
	cr_assert_eq(recording.threads.at[recording.by_thread.at[0]].tid, 2);
	replay("1: malloc 0x1 1\n1: free 0x9\n1: free 0x9\n2: malloc 0x2 9\n");
	cr_assert_eq(ms_recording_list(&recording, 2, &arena, &err), MS_OK);
	cr_assert_eq(recording.threads.at[recording.by_thread.at[0]].tid, 2);
}

Test(records_replay, lists_the_threads_with_most_bytes_and_the_oldest_blocks)
{
	replay("1: malloc 0x1 10 1 2\n1: malloc 0x2 10 3 4\n2: malloc 0x3 30 5 6\n2: malloc 0x6 5 15 16\n");
	cr_assert_eq(ms_recording_list(&recording, 2, &arena, &err), MS_OK);
	cr_assert_eq(recording.threads.at[recording.by_thread.at[0]].live_bytes, 35);
	cr_assert_eq(recording.oldest.n, 2);
	cr_assert_eq(recording.blocks.at[recording.oldest.at[0]].address, 1);
	cr_assert_eq(recording.blocks.at[recording.oldest.at[1]].address, 2);
}

/* Backwards, so that each one offered is older than all before. */
Test(records_replay, lists_the_oldest_of_many)
{
	static char text[1000 * 40];
	size_t at = 0;

	for (int i = 0; i < 1000; i++)
		at += (size_t)sprintf(text + at, "1: malloc 0x%x 8 %d %d\n", i + 1, 5000 - i,
		                      5000 - i);
	replay(text);
	for (uint64_t limit = 0; limit < 1200; limit += 100) {
		size_t n = limit < 1000 ? (size_t)limit : 1000;

		cr_assert_eq(ms_recording_list(&recording, limit, &arena, &err), MS_OK);
		cr_assert_eq(recording.oldest.n, n);
		for (size_t i = 0; i < n; i++)
			cr_assert_eq(recording.blocks.at[recording.oldest.at[i]].address, 1000 - i);
	}
}

/* ---- drawn recordings ---- */

enum { THREADS = 6, ADDRESSES = 8, STEPS = 4000, UNSEEN = 2 };

/* A step of a call: its place in the file, its times, what happens between them. */
enum phase { IDLE, RESERVED, STARTED, RELEASED, DONE };

struct block {
	uint64_t size, born, copied;
	int thread;
	bool seen, usable;
};

struct call {
	enum phase phase;
	enum ms_operation_kind kind;
	int slot, old, address;
	uint64_t size, start;
	struct block moves;
};

static struct {
	struct block blocks[ADDRESSES + 1]; /* [0]: none */
	bool taken[ADDRESSES + 1];
	struct call calls[THREADS];
	char lines[STEPS][80];
	int slots;
	uint64_t clock;
	unsigned state;
	struct sums truth;
	uint64_t ages[MS_RECORDING_AGES];
} world;

static unsigned draw(unsigned n)
{
	world.state = world.state * 1103515245 + 12345;
	return (world.state >> 16) % n;
}

static int draw_address(bool taken)
{
	int first = (int)draw(ADDRESSES);

	for (int i = 0; i < ADDRESSES; i++) {
		int address = 1 + (first + i) % ADDRESSES;

		if (world.taken[address] == taken && (!taken || world.blocks[address].usable))
			return address;
	}
	return 0;
}

/* Addresses that are taken, or will be by a call that has begun. */
static int promised(void)
{
	int n = 0;

	for (int i = 1; i <= ADDRESSES; i++)
		n += world.taken[i];
	for (int i = 0; i < THREADS; i++) {
		const struct call *call = &world.calls[i];

		n += call->kind == MS_OP_MALLOC && call->phase != IDLE && call->phase != DONE;
		n += call->kind == MS_OP_REALLOC && call->phase == RELEASED;
	}
	return n;
}

static void begin_call(struct call *call)
{
	static const enum ms_operation_kind kinds[] = { MS_OP_MALLOC, MS_OP_FREE, MS_OP_REALLOC };

	call->kind = promised() < ADDRESSES ? kinds[draw(3)] : MS_OP_FREE;
	call->old = call->kind == MS_OP_MALLOC ? 0 : draw_address(true);
	if (call->kind != MS_OP_MALLOC && !call->old)
		return;
	world.blocks[call->old].usable = false;
	call->size = draw(100);
	call->slot = world.slots++;
	call->phase = RESERVED;
}

static void take_back(struct call *call, int thread)
{
	struct block *block = &world.blocks[call->old];

	call->moves = *block;
	world.taken[call->old] = false;
	if (!block->seen) {
		world.truth.unseen++;
	} else if (call->kind == MS_OP_FREE) {
		uint64_t age = call->start - block->born;
		unsigned i = 0;

		while (UINT64_C(1) << i <= age)
			i++;
		world.ages[i]++;
		world.truth.freed++;
		world.truth.foreign += block->thread != thread;
	}
}

static void give_out(struct call *call, int thread)
{
	bool resized = call->kind == MS_OP_REALLOC && call->moves.seen;
	uint64_t copied = call->moves.size < call->size ? call->moves.size : call->size;

	world.blocks[call->address] = (struct block){
		.size = call->size,
		.thread = thread,
		.seen = true,
		.usable = true,
		.born = resized ? call->moves.born : world.clock,
	};
	world.truth.allocations += !resized;
	world.truth.resized += resized;
	if (resized && call->address != call->old) {
		world.truth.moved++;
		world.truth.copied += copied;
	}
}

static void write_line(const struct call *call, int thread)
{
	char *line = world.lines[call->slot];

	if (call->kind == MS_OP_FREE)
		(void)sprintf(line, "%d: free 0x%x %" PRIu64 " %" PRIu64 "\n", thread + 1,
		              call->old, call->start, world.clock);
	else if (call->kind == MS_OP_MALLOC)
		(void)sprintf(line, "%d: malloc 0x%x %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		              thread + 1, call->address, call->size, call->start, world.clock);
	else
		(void)sprintf(line, "%d: realloc 0x%x 0x%x %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		              thread + 1, call->address, call->old, call->size, call->start,
		              world.clock);
}

/* One thread goes on by one phase; the clock with it. */
static void step(int thread, bool may_begin)
{
	struct call *call = &world.calls[thread];

	world.clock += 1 + draw(20);
	switch (call->phase) {
	case IDLE:
		if (may_begin)
			begin_call(call);
		return;
	case RESERVED:
		call->start = world.clock;
		call->phase = STARTED;
		return;
	case STARTED:
		if (call->old)
			take_back(call, thread);
		call->phase = RELEASED;
		return;
	case RELEASED:
		call->address = call->kind == MS_OP_FREE ? 0 : draw_address(false);
		world.taken[call->address] = call->address != 0;
		world.blocks[call->address].usable = false;
		call->phase = DONE;
		return;
	case DONE:
		if (call->address)
			give_out(call, thread);
		write_line(call, thread);
		call->phase = IDLE;
		return;
	}
}

static void draw_world(unsigned seed)
{
	memset(&world, 0, sizeof(world));
	world.state = seed;
	world.clock = 1000;
	for (int i = 1; i <= UNSEEN; i++) {
		world.taken[i] = true;
		world.blocks[i] = (struct block){ .usable = true };
	}
	for (int i = 0; i < STEPS * 4 && world.slots < STEPS - THREADS; i++)
		step((int)draw(THREADS), true);
	for (int i = 0; i < THREADS * DONE; i++)
		step(i % THREADS, false);
	for (int i = 1; i <= ADDRESSES; i++) {
		if (!world.taken[i] || !world.blocks[i].seen)
			continue;
		world.truth.live_blocks++;
		world.truth.live_bytes += world.blocks[i].size;
	}
}

Test(records_replay, finds_the_truth_behind_calls_that_ran_at_the_same_time)
{
	static char text[STEPS * 80];
	for (unsigned seed = 1; seed <= 200; seed++) {
		size_t at = 0;

		draw_world(seed);
		for (int i = 0; i < world.slots; i++)
			at += (size_t)sprintf(text + at, "%s", world.lines[i]);
		replay(text);
		world.truth.peak_bytes = recording.peak.bytes;
		expect_sums("drawn", &world.truth);
		cr_assert_arr_eq(recording.ages, world.ages, sizeof(world.ages), "seed %u", seed);
	}
}
