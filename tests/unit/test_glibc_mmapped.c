/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ptrow.h"

/* Chunks with a mapping of their own. Pictures: ptheap.h. */

ParameterizedTestParameters(glibc_mmapped, a_header_tells_where_its_mapping_begins_and_ends)
{
	static struct row rows[] = {
		{ "none", "T u24 t", "", "", "0 mmapped chunks of 0 bytes" },
		{ "one", "T u24 t m200000", "", "", "1 mmapped chunks of 200704 bytes" },
		{ "of a page", "T u24 t m1", "", "", "1 mmapped chunks of 4096 bytes" },
		{ "adjoining", "T u24 t m200000 m5000 m1 m130000", "", "", "4 mmapped chunks" },
		{ "aligned to a page", "T u24 t a9000", "", "", "1 mmapped chunks of 16384" },
		{ "aligned to 64", "T u24 t A9000", "", "", "1 mmapped chunks" },
		{ "aligned in between", "T u24 t m1 a9000 m1 A1 a1 m90000", "", "", "6 mmapped" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_mmapped, a_header_tells_where_its_mapping_begins_and_ends,
                  .timeout = 20)
{
	check(row, "2.26");
	check(row, "2.36");
	check(row, "2.42");
	check(row, "2.43");
}

#define SOME "T u24 t m9000 a9000 m5000"
#define MORE "par.n_mmaps += 1, par.max_n_mmaps += 1"

ParameterizedTestParameters(glibc_mmapped, numbers_and_sums_must_be_those_of_the_counters)
{
	static struct row rows[] = {
		{ "more counted", SOME, MORE, "m", "3 mmapped chunks of 36864 bytes found, the" },
		{ "fewer counted", SOME, "par.n_mmaps -= 1", "m", "say 2 of 36864" },
		{ "more bytes counted", SOME,
		  "par.mmapped_mem += 4096, par.max_mmapped_mem += 4096", "m", "say 3 of 40960" },
		{ "fewer bytes counted", SOME, "par.mmapped_mem -= 4096", "m", "say 3 of 32768" },
		{ "a chunk shorter than counted", SOME, "chunk3.size -= 4096", "m", "found" },
		{ "begins before its run", SOME,
		  "chunk3.prev = 0x100000, par.mmapped_mem += 0x100000,"
		  "par.max_mmapped_mem += 0x100000",
		  "~m", "found" },
		{ "begins inside a page", SOME, "chunk3.prev += 16", "~m", "found" },
		{ "ends behind its run", SOME,
		  "chunk5.size = 0x200002, par.mmapped_mem += 0x1fe000,"
		  "par.max_mmapped_mem += 0x1fe000",
		  "~m", "found" },
		{ "its end wraps around", SOME, "chunk3.size = -4094", "~m", "found" },
		{ "size 0", SOME, "chunk3.size = 2", "~m", "found" },
		{ "a size of no whole pages", SOME, "chunk3.size += 16", "~m", "found" },
		{ "not mmapped", SOME, "chunk3.size ^= 2", "~m", "found" },
		{ "its neighbour below in use", SOME, "chunk3.size |= 1", "~m", "found" },
		{ "another arena's", SOME, "chunk3.size |= 4", "~m", "found" },
		{ "over the next", SOME, "chunk3.size += 0x1000", "~m", "found" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_mmapped, numbers_and_sums_must_be_those_of_the_counters,
                  .timeout = 20)
{
	check(row, "2.31");
	check(row, "2.36");
}

ParameterizedTestParameters(glibc_mmapped, from_2_43_on)
{
	static struct row rows[] = {
		{ "a mapping of huge pages", SOME, "chunk3.prev |= 1", "", "3 mmapped" },
		{ "mremap counted 16 bytes more", SOME,
		  "par.mmapped_mem += 16, par.max_mmapped_mem += 16", "", "3 mmapped" },
		{ "fewer bytes counted", SOME, "par.mmapped_mem -= 16", "m", "found, the" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_mmapped, from_2_43_on, .timeout = 20)
{
	check(row, "2.43");
}

/* A stale header, or the program's bytes, inside a chunk. */
Test(glibc_mmapped, what_looks_like_a_chunk_inside_one_is_none)
{
	ms_addr inside;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m50000 m5000");
	inside = ptheap_place(&h, "chunk3") + 0x2000;
	ms_fake_put(&h.fake, inside + 8, 0x1002);
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

Test(glibc_mmapped, malloc_maps_no_files)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m50000");
	h.fake.base.mappings.at[2].file = true;
	cr_expect_str_empty(ptheap_try(&h, "~m"), "%s", h.wrong);
	h.fake.base.mappings.at[2].file = false;
	h.fake.base.mappings.at[2].shared = true;
	cr_expect_str_empty(ptheap_try(&h, "~m"), "%s", h.wrong);
	ptheap_deinit(&h);
}

/* Nothing was written there, so no header either. */
Test(glibc_mmapped, memory_that_was_never_touched_is_passed_over)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m50000");
	h.fake.absent[2] = true;
	cr_expect_str_empty(ptheap_try(&h, "~m"), "%s", h.wrong);
	cr_expect(ptheap_says(&h, "0 mmapped chunks of 0 bytes found"));
	ptheap_deinit(&h);
}

/* Where the counters are is then not known; that nothing is counted must not be told. */
Test(glibc_mmapped, without_malloc_par_nothing_is_proved)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "m50000 ; T u24 t");
	ptheap_break(&h, "par.n_mmaps = -1, par.trim = 0");
	cr_expect_str_empty(ptheap_try(&h, "~m"), "%s", h.wrong);
	cr_expect_not(ptheap_says(&h, "as counted by malloc"));
	ptheap_deinit(&h);
}

/* Bytes read without view() in decoding what is drawn. */
static uint64_t bytes_read(void)
{
	h.fake.no_view = true;
	h.read_bytes = 0;
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	return h.read_bytes;
}

Test(glibc_mmapped, large_blocks_are_not_read_through)
{
	uint64_t without;
	uint64_t with;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t");
	without = bytes_read();
	ptheap_deinit(&h);
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m200000 a9000 m200000");
	with = bytes_read();
	cr_expect(ptheap_says(&h, "3 mmapped chunks of"));
	cr_expect_lt(with, without + 40000, "%llu more", (unsigned long long)(with - without));
	ptheap_deinit(&h);
}

/* Nor those behind what is none of malloc's, but that itself. */
Test(glibc_mmapped, the_way_is_found_again_behind_strangers)
{
	uint64_t with;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m5000 m9000 m100000 m300000");
	ptheap_break(&h, "chunk4.size = 0, par.n_mmaps -= 1, par.mmapped_mem -= 12288");
	h.fake.absent[0] = true; /* threads' memory, where it would be looked for as well */
	with = bytes_read();
	cr_expect(ptheap_says(&h, "3 mmapped chunks of"));
	cr_expect_lt(with, 250000, "%llu read", (unsigned long long)with);
	cr_expect_not_null(strstr(ptheap_told(&h), "100001005010:102384 "), "%s", ptheap_told(&h));
	ptheap_deinit(&h);
}

/* memalign() to more than a page: the true header stands pages behind a stale one. */
Test(glibc_mmapped, an_aligned_block_begins_where_its_last_header_says)
{
	ms_addr base;

	for (uint64_t align = 0x2000; align <= 0x10000; align *= 2) {
		ptheap_init(&h);
		ptheap_draw(&h, "2.36", "T u24 t m100000 m5000");
		base = ptheap_place(&h, "chunk3");
		ms_fake_put(&h.fake, base + align - 16, align - 16);
		ms_fake_put(&h.fake, base + align - 8, (102400 - (align - 16)) | 2);
		h.chunks[3].addr += align - 16;
		h.chunks[3].usable -= align - 16;
		cr_expect_str_empty(ptheap_try(&h, ""), "%llx: %s", (unsigned long long)align,
		                    h.wrong);
		ptheap_deinit(&h);
	}
}

/* In a larger page are more places, the last again that of whole pages. */
Test(glibc_mmapped, a_page_of_16_kib_has_more_places)
{
	for (uint64_t align = 0x40; align <= 0x4000; align *= 2) {
		ms_addr base;

		ptheap_init(&h);
		ptheap_draw(&h, "2.36", "T u24 t m114600");
		h.fake.base.abi.page_bytes = 0x4000;
		base = ptheap_place(&h, "chunk3");
		ms_fake_put(&h.fake, base + align - 16, align - 16);
		ms_fake_put(&h.fake, base + align - 8, (114688 - (align - 16)) | 2);
		h.chunks[3].addr += align - 16;
		h.chunks[3].usable -= align - 16;
		cr_expect_str_empty(ptheap_try(&h, ""), "%llx: %s", (unsigned long long)align,
		                    h.wrong);
		ptheap_deinit(&h);
	}
}

/* Aligned, then moved by mremap(): the true header stands anywhere, the stale one says less. */
Test(glibc_mmapped, where_headers_lead_astray_every_place_is_looked_at)
{
	ms_addr base;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m5000 m100000 m5000");
	base = ptheap_place(&h, "chunk4");
	ms_fake_put(&h.fake, base + 8, 0x9000 | 2);
	ms_fake_put(&h.fake, base + 0x2ff0, 0x2ff0);
	ms_fake_put(&h.fake, base + 0x2ff8, (102400 - 0x2ff0) | 2);
	h.chunks[4].addr += 0x2ff0;
	h.chunks[4].usable -= 0x2ff0;
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

/* ---- what looks like a chunk, and is the program's own ---- */

#define COUNTED "as counted by malloc"

ParameterizedTestParameters(glibc_mmapped, of_more_than_are_counted_those_that_agree_are_chunks)
{
	static struct row rows[] = {
		{ "one above", "T u24 t m9000 l50000", "", "", "1 mmapped chunks of 12288 bytes" },
		{ "one below", "T u24 t l50000 m9000", "", "", "1 mmapped chunks of 12288 bytes" },
		{ "between", "T u24 t m9000 l50000 a9000", "", "", "2 mmapped chunks of 28672" },
		{ "several", "T u24 t l1 m20000 l50000 A9000 l5000", "", "",
		  "2 mmapped chunks of" },
		{ "behind other memory", "T u24 t s9000 l1 s5000 m9000 s1 l50000", "", "",
		  "1 mmapped" },
		{ "one that reaches over the true ones", "T u24 t l1 m9000 m5000",
		  "chunk3.size += 0x5000", "", "2 mmapped chunks of 20480 bytes, " COUNTED },
		{ "one that reaches over a part", "T u24 t l1 m9000 m5000", "chunk3.size += 0x1000",
		  "", "2 mmapped chunks of 20480 bytes, " COUNTED },
		{ "one that ends in a true one", "T u24 t l5000 m20000 s8000",
		  "chunk3.size += 0x1000", "", "1 mmapped chunks of 20480 bytes, " COUNTED },
		{ "one that begins in an arena", "u24 | u24 t l1 m9000",
		  "chunk4.prev = 0x1000, par.n_mmaps += 1, par.max_n_mmaps += 1,"
		  "par.mmapped_mem += 8192, par.max_mmapped_mem += 8192",
		  "m", "1 mmapped chunks of 12288 bytes found" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_mmapped,
                  of_more_than_are_counted_those_that_agree_are_chunks, .timeout = 20)
{
	check(row, "2.31");
	check(row, "2.36");
	if (!strstr(row->damage, "par"))
		check(row, "2.42");
}

Test(glibc_mmapped, look_alikes_of_2_43_are_told_apart_as_well)
{
	const struct row row = { "extra", "T u24 t l1 m20000 l50000 A9000",
		                 "par.mmapped_mem += 32, par.max_mmapped_mem += 32", "",
		                 "2 mmapped chunks of" };

	check(&row, "2.43");
}

/* Protect what @begin to @end is of the chunk @n of the picture, or make it something else. */
static struct ms_mapping *cut(size_t n, uint64_t begin, uint64_t end)
{
	struct ms_mapping *m;

	(void)ms_fake_split(&h.fake, h.chunks[n].addr + end);
	m = ms_fake_split(&h.fake, h.chunks[n].addr + begin);
	return m;
}

Test(glibc_mmapped, look_alikes_may_end_in_memory_that_is_closed)
{
	for (uint8_t prot = 0; prot <= MS_PROT_READ; prot++) {
		ptheap_init(&h);
		ptheap_draw(&h, "2.36", "T u24 t m5000 l50000 m9000 s1");
		cut(4, 0x1000, 0xd000)->prot = prot;
		cr_expect_str_empty(ptheap_try(&h, ""), "%d: %s", prot, h.wrong);
		cr_expect(ptheap_says(&h, "2 mmapped chunks of 20480 bytes, " COUNTED));
		ptheap_deinit(&h);
	}
}

/* As an arena of another allocator's: nothing behind is passed over. */
Test(glibc_mmapped, what_reaches_over_closed_memory_hides_no_chunk_behind)
{
	uint64_t with;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t l1 s300000 m9000 s1");
	ptheap_break(&h, "chunk3.size += 0x4d000");
	cut(4, 0, 0x4a000)->prot = 0;
	with = bytes_read();
	cr_expect(ptheap_says(&h, "1 mmapped chunks of 12288 bytes, " COUNTED));
	cr_expect_lt(with, 250000, "%llu read", (unsigned long long)with);
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

/* A guard page in a stack that was allocated, say. */
Test(glibc_mmapped, a_program_may_close_pages_of_its_chunks)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m50000 m9000 s1");
	cut(3, 0x2000, 0x3000)->prot = 0;
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

Test(glibc_mmapped, shared_memory_and_files_are_no_look_alikes)
{
	for (int i = 0; i < 2; i++) {
		struct ms_mapping *m;

		ptheap_init(&h);
		ptheap_draw(&h, "2.36", "T u24 t m9000 l9000 s1");
		m = cut(4, 0, 0x3000);
		m->shared = i;
		m->file = !i;
		cr_expect_str_empty(ptheap_try(&h, ""), "%d: %s", i, h.wrong);
		ptheap_deinit(&h);
	}
}

/* Whether @chunk was told, and whether it was handed over as not proved: "told", "root", "". */
static const char *fate_of(size_t n)
{
	const struct ptheap_chunk *c = &h.chunks[n];
	char text[48];

	(void)snprintf(text, sizeof(text), "%llx:%llu ", (unsigned long long)c->addr + 16,
	               (unsigned long long)c->usable);
	return strstr(ptheap_told(&h), text)                   ? "told"
	       : ptheap_is_unproved(&h, c->addr + c->size - 1) ? "root"
	                                                       : "";
}

/* Several sets agree: what is in all of them is proved, and nothing is said of the rest. */
Test(glibc_mmapped, twins_that_nobody_can_tell_apart_are_roots)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m9000 l9000 m50000 l20000");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect(ptheap_is_verified(&h));
	cr_expect_str_eq(fate_of(3), "root");
	cr_expect_str_eq(fate_of(4), "root");
	cr_expect_str_eq(fate_of(5), "told");
	cr_expect_str_eq(fate_of(6), "");
	cr_expect(ptheap_says(&h, "1 mmapped chunks of 53248 bytes, " COUNTED));
	cr_expect(ptheap_says(&h, "1 more mmapped chunks are among 2 places that look alike"));
	ptheap_deinit(&h);
}

/* One with closed pages, too: the program may have closed them in a block. */
Test(glibc_mmapped, a_twin_with_closed_pages_is_a_twin)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m9000 l9000 s1");
	cut(4, 0x1000, 0x2000)->prot = 0;
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect(ptheap_is_verified(&h));
	cr_expect_str_eq(fate_of(3), "root");
	cr_expect_str_eq(fate_of(4), "root");
	ptheap_deinit(&h);
}

/* So many that the sets cannot be gone through: no guess. */
Test(glibc_mmapped, thousands_of_look_alikes_are_in_doubt, .timeout = 30)
{
	enum { N = 2000, PAGE = 4096 };
	ms_addr at = UINT64_C(0x300000000000);
	uint64_t pages = 0;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t m9000");
	(void)ms_fake_map(&h.fake, at, (size_t)N * 61 * PAGE, MS_PROT_READ | MS_PROT_WRITE, "");
	for (uint64_t i = 0; i < N; i++) {
		uint64_t bytes = (1 + i * 2654435761 % 61) * PAGE;

		ms_fake_put(&h.fake, at + 8, bytes | 2);
		at += bytes;
		pages += i % 2 ? bytes / PAGE : 0;
	}
	ms_fake_put(&h.fake, ptheap_place(&h, "par.mmapped_mem"), pages * PAGE);
	ptheap_break(&h, "par.n_mmaps = 1000, par.max_n_mmaps = 1000,"
	                 "par.max_mmapped_mem = 0x100000000");
	cr_expect_str_empty(ptheap_try(&h, "m"), "%s", h.wrong);
	cr_expect(ptheap_says(&h, "2001 places look like one, malloc counts 1000 of"));
	ptheap_deinit(&h);
}
