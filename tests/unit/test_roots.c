/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_thread.h"
#include "engine/roots.h"
#include "fake.h"
#include "module.h"

/*
 * Two libraries, of which the first has a page of zero-filled data behind its own and a hole
 * in front of that; break memory with an allocator's page in it, half of which is not proved;
 * stacks of threads as glibc lays them out (stacks.c), and the main one.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	FIRST = 0x400000,
	DATA = 0x401000,
	BSS = 0x403000,
	SECOND = 0x404000,
	SECOND_DATA = 0x405000,
	BREAK = 0x500000,
	OWNED = 0x501000,
	UNPROVED = 0x501800,
	THREADS = 0x600000,
	STACK_BYTES = 0x10000,
	TCB_PLACE = STACK_BYTES - 0x940,
	MAIN_STACK = 0x900000,
	SP = 0x5000, /* in each stack */
	MAIN = 77,
	LEFT = 3, /* the thread that left its stack for another one's */
};

/* Indexes of mappings that names count from. */
enum { FIRST_MAP = 0, SECOND_MAP = 3, BREAK_MAP = 5 };

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_blocks blocks;
static struct ms_decoding decoding;
static struct ms_roots roots;
static struct ms_error err;

static ms_addr stack_of(int i)
{
	return THREADS + (ms_addr)i * STACK_BYTES;
}

static ms_addr tcb_of(int i)
{
	return stack_of(i) + TCB_PLACE;
}

/* Thread @tid's stack, the @i-th; if the program gave it, it begins @before bytes later. */
static void draw_stack(int i, int tid, uint64_t before)
{
	struct ms_range stack = { stack_of(i) + before, stack_of(i) + STACK_BYTES };

	drawn_thread(&fake, tcb_of(i), tid, stack, before ? 0 : PAGE);
}

static void draw_library(ms_addr at, const char *name, uint64_t data_bytes)
{
	Elf64_Phdr *phdr = elf_write(ms_fake_map(&fake, at, PAGE, MS_PROT_READ, name), 2);

	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, data_bytes, PF_R | PF_W);
	ms_fake_map(&fake, at + PAGE, PAGE, RW, name);
}

static void draw(void)
{
	static const uint64_t registers[] = { 5, 6, 7 };
	struct ms_thread *t;

	ms_fake_init(&fake);
	fake.base.abi = ms_fake_abi_x86_64;
	draw_library(FIRST, "/lib/first.so", 3 * PAGE);
	ms_fake_map(&fake, BSS, PAGE, RW, "");
	draw_library(SECOND, "/lib/second.so", PAGE);
	ms_fake_map(&fake, BREAK, 3 * PAGE, RW, "[heap]");
	for (int i = 0; i < 4; i++)
		ms_fake_map(&fake, stack_of(i), STACK_BYTES, RW, "");
	ms_fake_map(&fake, MAIN_STACK, STACK_BYTES, RW, "[stack]");
	draw_stack(0, 1, 0);
	draw_stack(1, 2, PAGE);
	draw_stack(2, 0, 0); /* ended, and can be joined */
	draw_stack(3, LEFT, 0);
	ms_fake_thread(&fake, MAIN, MAIN_STACK + SP, 0);
	ms_fake_thread(&fake, 1, stack_of(0) + SP, tcb_of(0));
	t = ms_fake_thread(&fake, 2, stack_of(1) + SP, tcb_of(1));
	t->words = registers;
	t->n_words = 3;
	ms_fake_thread(&fake, LEFT, MAIN_STACK + SP + 256, tcb_of(3));
	ms_fake_put(&fake, MAIN_STACK + SP + 512, stack_of(3) + SP);
	*ms_vec_push(&fake.arena, &fake.base.kernel_words) = 8;
	*ms_vec_push(&fake.arena, &fake.base.kernel_words) = 9;
}

static void find(void)
{
	struct ms_libc_view libc;

	memset(&regions, 0, sizeof(regions));
	memset(&roots, 0, sizeof(roots));
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	decoding = (struct ms_decoding){
		.src = &fake.base, .regions = &regions, .arena = &fake.arena, .blocks = &blocks
	};
	cr_assert(ms_ranges_add(&fake.arena, &decoding.owned, OWNED, OWNED + PAGE));
	cr_assert(ms_ranges_add(&fake.arena, &decoding.unproved, UNPROVED, OWNED + PAGE));
	cr_assert(ms_ranges_add(&fake.arena, &decoding.in_hand, OWNED + 16, OWNED + 32));
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	libc = ms_libc_find(&fake.base, ms_libcs);
	cr_assert_eq(ms_roots_find(&decoding, &libc, &roots), MS_OK);
}

/* What is visited: words one by one, and what has a word at @at. */
struct visits {
	ms_addr at;
	int n; /* that have it */
	struct ms_root_name name;
	struct ms_root_name words[16];
	uint64_t values[16];
	int n_words;
};

static void note(void *ctx, const struct ms_root *root)
{
	struct visits *v = ctx;

	if (root->range.end == root->range.begin) {
		cr_assert_lt(v->n_words, 16);
		v->values[v->n_words] = root->value;
		v->words[v->n_words++] = ms_root_name(&roots, root, 0);
	} else if (ms_range_has(root->range, v->at)) {
		v->name = ms_root_name(&roots, root, v->at);
		v->n++;
	}
}

static void expect_name(const struct ms_root_name *name, const struct ms_root_name *wanted,
                        const char *what)
{
	cr_expect_eq(name->kind, wanted->kind, "%s: kind %d", what, name->kind);
	cr_expect_eq(name->at, wanted->at, "%s", what);
	cr_expect_eq(name->tid, wanted->tid, "%s: thread %d", what, name->tid);
	cr_expect_eq(name->mapping, wanted->mapping, "%s: mapping %u", what, name->mapping);
	cr_expect_eq(name->offset, wanted->offset, "%s: offset %lld", what,
	             (long long)name->offset);
}

Test(roots, in_memory_have_names)
{
	static const struct {
		const char *what;
		struct ms_root_name name;
	} cases[] = {
		{ "a library's data", { MS_ROOT_GLOBALS, DATA + 16, 0, FIRST_MAP, PAGE + 16 } },
		{ "its zero-filled data",
		  { MS_ROOT_GLOBALS, BSS + 8, 0, FIRST_MAP, 3 * PAGE + 8 } },
		{ "the next one's", { MS_ROOT_GLOBALS, SECOND_DATA, 0, SECOND_MAP, PAGE } },
		{ "break memory", { MS_ROOT_BREAK, BREAK + 24, 0, BREAK_MAP, 24 } },
		{ "behind the heap", { MS_ROOT_BREAK, OWNED + PAGE, 0, BREAK_MAP, 2 * PAGE } },
		{ "unproved", { MS_ROOT_UNPROVED, UNPROVED + 8, 0, BREAK_MAP, 0x1808 } },
		{ "in hand", { MS_ROOT_UNPROVED, OWNED + 16, 0, BREAK_MAP, OWNED + 16 - BREAK } },
		{ "the main stack", { MS_ROOT_STACK, MAIN_STACK + SP + 64, MAIN, 0, 64 } },
		{ "below its pointer", { MS_ROOT_STACK, MAIN_STACK + SP - 8, MAIN, 0, -8 } },
		{ "a thread's", { MS_ROOT_STACK, THREADS + SP + 16, 1, 0, 16 } },
		{ "control block", { MS_ROOT_TLS, THREADS + TCB_PLACE + 784, 1, 0, 784 } },
		{ "below that",
		  { MS_ROOT_STACK, THREADS + TCB_PLACE - 8, 1, 0, TCB_PLACE - SP - 8 } },
		{ "another thread's", { MS_ROOT_STACK, THREADS + STACK_BYTES + SP + 8, 2, 0, 8 } },
		{ "of one that ended",
		  { MS_ROOT_TLS, THREADS + 2 * STACK_BYTES + TCB_PLACE + 0x50, 0, 0, 0x50 } },
		{ "a stack that was left",
		  { MS_ROOT_STACK, THREADS + 3 * STACK_BYTES + SP + 32, LEFT, 0, 32 } },
		{ "TLS of its thread",
		  { MS_ROOT_TLS, THREADS + 3 * STACK_BYTES + TCB_PLACE + 8, LEFT, 0, 8 } },
	};

	draw();
	find();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct visits v = { .at = cases[i].name.at };

		ms_roots_visit(&roots, note, &v);
		cr_expect_eq(v.n, 1, "%s: visited %d times", cases[i].what, v.n);
		expect_name(&v.name, &cases[i].name, cases[i].what);
	}
	ms_fake_deinit(&fake);
}

Test(roots, that_are_words_have_names)
{
	static const struct {
		uint64_t value;
		struct ms_root_name name;
	} wanted[] = {
		{ DRAWN_TABLE, { .kind = MS_ROOT_TLS, .tid = 1 } },
		{ DRAWN_TABLE, { .kind = MS_ROOT_TLS, .tid = 2 } },
		{ THREADS + STACK_BYTES + PAGE - 8, { .kind = MS_ROOT_STACK, .tid = 2 } },
		{ DRAWN_TABLE, { .kind = MS_ROOT_TLS, .tid = LEFT } },
		{ DRAWN_TABLE, { .kind = MS_ROOT_TLS } },
		{ 5, { .kind = MS_ROOT_REGISTER, .tid = 2, .offset = 0 } },
		{ 6, { .kind = MS_ROOT_REGISTER, .tid = 2, .offset = 1 } },
		{ 7, { .kind = MS_ROOT_REGISTER, .tid = 2, .offset = 2 } },
		{ 8, { .kind = MS_ROOT_KERNEL, .offset = 0 } },
		{ 9, { .kind = MS_ROOT_KERNEL, .offset = 1 } },
	};
	enum { WANTED = sizeof(wanted) / sizeof(wanted[0]) };
	struct visits v = { 0 };

	draw();
	find();
	ms_roots_visit(&roots, note, &v);
	cr_assert_eq(v.n_words, WANTED, "%d words", v.n_words);
	for (int i = 0; i < WANTED; i++) {
		cr_expect_eq(v.values[i], wanted[i].value, "word %d", i);
		expect_name(&v.words[i], &wanted[i].name, "word");
	}
	ms_fake_deinit(&fake);
}

/* The live part of one begins where the other one ends: they are visited as one. */
Test(roots, on_stacks_that_touch_are_each_threads_own)
{
	const struct ms_root_name wanted[] = {
		{ MS_ROOT_TLS, stack_of(1) - 8, 1, 0, STACK_BYTES - TCB_PLACE - 8 },
		{ MS_ROOT_STACK, stack_of(1), 2, 0, -128 },
	};

	draw();
	draw_stack(1, 2, 0);
	fake.base.threads.at[2].sp = stack_of(1) + 128;
	find();
	cr_assert_eq(roots.stacks.live.at[0].end, stack_of(2), "they are one range");
	for (size_t i = 0; i < 2; i++) {
		struct visits v = { .at = wanted[i].at };

		ms_roots_visit(&roots, note, &v);
		cr_expect_eq(v.n, 1);
		expect_name(&v.name, &wanted[i], "stack");
	}
	ms_fake_deinit(&fake);
}
