/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "engine/graph/packed.h"
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

enum {
	STEP = 64, /* from one block to the next */
	USABLE = 56,
	N = 8,
	PAGE = 4096,
	PIECE = 1 << 20, /* as memory is cut for workers (packed.c) */
};

#define BLOCK(letter) (HEAP + (uint64_t)((letter) - 'A') * STEP)

struct fact {
	uint64_t at;
	uint64_t value;
};

struct packed_case {
	char title[64];
	struct fact facts[3];
	char kept[N + 1];
};

static struct ms_fake fake;
static struct ms_blocks blocks;
static struct ms_packed_kept kept;

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
	const struct ms_extent *e = ms_blocks_extent_of(&blocks, HEAP + i * STEP);
	uint64_t granule = ms_granule_of(e, HEAP + i * STEP);

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
	ms_fake_map(&fake, HEAP, PAGE, rw, "[heap]");
	cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ HEAP, HEAP + N * STEP }, 4, &extent));
	for (unsigned i = 0; i < N; i++)
		cr_assert(!ms_blocks_put(&blocks, extent, HEAP + i * STEP, USABLE));
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

		cell_of(i, &bit)->marks |= bit;
	}
}

/* The letters of the blocks that are marked, but for those that were from the start. */
static const char *search(unsigned n_workers, uint64_t limit)
{
	static char ret[N + 1];
	static struct ms_range data = { DATA, DATA + PAGE };
	const struct ms_ranges ranges = { .at = &data, .n = 1 };
	const struct ms_ranges *const roots[] = { &ranges };
	struct ms_packed_options options = { .roots = roots, .n_roots = 1, .limit = limit };
	struct ms_error err;
	size_t n = 0;

	memset(&kept, 0, sizeof(kept));
	cr_assert(!ms_workers_start(n_workers, &options.workers, &err));
	cr_assert(!ms_packed_mark(&blocks, &options, &kept, &err));
	ms_workers_stop(options.workers);
	for (unsigned i = 2; i < N; i++) {
		uint64_t bit;

		if (cell_of(i, &bit)->marks & bit)
			ret[n++] = (char)('A' + i);
	}
	ret[n] = '\0';
	cr_expect_eq(kept.allocations, n);
	cr_expect_eq(kept.bytes, n * USABLE);
	return ret;
}

static struct packed_case cases[] = {
	{ "nothing", { { 0, 0 } }, "" },
	{ "four bytes further in a block", { { BLOCK('A') + 4, BLOCK('C') } }, "C" },
	{ "the last place in a block", { { BLOCK('A') + 44, BLOCK('C') } }, "C" },
	{ "past the end of a block", { { BLOCK('A') + USABLE - 4, BLOCK('C') } }, "" },
	{ "elsewhere in a block", { { BLOCK('A') + 3, BLOCK('C') } }, "" },
	{ "in a block that is lost", { { BLOCK('D') + 4, BLOCK('C') } }, "" },
	{ "into the middle of a block", { { BLOCK('A') + 4, BLOCK('C') + 8 } }, "" },
	{ "to what is no block", { { BLOCK('A') + 4, BLOCK('C') + STEP *N } }, "" },
	{ "in globals", { { DATA + 4, BLOCK('C') } }, "C" },
	{ "elsewhere in globals", { { DATA + 5, BLOCK('C') } }, "" },
	{ "in other memory", { { MEMORY + 12, BLOCK('C') } }, "C" },
	{ "where memory is cut", { { MEMORY + PIECE - 4, BLOCK('C') } }, "C" },
	{ "at the end of memory", { { MEMORY + 2 * PIECE - 12, BLOCK('C') } }, "C" },
	{ "anywhere in code", { { CODE + 3, BLOCK('C') }, { CODE + 13, BLOCK('D') } }, "CD" },
	{ "at the end of code", { { CODE + PAGE - 8, BLOCK('C') } }, "C" },
	{ "in code of a file", { { LIBRARY + 3, BLOCK('C') }, { LIBRARY + 12, BLOCK('D') } }, "" },
	{ "what they hold",
	  { { BLOCK('B') + 4, BLOCK('C') }, { BLOCK('C') + 8, BLOCK('D') } },
	  "CD" },
	{ "what these hold in the same way",
	  { { BLOCK('B') + 4, BLOCK('C') },
	    { BLOCK('C') + 20, BLOCK('D') },
	    { BLOCK('D'), BLOCK('E') } },
	  "CDE" },
};

ParameterizedTestParameters(packed, keeps)
{
	return cr_make_param_array(struct packed_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct packed_case *c, packed, keeps)
{
	for (int no_view = 0; no_view <= 1; no_view++)
		for (unsigned workers = 1; workers <= 3; workers += 2) {
			draw(c->facts, 3, no_view);
			cr_expect_str_eq(search(workers, 0), c->kept, "%s%s, %u workers", c->title,
			                 no_view ? " without a view" : "", workers);
			cr_expect(!kept.limited);
			ms_fake_deinit(&fake);
		}
}

Test(packed, says_when_not_all_was_looked_at)
{
	static const struct fact late = { CODE + 3, BLOCK('C') };

	draw(&late, 1, false);
	cr_expect_str_eq(search(1, 2 * PAGE), "");
	cr_expect(kept.limited);
	ms_fake_deinit(&fake);
}
