/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "engine/graph/hidden.h"
#include "fake.h"

/*
 * Blocks of 48 bytes A to H in a heap, of which A and B are marked; globals, other memory
 * and code that was made at run time. A case puts words into them and says what is kept.
 */
#define HEAP    UINT64_C(0x550010000000)
#define DATA    UINT64_C(0x7f0020000000)
#define MEMORY  UINT64_C(0x7f0030000000)
#define CODE    UINT64_C(0x7f0040000000)
#define LIBRARY UINT64_C(0x7f0050000000)
#define SMALL   UINT64_C(0x7f0060000000)

enum {
	STEP = 64, /* from one block to the next */
	USABLE = 56,
	N = 8,
	MANY = 20,  /* blocks, A to T, where words stand at odd places */
	ENOUGH = 8, /* of them keep what they lead to (hidden_form.h) */
	PAGE = 4096,
	PIECE = 1 << 20, /* as memory is cut for workers (hidden_form.h) */
};

#define BLOCK(letter) (HEAP + (uint64_t)((letter) - 'A') * STEP)

struct fact {
	uint64_t at;
	uint64_t value;
};

struct hidden_case {
	char title[64];
	struct fact facts[3];
	char kept[N + 1];
};

static struct ms_fake fake;
static struct ms_blocks blocks;
static struct ms_hidden_kept kept;
static bool limited;
static uint64_t by_reason[MS_REASONS]; /* kept for this, or one of those before */
static uint64_t heap = HEAP;
static unsigned n_blocks = N;
static bool inner; /* pointers lead into the blocks of its allocator as a rule */

static void add_mapping(uint64_t begin, uint64_t bytes, uint8_t prot, const char *name)
{
	uint32_t extent;

	ms_fake_map(&fake, begin, bytes, prot, name);
	cr_assert(!ms_blocks_open_single(&blocks, (struct ms_range){ begin, begin + bytes },
	                                 MS_EXTENT_MAPPING, &extent));
	blocks.extents.at[extent].mapping = (uint32_t)fake.base.mappings.n - 1;
}

static struct ms_cell *cell_of(unsigned i, uint64_t *ret_bit)
{
	const struct ms_extent *e = ms_blocks_extent_of(&blocks, heap + i * STEP);
	uint64_t granule = ms_granule_of(e, heap + i * STEP);

	*ret_bit = ms_granule_bit(granule);
	return ms_blocks_cell(&blocks, e, granule);
}

static void draw(const struct fact *facts, size_t n, bool no_view)
{
	const uint8_t rw = MS_PROT_READ | MS_PROT_WRITE;
	uint32_t extent;

	ms_fake_init(&fake);
	fake.no_view = no_view;
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	ms_fake_map(&fake, heap, PAGE, rw, "[heap]");
	cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ heap, heap + n_blocks * STEP }, 4,
	                          &extent));
	blocks.extents.at[extent].inner = inner;
	for (unsigned i = 0; i < n_blocks; i++)
		cr_assert(!ms_blocks_put(&blocks, extent, heap + i * STEP, USABLE));
	ms_fake_map(&fake, DATA, PAGE, rw, "/bin/p");
	add_mapping(MEMORY, 2 * PIECE, rw, "");
	add_mapping(CODE, PAGE, rw | MS_PROT_EXEC, "");
	add_mapping(LIBRARY, PAGE, MS_PROT_READ | MS_PROT_EXEC, "/lib/l.so");
	for (size_t i = 0; i < n; i++)
		if (facts[i].at)
			ms_fake_put(&fake, facts[i].at, facts[i].value);
	cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
	for (unsigned i = 0; i < 2; i++) {
		uint64_t bit;
		struct ms_cell *cell = cell_of(i, &bit);

		cell->marks |= bit;
	}
}

static void mark(unsigned n_workers, uint64_t limit)
{
	static struct ms_range data = { DATA, DATA + PAGE };
	const struct ms_ranges ranges = { .at = &data, .n = 1 };
	const struct ms_ranges *const roots[] = { &ranges };
	struct ms_hidden_options options = { .roots = roots, .n_roots = 1, .limit = limit };
	static const enum ms_reason reasons[] = { MS_REASON_UNALIGNED, MS_REASON_TAGGED,
		                                  MS_REASON_OUTSIDE };
	struct ms_hidden *found;
	struct ms_error err;

	memset(&kept, 0, sizeof(kept));
	memset(by_reason, 0, sizeof(by_reason));
	cr_assert(!ms_workers_start(n_workers, &options.workers, &err));
	cr_assert(!ms_hidden_find(&blocks, &options, &found, &limited, &err));
	for (size_t i = 0; i < 3; i++) {
		cr_assert(!ms_hidden_mark(found, reasons[i], &kept, &err));
		by_reason[reasons[i]] = kept.allocations;
	}
	ms_workers_stop(options.workers);
}

/* The letters of the blocks that are marked, but for those that were from the start. */
static const char *search(unsigned n_workers, uint64_t limit)
{
	static char ret[MANY + 1];
	size_t n = 0;

	mark(n_workers, limit);
	for (unsigned i = 2; i < n_blocks; i++) {
		uint64_t bit;
		const struct ms_cell *cell = cell_of(i, &bit);

		if (cell->marks & bit)
			ret[n++] = (char)('A' + i);
	}
	ret[n] = '\0';
	cr_expect_eq(kept.allocations, n);
	cr_expect_eq(kept.bytes, n * USABLE);
	return ret;
}

static struct hidden_case cases[] = {
	{ "nothing", { { 0, 0 } }, "" },
	{ "four bytes further in a block", { { BLOCK('A') + 4, BLOCK('C') } }, "C" },
	{ "the last place in a block", { { BLOCK('A') + 44, BLOCK('C') } }, "C" },
	{ "past the end of a block", { { BLOCK('A') + USABLE - 4, BLOCK('C') } }, "" },
	{ "elsewhere in a block", { { BLOCK('A') + 3, BLOCK('C') } }, "" },
	{ "in a block that is lost", { { BLOCK('D') + 4, BLOCK('C') } }, "" },
	{ "into the middle of a block", { { BLOCK('A') + 4, BLOCK('C') + 8 } }, "C" },
	{ "with a mark in the lowest bits", { { DATA + 4, BLOCK('C') + 17 } }, "C" },
	{ "behind the end of a block", { { BLOCK('A') + 4, BLOCK('C') + USABLE } }, "" },
	{ "to what is no block", { { BLOCK('A') + 4, BLOCK('C') + STEP *N } }, "" },
	{ "in globals", { { DATA + 4, BLOCK('C') } }, "C" },
	{ "elsewhere in globals", { { DATA + 5, BLOCK('C') } }, "" },
	{ "in other memory", { { MEMORY + 12, BLOCK('C') } }, "C" },
	{ "where memory is cut", { { MEMORY + PIECE - 4, BLOCK('C') } }, "C" },
	{ "at the end of memory", { { MEMORY + 2 * PIECE - 12, BLOCK('C') } }, "C" },
	{ "anywhere in code", { { CODE + 3, BLOCK('C') }, { CODE + 13, BLOCK('D') } }, "CD" },
	{ "at the end of code", { { CODE + PAGE - 8, BLOCK('C') } }, "C" },
	{ "in code of a file", { { LIBRARY + 3, BLOCK('C') }, { LIBRARY + 12, BLOCK('D') } }, "" },
	{ "a number above", { { DATA + 8, BLOCK('C') | UINT64_C(7) << 48 } }, "C" },
	{ "a large number above", { { MEMORY, BLOCK('C') | UINT64_C(0xffff) << 48 } }, "C" },
	{ "a number below", { { BLOCK('A') + 8, BLOCK('H') << 16 | 0x1234 } }, "H" },
	{ "a number above, into a block", { { DATA, (BLOCK('C') + 8) | UINT64_C(7) << 48 } }, "" },
	{ "a number above, elsewhere", { { DATA + 4, BLOCK('C') | UINT64_C(7) << 48 } }, "" },
	{ "a number above, behind a block",
	  { { BLOCK('A') + USABLE, BLOCK('C') | UINT64_C(7) << 48 } },
	  "" },
	{ "numbers above, one after the other",
	  { { DATA, BLOCK('C') | UINT64_C(1) << 48 },
	    { BLOCK('C'), BLOCK('D') | UINT64_C(2) << 48 },
	    { BLOCK('D') + 8, BLOCK('E') << 16 } },
	  "CDE" },
	{ "what they hold",
	  { { BLOCK('B') + 4, BLOCK('C') }, { BLOCK('C') + 8, BLOCK('D') } },
	  "CD" },
	{ "what these hold in the same way",
	  { { BLOCK('B') + 4, BLOCK('C') },
	    { BLOCK('C') + 20, BLOCK('D') },
	    { BLOCK('D'), BLOCK('E') } },
	  "CDE" },
};

ParameterizedTestParameters(hidden, keeps)
{
	return cr_make_param_array(struct hidden_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct hidden_case *c, hidden, keeps)
{
	for (int no_view = 0; no_view <= 1; no_view++)
		for (unsigned workers = 1; workers <= 3; workers += 2) {
			draw(c->facts, 3, no_view);
			cr_expect_str_eq(search(workers, 0), c->kept, "%s%s, %u workers", c->title,
			                 no_view ? " without a view" : "", workers);
			cr_expect(!limited);
			ms_fake_deinit(&fake);
		}
}

/* ---- shifted ---- */

struct shifted_case {
	char title[64];
	uint64_t at;
	unsigned shift;
	uint64_t tag;
	uint64_t into; /* bytes behind the begin of each block */
	unsigned n;    /* words */
	bool mixed;    /* each has a tag of its own */
	char kept[MANY + 1];
};

static struct shifted_case shifted_cases[] = {
	{ "by 1", MEMORY, 1, 1, 0, ENOUGH, false, "CDEFGHIJ" },
	{ "by 2", DATA, 2, 0, 0, ENOUGH, false, "CDEFGHIJ" },
	{ "by 3", BLOCK('A'), 3, 0, 0, 5, false, "" },
	{ "by 3, enough", MEMORY + PIECE - 8, 3, 0, 0, ENOUGH, false, "CDEFGHIJ" },
	{ "in memory to execute, as Chez's", CODE + 64, 3, 0, 0, ENOUGH, false, "CDEFGHIJ" },
	{ "by 4", MEMORY, 4, 15, 0, ENOUGH, false, "CDEFGHIJ" },
	{ "by 5", MEMORY, 5, 0, 0, ENOUGH, false, "" },
	{ "too few", MEMORY, 3, 0, 0, ENOUGH - 1, false, "" },
	{ "with tags that differ", MEMORY, 3, 0, 0, ENOUGH, true, "" },
	{ "into the middle", MEMORY, 3, 0, 8, ENOUGH, false, "" },
};

ParameterizedTestParameters(hidden, shifted)
{
	return cr_make_param_array(struct shifted_case, shifted_cases,
	                           sizeof(shifted_cases) / sizeof(shifted_cases[0]));
}

ParameterizedTest(struct shifted_case *c, hidden, shifted)
{
	struct fact facts[ENOUGH];

	n_blocks = MANY;
	for (unsigned i = 0; i < c->n; i++) {
		facts[i].at = c->at + 8 * (uint64_t)i;
		facts[i].value = (heap + (2 + (uint64_t)i) * STEP + c->into) << c->shift |
		                 (c->mixed ? i % 8 : c->tag);
	}
	for (unsigned workers = 1; workers <= 3; workers += 2) {
		draw(facts, c->n, false);
		cr_expect_str_eq(search(workers, 0), c->kept, "%s", c->title);
		cr_expect_eq(by_reason[MS_REASON_UNALIGNED], 0);
		cr_expect_eq(by_reason[MS_REASON_TAGGED], strlen(c->kept));
		ms_fake_deinit(&fake);
	}
}

/* LuaJIT's: 17 bits of tag, the index of a segment, 39 bits of the address. */
Test(hidden, light_userdata)
{
	const uint64_t tag = UINT64_C(0x1fffc) << 47;
	const uint64_t low = (UINT64_C(1) << 39) - 1;
	const struct fact facts[] = { { DATA, tag | UINT64_C(3) << 39 | (BLOCK('C') & low) },
		                      { DATA + 8, tag | (BLOCK('D') & low) },
		                      { DATA + 16, (tag >> 1) | (BLOCK('E') & low) } };

	draw(facts, 3, false);
	cr_expect_str_eq(search(1, 0), "CD");
	cr_expect_eq(by_reason[MS_REASON_TAGGED], 2);
	ms_fake_deinit(&fake);
}

/* ---- in front ---- */

/* In front of B is A, which is marked, and full. */
static struct hidden_case front_cases[] = {
	{ "behind a lost block", { { DATA, BLOCK('E') - 8 } }, "E" },
	{ "behind a marked one", { { DATA, BLOCK('C') - 8 } }, "" },
	{ "sixteen bytes in front", { { DATA, BLOCK('E') - 16 } }, "" },
	{ "four bytes in front", { { DATA, BLOCK('E') - 4 } }, "" },
	{ "in a lost block", { { BLOCK('D'), BLOCK('F') - 8 } }, "" },
	{ "one that leads to another",
	  { { DATA, BLOCK('E') - 8 }, { BLOCK('E') + 16, BLOCK('G') - 8 } },
	  "EG" },
};

ParameterizedTestParameters(hidden, in_front)
{
	return cr_make_param_array(struct hidden_case, front_cases,
	                           sizeof(front_cases) / sizeof(front_cases[0]));
}

ParameterizedTest(struct hidden_case *c, hidden, in_front)
{
	draw(c->facts, 3, false);
	cr_expect_str_eq(search(1, 0), c->kept, "%s", c->title);
	cr_expect_eq(by_reason[MS_REASON_TAGGED], 0);
	cr_expect_eq(by_reason[MS_REASON_OUTSIDE], strlen(c->kept));
	ms_fake_deinit(&fake);
}

/* The word in front of C, where the marked B ends, beside @beside; and @n in front of others. */
static const char *search_end(uint64_t beside, unsigned n)
{
	struct fact facts[ENOUGH + 2] = { { MEMORY, BLOCK('C') - 8 }, { MEMORY + 8, beside } };

	n_blocks = MANY;
	for (unsigned i = 0; i < n; i++)
		facts[2 + i] = (struct fact){ MEMORY + 1024 + 64 * (uint64_t)i,
			                      BLOCK('D') + i * STEP - 8 };
	draw(facts, 2 + n, false);
	return search(1, 0);
}

Test(hidden, the_end_of_a_marked_block)
{
	cr_expect_str_eq(search_end(0, 0), "", "one is no evidence");
	ms_fake_deinit(&fake);
	cr_expect_str_eq(search_end(0, ENOUGH), "CDEFGHIJK");
	ms_fake_deinit(&fake);
	cr_expect_str_eq(search_end(BLOCK('B'), ENOUGH), "DEFGHIJK", "as a vector has it");
	ms_fake_deinit(&fake);
}

/* ---- odd places ---- */

struct odd_case {
	char title[64];
	uint64_t first; /* where the first of ENOUGH words is */
	uint64_t step;  /* from there to the next */
	uint64_t into;  /* bytes behind the begin of the block that a word leads to */
	bool to_one;    /* all to the same block; else each to the next, from C on */
	struct fact other;
	char kept[MANY + 1];
};

static struct odd_case odd_cases[] = {
	{ "in memory", MEMORY + 1, 16, 0, false, { 0, 0 }, "CDEFGHIJ" },
	{ "at the highest place", MEMORY + 7, 24, 0, false, { 0, 0 }, "CDEFGHIJ" },
	{ "in globals", DATA + 3, 32, 0, false, { 0, 0 }, "CDEFGHIJ" },
	{ "where memory is cut", MEMORY + PIECE - 7, 16, 0, false, { 0, 0 }, "CDEFGHIJ" },
	{ "up to the end", MEMORY + 2 * PIECE - 15 - 7 * 16, 16, 0, false, { 0, 0 }, "CDEFGHIJ" },
	{ "one of them overwritten", MEMORY + 1, 16, 0, false, { MEMORY + 1, 1 }, "" },
	{ "in blocks that are lost", BLOCK('K') + 5, STEP, 0, false, { 0, 0 }, "" },
	{ "at places that differ", MEMORY + 1, 18, 0, false, { 0, 0 }, "" },
	{ "to one block", MEMORY + 1, 16, 0, true, { 0, 0 }, "" },
	{ "into the middle of blocks", MEMORY + 1, 16, 8, false, { 0, 0 }, "" },
	{ "what they hold",
	  MEMORY + 1,
	  16,
	  0,
	  false,
	  { BLOCK('D') + 16, BLOCK('S') },
	  "CDEFGHIJS" },
	{ "what these hold in the same way",
	  MEMORY + 1,
	  16,
	  0,
	  false,
	  { BLOCK('D') + 17, BLOCK('T') },
	  "CDEFGHIJT" },
	{ "what these hold at another place",
	  MEMORY + 1,
	  16,
	  0,
	  false,
	  { BLOCK('D') + 19, BLOCK('T') },
	  "CDEFGHIJ" },
};

static void draw_odd(const struct odd_case *c, bool no_view)
{
	struct fact facts[ENOUGH + 1];

	for (unsigned i = 0; i < ENOUGH; i++) {
		facts[i].at = c->first + i * c->step;
		facts[i].value = heap + (c->to_one ? 2 : 2 + i) * STEP + c->into;
	}
	facts[ENOUGH] = c->other;
	draw(facts, ENOUGH + 1, no_view);
}

ParameterizedTestParameters(hidden, odd_places)
{
	return cr_make_param_array(struct odd_case, odd_cases,
	                           sizeof(odd_cases) / sizeof(odd_cases[0]));
}

ParameterizedTest(struct odd_case *c, hidden, odd_places)
{
	n_blocks = MANY;
	for (int no_view = 0; no_view <= 1; no_view++)
		for (unsigned workers = 1; workers <= 3; workers += 2) {
			draw_odd(c, no_view);
			cr_expect_str_eq(search(workers, 0), c->kept, "%s%s, %u workers", c->title,
			                 no_view ? " without a view" : "", workers);
			ms_fake_deinit(&fake);
		}
}

/* Numbers and zeros look like such addresses wherever they stand. */
Test(hidden, small_numbers_at_odd_places)
{
	n_blocks = MANY;
	heap = 0x10000000;
	draw_odd(&odd_cases[0], false);
	cr_expect_str_eq(search(1, 0), "");
	ms_fake_deinit(&fake);
}

/* A plain number and zeros behind it look like an address that is no larger than 32 bits. */
Test(hidden, small_numbers)
{
	struct fact facts[] = { { DATA + 4, 0 }, { DATA + 12, 0 } };

	heap = 0x10000000;
	facts[0].value = heap + 2 * STEP + 8; /* C's middle */
	facts[1].value = heap + 3 * STEP;     /* D's begin */
	draw(facts, 2, false);
	cr_expect_str_eq(search(1, 0), "D");
	ms_fake_deinit(&fake);
	inner = true;
	draw(facts, 2, false);
	cr_expect_str_eq(search(1, 0), "CD");
	ms_fake_deinit(&fake);
}

/*
 * Blocks of one word, W to Z, none of which is marked: W and Y are arrays of no elements, X has
 * one, and what has the address behind Y is lost itself.
 */
Test(hidden, arrays_of_no_elements)
{
	const struct fact facts[] = { { DATA, SMALL + 8 },
		                      { DATA + 24, SMALL + 16 },
		                      { BLOCK('C') + 8, SMALL + 24 },
		                      { SMALL + 8, 1 } };
	const char *const expected = "\1\0\0\0";
	uint32_t extent;

	for (int no_view = 0; no_view <= 1; no_view++) {
		draw(facts, 3, no_view);
		ms_blocks_init(&blocks, &fake.base, &fake.arena);
		ms_fake_map(&fake, SMALL, PAGE, MS_PROT_READ | MS_PROT_WRITE, "");
		for (size_t i = 0; i < 4; i++)
			ms_fake_put(&fake, facts[i].at, facts[i].value);
		cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ HEAP, HEAP + N * STEP }, 4,
		                          &extent));
		cr_assert(!ms_blocks_put(&blocks, extent, BLOCK('C'), USABLE));
		cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ SMALL, SMALL + 32 }, 3,
		                          &extent));
		for (uint64_t i = 0; i < 4; i++)
			cr_assert(!ms_blocks_put(&blocks, extent, SMALL + i * 8, 8));
		cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
		mark(1, 0);
		for (uint64_t i = 0; i < 4; i++) {
			const struct ms_extent *e = ms_blocks_extent_of(&blocks, SMALL);
			const struct ms_block b = { (uint32_t)(e - blocks.extents.at), i };

			cr_expect_eq(ms_block_is_marked(&blocks, b), expected[i], "%c",
			             (char)('W' + i));
		}
		ms_fake_deinit(&fake);
	}
}

enum { FACTS = 4 };

/* Whether the first of two blocks of @bytes each is kept where memory has @facts. */
static bool is_first_kept(const struct fact facts[FACTS], uint64_t bytes)
{
	const struct ms_extent *extent;
	uint32_t number;
	bool is_kept;

	draw(facts, 0, false);
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	ms_fake_map(&fake, SMALL, PAGE, MS_PROT_READ | MS_PROT_WRITE, "");
	for (size_t i = 0; i < FACTS; i++)
		ms_fake_put(&fake, facts[i].at, facts[i].value);
	cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ SMALL, SMALL + 2 * bytes }, 4,
	                          &number));
	for (uint64_t i = 0; i < 2; i++)
		cr_assert(!ms_blocks_put(&blocks, number, SMALL + i * bytes, bytes));
	cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
	mark(1, 0);
	extent = ms_blocks_extent_of(&blocks, SMALL);
	is_kept = ms_block_is_marked(
		&blocks, (struct ms_block){ (uint32_t)(extent - blocks.extents.at), 0 });
	ms_fake_deinit(&fake);
	return is_kept;
}

/* What PHP notes of a result, and a function that has it. */
static bool keeps_result(const struct fact *other)
{
	const uint64_t function = DATA + 64;
	const struct fact facts[FACTS] = { { SMALL + 16, 0x200003fe },
		                           { function, UINT64_C(1) << 45 | 1 }, /* flags, type */
		                           { function + 40, SMALL + 32 },
		                           *other };

	return is_first_kept(facts, 32);
}

Test(hidden, results_of_functions_of_php_without_arguments)
{
	static const struct fact others[] = {
		{ DATA + 64, 1 },                 /* it has no result */
		{ DATA + 64, UINT64_C(1) << 45 }, /* of no type that there is */
		{ DATA + 64 + 32, 1 },            /* it has arguments */
		{ DATA + 64 + 40, SMALL + 24 },   /* elsewhere */
		{ SMALL, 1 },                     /* the block has more */
		{ SMALL + 16, 0 },                /* or nothing */
		{ SMALL + 24, SMALL },
	};

	cr_expect(keeps_result(&(struct fact){ DATA + 8, 0 }));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_not(keeps_result(&others[i]), "%zu", i);
}

/* mpv's parent of nothing but other blocks. */
static bool keeps_parent(const struct fact *other)
{
	const struct fact facts[FACTS] = {
		{ SMALL + 48, 0xd3adb3ef }, { SMALL + 72, CODE }, { DATA + 40, SMALL + 80 }, *other
	};

	return is_first_kept(facts, 80);
}

Test(hidden, parents_of_mpv_with_nothing_of_their_own)
{
	static const struct fact others[] = {
		{ SMALL, 8 },               /* it has something */
		{ SMALL + 48, 0xd3adb3ee }, /* it is another's */
		{ DATA + 40, SMALL + 88 },  /* elsewhere */
	};

	cr_expect(keeps_parent(&(struct fact){ DATA + 8, 0 }));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_not(keeps_parent(&others[i]), "%zu", i);
}

Test(hidden, says_when_not_all_was_looked_at)
{
	static const struct fact late = { CODE + 3, BLOCK('C') };

	draw(&late, 1, false);
	cr_expect_str_eq(search(1, 2 * PAGE), "");
	cr_expect(limited);
	ms_fake_deinit(&fake);
}
