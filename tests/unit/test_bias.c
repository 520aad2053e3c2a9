/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "engine/graph/bias.h"
#include "fake.h"

/* Blocks, each of which has a word that points to the next one. */
enum { HEAP = 0x100000, BLOCK = 256, BLOCKS = 100 };

struct bias_case {
	char title[40];
	unsigned int n[20]; /* blocks by how many words behind the begin they are pointed to */
	unsigned int bias;  /* by bit */
};

static struct bias_case bias_cases[] = {
	{ "a word in front of all", { [1] = 100 }, 1 << 1 },
	{ "sixteen words", { [16] = 100 }, 1 << 16 },
	{ "one word or two", { [1] = 60, [2] = 40 }, 1 << 1 | 1 << 2 },
	{ "hardly any with two", { [1] = 96, [2] = 4 }, 1 << 1 },
	{ "others to the begin", { [0] = 36, [1] = 64 }, 1 << 1 },
	{ "too few", { [0] = 37, [1] = 63 }, 0 },
	{ "nearly all", { [1] = 91, [17] = 9 }, 1 << 1 },
	{ "not nearly all", { [1] = 85, [17] = 15 }, 0 },
	{ "far behind", { [17] = 100 }, 0 },
	{ "at some places", { [1] = 20, [3] = 20, [8] = 60 }, 1 << 1 | 1 << 3 | 1 << 8 },
	{ "each at another", { [1] = 6, [2] = 6, [3] = 6, [4] = 6, [5] = 6, [17] = 70 }, 0 },
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
	(void)ms_fake_map(&fake, HEAP, BLOCKS * BLOCK, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, range, 4, &extent));
	for (unsigned int i = 0; i < BLOCKS; i++) {
		cr_assert(!ms_blocks_put(&blocks, extent, HEAP + i * BLOCK, BLOCK - 8));
		ms_fake_put(&fake, HEAP + (i + BLOCKS - 1) % BLOCKS * BLOCK + 200,
		            HEAP + i * BLOCK + 8 * words_of(c, i));
	}
	cr_assert(!ms_blocks_sort(&blocks));
	cr_assert(!ms_blocks_seal(&blocks));

	cr_expect_eq(ms_bias_find(&blocks, &wide, &bias), MS_OK);
	cr_expect_eq(blocks.bias, c->bias, "%s: %x", c->title, blocks.bias);
	cr_expect_eq(bias.n, BLOCKS - c->n[0]);
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
