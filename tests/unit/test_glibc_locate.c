/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <time.h>

#include "alloc/glibc/layout.h"
#include "ptheap.h"
#include "sanitized.h"

/* main_arena and malloc_par in a module's data. Pictures: ptheap.h. */

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))

struct row {
	char version[8];
	char arena[64];
	char cache[48];
};

static struct ptheap h;

ParameterizedTestParameters(glibc_locate, the_layout_is_told_from_the_data)
{
	static struct row rows[] = {
		{ "2.26", "laid out as in glibc 2.26, malloc_par as in 2.26 to 2.34",
		  "2.26 to 2.29" },
		{ "2.27", "glibc 2.27 to 2.42, malloc_par as in 2.26 to 2.34", "2.26 to 2.29" },
		{ "2.31", "glibc 2.27 to 2.42, malloc_par as in 2.26 to 2.34", "2.30 to 2.41" },
		{ "2.33", "glibc 2.27 to 2.42, malloc_par as in 2.26 to 2.34", "2.30 to 2.41" },
		{ "2.36", "glibc 2.27 to 2.42, malloc_par as in 2.35 to 2.42", "2.30 to 2.41" },
		{ "2.42", "glibc 2.27 to 2.42, malloc_par as in 2.35 to 2.42", "2.42 to 2.43" },
		{ "2.43", "laid out as in glibc 2.43, malloc_par as in 2.43", "2.42 to 2.43" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_locate, the_layout_is_told_from_the_data)
{
	ptheap_init(&h);
	ptheap_draw(&h, row->version, "T u24 c24 f64 u24 t");
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect(ptheap_says(&h, row->arena), "%s", h.evidence.at[0].text);
	cr_expect(ptheap_says(&h, row->cache));
	cr_expect_str_eq(h.found.at[0].version, row->version);
	ptheap_deinit(&h);
}

Test(glibc_locate, tunables_do_not_hide_malloc_par)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 c24 t m9000");
	ptheap_break(&h, "par.trim = 4096");
	ms_fake_put(&h.fake, ptheap_place(&h, "par") + 8, 65536);
	ms_fake_put(&h.fake, ptheap_place(&h, "par") + 16, 4096);
	ms_fake_put(&h.fake, ptheap_place(&h, "par") + 24, 1);
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

/* Nothing links the two; and what main_arena says cannot be compared with anything then. */
Test(glibc_locate, without_malloc_par_the_main_arena_is_not_proved)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "u24 t ; T u24 t");
	ptheap_break(&h, "par.n_mmaps = -1, par.trim = 0");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect_not(ptheap_is_verified(&h));
	cr_expect(ptheap_says(&h, "not proved: malloc's parameters were not found"));
	ptheap_deinit(&h);
}

Test(glibc_locate, an_arena_may_spread_over_data_and_bss)
{
	struct ms_mapping *data;
	struct ms_mapping *bss;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 c24 t");
	data = &h.fake.base.mappings.at[h.fake.base.mappings.n - 1];
	h.fake.bytes[h.fake.base.mappings.n] = h.fake.bytes[h.fake.base.mappings.n - 1] + 0x1000;
	bss = ms_vec_push(&h.fake.arena, &h.fake.base.mappings);
	cr_assert(bss && data);
	*bss = *data;
	data->range.end -= 0x1000;
	bss->range.begin += 0x1000;
	bss->file = false;
	bss->name = "";
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

/* A busy heap has free chunks of nearly every size: of its bins the last alone is sure. */
Test(glibc_locate, an_arena_is_found_whatever_its_bins_hold)
{
	static const char *const versions[] = { "2.26", "2.31", "2.36", "2.43" };

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		ms_addr bins, chunk;

		ptheap_init(&h);
		ptheap_draw(&h, versions[i], "u24 f64 u24 t");
		bins = ptheap_place(&h, "main.fd0");
		chunk = ptheap_place(&h, "chunk1");
		for (ms_addr bin = bins; bin < bins + (ms_addr)(MS_BINS - 1) * 16; bin += 8)
			ms_fake_put(&h.fake, bin, chunk);
		cr_expect_eq(ptheap_decode(&h), MS_OK);
		cr_expect(ptheap_says(&h, "main_arena at"), "%s", versions[i]);
		ptheap_deinit(&h);
	}
}

/* ---- an arena that nobody used ---- */

static void expect_unused(const char *version)
{
	ptheap_init(&h);
	ptheap_draw(&h, version, "");
	cr_expect_str_empty(ptheap_try(&h, ""), "%s: %s", version, h.wrong);
	cr_assert_eq(h.found.n, 1, "%s", version);
	cr_expect_eq(h.found.at[0].allocations, 0, "%s", version);
	cr_expect(ptheap_says(&h, "malloc was never called"), "%s", version);
	cr_expect(h.decoding.unused, "%s", version);
	cr_expect_str_empty(h.decoding.rival.name, "%s", version);
	ptheap_deinit(&h);
}

Test(glibc_locate, an_unused_malloc_is_found_and_told)
{
	expect_unused("2.26");
	expect_unused("2.36");
	expect_unused("2.42");
	expect_unused("2.43");
}

Test(glibc_locate, a_malloc_that_only_mapped_was_called)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.43", "m200000");
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect_not(ptheap_says(&h, "malloc was never called"));
	cr_expect_not(h.decoding.unused);
	cr_expect_eq(h.warnings.n, 0);
	ptheap_deinit(&h);
}

/* Without the loader's list; tests/unit/test_served.c has those with one. */
Test(glibc_locate, where_another_malloc_is_loaded_an_unused_one_has_a_rival)
{
	static const char *const pictures[] = { "", "T u24 t" };

	for (int used = 0; used <= 1; used++) {
		ptheap_init(&h);
		ptheap_draw(&h, "2.36", pictures[used]);
		(void)ms_fake_map(&h.fake, 0x7f0000000000, 4096, MS_PROT_READ,
		                  "/usr/lib/libjemalloc.so.2");
		cr_expect_eq(ptheap_decode(&h), MS_OK);
		cr_expect_str_eq(h.decoding.rival.name, "libjemalloc.so.2");
		ptheap_deinit(&h);
	}
}

struct damage {
	char what[64];
	char picture[48];
	char damage[64];
};

ParameterizedTestParameters(glibc_locate, what_is_no_arena_is_not_told_as_one)
{
	static struct damage rows[] = {
		{ "no ring", "T u24 t ; u24 t", "arena0.next = 0" },
		{ "a ring that leads to the middle", "T u24 t ; u24 t", "arena0.next = arena0" },
		{ "a ring that leads outside", "T u24 t ; u24 t", "arena0.next = 0x7000" },
		{ "a ring that is not aligned", "T u24 t ; u24 t", "main.next += 8" },
		{ "a ring into memory that is not written", "T u24 t", "main.next -= 0x1a00" },
		{ "more threads than can be", "T u24 t", "main.attached = 70000" },
		{ "a bin that is no link", "T u24 t", "main.fd50 = 0x1111" },
		{ "a bin that leads outside", "T u24 t", "main.bk126 = 0x7000" },
		{ "unused, but with memory", "", "main.system_mem = 4096" },
		{ "unused, but with a top", "", "main.top = 4096" },
		{ "unused, but with a bin", "", "main.bk126 = main" },
		{ "unused, without a thread", "", "main.attached = 0" },
		{ "unused, next is another", "", "main.next += 16" },
	};

	return cr_make_param_array(struct damage, rows, sizeof(rows) / sizeof(rows[0]));
}

/* Found nothing: no blocks, no claim to any memory, no heap. */
ParameterizedTest(struct damage *row, glibc_locate, what_is_no_arena_is_not_told_as_one,
                  .timeout = 20)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", row->picture);
	ptheap_break(&h, row->damage);
	cr_expect_eq(ptheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.n, 0, "%s", row->what);
	cr_expect_eq(h.blocks.n, 0, "%s", row->what);
	cr_expect_eq(h.decoding.owned.n, 0, "%s", row->what);
	ptheap_deinit(&h);
}

/* With huge pages a heap is a file's mapping; the arena in it must not be taken for main. */
Test(glibc_locate, an_arena_in_a_heap_is_never_the_main_one)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "u24 t");
	ptheap_draw(&h, "2.36", "");
	for (ms_addr at = 0; at < 0xa00; at += 8)
		ms_fake_put(&h.fake, h.libcs[1].data + 0x30 + at, 0);
	for (ms_addr at = 0; at < 0x898; at += 8)
		ms_fake_put(&h.fake, h.libcs[1].arena + at, 0);
	ms_fake_put(&h.fake, h.libcs[1].data, h.libcs[1].data + 0x30);
	for (ms_addr bin = h.libcs[1].data + 0xa0; bin < h.libcs[1].data + 0x890; bin += 16) {
		ms_fake_put(&h.fake, bin, bin - 16);
		ms_fake_put(&h.fake, bin + 8, bin - 16);
	}
	ms_fake_put(&h.fake, h.libcs[1].data + 0x30 + 0x870, h.libcs[1].data + 0x30);
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect_eq(h.found.n, 1);
	ptheap_deinit(&h);
}

/* ---- two C libraries ---- */

Test(glibc_locate, two_libraries_are_told_each_and_their_mmapped_chunks_in_sum)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 f64 u40 c24 t m9000 ; T u24 t");
	ptheap_draw(&h, "2.36", "T u24 f64 u40 c40 t m9000 a5000");
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_assert_eq(h.found.n, 2);
	cr_expect_eq(h.found.at[0].n_evidence + h.found.at[1].n_evidence, h.evidence.n);
	cr_expect(ptheap_says(&h, "3 mmapped chunks"));
	cr_expect_eq(h.found.at[0].allocations + h.found.at[1].allocations, 8);
	ptheap_deinit(&h);
}

Test(glibc_locate, of_two_libraries_one_may_be_broken)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 f64 u40 t");
	ptheap_draw(&h, "2.36", "u24 f64 u40 t");
	ptheap_break(&h, "main1.system_mem += 4096");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_assert_eq(h.found.n, 2);
	cr_expect(h.found.at[0].verified);
	cr_expect_not(h.found.at[1].verified);
	cr_expect_eq(h.blocks.n, 2);
	cr_expect(ptheap_is_unproved(&h, ptheap_place(&h, "chunk5.mem")));
	ptheap_deinit(&h);
}

/* Both look for pieces that end in a fence, and only the first one's sum is right. */
Test(glibc_locate, what_one_of_two_libraries_is_proved_to_have_is_not_lost_by_the_other)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 c24 | u40 | u24 t");
	ptheap_draw(&h, "2.36", "u24 u40 t");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_assert_eq(h.found.n, 2);
	cr_expect(h.found.at[0].verified);
	cr_expect_not(h.found.at[1].verified);
	cr_expect_eq(h.blocks.n, 3);
	cr_expect_not(ptheap_is_unproved(&h, ptheap_place(&h, "chunk1.mem")));
	cr_expect_not(ptheap_is_unproved(&h, ptheap_place(&h, "chunk4.mem")));
	cr_expect(ptheap_is_unproved(&h, h.chunks[h.n_chunks - 1].addr));
	ptheap_deinit(&h);
}

Test(glibc_locate, the_unused_one_of_two_says_nothing_of_mmapped_chunks)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "");
	ptheap_draw(&h, "2.36", "T u24 c24 u40 t m9000");
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_assert_eq(h.found.n, 2);
	cr_expect_eq(h.found.at[0].allocations, 0);
	cr_expect_eq(h.found.at[1].allocations, 3);
	ptheap_deinit(&h);
}

/* ---- what else the decoder tells ---- */

Test(glibc_locate, malloc_s_own_variables_are_no_roots)
{
	ms_addr arena;
	struct ms_range rest;
	struct ms_range gap;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t");
	arena = ptheap_place(&h, "main");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_assert(ms_ranges_tidy(&h.arena, &h.decoding.owned));
	rest = (struct ms_range){ arena, arena + 0x898 };
	cr_expect_not(ms_range_next_gap(&rest, &h.decoding.owned, &gap));
	rest = (struct ms_range){ ptheap_place(&h, "chunk0"), ptheap_place(&h, "chunk2.mem") };
	cr_expect_not(ms_range_next_gap(&rest, &h.decoding.owned, &gap));
	ptheap_deinit(&h);
}

Test(glibc_locate, a_process_without_glibc_has_no_heap)
{
	ptheap_init(&h);
	cr_expect_eq(ptheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.n, 0);
	ptheap_deinit(&h);
}

/* Data is searched in pieces of less than 1 MiB; an arena may lie across two. */
Test(glibc_locate, an_arena_is_found_wherever_pieces_are_cut)
{
	enum { PIECE = (1 << 20) - 2 * 4096, SPAN = 0xa00 + 0x898 };

	for (uint64_t before = PIECE - SPAN - 64; before < PIECE + 64; before += 0x88) {
		ptheap_init(&h);
		h.data_before = before & ~UINT64_C(7);
		ptheap_draw(&h, before % 16 ? "2.36" : "2.43", "T u24 c24 f64 t ; u24 t m5000");
		cr_expect_str_empty(ptheap_try(&h, ""), "%llx before: %s",
		                    (unsigned long long)before, h.wrong);
		cr_expect_eq(h.found.n, 1, "found %zu times", h.found.n);
		ptheap_deinit(&h);
	}
}

/* Each of them begins 126 bins, one too few: that took some 4,000 looks at bins for each pair. */
Test(glibc_locate, data_full_of_what_looks_like_bins_takes_no_time)
{
	enum { BYTES = 8 << 20, BINS = 126, MOST_S = SANITIZED ? 12 : 2 };
	ms_addr data;
	clock_t begin;

	ptheap_init(&h);
	h.data_before = BYTES;
	ptheap_draw(&h, "2.36", "T u24 c24 t");
	data = h.libcs[0].data;
	for (ms_addr i = 0; i < BYTES / 16; i++)
		for (ms_addr half = 0; half < 16; half += 8)
			ms_fake_put(&h.fake, data + i * 16 + half,
			            i % (BINS + 1) == BINS ? 1 : data + i * 16 - 16);
	begin = clock();
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect_lt((double)(clock() - begin) / CLOCKS_PER_SEC, MOST_S);
	cr_expect(ptheap_is_verified(&h));
	ptheap_deinit(&h);
}
