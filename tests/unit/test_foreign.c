/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "engine/foreign.h"
#include "fake.h"

/* Memory that is a node of the graph, of some kind, beside a heap of which only a sum is known. */
enum { NODE = 0x10000000, RW = MS_PROT_READ | MS_PROT_WRITE };

struct memory {
	uint64_t kib;
	const char *name;
	int prot;
	bool shared;
	bool absent;
};

static struct ms_fake fake;
static struct ms_blocks blocks;
static struct ms_decoding decoding;
static struct ms_notes warnings;
static struct ms_totals totals;
static struct ms_error err;
static struct ms_heaps heaps;

static const struct ms_decoder toy = { .name = "toy", .reads = "toys of 1990" };
static const struct ms_decoder *const decoders[] = { &toy, NULL };

static void draw(struct memory memory)
{
	uint32_t extent;

	ms_fake_init(&fake);
	memset(&warnings, 0, sizeof(warnings));
	memset(&totals, 0, sizeof(totals));
	ms_fake_map(&fake, NODE, memory.kib << 10, memory.prot, memory.name);
	fake.base.mappings.at[0].shared = memory.shared;
	fake.absent[0] = memory.absent;
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open_single(&blocks,
	                                 (struct ms_range){ NODE, NODE + (memory.kib << 10) },
	                                 MS_EXTENT_MAPPING, &extent));
	cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
	memset(&heaps, 0, sizeof(heaps));
	strcpy(((struct ms_heap *)ms_vec_push(&fake.arena, &heaps))->allocator, "toy");
	decoding = (struct ms_decoding){ .src = &fake.base,
		                         .arena = &fake.arena,
		                         .blocks = &blocks,
		                         .decoders = decoders,
		                         .heaps = &heaps,
		                         .warnings = &warnings };
	ms_note_add(&fake.arena, &warnings, "an earlier one");
}

struct foreign_case {
	char title[64];
	char rival[8];
	uint64_t foreign_kib;
	uint64_t rivals_kib; /* the rival's own data */
	uint64_t decoded_kib;
	bool unused;
	bool may_pass_on;
	bool refused;
	char warning[40];
	bool loaded; /* the rival is there, and does not answer malloc */
};

static struct foreign_case foreign_cases[] = {
	{ "nothing besides", "", 4, 0, 100, false, false, false, "", false },
	{ "much, and a small heap", "", 32 << 10, 0, 100, false, false, false, "32 MiB", false },
	{ "much, but the heap is not small against it", "", 32 << 10, 0, 5 << 10, false, false,
	  false, "", false },
	{ "not much", "", 15 << 10, 0, 1, false, false, false, "", false },
	{ "malloc not called", "", 8, 0, 0, true, false, false, "never called", false },
	{ "malloc not called, and a rival", "a.so", 8, 0, 0, true, false, true, "", false },
	{ "a wrapper, not called", "a.so", 8, 0, 0, true, true, false, "never called", false },
	{ "one that dlsym does not excuse", "a.so", 512, 0, 0, true, true, true, "", false },
	{ "nor one with a static pool", "a.so", 8, 512, 0, true, true, true, "", false },
	{ "next to nothing, and a rival", "a.so", 512, 0, 3, false, true, true, "", false },
	{ "little of all, and a rival", "a.so", 8, 0, 3, false, false, false, "allocates with a.so",
	  false },
	{ "more than next to nothing", "a.so", 2 << 10, 0, 65, false, false, false, "with a.so",
	  false },
	{ "not so much besides", "a.so", 512, 0, 33, false, false, false, "with a.so", false },
	{ "loaded, and besides enough", "a.so", 8, 0, 100, false, false, false, "there is a.so",
	  true },
	{ "loaded, and next to nothing", "a.so", 512, 0, 3, false, false, false, "there is a.so",
	  true },
	{ "loaded, and malloc not called", "a.so", 8, 0, 0, true, false, true, "", true },
};

ParameterizedTestParameters(foreign, is_told_or_refused)
{
	return cr_make_param_array(struct foreign_case, foreign_cases,
	                           sizeof(foreign_cases) / sizeof(foreign_cases[0]));
}

ParameterizedTest(struct foreign_case *c, foreign, is_told_or_refused)
{
	draw((struct memory){ c->foreign_kib, "", RW, false, false });
	strcpy(decoding.rival.name, c->rival);
	decoding.rival.serves = c->rival[0] && !c->loaded;
	decoding.rival.bytes = c->rivals_kib << 10;
	decoding.rival.may_pass_on = c->may_pass_on;
	decoding.unused = c->unused;
	totals.allocation_bytes = c->decoded_kib << 10;
	cr_expect_eq(ms_foreign_check(&decoding, &totals, &err),
	             c->refused ? MS_E_UNSUPPORTED : MS_OK, "%s", c->title);
	cr_expect_eq(warnings.n, c->warning[0] ? 2 : 1, "%s", c->title);
	cr_expect(strstr(warnings.at[0].text, c->warning[0] ? c->warning : "earlier"), "%s: %s",
	          c->title, warnings.at[0].text);
	if (c->refused) {
		cr_expect(strstr(err.text, c->rival), "%s: %s", c->title, err.text);
		cr_expect(strstr(err.advice, "toys of 1990"), "%s: %s", c->title, err.advice);
	}
	ms_fake_deinit(&fake);
}

Test(foreign, memory_of_files_and_of_others_is_none)
{
	static const struct memory others[] = {
		{ 64 << 10, "/tmp/file", RW, false, false },
		{ 64 << 10, "", RW, true, false },
		{ 64 << 10, "", MS_PROT_READ, false, false },
		{ 64 << 10, "", RW, false, true },
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		draw(others[i]);
		cr_expect_eq(ms_foreign_check(&decoding, &totals, &err), MS_OK);
		cr_expect_eq(warnings.n, 1, "%zu: %s", i, warnings.at[0].text);
		ms_fake_deinit(&fake);
	}
}

/* Nobody can tell what is in it, but it is the decoded allocator's. */
Test(foreign, heap_that_is_not_proved_counts_as_decoded)
{
	draw((struct memory){ 512, "", RW, false, false });
	strcpy(decoding.rival.name, "a.so");
	decoding.rival.serves = true;
	cr_assert(ms_ranges_add(&fake.arena, &decoding.unproved, 0x1000000, 0x1100000));
	cr_expect_eq(ms_foreign_check(&decoding, &totals, &err), MS_OK);
	cr_expect(strstr(warnings.at[0].text, "a.so"));
	ms_fake_deinit(&fake);
}

Test(foreign, a_program_that_is_being_loaded_has_not_called_malloc)
{
	static const struct {
		const char *file;
		int threads;
		const char *warning;
	} cases[] = {
		{ "/lib64/ld-linux-x86-64.so.2", 1, "the process loads its program" },
		{ "/lib64/ld-linux-x86-64.so.2", 2, "never called" },
		{ "/lib/ld-musl-x86_64.so.1", 1, "never called" },
		{ "/usr/lib/libother.so", 1, "never called" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const ms_addr code = 0x70000000;

		draw((struct memory){ 8, "", RW, false, false });
		ms_fake_map(&fake, code, 4096, MS_PROT_READ | MS_PROT_EXEC, cases[i].file);
		for (int tid = 1; tid <= cases[i].threads; tid++)
			ms_fake_thread(&fake, tid, 0, 0)->pc = code + 8;
		decoding.unused = true;
		cr_expect_eq(ms_foreign_check(&decoding, &totals, &err), MS_OK);
		cr_expect(strstr(warnings.at[0].text, cases[i].warning), "%zu: %s", i,
		          warnings.at[0].text);
		ms_fake_deinit(&fake);
	}
}

/* What is said is said of all heaps that are decoded, each named once. */
Test(foreign, names_every_decoded_allocator_and_the_rivals_version)
{
	static const char *const names[] = { "glibc", "jemalloc", "glibc" };

	for (int refused = 0; refused <= 1; refused++) {
		draw((struct memory){ 512, "", RW, false, false });
		heaps.n = 0;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			strcpy(((struct ms_heap *)ms_vec_push(&fake.arena, &heaps))->allocator,
			       names[i]);
		decoding.rival =
			(struct ms_rival){ .name = "a.so", .what = "scudo 17", .serves = true };
		totals.allocation_bytes = refused ? 1 << 10 : 1 << 20;
		cr_expect_eq(ms_foreign_check(&decoding, &totals, &err),
		             refused ? MS_E_UNSUPPORTED : MS_OK);
		cr_expect(strstr(refused ? err.text : warnings.at[0].text,
		                 "allocates with a.so (scudo 17), which"));
		cr_expect(strstr(refused ? err.text : warnings.at[0].text,
		                 refused ? "; glibc and jemalloc's malloc has 1024 bytes"
		                         : "of the heap of glibc and jemalloc)"));
		ms_fake_deinit(&fake);
	}
}

/* Malloc was never called, and there is much memory; or a mapping of it is lost. */
Test(foreign, says_how_much_was_not_read)
{
	static const struct {
		uint64_t kib, decoded_kib;
		bool unused, lost, unread;
	} cases[] = {
		{ 16 << 10, 0, true, false, true },
		{ 16 << 10, 0, true, true, true },
		{ (16 << 10) - 4, 0, true, false, false },
		{ 32 << 10, 1, false, false, false },
		{ 16 << 10, 2 << 10, false, true, true },
		{ 16 << 10, 3 << 10, false, true, false },
		{ (16 << 10) - 4, 1, false, true, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_lost_mappings lost = { 0 };

		draw((struct memory){ cases[i].kib, "", RW, false, false });
		if (cases[i].lost)
			((struct ms_lost_mapping *)ms_vec_push(&fake.arena, &lost))->range =
				fake.base.mappings.at[0].range;
		decoding.unused = cases[i].unused;
		totals.allocation_bytes = cases[i].decoded_kib << 10;
		cr_assert_eq(ms_foreign_check(&decoding, &totals, &err), MS_OK);
		ms_foreign_check_lost(&decoding, &lost, &totals);
		cr_expect_eq(totals.unread_bytes, cases[i].unread ? cases[i].kib << 10 : 0, "%zu",
		             i);
		ms_fake_deinit(&fake);
	}
}

Test(foreign, lost_address_space_without_memory_is_not_much)
{
	struct ms_lost_mappings lost = { 0 };

	draw((struct memory){ 64 << 10, "", RW, false, true });
	((struct ms_lost_mapping *)ms_vec_push(&fake.arena, &lost))->range =
		fake.base.mappings.at[0].range;
	ms_foreign_check_lost(&decoding, &lost, &totals);
	cr_expect_eq(totals.unread_bytes, 0);
	ms_fake_deinit(&fake);
}
