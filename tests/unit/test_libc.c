/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/libc/libcs.h"
#include "engine/scan.h"
#include "engine/stacks.h"
#include "fake.h"

/*
 * A toy C library of a 32-bit machine, told by what it writes into its control blocks; and what
 * glibc's own view says. Two thread stacks, each with a block at its end, and the main stack.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	BREAK = 0x100000,
	HEAP = 0x200000,
	THREADS = 0x300000,
	STACK_BYTES = 0x10000,
	PLACE = STACK_BYTES - 0x940, /* of the block in a stack */
	MAIN_STACK = 0x400000,
	CODE = 0x500000,
	SLOT = 32,
	BLOCKS = 4,
	TOY_MARK = 0x594f5421,
	TOY_BYTES = 64,
	TOY_ROTATE = 9,
	SECRET = 0x5ca1ab1e,
};

/* Words of a toy's control block. */
enum { MARK, SELF, TID, ENDED, BEGIN, LEN, TLS, GUARD, KEPT, TOY_WORDS };

static struct ms_fake fake;

static ms_addr block_of(int i)
{
	return THREADS + (ms_addr)i * STACK_BYTES + PLACE;
}

/* ---- the toy: all that a C library needs, and its row ---- */

static uint64_t toy_word(const struct ms_libc_bytes *b, size_t at)
{
	return b->abi->word_bytes == 4 && at + 4 <= b->n ? ms_abi_word(b->abi, b->bytes + at) : 0;
}

static size_t toy_next_block(const struct ms_libc_bytes *memory, size_t from)
{
	for (size_t i = from + (-(memory->at + from) & 15); i + 8 <= memory->n; i += 16)
		if (toy_word(memory, i) == TOY_MARK &&
		    toy_word(memory, i + 4 * SELF) == memory->at + i)
			return i;
	return memory->n;
}

static bool toy_next_stack(const struct ms_libc_bytes *block, size_t *at,
                           struct ms_stack_record *ret)
{
	ms_addr begin = toy_word(block, 4 * BEGIN);

	*ret = (struct ms_stack_record){ { begin, begin + toy_word(block, 4 * LEN) }, true };
	return begin && !(*at)++;
}

static void toy_thread(const struct ms_libc_bytes *block, struct ms_libc_thread *ret)
{
	ret->tid = (int32_t)toy_word(block, 4 * TID);
	ret->over = toy_word(block, 4 * ENDED);
	ret->known = block->n >= 4 * TOY_WORDS;
	ret->tls = toy_word(block, 4 * TLS);
	ret->mangling =
		(struct ms_mangling){ .guard = toy_word(block, 4 * GUARD), .rotate = TOY_ROTATE };
}

static bool toy_keeps(struct ms_source *src, const struct ms_libc_bytes *block)
{
	uint64_t word;

	return ms_source_word(src, toy_word(block, 4 * KEPT), &word) && word == block->at;
}

static const struct ms_libc_ops toy = {
	.name = "toy",
	.block_bytes = TOY_BYTES,
	.next_block = toy_next_block,
	.next_stack = toy_next_stack,
	.thread = toy_thread,
	.keeps = toy_keeps,
};

static const struct ms_libc_ops *const libcs[] = { &toy, &ms_libc_glibc, NULL };

/* ---- drawing ---- */

static void draw(uint8_t word_bytes)
{
	ms_fake_init(&fake);
	fake.base.abi = ms_fake_abi_x86_64;
	fake.base.abi.word_bytes = word_bytes;
	ms_fake_map(&fake, BREAK, PAGE, RW, "[heap]");
	ms_fake_map(&fake, HEAP, PAGE, RW, "");
	ms_fake_map(&fake, THREADS, 2 * STACK_BYTES, RW, "");
	ms_fake_map(&fake, MAIN_STACK, PAGE, RW, "[stack]");
}

static void draw_toy(int i, int tid, bool ended, ms_addr tls)
{
	const uint64_t words[TOY_WORDS] = {
		[MARK] = TOY_MARK, [SELF] = block_of(i), [TID] = (uint64_t)tid,
		[ENDED] = ended,   [LEN] = STACK_BYTES,  [BEGIN] = block_of(i) - PLACE,
		[TLS] = tls,       [GUARD] = SECRET,     [KEPT] = BREAK + 64 + 4 * (ms_addr)i,
	};

	for (unsigned k = 0; k < TOY_WORDS; k++)
		ms_fake_put(&fake, block_of(i) + 4 * k, words[k]);
	ms_fake_put(&fake, BREAK + 64 + 4 * (ms_addr)i, block_of(i));
}

static bool is_in(const struct ms_ranges *ranges, ms_addr addr)
{
	const struct ms_range *r;

	ms_vec_for_each (r, ranges)
		if (ms_range_has(*r, addr))
			return true;
	return false;
}

static struct ms_stacks find_stacks(void)
{
	struct ms_libc_view view = ms_libc_find(&fake.base, libcs);
	struct ms_stacks stacks = { 0 };
	struct ms_regions regions = { 0 };
	struct ms_decoding d = { .src = &fake.base, .regions = &regions, .arena = &fake.arena };
	struct ms_error err;

	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	cr_assert_eq(ms_stacks_find(&d, &view, &stacks), MS_OK);
	return stacks;
}

/* ---- which one it is ---- */

Test(libc, is_found_by_the_block_of_any_thread)
{
	struct ms_libc_view view;

	draw(4);
	draw_toy(1, 8, false, 0);
	ms_fake_thread(&fake, 6, MAIN_STACK + 64, 0);
	ms_fake_thread(&fake, 7, MAIN_STACK + 64, 0x10);
	view = ms_libc_find(&fake.base, libcs);
	cr_expect_str_eq(view.ops->name, "glibc", "the last row, where none is known");
	cr_expect_eq(view.mangling.guard, 0);
	cr_expect_not(view.layout_known);
	ms_fake_thread(&fake, 8, block_of(1) - 64, block_of(1));
	view = ms_libc_find(&fake.base, libcs);
	cr_expect_str_eq(view.ops->name, "toy");
	cr_expect_eq(view.mangling.guard, SECRET);
	cr_expect_eq(view.mangling.rotate, TOY_ROTATE);
	cr_expect_not(view.layout_known, "there is a thread without a block");
	fake.base.threads.at[1].tp = 0;
	cr_expect(ms_libc_find(&fake.base, libcs).layout_known);
	ms_fake_deinit(&fake);
}

/* ---- the toy at work ---- */

Test(libc, of_a_toy_says_where_stacks_are)
{
	struct ms_stacks stacks;

	draw(4);
	draw_toy(0, 7, false, HEAP);
	ms_fake_thread(&fake, 7, block_of(0) - 0x200, block_of(0));
	stacks = find_stacks();
	cr_expect_eq(stacks.live.at[0].begin, block_of(0) - 0x200 - 128);
	cr_expect_eq(stacks.live.at[0].end, THREADS + STACK_BYTES);
	cr_expect_eq(stacks.whole.at[0].begin, THREADS);
	cr_assert_eq(stacks.words.n, 1);
	cr_expect_eq(stacks.words.at[0], HEAP);
	cr_expect_eq(stacks.n_dead, 0);
	ms_fake_deinit(&fake);
}

/* It ended and its result is there, it is gone for good, or its memory is the program's. */
Test(libc, of_a_toy_says_what_is_left_of_the_dead)
{
	for (int way = 0; way < 3; way++) {
		struct ms_stacks stacks;

		draw(4);
		draw_toy(0, 7, false, HEAP);
		draw_toy(1, 8, way == 1, HEAP + SLOT);
		if (way == 2)
			ms_fake_put(&fake, BREAK + 64 + 4, 0);
		ms_fake_thread(&fake, 7, block_of(0) - 0x200, block_of(0));
		stacks = find_stacks();
		cr_expect_eq(stacks.n_dead, way < 2, "way %d", way);
		cr_expect_eq(stacks.words.n, 2, "way %d", way);
		cr_expect_eq(is_in(&stacks.live, block_of(1)), way == 0, "way %d", way);
		cr_expect_eq(is_in(&stacks.live, block_of(1) + TOY_BYTES - 1), way == 0);
		cr_expect_not(is_in(&stacks.live, block_of(1) + TOY_BYTES), "way %d", way);
		cr_expect_not(is_in(&stacks.live, block_of(1) - 1), "way %d", way);
		ms_fake_deinit(&fake);
	}
}

static enum ms_status drawn_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	(void)d;
	ret->state = &fake;
	return MS_OK;
}

static enum ms_status drawn_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	uint32_t extent;
	bool ok = !ms_blocks_open(d->blocks, (struct ms_range){ HEAP, HEAP + BLOCKS * SLOT }, 4,
	                          &extent);

	(void)claim;
	for (unsigned i = 0; i < BLOCKS && ok; i++)
		ok = !ms_blocks_put(d->blocks, extent, HEAP + i * SLOT, SLOT - 8);
	return ok ? MS_OK : MS_E_NOMEM;
}

static enum ms_status drawn_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	(void)claim;
	return ms_vec_push(d->arena, d->heaps) &&
	                       ms_ranges_add(d->arena, &d->owned, HEAP, HEAP + PAGE)
	               ? MS_OK
	               : MS_E_NOMEM;
}

/* Leaks of a whole scan, viewed and read alike. */
static uint64_t count_leaks(const struct ms_libc_ops *const *of)
{
	static const struct ms_decoder decoder = { "drawn", "drawings", drawn_claim, drawn_read,
		                                   drawn_settle };
	static const struct ms_decoder *const decoders[] = { &decoder, NULL };
	const struct ms_scan_options options = { .decoders = decoders,
		                                 .libcs = of,
		                                 .limit = UINT64_MAX };
	struct ms_report report[2] = { 0 };
	struct ms_error err;

	for (int way = 0; way < 2; way++) {
		fake.no_view = way;
		cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &report[way], &err), MS_OK);
	}
	cr_expect_eq(report[0].totals.leaked_allocations, report[1].totals.leaked_allocations);
	return report[0].totals.leaked_allocations;
}

static uint32_t mangled_by_toy(ms_addr address)
{
	uint32_t word = (uint32_t)address ^ SECRET;

	return word << TOY_ROTATE | word >> (32 - TOY_ROTATE);
}

/*
 * Block 0 by its table of thread-local storage, 1 by a mangled word there, 2 by one in 1: a stack
 * pointer, as setjmp() keeps it in front of an instruction's address.
 */
Test(libc, of_a_toy_serves_a_whole_scan)
{
	draw(4);
	ms_fake_map(&fake, CODE, PAGE, MS_PROT_READ | MS_PROT_EXEC, "/bin/toy");
	draw_toy(0, 7, false, HEAP);
	ms_fake_thread(&fake, 7, block_of(0) - 0x200, block_of(0));
	for (unsigned i = 0; i < 2; i++) {
		ms_fake_put(&fake, HEAP + i * SLOT + 8, mangled_by_toy(HEAP + (i + 1) * SLOT));
		ms_fake_put(&fake, HEAP + i * SLOT + 12, mangled_by_toy(CODE + 0x123));
	}
	cr_expect_eq(count_leaks(libcs), 1);
	ms_fake_put(&fake, HEAP + SLOT + 12, mangled_by_toy(CODE + PAGE));
	cr_expect_eq(count_leaks(libcs), 2, "no instruction follows");
	ms_fake_put(&fake, HEAP + SLOT + 12, mangled_by_toy(CODE));
	ms_fake_put(&fake, block_of(0) + 4 * GUARD, SECRET ^ 0x10000);
	cr_expect_eq(count_leaks(libcs), 3, "another secret");
	ms_fake_put(&fake, block_of(0) + 4 * GUARD, SECRET);
	ms_fake_put(&fake, block_of(0) + 4 * TLS, 0);
	cr_expect_eq(count_leaks(libcs), 4, "no table");
	ms_fake_deinit(&fake);
}

/* ---- glibc's ---- */

/* A block of 64-bit glibc, of thread 7. */
static void draw_glibc(ms_addr at)
{
	ms_fake_put(&fake, at, at);
	ms_fake_put(&fake, at + 8, HEAP + 16);
	ms_fake_put(&fake, at + 16, at);
	ms_fake_put(&fake, at + 48, 0x1122334455667788);
	ms_fake_put(&fake, at + 720, 7);
	ms_fake_put(&fake, at + 776, 0x2);
}

Test(libc, of_gnu_is_the_one_that_is_known)
{
	struct ms_libc_view view;

	draw(8);
	draw_glibc(block_of(0));
	ms_fake_thread(&fake, 7, block_of(0) - 0x200, block_of(0));
	view = ms_libc_find(&fake.base, ms_libcs);
	cr_expect_str_eq(view.ops->name, "glibc");
	cr_expect_eq(view.mangling.guard, 0x1122334455667788);
	cr_expect_eq(view.mangling.rotate, 17);
	cr_expect(view.layout_known);
	ms_fake_put(&fake, block_of(0) + 720, 8);
	cr_expect_not(ms_libc_find(&fake.base, ms_libcs).layout_known, "another's id");
	ms_fake_deinit(&fake);
}

/* Each word a block is known by, and where it may stand. */
Test(libc, of_gnu_knows_a_block_by_its_own_address)
{
	static const struct {
		const char *what;
		ms_addr at, damaged;
		size_t from;
		bool known;
	} cases[] = {
		{ "a block", THREADS + 64, 0, 0, true },
		{ "looked for from its begin", THREADS + 64, 0, 64, true },
		{ "looked for behind its begin", THREADS + 64, 0, 65, false },
		{ "its first word is another", THREADS + 64, THREADS + 64, 0, false },
		{ "its third word is another", THREADS + 64, THREADS + 64 + 16, 0, false },
		{ "at no multiple of 64", THREADS + 32, 0, 32, false },
		{ "cut off behind its third word", THREADS + 256 - 64, 0, 0, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_libc_bytes memory = { .abi = &fake.base.abi, .at = THREADS };
		size_t found;

		draw(8);
		draw_glibc(cases[i].at);
		if (cases[i].damaged)
			ms_fake_put(&fake, cases[i].damaged, 1);
		memory.bytes = ms_fake_at(&fake, THREADS);
		memory.n = 256 - 64 + 24;
		found = ms_libc_glibc.next_block(&memory, cases[i].from);
		cr_expect_eq(found, cases[i].known ? cases[i].at - THREADS : memory.n, "%s",
		             cases[i].what);
		fake.base.abi.word_bytes = 4;
		cr_expect_eq(ms_libc_glibc.next_block(&memory, 0), memory.n, "32-bit: %s",
		             cases[i].what);
		ms_fake_deinit(&fake);
	}
}

Test(libc, of_gnu_says_nothing_of_what_could_not_be_read)
{
	uint8_t room[MS_LIBC_BLOCK_BYTES];
	struct ms_libc_thread thread = { 0 };
	struct ms_libc_bytes block;

	draw(8);
	draw_glibc(block_of(0));
	block = ms_libc_read(&fake.base, block_of(0), room);
	cr_expect_eq(block.n, MS_LIBC_BLOCK_BYTES);
	ms_libc_glibc.thread(&block, &thread);
	cr_expect(thread.known && !thread.over && thread.tid == 7 && thread.tls == HEAP);
	block.n = 776;
	ms_libc_glibc.thread(&block, &thread);
	cr_expect(!thread.known && thread.tid == 7, "no flags");
	block.n = 48;
	ms_libc_glibc.thread(&block, &thread);
	cr_expect(thread.tid == 0 && thread.mangling.guard == 0 && thread.tls == HEAP);
	ms_fake_deinit(&fake);
}

/* A block of i386's glibc at the end of the first stack, of thread 7; the flags stand at @flags. */
static void draw_i386(uint32_t list_of_mutexes, ms_addr flags)
{
	ms_addr at = block_of(0);

	draw(4);
	ms_fake_put(&fake, at, at);
	ms_fake_put(&fake, at + 4, HEAP + 8);
	ms_fake_put(&fake, at + 8, at);
	ms_fake_put(&fake, at + 24, SECRET);
	ms_fake_put(&fake, at + 96, BREAK + 64);
	ms_fake_put(&fake, at + 100, BREAK + 128);
	ms_fake_put(&fake, at + 104, 7);
	ms_fake_put(&fake, at + 108, list_of_mutexes);
	ms_fake_put(&fake, at + flags, 0x32);
	ms_fake_put(&fake, at + 624, at - PLACE);
	ms_fake_put(&fake, at + 628, STACK_BYTES);
	ms_fake_put(&fake, at + 632, PAGE);
	ms_fake_put(&fake, BREAK + 64 + 4, at + 96);
	ms_fake_put(&fake, BREAK + 128, at + 96);
}

/* The flags stand where they do in 2.31 and in 2.36. */
Test(libc, of_gnu_on_i386_is_known)
{
	static const struct {
		const char *what;
		uint32_t list_of_mutexes;
		ms_addr flags;
		bool over;
	} cases[] = {
		{ "2.31", 0, 132, true },
		{ "2.36", 0x300000, 128, true },
		{ "2.36 with other words behind", 0x300000, 132, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t room[MS_LIBC_BLOCK_BYTES];
		struct ms_libc_thread thread = { 0 };
		struct ms_stack_record record = { 0 };
		struct ms_libc_bytes block;
		size_t at = 0;

		draw_i386(cases[i].list_of_mutexes, cases[i].flags);
		block = ms_libc_read(&fake.base, block_of(0), room);
		cr_assert_eq(ms_libc_of(ms_libcs, &block), &ms_libc_glibc_i386);
		ms_libc_glibc_i386.thread(&block, &thread);
		cr_expect(thread.known && thread.tid == 7 && thread.tls == HEAP, "%s",
		          cases[i].what);
		cr_expect_eq(thread.over, cases[i].over, "%s", cases[i].what);
		cr_expect(thread.mangling.guard == SECRET && thread.mangling.rotate == 9);
		cr_assert(ms_libc_glibc_i386.next_stack(&block, &at, &record));
		cr_expect(record.block.begin == THREADS &&
		          record.block.end == THREADS + STACK_BYTES && record.guarded);
		cr_expect(ms_libc_glibc_i386.keeps(&fake.base, &block));
		ms_fake_put(&fake, BREAK + 128, block_of(0));
		cr_expect_not(ms_libc_glibc_i386.keeps(&fake.base, &block));
		fake.base.abi.word_bytes = 8;
		cr_expect_eq(ms_libc_glibc_i386.next_block(&block, 0), block.n, "of 64 bits");
		ms_fake_deinit(&fake);
	}
}

/* ---- musl's ---- */

/* What is drawn of struct pthread. */
struct musl {
	ms_addr previous, next;
	int tid;
	ms_addr map_base, map_bytes;
	ms_addr top, stack_bytes; /* of its stack */
	uint64_t guard;
	ms_addr keys;
};

static void draw_musl(ms_addr at, const struct musl *m)
{
	const struct {
		unsigned offset;
		uint64_t word;
	} words[] = { { 0, at },
		      { 8, at - 32 },
		      { 16, m->previous ? m->previous : at },
		      { 24, m->next ? m->next : at },
		      { 48, (uint64_t)m->tid },
		      { 56, m->tid ? 2 : 0 },
		      { 72, m->map_base },
		      { 80, m->map_bytes },
		      { 88, m->top },
		      { 96, m->stack_bytes },
		      { 104, m->guard },
		      { 128, m->keys } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		ms_fake_put(&fake, at + words[i].offset, words[i].word);
}

enum { MUSL_PLACE = STACK_BYTES - 0x408 - 200, MUSL_GUARD = PAGE, MUSL_BYTES = 200 };

/* Thread @tid with stack @i, as pthread_create() makes it; 0: it has ended. */
static ms_addr draw_musl_thread(int i, int tid)
{
	ms_addr map = THREADS + (ms_addr)i * STACK_BYTES;
	ms_addr at = map + MUSL_PLACE;
	struct musl m = { .tid = tid,
		          .map_base = map,
		          .map_bytes = STACK_BYTES,
		          .top = at - 64,
		          .stack_bytes = at - 64 - map - MUSL_GUARD,
		          .guard = MUSL_GUARD,
		          .keys = at + MUSL_BYTES };

	m.next = tid ? THREADS + 8 : 0;
	m.previous = tid ? THREADS + 16 : 0;
	draw_musl(at, &m);
	return at;
}

static struct ms_stacks find_musl_stacks(void)
{
	struct ms_libc_view view = ms_libc_find(&fake.base, ms_libcs);
	struct ms_stacks stacks = { 0 };
	struct ms_regions regions = { 0 };
	struct ms_decoding d = { .src = &fake.base, .regions = &regions, .arena = &fake.arena };
	struct ms_error err;

	cr_assert_str_eq(view.ops->name, "musl");
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	cr_assert_eq(ms_stacks_find(&d, &view, &stacks), MS_OK);
	return stacks;
}

Test(libc, of_musl_and_glibc_are_told_apart)
{
	static const struct {
		const char *what;
		struct musl drawn;
		const char *name;
	} cases[] = {
		{ "alone", { .tid = 7 }, "musl" },
		{ "one of several", { .tid = 7, .previous = HEAP, .next = HEAP + 16 }, "musl" },
		{ "no link", { .tid = 7, .previous = HEAP + 1, .next = HEAP + 1 }, "glibc" },
		{ "a link to itself and another", { .tid = 7, .next = HEAP }, "glibc" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_libc_view view;

		draw(8);
		draw_musl(HEAP + 8, &cases[i].drawn);
		ms_fake_thread(&fake, 7, MAIN_STACK + 64, HEAP + 8);
		view = ms_libc_find(&fake.base, ms_libcs);
		cr_expect_str_eq(view.ops->name, cases[i].name, "%s", cases[i].what);
		if (!strcmp(cases[i].name, "musl")) {
			cr_expect(view.layout_known, "%s", cases[i].what);
			cr_expect_eq(view.mangling.guard, 0);
		}
		ms_fake_deinit(&fake);
	}
	draw(8);
	draw_glibc(block_of(0));
	ms_fake_thread(&fake, 7, block_of(0) - 0x200, block_of(0));
	cr_expect_str_eq(ms_libc_find(&fake.base, ms_libcs).ops->name, "glibc");
	ms_fake_deinit(&fake);
}

Test(libc, of_musl_says_where_a_thread_and_its_storage_are)
{
	struct ms_stacks stacks;
	ms_addr at;

	draw(8);
	at = draw_musl_thread(0, 7);
	ms_fake_thread(&fake, 7, at - 0x1000, at);
	stacks = find_musl_stacks();
	cr_assert_eq(stacks.live.n, 1);
	cr_expect_eq(stacks.live.at[0].begin, at - 0x1000 - 128);
	cr_expect_eq(stacks.live.at[0].end, THREADS + STACK_BYTES);
	cr_expect_eq(stacks.whole.at[0].begin, THREADS + MUSL_GUARD);
	cr_assert_eq(stacks.words.n, 1, "its vector, and nothing around");
	cr_expect_eq(stacks.words.at[0], at - 32);
	ms_fake_deinit(&fake);
}

/* Its result can be asked for until pthread_join() unmaps it. */
Test(libc, of_musl_keeps_the_block_of_the_dead)
{
	struct ms_stacks stacks;
	ms_addr dead;
	ms_addr at;

	draw(8);
	at = draw_musl_thread(0, 7);
	dead = draw_musl_thread(1, 0);
	ms_fake_thread(&fake, 7, at - 0x1000, at);
	stacks = find_musl_stacks();
	cr_expect_eq(stacks.n_dead, 1);
	cr_expect(is_in(&stacks.live, dead) && is_in(&stacks.live, dead + MUSL_BYTES - 1));
	cr_expect_not(is_in(&stacks.live, dead - 1));
	cr_expect(is_in(&stacks.whole, dead - 0x2000));
	ms_fake_put(&fake, dead + 72, 0);
	cr_expect_eq(find_musl_stacks().n_dead, 0, "on a stack of the program's");
	ms_fake_deinit(&fake);
}

/* In a stack of the program's, or in a mapping of its own beside it. */
Test(libc, of_musl_knows_stacks_that_the_program_gave)
{
	const ms_addr top = THREADS + 0x8000;
	const ms_addr at = top + 64;
	struct ms_stacks stacks;

	draw(8);
	draw_musl(at,
	          &(struct musl){
			  .tid = 7, .top = top, .stack_bytes = 0x4000, .keys = at + MUSL_BYTES });
	ms_fake_thread(&fake, 7, top - 0x100, at);
	stacks = find_musl_stacks();
	cr_expect_eq(stacks.whole.at[0].begin, top - 0x4000);
	cr_expect_eq(stacks.whole.at[0].end, at + MUSL_BYTES + 1024);
	cr_expect_eq(stacks.words.n, 3, "what lies around is one piece with it");
	/* There is no room for keys' values. */
	draw_musl(THREADS + 2 * STACK_BYTES - 208,
	          &(struct musl){ .tid = 7,
	                          .top = THREADS + 2 * STACK_BYTES - 0x200,
	                          .stack_bytes = 0x4000,
	                          .keys = THREADS + 2 * STACK_BYTES - 8 });
	fake.base.threads.at[0].tp = THREADS + 2 * STACK_BYTES - 208;
	fake.base.threads.at[0].sp = THREADS + 2 * STACK_BYTES - 0x300;
	stacks = find_musl_stacks();
	cr_expect_eq(stacks.whole.at[0].end, THREADS + 2 * STACK_BYTES - 8);
	/* Beside it. */
	draw_musl(HEAP + 64, &(struct musl){ .tid = 7,
	                                     .map_base = HEAP,
	                                     .map_bytes = PAGE,
	                                     .top = top,
	                                     .stack_bytes = 0x4000 });
	fake.base.threads.at[0].tp = HEAP + 64;
	fake.base.threads.at[0].sp = top - 0x100;
	stacks = find_musl_stacks();
	cr_expect_eq(stacks.whole.at[0].begin, top - 0x4000);
	cr_expect_eq(stacks.whole.at[0].end, top);
	ms_fake_deinit(&fake);
}

/* On aarch64 a block ends at the thread pointer, and holds no address of its own. */
Test(libc, glibcs_block_on_aarch64_is_known_before_the_thread_pointer)
{
	enum { SIZE = 1856, TID_AT = 208, LIST = 216, DISTANCE = 232 };
	const ms_addr block = THREADS + PLACE - SIZE;
	const struct ms_libc_ops *glibc = &ms_libc_glibc_aarch64;
	uint8_t room[MS_LIBC_BLOCK_BYTES];
	struct ms_libc_thread thread = { 0 };
	struct ms_libc_bytes bytes;

	draw(8);
	fake.base.abi.tls_above = true;
	ms_fake_put(&fake, block + 192, HEAP);
	ms_fake_put(&fake, block + 200, HEAP);
	ms_fake_put(&fake, block + TID_AT, 77);
	ms_fake_put(&fake, block + LIST, HEAP);
	ms_fake_put(&fake, block + LIST + 8, HEAP);
	ms_fake_put(&fake, block + DISTANCE, (uint64_t)-32);
	ms_fake_put(&fake, block + SIZE, HEAP + 32);
	bytes = ms_libc_read(&fake.base, block + SIZE, room);
	cr_expect_eq(bytes.at + glibc->next_block(&bytes, 0), block);
	glibc->thread(&bytes, &thread);
	cr_expect_eq(thread.tid, 77);
	cr_expect(thread.known);
	cr_expect_eq(thread.tls, HEAP + 16);
	ms_fake_put(&fake, block + DISTANCE, (uint64_t)-40);
	bytes = ms_libc_read(&fake.base, block + SIZE, room);
	cr_expect_eq(glibc->next_block(&bytes, 0), bytes.n, "no list of robust mutexes");
	ms_fake_deinit(&fake);
}
