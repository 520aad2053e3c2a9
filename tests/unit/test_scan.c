/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/scan.h"
#include "fake.h"
#include "module.h"

/*
 * A whole scan of a fake process: a module's data at DATA, a heap at HEAP with a
 * block of 32 bytes at every 64, a stack, and anonymous memory at NODE. The
 * decoder says what the test drew.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	MODULE = 0x400000,
	DATA = 0x401000,
	HEAP = 0x500000,
	NODE = 0x700000,
	STACK = 0x900000,
	SLOT = 64,
	USABLE = 32,
	PAGE = 4096,
};

static struct ms_fake fake;
static struct ms_report report;
static unsigned int n_blocks;
static bool unproved;

static ms_addr block(unsigned int i)
{
	return HEAP + (ms_addr)i * SLOT;
}

static enum ms_status drawn_decode(struct ms_decoding *d, struct ms_error *err)
{
	struct ms_heap *heap = ms_vec_push(d->arena, d->heaps);
	uint32_t extent;

	(void)err;
	strcpy(heap->allocator, "drawn");
	heap->verified = !unproved;
	if (!ms_ranges_add(d->arena, &d->owned, HEAP, HEAP + PAGE))
		return MS_E_NOMEM;
	if (unproved)
		return ms_ranges_add(d->arena, &d->unproved, HEAP, HEAP + PAGE / 2) ? MS_OK
		                                                                    : MS_E_NOMEM;
	if (ms_blocks_open(d->blocks, (struct ms_range){ HEAP, HEAP + PAGE }, 4, &extent))
		return MS_E_NOMEM;
	for (unsigned int i = 0; i < n_blocks; i++)
		if (ms_blocks_put(d->blocks, extent, block(i), USABLE))
			return MS_E_NOMEM;
	return MS_OK;
}

static const struct ms_decoder drawn = { .name = "drawn", .decode = drawn_decode };
static const struct ms_decoder *const decoders[] = { &drawn, NULL };

static void draw(unsigned int n)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	memset(&report, 0, sizeof(report));
	n_blocks = n;
	unproved = false;
	phdr = elf_write(ms_fake_map(&fake, MODULE, PAGE, MS_PROT_READ, "/bin/p"), 2);
	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, PAGE, PF_R | PF_W);
	ms_fake_map(&fake, DATA, PAGE, RW, "/bin/p");
	ms_fake_map(&fake, HEAP, PAGE, RW, "");
	ms_fake_map(&fake, NODE, PAGE, RW, "");
	ms_fake_map(&fake, STACK, PAGE, RW, "[stack]");
	ms_fake_thread(&fake, 1, STACK + PAGE / 2, 0);
}

static void scan(struct ms_scan_options options)
{
	struct ms_error err;

	options.decoders = decoders;
	if (!options.limit)
		options.limit = UINT64_MAX;
	cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &report, &err), MS_OK, "%s",
	             err.text);
}

Test(scan, takes_globals_stack_registers_and_kernel_words_for_roots)
{
	uint64_t word = block(2);
	uint64_t kernel = block(3);
	uint64_t *slot;

	draw(5);
	ms_fake_put(&fake, DATA + 8, block(0));
	ms_fake_put(&fake, STACK + PAGE / 2 + 16, block(1));
	fake.base.threads.at[0].words = &word;
	fake.base.threads.at[0].n_words = 1;
	slot = ms_vec_push(&fake.arena, &fake.base.kernel_words);
	*slot = kernel;
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(4));
	cr_assert_eq(report.totals.allocations, 5);
	cr_assert_eq(report.totals.allocation_bytes, 5 * USABLE);
	ms_fake_deinit(&fake);
}

Test(scan, does_not_look_below_the_red_zone)
{
	draw(2);
	ms_fake_put(&fake, STACK + PAGE / 2 - 128, block(0));
	ms_fake_put(&fake, STACK + PAGE / 2 - 136, block(1));
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

Test(scan, lists_largest_first_then_by_address_up_to_the_limit)
{
	draw(6);
	ms_fake_put(&fake, block(3), block(4));
	scan((struct ms_scan_options){ .limit = 3 });
	cr_assert_eq(report.leaks.n, 3);
	cr_assert_eq(report.leaks.at[0].address, block(3));
	cr_assert_eq(report.leaks.at[0].total_size, 2 * USABLE);
	cr_assert_eq(report.leaks.at[1].address, block(0));
	cr_assert_eq(report.leaks.at[2].address, block(1));
	cr_assert_eq(report.leaks.at[2].id, 3);
	cr_assert_eq(report.totals.leaks, 5);
	cr_assert_eq(report.totals.direct_allocations, 5);
	cr_assert_eq(report.totals.indirect_allocations, 1);
	ms_fake_deinit(&fake);
}

Test(scan, lists_each_block_by_itself_without_folding)
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

Test(scan, leaves_small_leaks_out_of_the_list_but_counts_them)
{
	draw(3);
	ms_fake_put(&fake, block(1), block(2));
	scan((struct ms_scan_options){ .min_size = USABLE + 1 });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, block(1));
	cr_assert_eq(report.totals.leaked_allocations, 3);
	ms_fake_deinit(&fake);
}

Test(scan, shows_contents_only_when_asked)
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

Test(scan, tells_no_leaks_where_the_heap_is_not_proved_and_says_so)
{
	draw(3);
	unproved = true;
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 0);
	cr_assert_eq(report.totals.allocations, 0);
	cr_assert_eq(report.warnings.n, 1);
	cr_assert_not_null(strstr(report.warnings.at[0].text, "2048 bytes, could not be proved"));
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

Test(scan, of_a_source_without_view_says_the_same)
{
	for (int no_view = 0; no_view < 2; no_view++) {
		draw(6);
		fake.no_view = no_view;
		ms_fake_put(&fake, DATA, block(1));
		ms_fake_put(&fake, block(1), block(5));
		ms_fake_put(&fake, block(2), block(3));
		ms_fake_put(&fake, block(3), block(2));
		scan((struct ms_scan_options){ .possible = true });
		cr_expect_eq(report.leaks.n, 3);
		cr_expect_eq(report.leaks.at[0].address, block(2));
		cr_expect_eq(report.leaks.at[0].referenced_count, 1);
		ms_fake_deinit(&fake);
	}
}
