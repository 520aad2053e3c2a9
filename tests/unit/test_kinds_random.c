/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps of nonsense, in which no block is anything: hardly one may have a name. */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"

enum { BLOCKS = 1000, MOST_WORDS = 40, MOST_NAMED = BLOCKS / 100, SEEDS = 30 };

#define PROGRAM (DK_LIBRARY + 0x100000)

static struct drawn_kinds d;
static uint64_t state;

/* All that kinds want to be there is. */
static void setup(void)
{
	drawn_kinds_init(&d, "/usr/lib/libstdc++.so.6+libc++.so+libssl+libglib-2.0+libQt5Core+"
	                     "libQt5Gui+libfontconfig.so");
	classes_frames(&d.fake, DK_LIBRARY, CLASSES_TABLES + 0xc00, CLASSES_PAGE + 0x100, 0x40, 4);
	classes_map(&d.fake, PROGRAM, "/usr/bin/drawn");
	strcpy(ms_fake_at(&d.fake, PROGRAM + 0x800), "library/std/src/io/mod.rs");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_random, .init = setup, .fini = teardown);

static uint64_t chance(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

/* What words of programs are: nothing, addresses of blocks and in them, numbers, functions. */
static uint64_t word(void)
{
	ms_addr block = d.at[chance(d.n)];

	switch (chance(20)) {
	default:
		return 0;
	case 6 ... 10:
		return block;
	case 11:
		return block + chance(64);
	case 12 ... 13:
		return chance(64);
	case 14 ... 15:
		return chance(64) << 32 | chance(64);
	case 16:
		return DK_CODE + chance(16) * 16;
	case 17:
		return DK_CONSTANTS + chance(64) * 8;
	case 18:
		return DK_DATA + chance(512) * 8;
	case 19:
		return (state >> 3) * UINT64_C(0x9e3779b97f4a7c15);
	}
}

static void draw(uint64_t seed)
{
	state = seed * UINT64_C(0x9e3779b97f4a7c15);
	d.n = 0;
	d.next = DK_HEAP + 16;
	for (size_t i = 0; i < BLOCKS; i++)
		(void)drawn_kinds_block(&d, 8 + chance(chance(4) ? 8 : MOST_WORDS) * 8);
	for (size_t i = 0; i < BLOCKS; i++)
		for (uint64_t at = 0; at + 8 <= d.len[i]; at += 8)
			ms_fake_put(&d.fake, d.at[i] + at, word());
	for (size_t i = 0; i < 512; i++)
		ms_fake_put(&d.fake, DK_DATA + i * 8, word());
}

Test(kinds_random, less_than_one_block_of_a_hundred_has_a_name)
{
	size_t all = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		size_t named = 0;

		draw(seed);
		drawn_kinds_find(&d);
		for (size_t i = 0; i < d.n; i++)
			named += drawn_kinds_name(&d, d.at[i])[0] != '\0';
		cr_expect_lt(named, MOST_NAMED, "%zu", named);
		all += named;
	}
	cr_log_info("%zu of %d", all, SEEDS * BLOCKS);
}
