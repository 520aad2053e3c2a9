/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "alloc/decoders.h"
#include "fake.h"

/* A heap of three blocks; the last may have a header of mcheck()'s. */
enum { HEAP = 0x100000, BLOCK = 128, BLOCKS = 3, WATCHED = HEAP + 2 * BLOCK };

struct mcheck_case {
	char title[40];
	uint64_t words[6]; /* size, magic, before, behind, block, magic of it */
	bool watched;
	bool dropped; /* the heap is not proved */
};

static struct mcheck_case mcheck_cases[] = {
	{ "watched",
	  { 24, 0xfedabeeb ^ 0x11110, 0x10000, 0x1110, WATCHED, WATCHED ^ 0xfedabeeb },
	  true,
	  false },
	{ "the only one", { 24, 0xfedabeeb, 0, 0, WATCHED, WATCHED ^ 0xfedabeeb }, true, false },
	{ "nothing", { 0 }, false, false },
	{ "freed", { 24, 0xd8675309, 0, 0, WATCHED, WATCHED ^ 0xfedabeeb }, false, false },
	{ "a header of another's",
	  { 24, 0xfedabeeb, 0, 0, WATCHED + 16, (WATCHED + 16) ^ 0xfedabeeb },
	  false,
	  false },
	{ "links that changed",
	  { 24, 0xfedabeeb, 0, 16, WATCHED, WATCHED ^ 0xfedabeeb },
	  false,
	  false },
	{ "a heap of nobody's",
	  { 24, 0xfedabeeb, 0, 0, WATCHED, WATCHED ^ 0xfedabeeb },
	  false,
	  true },
};

ParameterizedTestParameters(mcheck, is_told)
{
	return cr_make_param_array(struct mcheck_case, mcheck_cases,
	                           sizeof(mcheck_cases) / sizeof(mcheck_cases[0]));
}

ParameterizedTest(struct mcheck_case *c, mcheck, is_told)
{
	struct ms_range range = { HEAP, HEAP + BLOCKS * BLOCK };
	struct ms_notes warnings = { 0 };
	struct ms_decoding d = { 0 };
	struct ms_blocks blocks;
	struct ms_fake fake;
	uint32_t extent;

	ms_fake_init(&fake);
	(void)ms_fake_map(&fake, HEAP, 4096, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	for (size_t i = 0; i < 6; i++)
		ms_fake_put(&fake, WATCHED + 8 * i, c->words[i]);
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, range, 4, &extent));
	for (ms_addr at = HEAP; at < range.end; at += BLOCK)
		cr_assert(!ms_blocks_put(&blocks, extent, at, BLOCK - 8));
	blocks.extents.at[extent].dropped = c->dropped;
	cr_assert(!ms_blocks_sort(&blocks));
	d = (struct ms_decoding){
		.src = &fake.base, .arena = &fake.arena, .blocks = &blocks, .warnings = &warnings
	};
	cr_expect_eq(ms_mcheck_annotator.annotate(&d), MS_OK);
	cr_expect_eq(warnings.n, c->watched, "%s", c->title);
	cr_expect(!c->watched || strstr(warnings.at[0].text, "mcheck()"));
	ms_fake_deinit(&fake);
}
