/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "classes.h"
#include "engine/loaded/aims.h"

/*
 * Which words of a group of blocks their owner wrote. A heap is drawn as slots of 64 bytes, 16
 *bytes apart:
 *
 *	m   a member of the group
 *	o   another block
 *	f   free memory
 *
 * with the slot's first words behind: those of the alphabet below.
 */

enum { PAGE = 4096, RW = MS_PROT_READ | MS_PROT_WRITE, SLOT = 64, EACH = 80, HEAP_PAGES = 4 };

static const ms_addr heap = 0x7e0000000000;
static const ms_addr shop = 0x7f0000100000;
static const ms_addr other = 0x7f0000200000;

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_blocks blocks;
static struct ms_members members;
static struct ms_aimed group;
static struct ms_aimer *aimer;

static uint64_t word_of(char letter)
{
	switch (letter) {
	case 'c': /* code and constants of the shop */
		return shop + PAGE + 0x80;
	case 'k':
		return shop + CLASSES_TABLES + 0x908;
	case 'C':
		return other + PAGE + 0x80;
	case 'h': /* its ELF header, its .eh_frame_hdr */
		return shop;
	case 'u':
		return shop + CLASSES_TABLES + 0xa00;
	case 'd': /* its data */
		return shop + (ms_addr)3 * PAGE + 8;
	case 'T': /* text, and how it ends */
		return 0x7478657420746f6e;
	case 'e':
		return 0x646e65;
	default:
		return 0;
	}
}

static void init(void)
{
	struct ms_error err;

	memset(&regions, 0, sizeof(regions));
	ms_fake_init(&fake);
	ms_fake_map(&fake, heap, (size_t)HEAP_PAGES * PAGE, RW, "");
	classes_map(&fake, shop, "/usr/lib/libshop.so.1");
	classes_map(&fake, other, "/usr/lib/libother.so");
	memcpy(ms_fake_at(&fake, word_of('h')), "\177ELF", 4);
	memcpy(ms_fake_at(&fake, word_of('u')), "\1\x1b\3\x3b", 4);
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	members = (struct ms_members){ .every = 1 };
	group = (struct ms_aimed){ .size = SLOT, .n = 1 };
}

static void deinit(void)
{
	ms_fake_deinit(&fake);
}

TestSuite(aims, .init = init, .fini = deinit);

static void add_member(ms_addr at)
{
	if (!group.address) {
		group.address = at;
		return;
	}
	group.members = &members;
	group.n++;
	ms_members_add(&members, at);
}

static void draw(const char *picture)
{
	struct ms_range range = { heap, heap + (ms_addr)(HEAP_PAGES - 1) * PAGE };
	ms_addr at = heap;
	uint32_t extent;

	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert_eq(ms_blocks_open(&blocks, range, 4, &extent), MS_OK);
	while (*picture) {
		char kind = *picture++;

		for (size_t i = 0; *picture && *picture != ' '; i++)
			ms_fake_put(&fake, at + 8 * i, word_of(*picture++));
		if (kind != 'f')
			cr_assert_eq(ms_blocks_put(&blocks, extent, at, SLOT), MS_OK);
		if (kind == 'm')
			add_member(at);
		picture += *picture == ' ';
		at += EACH;
	}
	cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	aimer = ms_aimer_new(&blocks, &regions, &fake.arena);
	cr_assert(aimer);
}

/* Of each aim its standing: seen, shared or its own. */
static const char *standings(void)
{
	static char text[MS_AIM_WORDS + 1];
	struct ms_aims aims;

	ms_aims_find(aimer, &group, &aims);
	for (size_t i = 0; i < aims.n; i++)
		text[i] = ".so"[aims.at[i].standing];
	text[aims.n] = '\0';
	return text;
}

struct aims_case {
	char title[64];
	char picture[160];
	char standings[16];
};

static struct aims_case cases[] = {
	{ "nothing points anywhere", "m--d", "" },
	{ "one block", "m-c-k", "oo" },
	{ "loaders and unwinders point there", "m-huk", "o" },
	{ "the same in all", "m-c m-c m-c", "o" },
	{ "one of few has it", "m-c m- m-", "." },
	{ "one of few lacks it", "m-ck m-- m-ck", ".." },
	{ "elsewhere in each", "m-c m--c m---c", "." },
	{ "another word of the same module", "m-c m-k m-c", "s" },
	{ "of another module", "m-c m-C m-c", "." },
	{ "one of many lacks it",
	  "m-c m-c m-c m-c m-c m-c m-c m-c m- m-c m-c m-c m-c m-c m-c m-c m-c", "o" },
	{ "two of many lack it",
	  "m-c m-c m-c m-c m-c m-c m-c m-c m- m- m-c m-c m-c m-c m-c m-c m-c", "." },
	{ "free memory has it", "m-c m-c f-c", "s" },
	{ "free memory in front", "f-c m-c m-c", "s" },
	{ "free memory between", "m-c f-c m-c", "s" },
	{ "free memory of several blocks", "o m-c o f f f--- f-c", "s" },
	{ "free memory has one of two", "m-ck m-ck f-c", "so" },
	{ "free memory has another word", "m-c m-c f-k", "o" },
	{ "free memory has it where no block of that size fits", "m-c f-----c o m-c o", "o" },
	{ "a block in use has it", "m-c m-c o-c", "o" },
	{ "four gaps away", "m-c o f o f o f o f-c o", "s" },
	{ "behind a text", "mTe-c mTe-c", "s" },
	{ "in front of a text", "m-cTe m-cTe", "o" },
};

ParameterizedTestParameters(aims, are_those_of_the_owner)
{
	return cr_make_param_array(struct aims_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct aims_case *c, aims, are_those_of_the_owner, .init = init, .fini = deinit)
{
	draw(c->picture);
	for (int no_view = 0; no_view < 2; no_view++) {
		fake.no_view = no_view;
		cr_expect_str_eq(standings(), c->standings, "%s: %s", c->title, standings());
	}
}

/* The allocator's memory goes on where no block is yet. */
Test(aims, free_memory_behind_the_last_extent_counts)
{
	draw("m-c m-c");
	ms_fake_put(&fake, heap + (ms_addr)(HEAP_PAGES - 1) * PAGE + PAGE / 2, word_of('k'));
	cr_expect_str_eq(standings(), "o");
	ms_fake_put(&fake, heap + (ms_addr)HEAP_PAGES * PAGE - 0x80 + 8, word_of('c'));
	cr_expect_str_eq(standings(), "s");
}

Test(aims, of_a_part_of_the_leaks_of_one_size_are_doubted)
{
	draw("m-c");
	group.n = 15;
	cr_assert(ms_aimer_add_plain(aimer, SLOT, 1));
	cr_expect_str_eq(standings(), "o", "one in sixteen");
	cr_assert(ms_aimer_add_plain(aimer, SLOT, 1));
	cr_expect_str_eq(standings(), "s");
	group.n = 30;
	cr_expect_str_eq(standings(), "o", "two in thirty-two");
	cr_assert(ms_aimer_add_plain(aimer, SLOT + 1, 100));
	cr_expect_str_eq(standings(), "o", "of another size");
	cr_assert(ms_aimer_add_plain(aimer, SLOT, 100));
	cr_expect_str_eq(standings(), "s");
}

/* A list of many that are alike goes on when the steps are spent; what is new is not proved. */
Test(aims, are_judged_as_the_last_in_the_end)
{
	enum { MANY = 1 << 16 };
	size_t n = 0;

	draw("m-c o-c f-k o-ck f-k");
	for (size_t i = 0; i < MANY; i++)
		n += !strcmp(standings(), "o");
	cr_assert_eq(n, MANY);
	group.address += EACH;
	cr_expect_str_eq(standings(), "o");
	group.address += 2 * EACH;
	cr_expect_str_eq(standings(), "ss");
	group.address -= 2 * EACH;
	group.size -= 8;
	cr_expect_str_eq(standings(), "s");
}

Test(aims, nothing_is_read_for_a_block_without_any)
{
	size_t before;

	draw("m--- m-c f-c");
	fake.no_view = true;
	before = fake.reads;
	cr_expect_str_eq(standings(), "");
	cr_expect_leq(fake.reads - before, 1);
}

Test(aims, members_are_kept_at_even_distances)
{
	for (ms_addr i = 0; i < 1000; i++)
		ms_members_add(&members, i);
	cr_assert_eq(members.n, 16);
	cr_assert_eq(members.every, 64);
	for (size_t i = 0; i < members.n; i++)
		cr_expect_eq(members.at[i], i * 64);
	cr_expect_eq(members.last, 999);
}
