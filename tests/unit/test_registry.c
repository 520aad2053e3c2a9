/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "regdrawn.h"

/* What malloc_debug keeps of blocks, told from its memory, true and false. */

static struct regdrawn r;

static void decode(void)
{
	const char *wrong;

	for (int no_view = 0; no_view < 2; no_view++) {
		r.fake.no_view = no_view;
		cr_assert_eq(regdrawn_decode(&r), MS_OK);
		wrong = regdrawn_check(&r);
		cr_expect_null(wrong, "%s", wrong);
	}
}

static void init(void)
{
	regdrawn_init(&r);
}

static void deinit(void)
{
	regdrawn_deinit(&r);
}

TestSuite(registry, .init = init, .fini = deinit, .timeout = 20);

static bool is_told(const char *evidence)
{
	return regdrawn_says(&r.evidence, evidence);
}

Test(registry, gives_blocks_the_sizes_asked_for_and_their_stacks)
{
	uint32_t one = regdrawn_stack(&r, 0x1000, 3);
	uint32_t other = regdrawn_stack(&r, 0x2000, 256);
	ms_addr p[5] = { regdrawn_block(&r, 24), regdrawn_block(&r, 40), regdrawn_block(&r, 33),
		         regdrawn_block(&r, 4000), regdrawn_single(&r, 200000) };

	(void)regdrawn_enter(&r, p[4], 199000, other);
	(void)regdrawn_enter(&r, p[0], 1, one);
	(void)regdrawn_enter(&r, p[3], 4000, other);
	(void)regdrawn_enter(&r, p[2], 30, one);
	decode();
	cr_expect_eq(regdrawn_size(&r, p[0]), 1);
	cr_expect_eq(regdrawn_size(&r, p[1]), 40, "not in the table");
	cr_expect_eq(regdrawn_size(&r, p[2]), 30);
	cr_expect_eq(regdrawn_size(&r, p[3]), 4000);
	cr_expect_eq(regdrawn_size(&r, p[4]), 199000);
	cr_expect_eq(r.origins.blocks.n, 4);
	cr_expect_eq(r.origins.stacks.n, 2);
	cr_expect_eq(r.origins.pcs.n, 3 + 256);
	cr_expect_eq(regdrawn_pc(&r, p[2]), 0x1000);
	cr_expect_eq(regdrawn_pc(&r, p[4]), 0x2000);
	cr_expect_eq(r.heaps.at[0].n_evidence, 1);
	cr_expect(is_told("malloc_debug registry 1: 4 of 4 entries are live blocks, 2 stacks"));
	cr_expect_eq(r.warnings.n, 0);
}

Test(registry, what_is_followed_stays_as_long_as_it_can_be_used)
{
	ms_addr p = regdrawn_block(&r, 104);
	const struct ms_extent *e;

	(void)regdrawn_enter(&r, p, 50, 0);
	decode();
	e = ms_blocks_extent_of(&r.told, p);
	cr_expect_eq(regdrawn_size(&r, p), 50);
	cr_expect_eq(ms_block_usable(&r.told, e, ms_granule_of(e, p)), 104);
	cr_expect_eq(ms_block_words_end(&r.told, e, ms_granule_of(e, p)), p + 112);
}

/* A program that wants to use more than it asked for has asked how much it may use. */
Test(registry, words_behind_the_size_are_not_followed_unless_usable_was_asked)
{
	ms_addr p[4] = { regdrawn_block(&r, 24), regdrawn_block(&r, 1048), regdrawn_block(&r, 104),
		         regdrawn_single(&r, 200000) };
	static const uint64_t asked[4] = { 8, 1000, 50, 199000 };
	static const uint64_t followed[4] = { 8, 1000, 112, 199000 };

	r.registry->flags |= MALLOC_DEBUG_USABLE_NOTED;
	for (unsigned i = 0; i < 4; i++)
		regdrawn_enter(&r, p[i], asked[i], 0)->flags =
			i == 2 ? MALLOC_DEBUG_USABLE_ASKED : 0;
	decode();
	for (unsigned i = 0; i < 4; i++) {
		const struct ms_extent *e = ms_blocks_extent_of(&r.told, p[i]);
		uint64_t granule = ms_granule_of(e, p[i]);

		cr_expect_eq(regdrawn_size(&r, p[i]), asked[i]);
		cr_expect_eq(ms_block_words_end(&r.told, e, granule), p[i] + followed[i], "%u", i);
	}
}

/* Header and guard in front; the new beginnings are in other cells, too. */
Test(registry, blocks_begin_behind_their_headers)
{
	ms_addr p[60];
	ms_addr single = regdrawn_single(&r, 70000);

	r.registry->flags |= MALLOC_DEBUG_HEADERS;
	r.registry->least_offset = 96;
	for (unsigned i = 0; i < 60; i++) {
		p[i] = regdrawn_block(&r, 200 + 16 * (i % 5) + (i % 7 == 0 ? 3 : 0));
		(void)regdrawn_enter(&r, p[i] + 96 + 16 * (i % 3), 10 + i, 0);
	}
	(void)regdrawn_enter(&r, single + 4096, 65000, regdrawn_stack(&r, 7, 1));
	decode();
	for (unsigned i = 0; i < 60; i++) {
		cr_expect_eq(regdrawn_size(&r, p[i]), 0);
		cr_expect_eq(regdrawn_size(&r, p[i] + 96 + 16 * (i % 3)), 10 + i, "%u", i);
	}
	cr_expect_eq(regdrawn_size(&r, single + 4096), 65000);
	cr_expect_eq(regdrawn_pc(&r, single + 4096), 7);
	cr_expect(is_told("61 of 61 entries"));
}

static void put_header(ms_addr user, uint32_t tag, ms_addr orig, uint64_t size)
{
	struct malloc_debug_header header = { .tag = tag, .orig = orig, .size = size };

	memcpy(ms_fake_at(&r.fake, user - 64), &header, sizeof(header));
}

/* A library that goes past malloc_debug frees a block, and its address is another one's. */
Test(registry, entries_whose_header_disagrees_are_dropped_once_it_was_bypassed)
{
	enum { OFFSET = 128 }; /* with a guard of 32 bytes in front */
	static const uint32_t tags[5] = { MALLOC_DEBUG_TAG_LIVE, 0x1cc7dccd, 0,
		                          MALLOC_DEBUG_TAG_LIVE, MALLOC_DEBUG_TAG_LIVE };
	uint32_t stack = regdrawn_stack(&r, 5, 1);
	ms_addr p[5];

	r.registry->flags |= MALLOC_DEBUG_HEADERS;
	r.registry->least_offset = OFFSET - 32;
	for (unsigned i = 0; i < 5; i++) {
		p[i] = regdrawn_block(&r, 200);
		(void)regdrawn_enter(&r, p[i] + OFFSET - 32, 40, stack);
		put_header(p[i] + OFFSET - 32, tags[i], p[i] + (i == 3 ? 16 : 0), i == 4 ? 39 : 40);
	}
	decode();
	for (unsigned i = 0; i < 5; i++)
		cr_expect_eq(regdrawn_size(&r, p[i] + OFFSET - 32), 40, "%u", i);
	cr_expect_eq(r.warnings.n, 0);
	r.registry->flags |= MALLOC_DEBUG_BYPASSED;
	decode();
	cr_expect_eq(regdrawn_size(&r, p[0] + OFFSET - 32), 40);
	for (unsigned i = 1; i < 5; i++)
		cr_expect_eq(regdrawn_size(&r, p[i]), 200, "%u", i);
	cr_expect(regdrawn_says(&r.warnings, "RTLD_DEEPBIND"));
	cr_expect(regdrawn_says(&r.warnings, "4 entries that disagree"));
}

/* Nobody may use what is behind; its bytes are a guard's, and another's before. */
Test(registry, with_guards_behind_blocks_end_where_they_end)
{
	ms_addr guarded[3] = { regdrawn_block(&r, 200), regdrawn_block(&r, 43),
		               regdrawn_single(&r, 5000) };
	ms_addr other = regdrawn_block(&r, 24);
	static const uint64_t sizes[3] = { 1, 40, 4000 };

	r.registry->flags |= MALLOC_DEBUG_REAR_GUARDS;
	for (unsigned i = 0; i < 3; i++)
		(void)regdrawn_enter(&r, guarded[i], sizes[i], 0);
	decode();
	for (unsigned i = 0; i < 3; i++) {
		const struct ms_extent *e = ms_blocks_extent_of(&r.told, guarded[i]);
		uint64_t granule = ms_granule_of(e, guarded[i]);

		cr_expect_eq(regdrawn_size(&r, guarded[i]), sizes[i]);
		cr_expect_eq(ms_block_usable(&r.told, e, granule), sizes[i]);
		cr_expect_lt(ms_block_words_end(&r.told, e, granule), guarded[i] + sizes[i] + 16);
	}
	cr_expect_eq(regdrawn_size(&r, other), 24);
}

Test(registry, freed_blocks_that_are_kept_are_none)
{
	ms_addr kept = regdrawn_block(&r, 40);
	ms_addr deferred = regdrawn_block(&r, 104);
	ms_addr live = regdrawn_block(&r, 24);
	ms_addr single = regdrawn_single(&r, 9000);

	r.kept[3].inverted = ~kept;
	r.kept[REGDRAWN_KEPT - 1].inverted = ~single;
	r.kept[4].inverted = ~(live + 8);
	r.deferred[REGDRAWN_DEFERRED - 1] = ~deferred;
	(void)regdrawn_enter(&r, deferred, 100, 0);
	(void)regdrawn_enter(&r, live, 20, regdrawn_stack(&r, 5, 1));
	decode();
	cr_expect_eq(regdrawn_size(&r, kept), 0);
	cr_expect_eq(regdrawn_size(&r, deferred), 0);
	cr_expect_eq(regdrawn_size(&r, single), 0);
	cr_expect_eq(regdrawn_size(&r, live), 20);
	cr_expect_eq(regdrawn_pc(&r, live), 5);
	cr_expect_eq(r.heaps.at[0].free_bytes, 40 + 104 + 9000);
	cr_expect(is_told("3 blocks kept after free()"));
}

/* It knows malloc's blocks alone, and there may be more of others. */
Test(registry, a_heap_that_is_not_mallocs_keeps_its_sums)
{
	ms_addr kept = regdrawn_block(&r, 40);
	ms_addr live = regdrawn_block(&r, 24);

	r.beside = true;
	r.kept[3].inverted = ~kept;
	(void)regdrawn_enter(&r, live, 20, 0);
	decode();
	cr_assert_eq(r.heaps.n, 2);
	cr_expect_eq(r.heaps.at[0].free_bytes, 40);
	cr_expect_eq(r.heaps.at[1].allocations, REGDRAWN_BESIDE);
	cr_expect_eq(r.heaps.at[1].free_bytes, 0);
}

Test(registry, entries_that_fit_no_block_are_counted_only)
{
	ms_addr p[4] = { regdrawn_block(&r, 40), regdrawn_block(&r, 40), regdrawn_block(&r, 40),
		         regdrawn_block(&r, 40) };

	(void)regdrawn_enter(&r, p[0] + 16, 8, 2);
	(void)regdrawn_enter(&r, p[1], 41, 2);
	(void)regdrawn_enter(&r, p[2], 0, 2);
	(void)regdrawn_enter(&r, p[3] + 40, 1, 2);
	(void)regdrawn_enter(&r, 0x1000, 1, 2);
	(void)regdrawn_enter(&r, UINT64_MAX - 1, UINT64_MAX, 2);
	(void)regdrawn_enter(&r, p[3], 39, 1);
	(void)regdrawn_enter(&r, p[0], UINT64_MAX - 3, 2);
	decode();
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(regdrawn_size(&r, p[i]), 40);
	cr_expect_eq(regdrawn_size(&r, p[3]), 39);
	cr_expect_eq(r.origins.blocks.n, 0);
	cr_expect(is_told("1 of 8 entries"));
}

Test(registry, headers_have_their_room_and_users_bytes_their_alignment)
{
	ms_addr p = regdrawn_block(&r, 400);
	ms_addr q = regdrawn_block(&r, 400);

	r.registry->flags |= MALLOC_DEBUG_HEADERS;
	r.registry->least_offset = 64;
	(void)regdrawn_enter(&r, p + 48, 10, 0);
	(void)regdrawn_enter(&r, q + 72, 10, 0);
	decode();
	cr_expect_eq(regdrawn_size(&r, p), 400);
	cr_expect_eq(regdrawn_size(&r, q), 400);
	cr_expect(is_told("0 of 2 entries"));
}

Test(registry, an_entry_that_is_being_moved_counts_once)
{
	ms_addr p = regdrawn_block(&r, 40);
	uint32_t stack = regdrawn_stack(&r, 3, 2);

	(void)regdrawn_enter(&r, p, 30, stack);
	(void)regdrawn_enter(&r, p, 30, stack);
	decode();
	cr_expect(is_told("1 of 1 entries"));
	cr_expect_eq(r.origins.blocks.n, 1);
}

Test(registry, sampled_entries_are_called_so)
{
	ms_addr p = regdrawn_block(&r, 40);

	(void)regdrawn_block(&r, 40);
	r.registry->flags = 0;
	(void)regdrawn_enter(&r, p, 30, regdrawn_stack(&r, 3, 2));
	decode();
	cr_expect(is_told("1 of 1 sampled entries"));
}

Test(registry, a_table_that_is_missing_or_empty_is_no_problem)
{
	ms_addr p = regdrawn_block(&r, 40);

	(void)regdrawn_enter(&r, p, 30, 0);
	ms_fake_put(&r.fake, r.registry->shards.at + 2 * (uint64_t)r.registry->shards.bytes, 0);
	r.tables[3]->n_slots = 0;
	decode();
	cr_expect(is_told("1 of 1 entries"));
}

Test(registry, parts_of_tables_that_were_never_written_are_not_read)
{
	ms_addr p = regdrawn_block(&r, 40);

	(void)regdrawn_enter(&r, p, 30, 0);
	r.fake.absent[2] = true;
	decode();
	cr_expect(is_told("0 of 0 entries"));
	cr_expect_eq(regdrawn_size(&r, p), 40);
}

/* ---- its own memory ---- */

static bool is_owned(ms_addr addr)
{
	const struct ms_range *range;

	ms_vec_for_each (range, &r.decoding.owned)
		if (ms_range_has(*range, addr))
			return true;
	return false;
}

Test(registry, its_tables_are_no_memory_to_follow)
{
	ms_addr table = 0;

	r.registry->records = (struct malloc_debug_list){ 0x700000, 10, 56 };
	decode();
	cr_assert(ms_source_word(&r.fake.base, r.registry->shards.at, &table));
	cr_expect(is_owned(table));
	cr_expect(is_owned(r.registry->kept.at));
	cr_expect(is_owned(0x700000 + 4095)); /* to the end of its last page */
	cr_expect_not(is_owned(0x700000 + 4096));
	cr_expect_not(is_owned(r.at));
}

/* ---- where there is none ---- */

Test(registry, without_its_magic_or_its_library_nothing_is_told)
{
	r.registry->magic[1]++;
	decode();
	cr_expect_eq(r.evidence.n + r.warnings.n, 0);
	r.registry->magic[1]--;
	r.fake.base.mappings.at[0].name = "/usr/lib/libmalloc_debugger.so.1";
	decode();
	cr_expect_eq(r.evidence.n + r.warnings.n, 0);
	r.fake.base.mappings.at[0].name = "/x/libmalloc_debug.so";
	decode();
	cr_expect_eq(r.evidence.n, 1);
	r.fake.base.mappings.at[0].prot = MS_PROT_READ;
	decode();
	cr_expect_eq(r.evidence.n + r.warnings.n, 0);
}

Test(registry, it_may_end_where_its_mapping_does)
{
	ms_addr end = r.fake.base.mappings.at[0].range.end;
	struct malloc_debug_registry whole = *r.registry;

	r.registry->magic[0] = 0;
	memcpy(ms_fake_at(&r.fake, end - sizeof(whole)), &whole, sizeof(whole));
	decode();
	cr_expect_eq(r.evidence.n, 1);
	memset(ms_fake_at(&r.fake, end - sizeof(whole)), 0, sizeof(whole));
	memcpy(ms_fake_at(&r.fake, end - 16), &whole, 16);
	decode();
	cr_expect(regdrawn_says(&r.warnings, "it could not be read"));
}

/* ---- libraries ---- */

/* A block with a stack of two calls at @pc. */
static ms_addr block_of(ms_addr pc)
{
	ms_addr p = regdrawn_block(&r, 40);

	(void)regdrawn_enter(&r, p, 40, regdrawn_stack(&r, pc, 2));
	return p;
}

static bool is_moved(ms_addr p, ms_addr pc)
{
	return regdrawn_pc(&r, p) - pc > UINT32_MAX;
}

Test(registry, stacks_in_a_library_that_is_gone_are_moved)
{
	ms_addr inside = block_of(0x5000010);
	ms_addr outside = block_of(0x6000010);

	(void)regdrawn_module(&r, 0x5000000, "/lib/plugin.so");
	decode();
	cr_expect(is_moved(inside, 0x5000010));
	cr_expect_eq(regdrawn_pc(&r, outside), 0x6000010);
	cr_expect_str_eq(r.origins.unloaded.at[1].name, "/lib/plugin.so");
}

Test(registry, a_stack_is_that_of_the_library_that_was_there_then)
{
	ms_addr before = block_of(0x5000010);
	ms_addr then = block_of(0x5000011);
	ms_addr later = block_of(0x5000012);
	struct malloc_debug_module *module = regdrawn_module(&r, 0x5000000, "/lib/plugin.so");

	module->first_stack = MALLOC_DEBUG_FIRST_STACK + 1;
	module->end_stack = MALLOC_DEBUG_FIRST_STACK + 2;
	decode();
	cr_expect_eq(regdrawn_pc(&r, before), 0x5000010);
	cr_expect(is_moved(then, 0x5000011));
	cr_expect_eq(regdrawn_pc(&r, later), 0x5000012);
}

Test(registry, a_library_without_a_path_that_can_be_read_is_left_out)
{
	ms_addr p = block_of(0x5000010);

	regdrawn_module(&r, 0x5000000, "/lib/plugin.so")->path = 8;
	regdrawn_module(&r, 0x5000000, "/lib/plugin.so")->path_len = UINT32_MAX;
	regdrawn_module(&r, 0x5000000, "/lib/plugin.so")->build_id_len = UINT32_MAX;
	decode();
	cr_expect_eq(regdrawn_pc(&r, p), 0x5000010);
	cr_expect_eq(r.warnings.n, 0);
}

Test(registry, an_older_one_that_lists_no_libraries_is_read)
{
	ms_addr p = block_of(0x5000010);

	(void)regdrawn_module(&r, 0x5000000, "/lib/plugin.so");
	r.registry->bytes = offsetof(struct malloc_debug_registry, modules);
	r.registry->modules.n = UINT32_MAX; /* what stands behind it is something else */
	decode();
	cr_expect_eq(regdrawn_pc(&r, p), 0x5000010);
	cr_expect_eq(r.evidence.n, 1);
	cr_expect_eq(r.warnings.n, 0);
}

/* ---- nonsense ---- */

static void break_version(void)
{
	r.registry->version = 2;
}

static void break_length(void)
{
	r.registry->bytes = offsetof(struct malloc_debug_registry, modules) - 1;
}

static void break_shards(void)
{
	r.registry->shards.n = 0x10000000;
}

static void break_shards_place(void)
{
	r.registry->shards.at = 0x10;
}

static void break_slots(void)
{
	r.registry->slot_bytes = 16;
}

static void break_slots_more(void)
{
	r.registry->slot_bytes = 0x80000000;
}

static void break_table(void)
{
	ms_fake_put(&r.fake, r.registry->shards.at, 0x5000);
}

static void break_table_top(void)
{
	ms_fake_put(&r.fake, r.registry->shards.at, UINT64_MAX - 7);
}

static void break_count(void)
{
	r.tables[0]->n_slots = UINT64_MAX / 24;
}

static void break_count_less(void)
{
	r.tables[3]->n_slots = REGDRAWN_SLOTS + 1;
}

static void break_overlap(void)
{
	ms_addr single = r.fake.base.mappings.at[5].range.begin;

	for (unsigned i = 0; i < REGDRAWN_SHARDS; i++)
		ms_fake_put(&r.fake, r.registry->shards.at + (uint64_t)i * 64, single);
	ms_fake_put(&r.fake, single, 0x40000 / 24 - 1);
}

static void break_kept(void)
{
	r.registry->kept.n = 4096 / 24 + 1;
}

static void break_kept_length(void)
{
	r.registry->kept.bytes = 8;
}

static void break_deferred(void)
{
	r.registry->deferred.at = UINT64_MAX - 8;
}

static void break_pages(void)
{
	r.registry->stacks_a_page = 0;
}

static void break_pages_more(void)
{
	r.registry->stacks_a_page = UINT32_MAX;
}

static void break_records(void)
{
	r.registry->records = (struct malloc_debug_list){ 0x700000, UINT32_MAX, 56 };
}

static void break_modules(void)
{
	r.registry->modules.n = 4096;
}

static const struct {
	const char *name;
	void (*damage)(void);
	const char *told;
} broken[] = {
	{ "version", break_version, "another version" },
	{ "length", break_length, "too short" },
	{ "shards", break_shards, "table of live blocks makes no sense" },
	{ "shards' place", break_shards_place, "table of live blocks makes no sense" },
	{ "slots", break_slots, "table of live blocks makes no sense" },
	{ "slots, more", break_slots_more, "table of live blocks makes no sense" },
	{ "table", break_table, "not mapped" },
	{ "table at the top", break_table_top, "not mapped" },
	{ "count", break_count, "makes no sense" },
	{ "count, less", break_count_less, "longer than its mapping" },
	{ "overlap", break_overlap, "overlap" },
	{ "kept", break_kept, "freed blocks make no sense" },
	{ "kept, length", break_kept_length, "freed blocks make no sense" },
	{ "deferred", break_deferred, "freed blocks make no sense" },
	{ "pages", break_pages, "stacks make no sense" },
	{ "pages, more", break_pages_more, "stacks make no sense" },
	{ "records", break_records, "records make no sense" },
	{ "libraries", break_modules, "list of libraries makes no sense" },
};

Test(registry, nonsense_is_a_warning_and_changes_nothing)
{
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		ms_addr p;

		regdrawn_deinit(&r);
		regdrawn_init(&r);
		p = regdrawn_block(&r, 40);
		(void)regdrawn_enter(&r, p, 30, regdrawn_stack(&r, 3, 2));
		r.kept[0].inverted = ~regdrawn_block(&r, 24);
		broken[i].damage();
		decode();
		cr_expect(regdrawn_says(&r.warnings, broken[i].told), "%s: %s", broken[i].name,
		          r.warnings.n ? r.warnings.at[0].text : "no warning");
		cr_expect_eq(r.warnings.n, 1, "%s", broken[i].name);
		cr_expect_eq(r.evidence.n, 0, "%s", broken[i].name);
		cr_expect_eq(r.told.n, 2, "%s", broken[i].name);
		cr_expect_eq(regdrawn_size(&r, p), 40, "%s", broken[i].name);
		cr_expect_eq(r.origins.blocks.n + r.decoding.owned.n, 0, "%s", broken[i].name);
	}
}

/* ---- nonsensical stacks ---- */

static void lose_page(struct malloc_debug_stack *stack)
{
	(void)stack;
	r.pages[0] = 0;
}

static void misplace_page(struct malloc_debug_stack *stack)
{
	(void)stack;
	r.pages[0] = 0x123;
}

static void misplace_stack(struct malloc_debug_stack *stack)
{
	(void)stack;
	ms_fake_put(&r.fake, r.pages[0] + 8, UINT64_MAX - 3);
}

static void rename_stack(struct malloc_debug_stack *stack)
{
	stack->id++;
}

static void empty_stack(struct malloc_debug_stack *stack)
{
	stack->n = 0;
}

static void lengthen_stack(struct malloc_debug_stack *stack)
{
	stack->n = 257;
}

static void cut_stack(struct malloc_debug_stack *stack)
{
	struct malloc_debug_stack copy = *stack;
	ms_addr end = r.fake.base.mappings.at[3].range.end;

	copy.n = 2;
	memcpy(ms_fake_at(&r.fake, end - sizeof(copy) - 8), &copy, sizeof(copy));
	ms_fake_put(&r.fake, r.pages[0] + 8, end - sizeof(copy) - 8);
}

Test(registry, a_stack_that_makes_no_sense_is_left_out)
{
	void (*const damages[])(struct malloc_debug_stack *) = { lose_page,      misplace_page,
		                                                 misplace_stack, rename_stack,
		                                                 empty_stack,    lengthen_stack,
		                                                 cut_stack };

	for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
		ms_addr p[3];

		regdrawn_deinit(&r);
		regdrawn_init(&r);
		for (unsigned k = 0; k < REGDRAWN_A_PAGE; k++)
			(void)regdrawn_stack(&r, 0x100 * (k + 1), 1);
		p[0] = regdrawn_block(&r, 24);
		p[1] = regdrawn_block(&r, 40);
		p[2] = regdrawn_block(&r, 40);
		(void)regdrawn_enter(&r, p[0], 20, 3);
		(void)regdrawn_enter(&r, p[1], 30, regdrawn_stack(&r, 0x999, 2));
		(void)regdrawn_enter(&r, p[2], 30, UINT32_MAX);
		damages[i](regdrawn_stack_at(&r, 3));
		decode();
		cr_expect_eq(regdrawn_size(&r, p[0]), 20, "%zu", i);
		cr_expect_eq(regdrawn_pc(&r, p[0]), 0, "%zu", i);
		cr_expect_eq(regdrawn_pc(&r, p[1]), 0x999, "%zu", i);
		cr_expect_eq(r.origins.blocks.n, 1);
		cr_expect(regdrawn_says(&r.warnings, "1 stacks of allocations"), "%zu", i);
	}
}
