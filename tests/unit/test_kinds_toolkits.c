/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of what programs with windows have. */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"

static struct drawn_kinds d;

static void setup_fonts(void)
{
	drawn_kinds_init(&d, "/usr/lib/libfontconfig.so.1");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_fontconfig, .init = setup_fonts, .fini = teardown);

#define assert_name(block, wanted)                                      \
	cr_assert_str_eq(drawn_kinds_name(&d, (block)), (wanted), "%s", \
	                 drawn_kinds_name(&d, (block)))

/* The words at @at, of which there are @n, all matter to what @block is. */
static void assert_each_word_counts(ms_addr at, size_t n, ms_addr block)
{
	cr_assert_neq(drawn_kinds_name(&d, block)[0], '\0');
	cr_assert_eq(drawn_kinds_idle_word(&d, at, n, block), n, "word %zu",
	             drawn_kinds_idle_word(&d, at, n, block));
}

/* ---- fontconfig ---- */

enum { PAGE_BYTES = 8176, EXPR_BYTES = 24 };

/* A page with a string, a number and a sum of both, which is the third. */
static ms_addr draw_page(ms_addr *ret_string)
{
	ms_addr page = drawn_kinds_block(&d, PAGE_BYTES);

	*ret_string = drawn_kinds_block(&d, 3);
	strcpy(ms_fake_at(&d.fake, *ret_string), "ja");
	dk_put(&d, page, 0, page + 16 + 3 * EXPR_BYTES, 2, *ret_string, 0, 0, 7, 0, 31, page + 16,
	       page + 16 + EXPR_BYTES);
	return page;
}

Test(kinds_fontconfig, a_page_has_expressions_up_to_the_next_one)
{
	ms_addr string;
	ms_addr page = draw_page(&string);

	drawn_kinds_find(&d);
	assert_name(page, "FcExprPage");
	assert_name(string, "text");
	assert_each_word_counts(page, 3, page);
	/* The next would stand between two, or none does. */
	ms_fake_put(&d.fake, page + 8, page + 16 + 8);
	drawn_kinds_find(&d);
	assert_name(page, "");
	ms_fake_put(&d.fake, page + 8, page + 16);
	drawn_kinds_find(&d);
	assert_name(page, "");
}

Test(kinds_fontconfig, a_rule_is_known_by_the_expression_of_its_test)
{
	ms_addr string;
	ms_addr page = draw_page(&string);
	ms_addr test = drawn_kinds_block(&d, 24);
	ms_addr rule = drawn_kinds_block(&d, 24);

	dk_put(&d, test, UINT64_C(3) << 32, UINT64_C(22) << 32 | 5, page + 16 + EXPR_BYTES);
	dk_put(&d, rule, 0, 1, test);
	drawn_kinds_find(&d);
	assert_name(rule, "FcRule");
	assert_name(test, "FcTest");
	assert_each_word_counts(rule, 3, rule);
	assert_each_word_counts(test, 1, test);
	assert_each_word_counts(test + 16, 1, test);
	/* There is no expression behind the last, nor in the middle of one. */
	ms_fake_put(&d.fake, test + 16, page + 16 + 3 * EXPR_BYTES);
	drawn_kinds_find(&d);
	assert_name(test, "");
	ms_fake_put(&d.fake, test + 16, page + 16 + 8);
	drawn_kinds_find(&d);
	assert_name(rule, "");
}

Test(kinds_fontconfig, a_rule_may_lead_to_an_edit)
{
	ms_addr string;
	ms_addr page = draw_page(&string);
	ms_addr edit = drawn_kinds_block(&d, 24);
	ms_addr last = drawn_kinds_block(&d, 24);
	ms_addr rule = drawn_kinds_block(&d, 24);

	dk_put(&d, edit, UINT64_C(12) << 32 | 5, page + 16, 1);
	dk_put(&d, last, 0, 2, edit);
	dk_put(&d, rule, last, UINT64_C(0x5555) << 32 | 2, edit);
	drawn_kinds_find(&d);
	assert_name(rule, "FcRule");
	assert_name(edit, "FcEdit");
	assert_each_word_counts(rule, 3, rule);
	assert_each_word_counts(edit + 8, 2, edit);
	/* It is of an object, and no operator is so high. */
	ms_fake_put(&d.fake, edit, UINT64_C(12) << 32);
	drawn_kinds_find(&d);
	assert_name(edit, "");
	ms_fake_put(&d.fake, edit, UINT64_C(64) << 32 | 5);
	drawn_kinds_find(&d);
	assert_name(edit, "");
}

Test(kinds_fontconfig, a_list_begins_with_one_of_its_functions)
{
	ms_addr list = drawn_kinds_block(&d, 16);
	ms_addr first = drawn_kinds_block(&d, 16);
	ms_addr last = drawn_kinds_block(&d, 16);
	ms_addr data = drawn_kinds_block(&d, 200);

	dk_put(&d, list, DK_CODE, first);
	dk_put(&d, first, last, data);
	dk_put(&d, last, 0, data);
	drawn_kinds_find(&d);
	assert_name(list, "FcPtrList");
	assert_name(first, "entry of FcPtrList");
	assert_name(last, "entry of FcPtrList");
	assert_each_word_counts(list, 2, list);
	assert_each_word_counts(first, 2, list);
	assert_each_word_counts(last, 2, last);
}

Test(kinds_fontconfig, a_set_of_rules_has_three_lists)
{
	ms_addr set = drawn_kinds_block(&d, 64);
	ms_addr list[3];

	for (int i = 0; i < 3; i++) {
		list[i] = drawn_kinds_block(&d, 16);
		dk_put(&d, list[i], DK_CODE, 0);
	}
	dk_put(&d, set, 1, drawn_kinds_block(&d, 20), 0, 0, 1, list[0], list[1], list[2]);
	drawn_kinds_find(&d);
	assert_name(set, "FcRuleSet");
	assert_name(list[1], "FcPtrList");
	assert_each_word_counts(set + 8, 7, set);
}

Test(kinds_fontconfig, a_pattern_has_elements_with_values)
{
	ms_addr pattern = drawn_kinds_block(&d, 32);
	ms_addr array = drawn_kinds_block(&d, 4 * 16);
	ms_addr first = drawn_kinds_block(&d, 32);
	ms_addr next = drawn_kinds_block(&d, 32);

	dk_put(&d, pattern, UINT64_C(4) << 32 | 1, array - pattern, 1);
	dk_put(&d, array, 7, first);
	dk_put(&d, first, next, 3, DK_CONSTANTS, 0);
	dk_put(&d, next, 0, 1, 4, 1);
	drawn_kinds_find(&d);
	assert_name(pattern, "FcPattern");
	assert_name(array, "elements of FcPattern");
	assert_name(first, "FcValueList");
	assert_name(next, "FcValueList");
	assert_each_word_counts(pattern, 2, pattern);
	assert_each_word_counts(array + 8, 1, first);
	assert_each_word_counts(first, 2, next);
}
