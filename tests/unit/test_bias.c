/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "engine/graph/bias.h"
#include "fake.h"

/* Blocks, each of which has a word that points to the next one. */
enum { HEAP = 0x100000, BLOCK = 128, BLOCKS = 100 };

struct bias_case {
	char title[40];
	unsigned int n[8]; /* blocks by how many words behind the begin they are pointed to */
	unsigned int bias; /* by bit */
};

static struct bias_case bias_cases[] = {
	{ "a word in front of all", { 0, 100 }, 1 << 1 },
	{ "four words", { 0, 0, 0, 0, 100 }, 1 << 4 },
	{ "one word or two", { 0, 60, 40 }, 1 << 1 | 1 << 2 },
	{ "hardly any with two", { 0, 96, 4 }, 1 << 1 },
	{ "others to the begin", { 40, 60 }, 1 << 1 },
	{ "most to the begin", { 60, 40 }, 0 },
	{ "nearly all", { 0, 91, 0, 0, 0, 9 }, 1 << 1 },
	{ "not nearly all", { 0, 85, 0, 0, 0, 15 }, 0 },
	{ "far behind", { 0, 0, 0, 0, 0, 100 }, 0 },
};

ParameterizedTestParameters(bias, rule)
{
	return cr_make_param_array(struct bias_case, bias_cases,
	                           sizeof(bias_cases) / sizeof(bias_cases[0]));
}

/* How many words behind its begin the block of index @i is pointed to. */
static unsigned int words_of(const struct bias_case *c, unsigned int i)
{
	unsigned int words = 0;

	while (i >= c->n[words])
		i -= c->n[words++];
	return words;
}

static bool is_wide(const struct ms_blocks *blocks, const struct ms_marks *wide, ms_addr at)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, at);
	uint64_t granule = ms_granule_of(e, at);

	return wide->at[e->cell0 + granule / MS_CELL_GRANULES] & ms_granule_bit(granule);
}

ParameterizedTest(struct bias_case *c, bias, rule)
{
	const struct ms_range range = { HEAP, HEAP + BLOCKS * BLOCK };
	struct ms_marks wide = { 0 };
	struct ms_blocks blocks;
	struct ms_bias bias;
	struct ms_fake fake;
	uint32_t extent;

	ms_fake_init(&fake);
	(void)ms_fake_map(&fake, HEAP, 16384, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, range, 4, &extent));
	for (unsigned int i = 0; i < BLOCKS; i++) {
		cr_assert(!ms_blocks_put(&blocks, extent, HEAP + i * BLOCK, BLOCK - 8));
		ms_fake_put(&fake, HEAP + (i + BLOCKS - 1) % BLOCKS * BLOCK + 64,
		            HEAP + i * BLOCK + 8 * words_of(c, i));
	}
	cr_assert(!ms_blocks_sort(&blocks));
	cr_assert(!ms_blocks_seal(&blocks));

	cr_expect_eq(ms_bias_find(&blocks, &wide, &bias), MS_OK);
	cr_expect_eq(blocks.bias, c->bias, "%s: %x", c->title, blocks.bias);
	cr_expect_eq(bias.n, BLOCKS - c->n[0]);
	cr_expect_eq(bias.n_front, c->n[1] + c->n[2] + c->n[3] + c->n[4]);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		unsigned int words = words_of(c, i);
		bool counts = c->bias >> words & 1;

		cr_expect_eq(is_wide(&blocks, &wide, HEAP + i * BLOCK), counts, "%s: %u", c->title,
		             i);
		cr_expect_eq(ms_block_is_pointed_to(&blocks, blocks.extents.at, i * BLOCK >> 4,
		                                    HEAP + i * BLOCK + 8 * words),
		             !words || counts);
	}
	ms_fake_deinit(&fake);
}
