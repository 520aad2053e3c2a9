/* SPDX-License-Identifier: Apache-2.0 */
/* A whole scan: what counts as a root, and what becomes of what no root reaches. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "drawn_scan.h"

Test(scan, takes_globals_stack_registers_and_kernel_words_for_roots)
{
	uint64_t words[] = { 0, block(2) };
	uint64_t kernel = block(3);
	uint64_t *slot;

	draw(5);
	ms_fake_put(&fake, DATA + 8, block(0));
	ms_fake_put(&fake, STACK + PAGE / 2 + 16, block(1));
	fake.base.threads.at[0].words = words;
	fake.base.threads.at[0].n_words = 2;
	slot = ms_vec_push(&fake.arena, &fake.base.kernel_words);
	*slot = kernel;
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(4));
	cr_assert_eq(report.totals.allocations, 5);
	cr_assert_eq(report.totals.allocation_bytes, 5 * USABLE);
	cr_assert_eq(report.warnings.n, 0);
	cr_assert_eq(report.evidence.n, 1);
	ms_fake_deinit(&fake);
}

Test(scan, takes_break_memory_around_the_heap_for_roots)
{
	draw(3);
	ms_fake_put(&fake, HEAP - 8, block(0));
	ms_fake_put(&fake, HEAP + PAGE, block(1));
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(2));
	ms_fake_deinit(&fake);
}

Test(scan, keeps_a_threads_table_of_dynamic_storage)
{
	draw(2);
	fake.base.abi = ms_fake_abi_x86_64;
	fake.base.threads.at[0].tp = NODE;
	ms_fake_put(&fake, NODE + 8, block(1) + 16);
	scan((struct ms_scan_options){ .possible = true });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(0));
	cr_assert(report.possible);
	ms_fake_deinit(&fake);
}

Test(scan, knows_the_secret_that_frame_pointers_are_mangled_with)
{
	const uint64_t guard = 0x9d1f3a5b7c2e4f60;
	uint64_t mangled = block(0) ^ guard;

	draw(1);
	fake.base.abi = ms_fake_abi_x86_64;
	fake.base.threads.at[0].tp = NODE;
	ms_fake_put(&fake, NODE + 0x30, guard);
	ms_fake_put(&fake, DATA, mangled << 17 | mangled >> 47);
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 0);
	ms_fake_deinit(&fake);
}

/* A root, a block, a lost mapping and a leak that point from odd addresses. */
Test(scan, looks_at_odd_addresses_all_over_when_asked)
{
	draw(5);
	ms_fake_put(&fake, DATA + 5, block(0));
	ms_fake_put(&fake, block(0) + 3, block(1));
	ms_fake_put(&fake, NODE + 1, block(2));
	ms_fake_put(&fake, block(3) + 1, block(4));
	scan((struct ms_scan_options){ .unaligned = true, .possible = true });
	cr_assert_eq(report.leaks.n, 2);
	cr_assert_eq(report.leaks.at[0].address, block(3));
	cr_assert_eq(report.leaks.at[0].referenced_count, 1);
	cr_assert_eq(report.leaks.at[1].address, block(2));
	cr_assert_eq(report.leaks.at[1].reason, MS_REASON_MAPPING);
	ms_fake_deinit(&fake);
}

/* A page mapped right behind the page at NODE: one piece of memory with it, or not. */
Test(scan, takes_neighbours_that_are_alike_for_one_mapping)
{
	static const struct {
		const char *name;
		int prot;
		bool shared;
		size_t n;
		size_t first_len;
	} cases[] = {
		{ "", RW, false, 1, 2 * PAGE },   { "", MS_PROT_READ, false, 2, PAGE },
		{ "", RW, true, 2, PAGE },        { "/var/data", RW, false, 2, PAGE },
		{ "[vvar]", RW, false, 1, PAGE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw(0);
		ms_fake_map(&fake, NODE + PAGE, PAGE, cases[i].prot, cases[i].name);
		fake.base.mappings.at[fake.base.mappings.n - 1].shared = cases[i].shared;
		scan((struct ms_scan_options){ 0 });
		cr_expect_eq(report.mappings.n, cases[i].n, "case %zu", i);
		cr_expect_eq(ms_range_len(report.mappings.at[0].range), cases[i].first_len,
		             "case %zu", i);
		cr_expect_str_eq(report.mappings.at[report.mappings.n - 1].name,
		                 cases[i].n == 1 ? "" : cases[i].name);
		ms_fake_deinit(&fake);
	}
}

Test(scan, passes_over_mappings_that_hold_nothing)
{
	draw(0);
	fake.absent[fake.base.mappings.n - 1] = true;
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.mappings.n, 0);
	ms_fake_deinit(&fake);
}

Test(scan, measures_its_phases_one_after_the_other)
{
	uint64_t began = ms_now_ns();
	uint64_t sum = 0;

	draw(5);
	scan((struct ms_scan_options){ 0 });
	for (int i = 0; i < MS_PHASES; i++)
		sum += report.scan.phase_ns[i];
	cr_assert_gt(sum, 0);
	cr_assert_leq(sum, ms_now_ns() - began);
	cr_assert_str_eq(ms_phase_name(MS_PHASE_FOLD), "fold");
	ms_fake_deinit(&fake);
}

Test(scan, does_not_look_below_the_red_zone)
{
	draw(2);
	ms_fake_put(&fake, STACK + PAGE / 2 - fake.base.abi.red_zone_bytes, block(0));
	ms_fake_put(&fake, STACK + PAGE / 2 - fake.base.abi.red_zone_bytes - 8, block(1));
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(1));
	ms_fake_deinit(&fake);
}

Test(scan, calls_possible_what_only_a_lost_mapping_holds)
{
	for (int possible = 0; possible < 2; possible++) {
		draw(3);
		ms_fake_put(&fake, NODE, block(0));
		ms_fake_put(&fake, block(0), block(1));
		scan((struct ms_scan_options){ .possible = possible });
		cr_assert_eq(report.mappings.n, 1);
		cr_assert_eq(report.mappings.at[0].range.begin, NODE);
		cr_assert_eq(report.totals.leaked_allocations, 1);
		cr_assert_eq(report.totals.possible_allocations, possible ? 2 : 0);
		cr_assert_eq(report.leaks.n, possible ? 2 : 1);
		if (possible) {
			cr_assert_eq(report.leaks.at[0].kind, MS_LEAK_POSSIBLE);
			cr_assert_eq(report.leaks.at[0].reason, MS_REASON_MAPPING);
			cr_assert_eq(report.leaks.at[0].address, block(0));
			cr_assert_eq(report.leaks.at[0].referenced_count, 1);
		}
		ms_fake_deinit(&fake);
	}
}

Test(scan, reads_a_mapping_once_a_root_reaches_it)
{
	draw(1);
	ms_fake_put(&fake, DATA, NODE + 100);
	ms_fake_put(&fake, NODE + 8, block(0));
	scan((struct ms_scan_options){ .possible = true });
	cr_assert_eq(report.mappings.n, 0);
	cr_assert_eq(report.leaks.n, 0);
	ms_fake_deinit(&fake);
}

Test(scan, calls_possible_what_only_interior_pointers_hold)
{
	draw(3);
	ms_fake_put(&fake, DATA, block(0) + 8);
	ms_fake_put(&fake, block(0), block(1));
	scan((struct ms_scan_options){ .possible = true });
	cr_assert_eq(report.totals.leaked_allocations, 1);
	cr_assert_eq(report.totals.possible_allocations, 2);
	cr_assert_eq(report.totals.possible_bytes, 2 * USABLE);
	cr_assert_eq(report.leaks.at[0].reason, MS_REASON_INTERIOR);
	cr_assert_eq(report.leaks.at[0].address, block(0));
	ms_fake_deinit(&fake);
}

/* Of threads that could not be asked for their stacks, and of memory that could not be read. */
Test(scan, calls_possible_what_may_be_held_where_nobody_could_look)
{
	static const uint64_t rows[][3] = { { USABLE, 0, MS_REASON_SIGNAL_STACK },
		                            { USABLE + 1, 0, MS_REASON_NONE },
		                            { 0, 4096, MS_REASON_UNSEEN } };

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		draw(4);
		ms_fake_put(&fake, DATA, block(0));
		ms_fake_put(&fake, block(2), block(1));
		fake.base.unknown_stack_bytes = rows[r][0];
		cr_assert(!rows[r][1] ||
		          ms_ranges_add(&fake.arena, &fake.base.unseen, DATA, DATA + rows[r][1]));
		scan((struct ms_scan_options){ .possible = true });
		cr_assert_eq(report.totals.leaked_allocations, rows[r][2] ? 0 : 3);
		cr_assert_eq(report.totals.possible_allocations, rows[r][2] ? 3 : 0);
		for (size_t i = 0; i < report.leaks.n; i++)
			cr_assert_eq(report.leaks.at[i].reason, rows[r][2]);
		cr_assert_eq(report.warnings.n, rows[r][1] ? 1 : 0);
		ms_fake_deinit(&fake);
	}
}

/* Four lost blocks of one size, two of them under one of these; each request may hold one. */
Test(scan, calls_possible_what_requests_may_hold)
{
	static const uint64_t rows[][3] = { /* requests, leaks, warnings */
		                            { 0, 4, 0 },
		                            { 1, 4, 1 },
		                            { 2, 0, 1 },
		                            { 9, 0, 1 }
	};

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		draw(5);
		ms_fake_put(&fake, DATA, block(0));
		ms_fake_put(&fake, block(2), block(1));
		ms_fake_put(&fake, block(2) + 8, block(4));
		fake.base.n_requests = rows[r][0];
		scan((struct ms_scan_options){ .possible = true });
		cr_expect_eq(report.totals.leaked_allocations, rows[r][1]);
		cr_expect_eq(report.totals.possible_allocations, 4 - rows[r][1]);
		for (size_t i = 0; i < report.leaks.n; i++)
			cr_expect_eq(report.leaks.at[i].reason,
			             rows[r][1] ? MS_REASON_NONE : MS_REASON_REQUESTS);
		cr_expect_eq(report.warnings.n, rows[r][2]);
		ms_fake_deinit(&fake);
	}
}

/* A pattern of fontconfig (engine/graph/fontconfig.h), its array and a value; and a leak. */
Test(scan, calls_possible_what_only_distances_hold)
{
	for (int possible = 0; possible <= 1; possible++) {
		draw(4);
		ms_fake_put(&fake, DATA, block(0));
		ms_fake_put(&fake, block(0), UINT64_C(2) << 32 | 1);
		ms_fake_put(&fake, block(0) + 8, SLOT);
		ms_fake_put(&fake, block(1), 1);
		ms_fake_put(&fake, block(1) + 8, block(2));
		scan((struct ms_scan_options){ .possible = possible });
		cr_assert_eq(report.totals.leaked_allocations, 1);
		cr_assert_eq(report.totals.possible_allocations, possible ? 2 : 0);
		cr_assert_eq(report.leaks.n, possible ? 2 : 1);
		cr_assert_eq(report.leaks.at[possible].address, block(3));
		cr_assert_eq(report.leaks.at[possible].reason, MS_REASON_NONE);
		if (possible) {
			cr_assert_eq(report.leaks.at[0].reason, MS_REASON_RELATIVE);
			cr_assert_eq(report.leaks.at[0].address, block(1));
			cr_assert_eq(report.leaks.at[0].referenced_count, 1);
		}
		cr_assert_eq(report.warnings.n, 1);
		cr_assert(strstr(report.warnings.at[0].text,
		                 "64 bytes in 2 allocations are possible"));
		cr_assert_eq(strstr(report.warnings.at[0].text, "--possible") == NULL, possible);
		ms_fake_deinit(&fake);
	}
}

Test(scan, keeps_possible_leaks_and_certain_ones_apart)
{
	draw(4);
	ms_fake_put(&fake, DATA, block(0));         /* alive */
	ms_fake_put(&fake, block(0), block(1) + 8); /* possible */
	ms_fake_put(&fake, DATA + 8, block(3) + 8); /* possible */
	ms_fake_put(&fake, block(2), block(1));     /* a leak, of the same size */
	scan((struct ms_scan_options){ .possible = true, .no_merge = true });
	cr_assert_eq(report.leaks.n, 3);
	for (uint64_t i = 0; i < 3; i++) {
		cr_assert_eq(report.leaks.at[i].address, block((unsigned int)i + 1));
		cr_assert_eq(report.leaks.at[i].referenced_count, 0);
		cr_assert_eq(report.leaks.at[i].kind, i == 1 ? MS_LEAK_DIRECT : MS_LEAK_POSSIBLE);
	}
	ms_fake_deinit(&fake);
}

Test(scan, keeps_the_block_that_a_thread_has_its_stack_in)
{
	draw(1);
	fake.base.threads.at[0].sp = block(0) + 16 + fake.base.abi.red_zone_bytes;
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 0);
	ms_fake_deinit(&fake);
}

/* The stack's block holds what is below: its control block, or nothing any more. */
Test(scan, calls_possible_what_only_a_block_below_a_stack_in_it_holds)
{
	draw(5);
	usable = SLOT;
	ms_fake_put(&fake, block(0), block(1));
	ms_fake_put(&fake, block(1), block(2));
	ms_fake_put(&fake, block(3), block(4)); /* behind the stack's block, so no part of it */
	fake.base.abi.red_zone_bytes = 16;
	ms_fake_thread(&fake, 2, block(0) + 32 + 16, 0);
	scan((struct ms_scan_options){ .possible = true });
	cr_assert_eq(report.totals.possible_allocations, 2, "not the block itself");
	cr_assert_eq(report.leaks.at[0].reason, MS_REASON_STACK);
	cr_assert_eq(report.totals.leaked_allocations, 2);
	cr_assert_eq(report.totals.direct_allocations, 1);
	cr_assert(strstr(report.warnings.at[0].text, "128 bytes in 2 allocations are possible"));
	ms_fake_deinit(&fake);
}

Test(scan, keeps_what_a_stack_holds_whose_red_zone_reaches_into_another_block)
{
	draw(4);
	ms_fake_put(&fake, block(2) + 24, block(3));
	ms_fake_thread(&fake, 2, block(2) + 16, 0);
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.totals.indirect_allocations, 0);
	ms_fake_deinit(&fake);
}

Test(scan, takes_memory_below_and_behind_a_stack_for_mappings)
{
	draw(0);
	fake.base.abi = ms_fake_abi_x86_64;
	ms_fake_map(&fake, NODE + PAGE, 2 * PAGE, RW, "");
	ms_fake_thread(&fake, 2, NODE + PAGE + 0x300, NODE + PAGE + 0x400);
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.mappings.n, 2);
	cr_assert_eq(report.mappings.at[0].range.end, NODE + PAGE + 0x300 - 128);
	cr_assert_eq(report.mappings.at[1].range.begin, NODE + 2 * PAGE);
	ms_fake_deinit(&fake);
}

Test(scan, takes_a_stack_that_nobody_runs_on_for_a_mapping)
{
	draw(0);
	fake.base.threads.n = 0;
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.mappings.n, 2);
	cr_assert_str_eq(report.mappings.at[0].name, "[stack]");
	ms_fake_deinit(&fake);
}

Test(scan, tells_no_leaks_where_the_heap_is_not_proved_and_says_so)
{
	draw(3);
	unproved = true;
	ms_fake_put(&fake, HEAP + 8, NODE);
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 0);
	cr_assert_eq(report.totals.allocations, 0);
	cr_assert_eq(report.mappings.n, 0, "all it holds counts as roots");
	cr_assert_eq(report.warnings.n, 2);
	cr_assert_not_null(strstr(report.warnings.at[1].text, "2048 bytes, could not be verified"));
	ms_fake_deinit(&fake);
}

Test(scan, refuses_a_process_without_an_allocator)
{
	static const struct ms_decoder *const none[] = { NULL };
	struct ms_scan_options options = { .decoders = none };
	struct ms_error err;

	draw(1);
	cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &report, &err), MS_E_UNSUPPORTED);
	cr_assert_neq(err.advice[0], '\0');
	ms_fake_deinit(&fake);
}

Test(scan, says_first_that_blocks_of_another_malloc_are_not_seen)
{
	draw(2);
	unproved = true;
	strcpy(rival.name, "a.so");
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.warnings.n, 3);
	cr_assert(strstr(report.warnings.at[0].text, "a.so"));
	cr_assert_str_eq(report.warnings.at[1].text, "drawn");
	ms_fake_deinit(&fake);
}

static const void *no_view(struct ms_source *src, ms_addr addr, size_t len)
{
	(void)src;
	(void)addr;
	(void)len;
	return NULL;
}

/* Small reads are what such a source is slow at; so their number does not grow with the heap. */
Test(scan, of_a_source_without_view_reads_little_more_for_many_blocks)
{
	size_t reads[2];

	for (int many = 0; many < 2; many++) {
		struct ms_scan_options options = { .decoders = drawn_decoders,
			                           .limit = UINT64_MAX };
		struct ms_source_ops ops;
		struct ms_error err;

		draw(many ? 60 : IN_LOWER + 1);
		ops = *fake.base.ops;
		ops.view = no_view;
		fake.base.ops = &ops;
		ms_fake_put(&fake, DATA, block(1));
		for (unsigned int i = 1; i + 1 < n_blocks; i++)
			ms_fake_put(&fake, block(i), block(i + 1));
		fake.reads = 0;
		cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &report, &err), MS_OK);
		cr_assert_eq(report.leaks.n, 1);
		reads[many] = fake.reads;
		ms_fake_deinit(&fake);
	}
	cr_assert_leq(reads[1], reads[0] + 1);
}

Test(scan, lists_nothing_of_what_was_taken_away_meanwhile)
{
	const struct ms_scan_options options = { .decoders = drawn_decoders, .limit = UINT64_MAX };
	struct ms_error err;

	draw(3);
	fake.taken_away = true;
	cr_expect_eq(ms_scan(&fake.base, &options, &fake.arena, &report, &err), MS_E_DIED);
	cr_expect_eq(report.leaks.n, 0);
	ms_fake_deinit(&fake);
}
