/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "classes.h"
#include "engine/scan.h"
#include "fake.h"
#include "module.h"

/*
 * A whole scan of a fake process: a stack, a module's data at DATA, a heap at HEAP
 * with a block of 32 bytes at every 64 and break memory before and behind it, and
 * anonymous memory at NODE, behind which a test can map more. The decoder says what
 * the test drew, in two extents, the upper one first.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	STACK = 0x300000,
	MODULE = 0x400000,
	DATA = 0x401000,
	HEAP = 0x500000,
	NODE = 0x700000,
	LIBRARY = 0x800000,
	SLOT = 64,
	USABLE = 32,
	PAGE = 4096,
	IN_LOWER = 2, /* blocks in the lower extent */
};

static struct ms_fake fake;
static struct ms_report report;
static unsigned int n_blocks;
static uint64_t usable;
static bool unproved;
static struct ms_rival rival;
static const char *allocators; /* of each block a letter, its stack; NULL: nobody kept any */

static ms_addr block(unsigned int i)
{
	return HEAP + (ms_addr)i * SLOT;
}

static bool put_blocks(struct ms_decoding *d, unsigned int from, unsigned int to,
                       struct ms_range range)
{
	uint32_t extent;

	if (ms_blocks_open(d->blocks, range, 4, &extent))
		return false;
	for (unsigned int i = from; i < to; i++)
		if (ms_blocks_put(d->blocks, extent, block(i), usable))
			return false;
	return true;
}

static bool put_unproved(struct ms_decoding *d)
{
	ms_note_add(d->arena, d->warnings, "drawn");
	return ms_ranges_add(d->arena, &d->unproved, HEAP, HEAP + PAGE / 4) &&
	       ms_ranges_add(d->arena, &d->unproved, HEAP + PAGE / 4, HEAP + PAGE / 2);
}

/* A stack by its letter: two frames in the module, at that letter's place and behind it. */
static bool put_origins(struct ms_decoding *d)
{
	for (unsigned int i = 0; allocators && i < n_blocks; i++) {
		struct ms_origin *origin = ms_vec_push(d->arena, &d->origins->blocks);

		if (!origin)
			return false;
		*origin = (struct ms_origin){ block(i), (uint32_t)(allocators[i] - 'a') };
	}
	for (uint32_t i = 0; allocators && i < 26; i++) {
		struct ms_stack *stack = ms_vec_push(d->arena, &d->origins->stacks);

		if (!stack || !ms_vec_reserve(d->arena, &d->origins->pcs, 52))
			return false;
		*stack = (struct ms_stack){ 2 * i, 2 };
		d->origins->pcs.at[d->origins->pcs.n++] = MODULE + 16 * i;
		d->origins->pcs.at[d->origins->pcs.n++] = DATA + 16 * i;
	}
	return true;
}

static enum ms_status drawn_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	(void)d;
	ret->state = &fake;
	return MS_OK;
}

static enum ms_status drawn_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	unsigned int lower = n_blocks < IN_LOWER ? n_blocks : IN_LOWER;
	bool ok = true;

	(void)claim;
	if (!unproved)
		ok = put_blocks(d, lower, n_blocks,
		                (struct ms_range){ block(IN_LOWER), HEAP + PAGE }) &&
		     put_blocks(d, 0, lower, (struct ms_range){ HEAP, block(IN_LOWER) });
	return ok ? MS_OK : MS_E_NOMEM;
}

static enum ms_status drawn_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_heap *heap = ms_vec_push(d->arena, d->heaps);
	bool ok = ms_ranges_add(d->arena, &d->owned, HEAP, HEAP + PAGE);

	(void)claim;
	ms_note_add(d->arena, d->evidence, "drawn");
	d->rival = rival;
	strcpy(heap->allocator, "drawn");
	heap->verified = !unproved;
	if (unproved)
		ok &= put_unproved(d);
	ok &= put_origins(d);
	return ok ? MS_OK : MS_E_NOMEM;
}

static const struct ms_decoder drawn = { "drawn", "drawings", drawn_claim, drawn_read,
	                                 drawn_settle };
static const struct ms_decoder *const decoders[] = { &drawn, NULL };

static void draw(unsigned int n)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	memset(&report, 0, sizeof(report));
	n_blocks = n;
	usable = USABLE;
	unproved = false;
	rival = (struct ms_rival){ 0 };
	allocators = NULL;
	ms_fake_map(&fake, STACK, PAGE, RW, "[stack]");
	phdr = elf_write(ms_fake_map(&fake, MODULE, PAGE, MS_PROT_READ, "/bin/p"), 2);
	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, PAGE, PF_R | PF_W);
	ms_fake_map(&fake, DATA, PAGE, RW, "/bin/p");
	ms_fake_map(&fake, HEAP - PAGE, 3 * PAGE, RW, "[heap]");
	ms_fake_map(&fake, NODE, PAGE, RW, "");
	ms_fake_thread(&fake, 1, STACK + PAGE / 2, 0);
}

static void expect_the_same(const struct ms_report *other)
{
	cr_expect_arr_eq(&other->totals, &report.totals, sizeof(report.totals));
	cr_expect_eq(other->leaks.n, report.leaks.n);
	for (size_t i = 0; i < other->leaks.n && i < report.leaks.n; i++)
		cr_expect_arr_eq(&other->leaks.at[i], &report.leaks.at[i], sizeof(struct ms_leak));
	cr_expect_eq(other->types.n, report.types.n);
	for (size_t i = 0; i < other->types.n && i < report.types.n; i++)
		cr_expect_arr_eq(&other->types.at[i], &report.types.at[i], sizeof(struct ms_type));
	cr_expect_eq(other->stacks.n, report.stacks.n);
	cr_expect_eq(other->pcs.n, report.pcs.n);
	cr_expect_eq(other->code.n, report.code.n);
	cr_expect_eq(other->mappings.n, report.mappings.n);
	for (size_t i = 0; i < other->mappings.n && i < report.mappings.n; i++)
		cr_expect_arr_eq(&other->mappings.at[i], &report.mappings.at[i],
		                 sizeof(struct ms_lost_mapping));
}

/* Scan; and again without a view, alone and by several workers, which must say the same. */
static void scan(struct ms_scan_options options)
{
	struct ms_error err;

	options.decoders = decoders;
	if (!options.limit)
		options.limit = UINT64_MAX;
	cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &report, &err), MS_OK, "%s",
	             err.text);
	fake.no_view = true;
	for (unsigned n = 1; n <= 3; n += 2) {
		struct ms_report other = { 0 };

		cr_assert_eq(ms_workers_start(n, &options.workers, &err), MS_OK);
		cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &other, &err), MS_OK);
		ms_workers_stop(options.workers);
		expect_the_same(&other);
	}
}

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
		                 "2 allocations, 64 bytes, are possible"));
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
	scan((struct ms_scan_options){ .possible = true });
	cr_assert_eq(report.leaks.n, 3);
	for (uint64_t i = 0; i < 3; i++) {
		cr_assert_eq(report.leaks.at[i].address, block((unsigned int)i + 1));
		cr_assert_eq(report.leaks.at[i].referenced_count, 0);
		cr_assert_eq(report.leaks.at[i].kind, i == 1 ? MS_LEAK_DIRECT : MS_LEAK_POSSIBLE);
	}
	ms_fake_deinit(&fake);
}

Test(scan, lists_largest_first_then_by_address_up_to_the_limit)
{
	draw(6);
	ms_fake_put(&fake, block(4), block(3));
	scan((struct ms_scan_options){ .limit = 3 });
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

Test(scan, knows_each_of_many_blocks_by_its_address)
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

Test(scan, tells_the_types_of_the_leaks_it_lists)
{
	draw_classes();
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.types.n, 2);
	cr_assert_str_eq(report.types.at[report.leaks.at[0].type - 1].name, "Item");
	cr_assert_str_eq(report.types.at[report.leaks.at[1].type - 1].name, "Book");
	cr_assert_str_eq(report.types.at[report.leaks.at[2].type - 1].name, "Item");
	cr_assert_str_eq(report.types.at[0].module, "/lib/libshop.so");
	cr_assert_eq(report.leaks.at[3].type, 0);
	cr_assert_eq(report.suppressed.n, 0);
	ms_fake_deinit(&fake);
}

Test(scan, has_no_types_in_the_report_but_those_of_leaks_listed)
{
	draw_classes();
	scan((struct ms_scan_options){ .limit = 1 });
	cr_assert_eq(report.types.n, 1);
	cr_assert_eq(report.totals.leaks, 4);
	ms_fake_deinit(&fake);
}

Test(scan, suppresses_possible_leaks_as_it_does_others)
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

Test(scan, keeps_the_block_that_a_thread_has_its_stack_in)
{
	draw(1);
	fake.base.threads.at[0].sp = block(0) + 16 + 128;
	scan((struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 0);
	ms_fake_deinit(&fake);
}

Test(scan, takes_memory_below_and_behind_a_stack_for_mappings)
{
	draw(0);
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

Test(scan, leaves_small_leaks_out_of_the_list_but_counts_them)
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
Test(scan, counts_apart_what_is_not_listed_and_why)
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
			struct ms_unlisted unlisted;

			draw(7);
			allocators = stacks ? "abcdefg" : NULL;
			ms_fake_put(&fake, block(0), block(1));
			ms_fake_put(&fake, DATA, block(4) + 8);
			ms_fake_put(&fake, block(4), block(5));
			ms_fake_put(&fake, DATA + 8, block(6) + 8);
			scan(cases[i].options);
			unlisted = ms_report_unlisted(&report);
			cr_expect_arr_eq(&unlisted, &cases[i].unlisted, sizeof(unlisted),
			                 "%zu: %d %d %d %d", i, (int)unlisted.leaks,
			                 (int)unlisted.possible, (int)unlisted.small_leaks,
			                 (int)unlisted.small_possible);
			ms_fake_deinit(&fake);
		}
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

Test(scan, shows_no_more_than_the_block_or_its_first_bytes)
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
	cr_assert_not_null(strstr(report.warnings.at[1].text, "2048 bytes, could not be proved"));
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
		struct ms_scan_options options = { .decoders = decoders, .limit = UINT64_MAX };
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

/* ---- where blocks were allocated ---- */

Test(scan, makes_one_leak_of_blocks_of_the_same_calls)
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

Test(scan, keeps_leaks_of_other_reasons_apart)
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

Test(scan, lists_stacks_of_listed_leaks_alone)
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

Test(scan, suppresses_what_the_judge_says)
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
