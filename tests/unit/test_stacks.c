/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "drawn_thread.h"
#include "engine/stacks.h"
#include "fake.h"
#include "module.h"

/*
 * One module with data at DATA, the main stack, and thread stacks of 64 KiB each.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	MODULE = 0x400000,
	DATA = 0x401000,
	THREADS = 0x500000,
	STACK_BYTES = 0x10000,
	TCB_BYTES = 2304,
	TCB_PLACE = STACK_BYTES - 0x940,
	MAIN_STACK = 0x900000,
	ENDING = 0x10,
	GIVEN_BACK = 0x20,
	GUARD = 0x1000,
};

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_stacks stacks;
static struct ms_ranges owned;

static ms_addr tcb_of(int i)
{
	return THREADS + (ms_addr)i * STACK_BYTES + TCB_PLACE;
}

/* A stack with the control block of a thread that has @flags of cancellation. */
static void draw_stack(int i, int tid, uint32_t flags)
{
	ms_addr begin = THREADS + (ms_addr)i * STACK_BYTES;

	drawn_thread(&fake, tcb_of(i), tid, (struct ms_range){ begin, begin + STACK_BYTES }, GUARD);
	/* The word behind is the type of cancellation, in newer ones its signal. */
	ms_fake_put(&fake, tcb_of(i) + DRAWN_FLAGS, UINT64_C(0x80) << 32 | flags);
}

static void draw(void)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	fake.base.abi = ms_fake_abi_x86_64;
	phdr = elf_write(ms_fake_map(&fake, MODULE, 0x1000, MS_PROT_READ, "/lib/ld.so"), 2);
	phdr[0] = elf_load(0, 0x1000, PF_R);
	phdr[1] = elf_load(0x1000, 0x1000, PF_R | PF_W);
	ms_fake_map(&fake, DATA, 0x1000, RW, "/lib/ld.so");
	ms_fake_map(&fake, THREADS, 4 * STACK_BYTES, RW, "");
	ms_fake_map(&fake, MAIN_STACK, STACK_BYTES, RW, "[stack]");
}

static struct ms_decoding decoding;

/* With @blocks, and caches where @place says, if there are any. */
static void find_with(struct ms_blocks *blocks, struct ms_cache_place *place)
{
	struct ms_libc_view libc;
	struct ms_error err;

	memset(&regions, 0, sizeof(regions));
	memset(&stacks, 0, sizeof(stacks));
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	libc = ms_libc_find(&fake.base, ms_libcs);
	decoding = (struct ms_decoding){ .src = &fake.base,
		                         .regions = &regions,
		                         .arena = &fake.arena,
		                         .owned = owned,
		                         .blocks = blocks,
		                         .cache_places = { .at = place, .n = place != NULL } };
	cr_assert_eq(ms_stacks_find(&decoding, &libc, &stacks), MS_OK);
}

static void find(void)
{
	find_with(NULL, NULL);
}

static bool is_in(const struct ms_ranges *ranges, ms_addr addr)
{
	const struct ms_range *r;

	ms_vec_for_each (r, ranges)
		if (ms_range_has(*r, addr))
			return true;
	return false;
}

/* Find with one heap block, of @len bytes at @begin. */
static void find_in_block(ms_addr begin, uint64_t len)
{
	static struct ms_blocks blocks;
	uint32_t extent;

	find();
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert_eq(ms_blocks_open(&blocks, (struct ms_range){ begin, begin + len }, 4, &extent),
	             MS_OK);
	cr_assert_eq(ms_blocks_put(&blocks, extent, begin, len), MS_OK);
	cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	decoding.blocks = &blocks;
	cr_assert_eq(ms_stacks_fit(&decoding, &stacks), MS_OK);
}

/* Of @ranges, the first is @wanted, and no other is below the main stack. */
static void expect_range(const char *what, const struct ms_ranges *ranges, struct ms_range wanted)
{
	cr_assert_geq(ranges->n, 1, "%s", what);
	cr_expect_eq(ranges->at[0].begin, wanted.begin, "%s from 0x%llx", what,
	             (unsigned long long)ranges->at[0].begin);
	cr_expect_eq(ranges->at[0].end, wanted.end, "%s to 0x%llx", what,
	             (unsigned long long)ranges->at[0].end);
	for (size_t i = 1; i < ranges->n; i++)
		cr_expect_geq(ranges->at[i].begin, MAIN_STACK, "%s: %zu ranges", what, ranges->n);
}

Test(stacks, live_from_the_red_zone_to_the_end_of_the_block)
{
	ms_addr sp = tcb_of(0) - 0x2000;

	draw();
	draw_stack(0, 7, 0);
	ms_fake_thread(&fake, 7, sp, tcb_of(0));
	find();
	cr_assert(!is_in(&stacks.live, sp - 129));
	cr_assert(is_in(&stacks.live, sp - 128));
	cr_assert(is_in(&stacks.live, THREADS + STACK_BYTES - 1));
	cr_assert(!is_in(&stacks.live, THREADS + STACK_BYTES));
	cr_assert(is_in(&stacks.whole, THREADS));
	cr_assert_eq(stacks.n_dead, 0);
	cr_assert_eq(stacks.words.n, 1, "the table of dynamic TLS");
	cr_assert_eq(stacks.words.at[0], 0x12340);
	ms_fake_deinit(&fake);
}

Test(stacks, of_the_main_thread_live_to_the_end_of_the_mapping)
{
	draw();
	ms_fake_thread(&fake, 7, MAIN_STACK + 0x8000, 0);
	find();
	cr_assert(!is_in(&stacks.live, MAIN_STACK + 0x7000));
	cr_assert(is_in(&stacks.live, MAIN_STACK + STACK_BYTES - 1));
	cr_assert(is_in(&stacks.whole, MAIN_STACK));
	ms_fake_deinit(&fake);
}

Test(stacks, left_for_a_signal_stack_live_from_the_saved_pointer)
{
	draw();
	ms_fake_put(&fake, THREADS + 0x5040, MAIN_STACK + 0x9000);
	ms_fake_thread(&fake, 7, THREADS + 0x5000, 0);
	find();
	cr_assert(is_in(&stacks.live, THREADS + 0x5000));
	cr_assert(!is_in(&stacks.live, MAIN_STACK + 0x8fff));
	cr_assert(is_in(&stacks.live, MAIN_STACK + 0x9000));
	cr_assert(is_in(&stacks.whole, MAIN_STACK));
	ms_fake_deinit(&fake);
}

/* Words on the stack that runs, at most 64 KiB of it; the lowest pointer counts. */
Test(stacks, left_live_from_the_lowest_pointer_to_them)
{
	static const struct {
		ms_addr at;
		ms_addr from;
	} cases[] = {
		{ THREADS + 0x5000, 0x9000 },
		{ THREADS + 0x5040, 0x8800 }, /* the other one, saved behind it, is higher */
		{ THREADS + 0x14ff8, 0x8800 },
		{ THREADS + 0x15000, 0x9800 }, /* too far; that of the other counts */
		{ THREADS + 0x4ff8, 0x9800 },  /* below the stack pointer */
		{ 0, 0 },                      /* none: all of it */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ms_addr from = MAIN_STACK + cases[i].from;

		draw();
		if (from > MAIN_STACK) {
			ms_fake_put(&fake, THREADS + 0x5048, MAIN_STACK + 0x9800);
			ms_fake_put(&fake, cases[i].at,
			            from < MAIN_STACK + 0x9800 ? from : from - 0x1000);
		}
		ms_fake_thread(&fake, 7, THREADS + 0x5000, 0);
		find();
		cr_expect(is_in(&stacks.live, from), "case %zu", i);
		cr_expect(!is_in(&stacks.live, from - 1), "case %zu", i);
		cr_expect(!is_in(&stacks.doubtful, from), "case %zu", i);
		cr_expect(from == MAIN_STACK || is_in(&stacks.doubtful, from - 1), "case %zu", i);
		ms_fake_deinit(&fake);
	}
}

/* A register that has it was saved on the stack that runs. */
Test(stacks, left_live_as_a_whole_where_the_lowest_pointer_is_that_to_a_frame)
{
	enum { CODE = 0xa00000, FRAME = MAIN_STACK + 0x9000 };
	static const struct {
		const char *what;
		uint64_t before, pc;
		bool whole;
	} cases[] = {
		{ "a frame", FRAME + 0x80, CODE + 0x123, true },
		{ "the register held a number before", 2, CODE + 0x123, true },
		{ "no address of an instruction", FRAME + 0x80, CODE + 0x1000, false },
		{ "what was called returns there", CODE + 0x123, 0, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw();
		ms_fake_map(&fake, CODE, 0x1000, MS_PROT_READ | MS_PROT_EXEC, "/bin/program");
		ms_fake_put(&fake, THREADS + 0x5040, FRAME);
		ms_fake_put(&fake, FRAME, cases[i].before);
		ms_fake_put(&fake, FRAME + 8, cases[i].pc);
		ms_fake_thread(&fake, 7, THREADS + 0x5000, 0);
		find();
		cr_expect(is_in(&stacks.live, FRAME), "%s", cases[i].what);
		cr_expect_eq(is_in(&stacks.live, FRAME - 1), cases[i].whole, "%s", cases[i].what);
		cr_expect_eq(is_in(&stacks.live, MAIN_STACK), cases[i].whole, "%s", cases[i].what);
		ms_fake_deinit(&fake);
	}
}

Test(stacks, left_for_a_coroutine_live_from_the_saved_pointer)
{
	ms_addr sp = THREADS + 2 * STACK_BYTES + 0x5000;

	draw();
	draw_stack(0, 7, 0);
	ms_fake_put(&fake, sp + 8, THREADS + 0x6000);
	ms_fake_thread(&fake, 7, sp, tcb_of(0));
	find();
	cr_assert(is_in(&stacks.live, sp));
	cr_assert(is_in(&stacks.live, THREADS + 0x6000));
	cr_assert(!is_in(&stacks.live, THREADS + 0x5fff));
	cr_assert(is_in(&stacks.whole, THREADS));
	ms_fake_deinit(&fake);
}

Test(stacks, of_the_main_thread_are_not_left_by_threads_on_their_own)
{
	draw();
	draw_stack(0, 8, 0);
	ms_fake_put(&fake, THREADS + 3 * STACK_BYTES + 0x40, MAIN_STACK + 0x9000);
	ms_fake_thread(&fake, 9, 0x10, 0);
	ms_fake_thread(&fake, 8, tcb_of(0) - 0x100, tcb_of(0));
	ms_fake_thread(&fake, 7, THREADS + 3 * STACK_BYTES, 0);
	find();
	cr_assert(!is_in(&stacks.live, MAIN_STACK + 0x8fff));
	cr_assert(is_in(&stacks.live, MAIN_STACK + 0x9000));
	ms_fake_deinit(&fake);
}

/* The main thread of a static program: nothing names its stack, TLS is not far above. */
Test(stacks, of_no_known_size_end_behind_the_control_block_or_with_the_mapping)
{
	static const struct {
		ms_addr tp;
		ms_addr end;
	} cases[] = {
		{ THREADS + 0x8000, THREADS + 0x9000 },
		{ THREADS + 0x1000, THREADS + 4 * STACK_BYTES },
		{ THREADS + 4 * STACK_BYTES - 0x100, THREADS + 4 * STACK_BYTES },
		{ 0, THREADS + 4 * STACK_BYTES },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw();
		ms_fake_thread(&fake, 7, THREADS + 0x5000, cases[i].tp);
		find();
		cr_expect_eq(stacks.live.at[0].begin, THREADS + 0x5000 - 128, "case %zu", i);
		cr_expect_eq(stacks.live.at[0].end, cases[i].end, "case %zu", i);
		cr_expect_eq(stacks.whole.at[0].begin, THREADS + 0x5000 - 128, "case %zu", i);
		ms_fake_deinit(&fake);
	}
}

/* Two words of a control block before the true ones: taken for a stack, or not. */
Test(stacks, are_believed_only_when_they_make_sense)
{
	static const struct {
		int i;
		ms_addr begin;
		uint64_t len;
		bool believed;
	} cases[] = {
		{ 0, 0x500000, 0x18000, true },
		{ 0, 0x500000, 0x21000, false },          /* too much above the control block */
		{ 0, 0x500008, 0xfff8, false },           /* odd */
		{ 0, THREADS + TCB_PLACE, 0x800, false }, /* short */
		{ 0, 0x4ff000, 0x11000, false },          /* not mapped below, */
		{ 3, 0x530000, 0x11000, false },          /* and above */
		{ 3, 0x500000, 0x40000, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ms_addr tcb = tcb_of(cases[i].i);
		ms_addr begin = THREADS + (ms_addr)cases[i].i * STACK_BYTES;

		draw();
		draw_stack(cases[i].i, 7, 0);
		ms_fake_put(&fake, tcb + DRAWN_STACK - 32, cases[i].begin);
		ms_fake_put(&fake, tcb + DRAWN_STACK - 24, cases[i].len);
		ms_fake_thread(&fake, 7, tcb - 0x2000, tcb);
		find();
		if (cases[i].believed)
			begin = cases[i].begin;
		cr_expect_eq(stacks.whole.at[0].begin, begin, "case %zu", i);
		cr_expect_eq(stacks.whole.at[0].end,
		             begin + (cases[i].believed ? cases[i].len : STACK_BYTES), "case %zu",
		             i);
		ms_fake_deinit(&fake);
	}
}

Test(stacks, come_in_the_order_of_addresses)
{
	draw();
	for (int i = 2; i >= 0; i -= 2) {
		draw_stack(i, i, 0);
		ms_fake_thread(&fake, i, tcb_of(i) - 0x100, tcb_of(i));
	}
	find();
	cr_assert_eq(stacks.whole.at[0].begin, THREADS);
	cr_assert_eq(stacks.live.at[0].begin, tcb_of(0) - 0x180);
	ms_fake_deinit(&fake);
}

/* What is read of the stack of a thread that ended: nothing, or its control block. */
static void check_dead(bool block_is_live)
{
	ms_fake_thread(&fake, 7, MAIN_STACK + 0x8000, 0);
	find();
	cr_assert_eq(stacks.n_dead, 1);
	cr_assert(is_in(&stacks.whole, THREADS));
	cr_assert(!is_in(&stacks.live, tcb_of(0) - 8));
	cr_assert_eq(is_in(&stacks.live, tcb_of(0)), block_is_live);
	cr_assert_eq(is_in(&stacks.live, tcb_of(0) + TCB_BYTES - 1), block_is_live);
	cr_assert(!is_in(&stacks.live, tcb_of(0) + TCB_BYTES));
	cr_assert_eq(stacks.words.n, 1, "the table of dynamic TLS stays");
	cr_assert_eq(stacks.words.at[0], 0x12340);
	ms_fake_deinit(&fake);
}

/* All that the flags can say of a thread that is not there, and what its id does not change. */
Test(stacks, of_the_dead_keep_the_control_block_until_it_is_given_back)
{
	static const struct {
		const char *what;
		uint32_t flags;
		bool live;
	} cases[] = {
		{ "it has ended, and can be joined", ENDING, true },
		{ "it was joined, or detached", ENDING | GIVEN_BACK, false },
		{ "it could be cancelled, and was joined", ENDING | GIVEN_BACK | 2, false },
		{ "it was cancelled, and was not joined", ENDING | 0xc, true },
		{ "it is being made, or was left behind by fork()", 0, true },
		{ "it never ended", GIVEN_BACK, true },
		{ "these are no flags", ENDING | GIVEN_BACK | 0x80, true },
		{ "nor these", 0x7ff00030, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int tid = -1; tid <= 0; tid++) {
			draw();
			draw_stack(0, tid, cases[i].flags);
			check_dead(cases[i].live);
		}
}

/* Four threads were joined, two of their stacks used again: as many bytes of each kind. */
Test(stacks, of_the_dead_are_told_apart_where_there_are_as_many_of_each)
{
	draw();
	for (int i = 0; i < 4; i++)
		draw_stack(i, 0, i % 2 ? ENDING : ENDING | GIVEN_BACK);
	find();
	cr_assert_eq(stacks.n_dead, 4);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(is_in(&stacks.live, tcb_of(i)), i % 2, "stack %d", i);
	ms_fake_deinit(&fake);
}

/* What a program gave for a stack, and had back: only the table of dynamic TLS may be left. */
Test(stacks, of_the_dead_are_ordinary_memory_when_no_list_has_them)
{
	static const struct {
		ms_addr offset;
		ms_addr word;
	} cases[] = {
		{ DRAWN_LINKS, THREADS + STACK_BYTES },
		{ DRAWN_LINKS + 8, THREADS + STACK_BYTES },
		{ DRAWN_LINKS, 0 },
		{ DRAWN_LINKS + 8, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw();
		draw_stack(0, 0, ENDING | GIVEN_BACK);
		ms_fake_put(&fake, tcb_of(0) + cases[i].offset, cases[i].word);
		find();
		cr_expect_eq(stacks.n_dead, 0, "case %zu", i);
		cr_expect_eq(stacks.whole.n, 0, "case %zu", i);
		cr_expect_eq(stacks.words.n, 1, "case %zu", i);
		ms_fake_deinit(&fake);
	}
}

/* With the cache of a thread that fork() left behind; and with other blocks where its pointer is.
 */
Test(stacks, of_the_dead_keep_the_allocators_cache)
{
	enum { CACHE = 0x480010, CACHE_BYTES = 648, BELOW = 0x50 };
	static const struct {
		const char *what;
		ms_addr word;
		uint64_t usable;
		size_t n;
	} cases[] = {
		{ "a cache", CACHE, CACHE_BYTES, 2 },
		{ "a larger one", CACHE, CACHE_BYTES + 16, 2 },
		{ "too large for one", CACHE, CACHE_BYTES + 64, 1 },
		{ "too small", CACHE, CACHE_BYTES - 16, 1 },
		{ "no block begins there", CACHE + 16, CACHE_BYTES, 1 },
		{ "the thread has ended by itself", 0, CACHE_BYTES, 1 },
	};
	struct ms_cache_place place = { BELOW, CACHE_BYTES, CACHE_BYTES + 32 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_blocks blocks;
		uint32_t extent;

		draw();
		draw_stack(0, 0, 0);
		ms_fake_put(&fake, tcb_of(0) - BELOW, cases[i].word);
		ms_fake_thread(&fake, 7, MAIN_STACK + 0x8000, 0);
		ms_blocks_init(&blocks, &fake.base, &fake.arena);
		cr_assert_eq(ms_blocks_open(&blocks, (struct ms_range){ 0x480000, 0x490000 }, 4,
		                            &extent),
		             MS_OK);
		cr_assert_eq(ms_blocks_put(&blocks, extent, CACHE, cases[i].usable), MS_OK);
		cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
		find_with(&blocks, &place);
		cr_expect_eq(stacks.words.n, cases[i].n, "%s", cases[i].what);
		cr_expect_eq(stacks.words.at[0], cases[i].n == 2 ? CACHE : 0x12340, "%s",
		             cases[i].what);
		ms_fake_deinit(&fake);
	}
}

/* A stack without guard pages is the program's own, and so is what it is in the middle of. */
Test(stacks, that_the_program_gave_keep_the_mapping_around_them)
{
	draw();
	draw_stack(1, 7, 0);
	ms_fake_put(&fake, tcb_of(1) + DRAWN_STACK + 16, 0);
	ms_fake_thread(&fake, 7, tcb_of(1) - 0x100, tcb_of(1));
	find();
	cr_assert_eq(stacks.words.n, 3);
	cr_expect_eq(stacks.words.at[1], THREADS + STACK_BYTES - 8);
	cr_expect_eq(stacks.words.at[2], THREADS + 2 * STACK_BYTES);
	cr_expect(!is_in(&stacks.whole, THREADS + STACK_BYTES - 1));
	cr_expect(!is_in(&stacks.whole, THREADS + 2 * STACK_BYTES));
	ms_fake_put(&fake, tcb_of(1) + DRAWN_STACK + 16, GUARD);
	find();
	cr_expect_eq(stacks.words.n, 1, "guarded");
	ms_fake_deinit(&fake);
}

/* The frame of a handler at @at, on a signal stack of @len bytes at @begin. */
static void draw_handler(ms_addr at, ms_addr begin, uint64_t len, ms_addr interrupted)
{
	ms_fake_put(&fake, at + 8, 7);
	ms_fake_put(&fake, at + 24, begin);
	ms_fake_put(&fake, at + 40, len);
	ms_fake_put(&fake, at + 168, interrupted);
	ms_fake_put(&fake, at + 192, UINT64_C(0x2b) << 48 | 0x33);
}

/* A signal stack in a frame of the main stack: what it interrupts lies below it. */
Test(stacks, interrupted_from_above_live_from_the_interrupted_pointer)
{
	const ms_addr frame = MAIN_STACK + 0xa000;
	const ms_addr begin = MAIN_STACK + 0x8000;
	static const struct {
		const char *what;
		ms_addr begin, len, interrupted;
		ms_addr live;
	} cases[] = {
		{ "a signal stack in a frame", 0, 0x3000, MAIN_STACK + 0x4000, 0x4000 },
		{ "the frame is not on it", 0, 0x2000, MAIN_STACK + 0x4000, 0x9000 },
		{ "the stack pointer is not on it", 0x1008, 0x3000, MAIN_STACK + 0x4000, 0x9000 },
		{ "too small for one", 0xfff, 0x7ff, MAIN_STACK + 0x4000, 0x9000 },
		{ "elsewhere interrupted", 0, 0x3000, THREADS, 0x9000 },
		{ "interrupted above", 0, 0x3000, MAIN_STACK + 0xc000, 0x9000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw();
		draw_handler(frame, begin + cases[i].begin, cases[i].len, cases[i].interrupted);
		ms_fake_thread(&fake, 7, MAIN_STACK + 0x9000, 0);
		find();
		cr_expect_eq(stacks.live.at[0].begin, MAIN_STACK + cases[i].live - 128, "%s",
		             cases[i].what);
		ms_fake_deinit(&fake);
	}
	draw();
	draw_handler(frame, begin, 0x3000, MAIN_STACK + 0x4000);
	ms_fake_put(&fake, frame + 192, 0x23);
	ms_fake_thread(&fake, 7, MAIN_STACK + 0x9000, 0);
	find();
	cr_expect_eq(stacks.live.at[0].begin, MAIN_STACK + 0x9000 - 128, "not 64-bit code");
	ms_fake_deinit(&fake);
	for (uint64_t len = 0x7ff; len <= 0x800; len++) {
		draw();
		draw_handler(frame, frame - 0x100, len, MAIN_STACK + 0x4000);
		ms_fake_thread(&fake, 7, frame - 0x80, 0);
		find();
		cr_expect_eq(stacks.live.at[0].begin,
		             (len < 0x800 ? frame - 0x80 : MAIN_STACK + 0x4000) - 128,
		             "no signal stack is shorter than the kernel takes");
		ms_fake_deinit(&fake);
	}
}

Test(stacks, of_the_dead_are_told_with_few_reads)
{
	draw();
	for (int i = 0; i < 4; i++)
		draw_stack(i, 0, ENDING | GIVEN_BACK);
	ms_fake_thread(&fake, 7, MAIN_STACK + 0x8000, 0);
	fake.reads = 0;
	find();
	cr_assert_eq(stacks.n_dead, 4);
	cr_expect_leq(fake.reads, 16, "%zu reads", (size_t)fake.reads);
	ms_fake_deinit(&fake);
}

Test(stacks, are_not_believed_where_nothing_is_mapped)
{
	draw();
	draw_stack(0, 7, 0);
	ms_fake_put(&fake, tcb_of(0) + DRAWN_STACK, 0);
	ms_fake_put(&fake, tcb_of(0) + DRAWN_STACK + 8, tcb_of(0) + 0x900);
	ms_fake_thread(&fake, 7, tcb_of(0) - 0x100, tcb_of(0));
	find();
	cr_assert(!is_in(&stacks.live, THREADS));
	cr_assert(!is_in(&stacks.live, 0x1000));
	ms_fake_deinit(&fake);
}

/* What a living thread shows is not what is expected, so nothing is known of the dead. */
Test(stacks, of_the_dead_are_kept_when_the_layout_is_another)
{
	static const struct {
		int tid;
		uint32_t flags;
	} cases[] = { { 99, 0 }, { 8, 0x100 } };

	for (size_t i = 0; i < 2; i++) {
		draw();
		draw_stack(0, -1, ENDING | GIVEN_BACK);
		draw_stack(1, cases[i].tid, cases[i].flags);
		ms_fake_thread(&fake, 8, tcb_of(1) - 0x100, tcb_of(1));
		find();
		cr_expect_eq(stacks.n_dead, 1);
		cr_expect(is_in(&stacks.live, tcb_of(0)), "case %zu", i);
		ms_fake_deinit(&fake);
	}
}

Test(stacks, of_the_dead_live_no_farther_than_they_go)
{
	draw();
	draw_stack(0, 0, 0);
	ms_fake_put(&fake, tcb_of(0) + DRAWN_STACK + 8, TCB_PLACE + 0x700);
	find();
	cr_assert(is_in(&stacks.live, tcb_of(0) + 0x6ff));
	cr_assert(!is_in(&stacks.live, tcb_of(0) + 0x700));
	ms_fake_deinit(&fake);
}

Test(stacks, of_the_dead_need_both_own_addresses_and_a_block)
{
	static const ms_addr missing[] = { 0, 16, DRAWN_STACK + 8 };

	for (int i = 0; i < 3; i++) {
		draw();
		draw_stack(0, 0, 0);
		ms_fake_put(&fake, tcb_of(0) + missing[i], 0);
		find();
		cr_expect_eq(stacks.n_dead, 0, "without the word at %d", (int)missing[i]);
		ms_fake_deinit(&fake);
	}
}

Test(stacks, of_the_dead_are_not_looked_for_in_files_the_break_or_a_heap)
{
	for (int where = 0; where < 3; where++) {
		struct ms_mapping *m;

		draw();
		draw_stack(0, 0, 0);
		m = &fake.base.mappings.at[2];
		memset(&owned, 0, sizeof(owned));
		if (where == 0)
			m->file = true;
		else if (where == 1)
			m->name = "[heap]";
		else
			cr_assert(
				ms_ranges_add(&fake.arena, &owned, THREADS, THREADS + STACK_BYTES));
		find();
		cr_expect_eq(stacks.n_dead, 0, "where %d", where);
		ms_fake_deinit(&fake);
	}
}

static bool page_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	(void)src;
	*ret = within;
	if (ms_range_len(within) > 4096)
		ret->end = ms_align_down(within.begin, 4096) + 4096;
	return within.begin < within.end;
}

Test(stacks, of_the_dead_are_looked_for_in_every_run_of_pages)
{
	struct ms_source_ops ops;

	draw();
	draw_stack(1, 0, 0);
	ops = *fake.base.ops;
	ops.present = page_present;
	fake.base.ops = &ops;
	find();
	cr_assert_eq(stacks.n_dead, 1);
	ms_fake_deinit(&fake);
}

Test(stacks, have_no_table_of_dynamic_storage_where_memory_ends)
{
	draw();
	ms_fake_thread(&fake, 7, MAIN_STACK + 0x8000, MAIN_STACK + STACK_BYTES - 12);
	find();
	cr_assert_eq(stacks.words.n, 0);
	ms_fake_deinit(&fake);
}

/* However many stacks reach to the end of one block, each byte of it is followed once. */
Test(stacks, of_coroutines_in_one_block_are_united)
{
	enum { THREADS_N = 64, APART = 0x800 };
	const ms_addr begin = THREADS + 0x1000;
	const uint64_t len = (THREADS_N + 2) * APART;
	const ms_addr lowest = begin + APART - 128;

	draw();
	ms_fake_thread(&fake, THREADS_N + 1, MAIN_STACK + 0x8000, 0);
	for (int i = THREADS_N; i > 0; i--)
		ms_fake_thread(&fake, i, begin + (ms_addr)i * APART, 0);
	find_in_block(begin, len);
	expect_range("live", &stacks.live, (struct ms_range){ lowest, begin + len });
	expect_range("doubtful", &stacks.doubtful, (struct ms_range){ begin, lowest });
	cr_expect_eq(stacks.parts.n, THREADS_N + 1);
	for (int i = 1; i <= THREADS_N; i++)
		cr_expect_eq(ms_stacks_part(&stacks, begin + (ms_addr)i * APART)->tid, i);
	cr_expect_null(ms_stacks_part(&stacks, lowest - 1));
	cr_expect_null(ms_stacks_part(&stacks, begin + len));
	ms_fake_deinit(&fake);
}

/* The block that has the stack pointer is its bound, also where the red zone is below that. */
Test(stacks, of_coroutines_end_with_their_block)
{
	static const uint64_t used[] = { 0, 8, 127, 128, 0x800, 0x1000 };

	for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		const ms_addr begin = THREADS + 0x1000;

		draw();
		ms_fake_thread(&fake, 8, MAIN_STACK + 0x8000, 0);
		ms_fake_thread(&fake, 7, begin + used[i], 0);
		find_in_block(begin, 0x1000);
		cr_expect_eq(stacks.live.at[0].begin, begin + used[i] - 128);
		cr_expect_eq(stacks.live.at[0].end,
		             used[i] < 0x1000 ? begin + 0x1000 : THREADS + 4 * STACK_BYTES,
		             "%llu bytes up to 0x%llx", (unsigned long long)used[i],
		             (unsigned long long)stacks.live.at[0].end);
		ms_fake_deinit(&fake);
	}
}

/* What else is in a block with stacks that the program gave lives once, not for each of them. */
Test(stacks, that_the_program_gave_keep_the_rest_of_their_block_once)
{
	const ms_addr begin = THREADS - 0x800 + 0x1000;

	draw();
	ms_fake_thread(&fake, 8, MAIN_STACK + 0x8000, 0);
	for (int i = 1; i < 4; i++) {
		draw_stack(i, i, 0);
		ms_fake_thread(&fake, i, tcb_of(i) - 0x100, tcb_of(i));
	}
	find_in_block(begin, THREADS + 4 * STACK_BYTES - begin);
	cr_expect_eq(stacks.parts.n, 5, "%zu parts", stacks.parts.n);
	cr_expect(is_in(&stacks.live, begin));
	cr_expect(is_in(&stacks.live, THREADS + STACK_BYTES - 1));
	cr_expect(!is_in(&stacks.live, THREADS + STACK_BYTES));
	cr_expect_eq(ms_stacks_part(&stacks, begin)->tid, 1);
	cr_expect_eq(stacks.doubtful.n, 0);
	ms_fake_deinit(&fake);
}
