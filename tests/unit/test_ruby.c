/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "drawn_kinds.h"
#include "engine/kinds/ruby.h"

/* A page of Ruby's heap with four slots at PAGE, and the block that describes it. */

#define PAGE (DK_HEAP + 0x80000)

enum { SLOT = 40, SLOTS = 4, START = 8, ADDRESS = 24 };

static struct drawn_kinds d;
static ms_addr description;

static void setup_with(const char *library)
{
	drawn_kinds_init(&d, library);
	description = drawn_kinds_block(&d, 128);
	dk_put(&d, PAGE, description);
	dk_put(&d, description, UINT64_C(2) << 32 | SLOTS << 16 | SLOT, 0, 0, 0, PAGE + START,
	       PAGE + START + SLOT);
	for (uint64_t i = 0; i < SLOTS; i++)
		dk_put(&d, PAGE + START + i * SLOT, i % 2 ? 0 : 0x402005, 0, 0, DK_HEAP + 16);
}

static void setup(void)
{
	setup_with("/usr/lib/libruby-3.1.so.3.1.2");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(ruby, .init = setup, .fini = teardown);

/* A bit for each slot of which the address is hidden. */
static unsigned hidden_slots(void)
{
	struct ms_ranges hidden = { 0 };
	unsigned set = 0;

	drawn_kinds_find(&d);
	cr_assert_eq(ms_ruby_find(&d.blocks, &d.roots, &hidden), MS_OK);
	cr_assert(ms_ranges_tidy(&d.found, &hidden));
	for (unsigned i = 0; i < SLOTS; i++)
		if (ms_range_find(&hidden, PAGE + START + i * SLOT + ADDRESS))
			set |= 1U << i;
	return set;
}

Test(ruby, slots_without_flags_are_free)
{
	cr_expect_eq(hidden_slots(), 0xa);
}

Test(ruby, a_page_without_free_slots_may_have_no_list)
{
	ms_fake_put(&d.fake, description + 40, 0);
	cr_expect_eq(hidden_slots(), 0xa);
}

Test(ruby, is_not_where_its_library_is_not)
{
	drawn_kinds_deinit(&d);
	setup_with("/usr/lib/libother.so");
	cr_expect_eq(hidden_slots(), 0);
}

Test(ruby, a_page_is_known_by_all_of_its_description)
{
	static const struct {
		const char *what;
		ms_addr at; /* in the description */
		uint64_t word;
	} cases[] = {
		{ "slots of no such size", 0, SLOTS << 16 | 48 },
		{ "slots of no size", 0, SLOTS << 16 },
		{ "slots too large", 0, SLOTS << 16 | 17 * SLOT },
		{ "no slots", 0, SLOT },
		{ "more slots than there is room for", 0, UINT64_C(1700) << 16 | SLOT },
		{ "more free ones than there are", 0, UINT64_C(5) << 32 | SLOTS << 16 | SLOT },
		{ "a start in front of it", 32, PAGE },
		{ "a start elsewhere", 32, PAGE + 0x4000 },
		{ "a start at no word", 32, PAGE + START + 4 },
		{ "a list elsewhere", 40, PAGE + START + SLOTS * SLOT },
		{ "a list between slots", 40, PAGE + START + 8 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t *word = ms_fake_at(&d.fake, description + cases[i].at);
		uint64_t old = *word;

		*word = cases[i].word;
		cr_expect_eq(hidden_slots(), 0, "%s", cases[i].what);
		*word = old;
	}
	dk_put(&d, PAGE, description + 16);
	cr_expect_eq(hidden_slots(), 0, "no block begins there");
}
