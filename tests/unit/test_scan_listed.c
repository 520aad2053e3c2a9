/* SPDX-License-Identifier: Apache-2.0 */
/* What the report of a whole scan lists, and what it says of that. */
#include <criterion/criterion.h>
#include <string.h>

#include "classes.h"
#include "drawn_scan.h"

Test(scan_listed, lists_largest_first_then_by_address_up_to_the_limit)
{
	draw(6);
	ms_fake_put(&fake, block(4), block(3));
	scan((struct ms_scan_options){ .limit = 3, .no_merge = true });
	cr_assert_eq(report.leaks.n, 3);
	cr_assert_eq(report.leaks.at[0].address, block(4));
	cr_assert_eq(report.leaks.at[0].total_size, 2 * USABLE);
	cr_assert_eq(report.leaks.at[1].address, block(0));
	cr_assert_eq(report.leaks.at[2].address, block(1));
	cr_assert_eq(report.leaks.at[2].id, 3);
	cr_assert_eq(report.totals.leaks, 5);
	cr_assert_eq(report.totals.direct_allocations, 5);
	cr_assert_eq(report.totals.direct_bytes, 5 * USABLE);
	cr_assert_eq(report.totals.indirect_allocations, 1);
	cr_assert_eq(report.totals.indirect_bytes, USABLE);
	ms_fake_deinit(&fake);
}

Test(scan_listed, lists_each_block_by_itself_without_folding)
{
	draw(3);
	ms_fake_put(&fake, block(2), block(0));
	scan((struct ms_scan_options){ .no_fold = true });
	cr_assert_eq(report.leaks.n, 3);
	cr_assert_eq(report.leaks.at[0].kind, MS_LEAK_INDIRECT);
	cr_assert_eq(report.leaks.at[1].kind, MS_LEAK_DIRECT);
	cr_assert_eq(report.leaks.at[2].kind, MS_LEAK_DIRECT);
	cr_assert_eq(report.leaks.at[2].referenced_count, 0);
	cr_assert_eq(report.totals.leaked_bytes, 3 * USABLE);
	ms_fake_deinit(&fake);
}

Test(scan_listed, knows_each_of_many_blocks_by_its_address)
{
	draw(40);
	scan((struct ms_scan_options){ .no_fold = true });
	cr_assert_eq(report.leaks.n, 40);
	for (unsigned int i = 0; i < 40; i++)
		cr_assert_eq(report.leaks.at[i].address, block(i));
	ms_fake_deinit(&fake);
}

/* Two classes; blocks 0 and 2 are of the first, block 1 of the second. */
static void draw_classes(void)
{
	draw(4);
	classes_map(&fake, LIBRARY, "/lib/libshop.so");
	classes_add(&fake, LIBRARY, 0, "4Item");
	classes_add(&fake, LIBRARY, 1, "4Book");
	ms_fake_put(&fake, block(0), classes_vtable(LIBRARY, 0));
	ms_fake_put(&fake, block(1), classes_vtable(LIBRARY, 1));
	ms_fake_put(&fake, block(2), classes_vtable(LIBRARY, 0));
}

Test(scan_listed, tells_the_types_of_the_leaks_it_lists)
{
	draw_classes();
	scan((struct ms_scan_options){ .no_merge = true });
	cr_assert_eq(report.types.n, 2);
	cr_assert_str_eq(report.types.at[report.leaks.at[0].type - 1].name, "Item");
	cr_assert_str_eq(report.types.at[report.leaks.at[1].type - 1].name, "Book");
	cr_assert_str_eq(report.types.at[report.leaks.at[2].type - 1].name, "Item");
	cr_assert_str_eq(report.types.at[0].module, "/lib/libshop.so");
	cr_assert_eq(report.leaks.at[3].type, 0);
	cr_assert_eq(report.suppressed.n, 0);
	ms_fake_deinit(&fake);
}

Test(scan_listed, has_no_types_in_the_report_but_those_of_leaks_listed)
{
	draw_classes();
	scan((struct ms_scan_options){ .limit = 1, .no_merge = true });
	cr_assert_eq(report.types.n, 1);
	cr_assert_eq(report.totals.leaks, 4);
	ms_fake_deinit(&fake);
}

Test(scan_listed, suppresses_possible_leaks_as_it_does_others)
{
	struct ms_suppression items = { "^Item$", "file", 1 };
	struct ms_suppression nothing = { "nothing", "file", 2 };
	struct ms_suppression both[] = { items, nothing };
	struct ms_suppressions suppressions = { both, 2, 2 };

	draw_classes();
	ms_fake_put(&fake, DATA, block(0) + 8);     /* possible, with what it holds */
	ms_fake_put(&fake, block(0) + 8, block(3)); /* as here */
	ms_fake_put(&fake, NODE, block(1));         /* possible */
	scan((struct ms_scan_options){ .possible = true, .suppressions = &suppressions });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(1));
	cr_assert_eq(report.totals.possible_allocations, 1);
	cr_assert_eq(report.totals.leaked_allocations, 0);
	cr_assert_eq(report.totals.suppressed_allocations, 3);
	cr_assert_eq(report.suppressed.n, 2);
	cr_assert_eq(report.suppressed.at[0].allocations, 2);
	cr_assert_eq(report.suppressed.at[0].bytes, 2 * USABLE);
	cr_assert_eq(report.warnings.n, 1);
	ms_fake_deinit(&fake);
}

Test(scan_listed, leaves_small_leaks_out_of_the_list_but_counts_them)
{
	draw(3);
	ms_fake_put(&fake, block(1), block(2));
	scan((struct ms_scan_options){ .min_size = 2 * USABLE });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(1));
	cr_assert_eq(report.totals.leaked_allocations, 3);
	cr_assert_eq(report.totals.leaks, 2);
	cr_assert_eq(report.totals.small_leaks, 1);
	ms_fake_deinit(&fake);
}

/* Blocks 0 and 1 are a leak, 2 and 3 two more; 4 and 5 are a possible one, 6 another. */
Test(scan_listed, counts_apart_what_is_not_listed_and_why)
{
	static const struct {
		struct ms_scan_options options;
		struct ms_unlisted unlisted;
	} cases[] = {
		{ { .possible = true }, { 0, 0, 0, 0 } },
		{ { .possible = true, .limit = 3 }, { 1, 1, 0, 0 } },
		{ { .possible = true, .min_size = 2 * USABLE }, { 0, 0, 2, 1 } },
		{ { .possible = true, .min_size = 2 * USABLE, .limit = 1 }, { 0, 1, 2, 1 } },
		{ { .limit = 1 }, { 2, 0, 0, 0 } },
		{ { .min_size = 1000 }, { 0, 0, 3, 0 } },
		{ { .no_fold = true, .possible = true, .limit = 1, .min_size = USABLE },
		  { 3, 3, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int stacks = 0; stacks < 2; stacks++) {
			struct ms_scan_options options = cases[i].options;
			struct ms_unlisted unlisted;

			draw(7);
			allocators = stacks ? "abcdefg" : NULL;
			ms_fake_put(&fake, block(0), block(1));
			ms_fake_put(&fake, DATA, block(4) + 8);
			ms_fake_put(&fake, block(4), block(5));
			ms_fake_put(&fake, DATA + 8, block(6) + 8);
			options.no_merge = !stacks;
			scan(options);
			unlisted = ms_report_unlisted(&report);
			cr_expect_arr_eq(&unlisted, &cases[i].unlisted, sizeof(unlisted),
			                 "%zu: %d %d %d %d", i, (int)unlisted.leaks,
			                 (int)unlisted.possible, (int)unlisted.small_leaks,
			                 (int)unlisted.small_possible);
			ms_fake_deinit(&fake);
		}
}

Test(scan_listed, shows_contents_only_when_asked)
{
	for (int contents = 0; contents < 2; contents++) {
		draw(1);
		memcpy(ms_fake_at(&fake, block(0)), "what it holds", 13);
		scan((struct ms_scan_options){ .contents = contents });
		cr_assert_eq(report.leaks.at[0].contents_len, contents ? 32 : 0);
		cr_assert_eq(!memcmp(report.leaks.at[0].contents, "what it holds", 13), contents);
		ms_fake_deinit(&fake);
	}
}

Test(scan_listed, shows_no_more_than_the_block_or_its_first_bytes)
{
	for (usable = 8; usable <= 48; usable += 40) {
		uint64_t size = usable;

		draw(1);
		usable = size;
		scan((struct ms_scan_options){ .contents = true });
		cr_assert_eq(report.leaks.at[0].contents_len,
		             size < MS_CONTENTS ? size : MS_CONTENTS);
		ms_fake_deinit(&fake);
	}
}

/* ---- where blocks were allocated ---- */

Test(scan_listed, makes_one_leak_of_blocks_of_the_same_calls)
{
	draw(5);
	allocators = "xyxzx";
	ms_fake_put(&fake, DATA, block(2));
	ms_fake_put(&fake, block(1), block(3));
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 2);
	cr_assert_eq(report.leaks.at[0].address, block(0));
	cr_assert_eq(report.leaks.at[0].similar_count, 1);
	cr_assert_eq(report.leaks.at[0].similar_size, USABLE);
	cr_assert_eq(report.leaks.at[0].total_size, 2 * USABLE);
	cr_assert_eq(report.leaks.at[1].address, block(1));
	cr_assert_eq(report.leaks.at[1].referenced_count, 1);
	cr_assert_eq(report.totals.leaks, 2);
	cr_assert_eq(report.totals.leaked_allocations, 4);
	cr_assert_eq(report.stacks.n, 2);
	cr_assert_eq(report.pcs.at[0], MODULE + 16 * ('x' - 'a'));
	cr_assert_eq(report.code.n, 2);
	cr_assert_str_eq(report.code.at[0].name, "/bin/p");
	cr_assert_eq(report.code.at[1].range.begin, DATA);
	ms_fake_deinit(&fake);
}

Test(scan_listed, keeps_leaks_of_other_reasons_apart)
{
	draw(5);
	allocators = "xxxxx";
	ms_fake_put(&fake, DATA, block(1) + 8);
	ms_fake_put(&fake, DATA + 8, block(3) + 8);
	ms_fake_put(&fake, NODE, block(2));
	scan((struct ms_scan_options){ .possible = true });
	cr_assert_eq(report.leaks.n, 3);
	cr_assert_eq(report.leaks.at[0].address, block(0));
	cr_assert_eq(report.leaks.at[0].kind, MS_LEAK_DIRECT);
	cr_assert_eq(report.leaks.at[0].similar_count, 1);
	cr_assert_eq(report.leaks.at[1].address, block(1));
	cr_assert_eq(report.leaks.at[1].reason, MS_REASON_INTERIOR);
	cr_assert_eq(report.leaks.at[1].similar_count, 1);
	cr_assert_eq(report.leaks.at[2].address, block(2));
	cr_assert_eq(report.leaks.at[2].reason, MS_REASON_MAPPING);
	cr_assert_eq(report.leaks.at[2].similar_count, 0);
	cr_assert_eq(report.stacks.n, 1);
	ms_fake_deinit(&fake);
}

/* The same as of those with a stack; blocks 1 and 3 hold something, and nothing holds 5. */
Test(scan_listed, makes_one_leak_of_one_signature)
{
	draw(6);
	ms_fake_put(&fake, DATA, block(0));
	ms_fake_put(&fake, block(1), block(2));
	ms_fake_put(&fake, block(3), block(4));
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 2);
	cr_assert_eq(report.leaks.at[0].address, block(1));
	cr_assert_eq(report.leaks.at[0].referenced_count, 1);
	cr_assert_eq(report.leaks.at[0].similar_count, 1);
	cr_assert_eq(report.leaks.at[0].similar_referenced_size, USABLE);
	cr_assert_eq(report.leaks.at[1].address, block(5));
	cr_assert_str_neq(report.leaks.at[0].signature, report.leaks.at[1].signature);
	cr_assert_eq(report.totals.direct_allocations, 3);
	cr_assert_eq(report.totals.leaks, 2);
	ms_fake_deinit(&fake);
}

Test(scan_listed, keeps_one_signature_of_other_reasons_apart)
{
	draw(5);
	ms_fake_put(&fake, DATA, block(1) + 8);
	ms_fake_put(&fake, DATA + 8, block(3) + 8);
	ms_fake_put(&fake, NODE, block(2));
	scan((struct ms_scan_options){ .possible = true });
	cr_assert_eq(report.leaks.n, 3);
	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(report.leaks.at[i].similar_count, i < 2 ? 1 : 0);
		cr_assert_str_eq(report.leaks.at[i].signature, report.leaks.at[0].signature);
	}
	cr_assert_eq(report.leaks.at[1].reason, MS_REASON_INTERIOR);
	cr_assert_eq(report.leaks.at[2].reason, MS_REASON_MAPPING);
	cr_assert_eq(report.totals.leaks, 3);
	cr_assert_eq(report.totals.possible, 2);
	ms_fake_deinit(&fake);
}

/* Entries, not blocks, are small, and cut off. */
Test(scan_listed, counts_entries_of_one_signature_that_are_not_listed)
{
	static const struct {
		struct ms_scan_options options;
		struct ms_unlisted unlisted;
	} cases[] = {
		{ { .min_size = 2 * USABLE }, { 0, 0, 0, 0 } },
		{ { .min_size = 3 * USABLE }, { 0, 0, 1, 0 } },
		{ { .min_size = 3 * USABLE, .no_merge = true }, { 0, 0, 5, 0 } },
		{ { .limit = 1 }, { 1, 0, 0, 0 } },
		{ { .limit = 1, .no_merge = true }, { 4, 0, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_unlisted unlisted;

		draw(5);
		ms_fake_put(&fake, block(1), NODE);
		ms_fake_put(&fake, block(3), NODE);
		ms_fake_put(&fake, block(4), NODE);
		scan(cases[i].options);
		unlisted = ms_report_unlisted(&report);
		cr_expect_arr_eq(&unlisted, &cases[i].unlisted, sizeof(unlisted), "%zu", i);
		ms_fake_deinit(&fake);
	}
}

Test(scan_listed, lists_stacks_of_listed_leaks_alone)
{
	draw(4);
	allocators = "wxyz";
	scan((struct ms_scan_options){ .limit = 2 });
	cr_assert_eq(report.leaks.n, 2);
	cr_assert_eq(report.stacks.n, 2);
	cr_assert_eq(report.pcs.n, 4);
	cr_assert_eq(report.totals.leaks, 4);
	ms_fake_deinit(&fake);
}

/* The question shows code; what is suppressed is the stack whose first frame is x's. */
static bool suppress_x(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                       struct ms_error *err)
{
	(void)ctx;
	(void)err;
	cr_assert_eq(asked->code.n, 2);
	for (size_t i = 0; i < asked->stacks.n; i++)
		verdicts[i] = asked->pcs.at[asked->stacks.at[i].first] ==
		              MODULE + 16 * (ms_addr)('x' - 'a');
	return true;
}

Test(scan_listed, suppresses_what_the_judge_says)
{
	struct ms_suppression pattern = { "x", "file", 1 };
	const struct ms_suppressions suppressions = { &pattern, 1, 1 };

	draw(4);
	allocators = "yxyx";
	ms_fake_put(&fake, block(3), block(0));
	scan((struct ms_scan_options){ .suppressions = &suppressions, .judge = suppress_x });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(2));
	cr_assert_eq(report.totals.suppressed_allocations, 3);
	cr_assert_eq(report.suppressed.at[0].allocations, 2);
	cr_assert_eq(report.warnings.n, 0);
	ms_fake_deinit(&fake);
}
