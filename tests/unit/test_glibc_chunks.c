/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "ptrow.h"

/* Chunks of one segment, the bins, and the fastbins. Pictures: ptheap.h. */

ParameterizedTestParameters(glibc_chunks, blocks_are_the_chunks_in_use)
{
	static struct row rows[] = {
		{ "top alone", "t", "", "", "1 segments of 16384 bytes" },
		{ "one", "u24 t", "", "", "1 chunks in use" },
		{ "the smallest", "u0 u1 u24 t", "", "", "3 chunks in use" },
		{ "all sizes up to top", "u25 u40 u41 u1032 u1033 u12000 t", "", "", "6 chunks" },
		{ "nothing but top is left", "u16328 t", "", "", "1 chunks in use" },
		{ "a free one at the begin", "f24 u24 t", "", "", "1 free ones" },
		{ "free ones in between", "u24 f64 u24 f1000 u24 t", "", "", "2 free ones" },
		{ "in the bins of their sizes", "b32 u24 b64 u24 b1000 u24 b64 u9 t", "", "",
		  "4 free" },
		{ "a static program's heap", "o1234 u24 f64 u24 t", "", "", "of 15150 bytes" },
		{ "cached ones are free", "T c24 u24 c24 c400 u24 t", "", "", "3 blocks cached" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_chunks, blocks_are_the_chunks_in_use, .timeout = 20)
{
	static const char *const versions[] = { "2.26", "2.27", "2.31", "2.33",
		                                "2.36", "2.42", "2.43" };

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		check(row, versions[i]);
}

ParameterizedTestParameters(glibc_chunks, chunks_in_fastbins_are_free)
{
	static struct row rows[] = {
		{ "one", "u24 q24 u24 t", "", "", "1 chunks in fastbins" },
		{ "two of one size", "q40 u40 q40 t", "", "", "2 chunks in fastbins" },
		{ "every size",
		  "q24 q40 q56 q72 q88 q104 q120 u24 t || q9 q24 q40 q56 q72 q88 u24 t", "", "",
		  "7 chunks || 6 chunks" },
		{ "as long as M_MXFAST allows",
		  "u24 q136 u24 q152 u24 q168 q168 u24 t || u24 q76 u24 q92 q92 u24 t", "", "",
		  "4 chunks || 3 chunks" },
		{ "of each arena", "q24 u24 t ; q24 u24 q40 t", "", "", "3 chunks in fastbins" },
		{ "beside a cache", "T c24 q24 c24 q24 u24 t", "", "", "2 chunks in fastbins" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_chunks, chunks_in_fastbins_are_free, .timeout = 20)
{
	check(row, "2.26");
	check(row, "2.31");
	check(row, "2.33");
	check(row, "2.42");
}

/* So many that all short blocks are read at once. */
Test(glibc_chunks, chunks_in_fastbins_may_lie_anywhere, .timeout = 20)
{
	char picture[512];
	char *to = picture + sprintf(picture, "u9 t ; ");

	for (int i = 0; i < 12; i++)
		to += sprintf(to, "u24 q24 u1000 q40 u16 q120 u136 q24 %c ", i < 11 ? '|' : 't');
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", picture);
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect(ptheap_says(&h, "48 chunks in fastbins"));
	ptheap_deinit(&h);
}

/*
 * Before 2.32 links are plain. Here the one from the second chunk to the first, taken for one that
 * is xored with its place, leads to another used chunk, too: the last one.
 */
Test(glibc_chunks, fastbins_of_a_heap_at_low_addresses)
{
	static const char *const versions[] = { "2.26", "2.31", "2.33", "2.42" };

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		ptheap_init(&h);
		h.base = 0x1000000;
		ptheap_draw(&h, versions[i], "q24 q24 u4024 u56 t");
		cr_expect_str_empty(ptheap_try(&h, ""), "%s: %s", versions[i], h.wrong);
		cr_expect(ptheap_says(&h, "2 chunks in fastbins"), "%s", versions[i]);
		ptheap_deinit(&h);
	}
}

#define HEAP "T u24 f64 u40 f200 u24 u40 u64 t"

ParameterizedTestParameters(glibc_chunks, a_segment_that_cannot_be_walked_is_not_proved)
{
	static struct row rows[] = {
		{ "a size that leads out of the heap", HEAP, "chunk1.size = 0x100021", "M",
		  "0x100000000290 contradicts || 0x10000198 contradicts" },
		{ "a size that wraps around", HEAP, "chunk1.size = -15", "M",
		  "0x100000000290 contradicts || 0x10000198 contradicts" },
		{ "a size that leads exactly to the end", HEAP,
		  "chunk1.size = 0x3d71 || chunk1.size = 0x3e69", "M",
		  "0x100000000290 contradicts || 0x10000198 contradicts" },
		{ "size 0", HEAP, "chunk1.size = 1", "M",
		  "0x100000000290 contradicts || 0x10000198 contradicts" },
		{ "a size below the smallest", HEAP, "chunk1.size = 17", "M", "contradicts" },
		{ "a size that is not aligned", HEAP, "chunk1.size += 8", "M", "contradicts" },
		{ "two that are not aligned, but lead on", "u24 u24 u40 u24 t",
		  "chunk1.size = 41, chunk2.mem = 41", "M", "contradicts" },
		{ "size 0 of another arena", "T u9 t ; u24 u24 t", "chunk3.size = 1", "0",
		  "contradicts" },
		{ "a size that leads into the next chunk", HEAP, "chunk1.size += 32", "M",
		  "contradicts" },
		{ "a size that leads over a free chunk", HEAP, "chunk1.size += 80", "M",
		  "contradicts" },
		{ "an mmapped chunk's bit", HEAP, "chunk1.size |= 2", "M", "contradicts" },
		{ "another arena's bit", HEAP, "chunk1.size |= 4", "M", "contradicts" },
		{ "no arena's bit", "T u9 t ; u24 u24 t", "chunk4.size ^= 4", "0", "contradicts" },
		{ "a wrong footer", HEAP, "chunk2.foot = 64", "M",
		  "0x1000000002b0 contradicts || 0x100001b8 contradicts" },
		{ "no footer", HEAP, "chunk2.foot = 0", "M",
		  "0x1000000002b0 contradicts || 0x100001b8 contradicts" },
		{ "free chunks side by side", "u24 f64 f64 u24 t", "", "M", "contradicts" },
		{ "free by its neighbour's bit alone", HEAP, "chunk6.next_size ^= 1", "M",
		  "contradicts" },
		{ "top that is no chunk", HEAP, "chunk8.size = 1", "M", "not end where top" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_chunks, a_segment_that_cannot_be_walked_is_not_proved,
                  .timeout = 20)
{
	check(row, "2.36");
}

ParameterizedTestParameters(glibc_chunks, free_chunks_and_bins_must_agree)
{
	static struct row rows[] = {
		{ "none in the bins", HEAP, "main.fd0 = main.bin0", "M",
		  "2 free chunks, but 0 in bins" },
		{ "one is missing", HEAP, "chunk4.fd = main.bin0", "M",
		  "2 free chunks, but 1 in bins" },
		{ "a list that leads to itself", HEAP, "chunk2.fd = chunk2", "M", "but not free" },
		{ "a list that leads to its begin", HEAP, "chunk2.fd = chunk4", "M",
		  "but not free" },
		{ "a list that ends nowhere", HEAP, "chunk2.fd = 0", "M", "0x0 is in a bin" },
		{ "a list that leads outside", HEAP, "chunk2.fd = 0x1230", "M", "0x1230 is in" },
		{ "an entry that is in use", HEAP,
		  "chunk2.fd = chunk3, chunk3.bk = chunk2, chunk3.fd = main.bin0", "M",
		  "but not free" },
		{ "an entry inside a free chunk", HEAP, "main.fd9 = chunk4, main.fd9 += 16", "M",
		  "but not free" },
		{ "one in two bins", HEAP, "main.fd5 = chunk2", "M", "but not free" },
		{ "another back", HEAP, "chunk2.bk = chunk5", "M", "but not free" },
		{ "no way back", HEAP, "chunk4.bk = 0", "M", "but not free" },
		{ "mmapped", HEAP " m9000", "main.fd5 = chunk9", "M", "but not free" },
		{ "another arena's", "T f24 u24 t ; f24 u24 t",
		  "main.fd0 = chunk4, chunk4.bk = main.bin0, chunk4.fd = main.bin0", "M0",
		  "is in a bin, but not free" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_chunks, free_chunks_and_bins_must_agree, .timeout = 20)
{
	check(row, "2.36");
	check(row, "2.43");
}

#define FAST "T u24 f64 u24 q24 q24 q40 u120 u24 t m9000"

ParameterizedTestParameters(glibc_chunks, fastbins_must_hold_used_chunks_of_their_size)
{
	static struct row rows[] = {
		{ "a list that leads to itself", FAST, "chunk5.fd -> chunk5", "M",
		  "fastbin 0 || fastbin 2" },
		{ "a list that leads to its begin", FAST, "chunk4.fd -> chunk5", "M",
		  "fastbin 0 || fastbin 2" },
		{ "an entry that is free", FAST, "main.fast3 = chunk2 || main.fast8 = chunk2", "M",
		  "fastbin 3 || fastbin 8" },
		{ "an entry that is none", FAST,
		  "main.fast2 = chunk1.mem || main.fast6 = chunk1.mem", "M",
		  "fastbin 2 || fastbin 6" },
		{ "an entry outside", FAST, "main.fast2 = 0x12340 || main.fast6 = 0x12340", "M",
		  "fastbin 2 || fastbin 6" },
		{ "an entry of another size", FAST,
		  "main.fast2 = chunk1, chunk1.fd -> 0 || main.fast6 = chunk1, chunk1.fd -> 0", "M",
		  "fastbin 2 || fastbin 6" },
		{ "an entry too large", FAST,
		  "main.fast2 = chunk7, chunk7.fd -> 0 || main.fast6 = chunk7, chunk7.fd -> 0", "M",
		  "fastbin 2 || fastbin 6" },
		{ "an mmapped entry", FAST,
		  "main.fast2 = chunk10, chunk10.fd -> 0 || main.fast6 = chunk10, chunk10.fd -> 0",
		  "M", "fastbin 2 || fastbin 6" },
		{ "an entry of two lists", FAST, "main.fast2 = chunk6 || main.fast6 = chunk6", "M",
		  "fastbin 2 || fastbin 6" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_chunks, fastbins_must_hold_used_chunks_of_their_size,
                  .timeout = 20)
{
	check(row, "2.31");
	check(row, "2.36");
}

/* What the other tests leave to ptheap: the very addresses and bytes. */
Test(glibc_chunks, a_block_begins_behind_its_header_and_ends_with_the_next_ones_first_word)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "u24 f64 u100 t");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect_str_eq(ptheap_told(&h), "100000000010:24 100000000080:104 ");
	ptheap_deinit(&h);
}

Test(glibc_chunks, counters_leave_out_what_is_cached_and_the_cache)
{
	const struct ms_heap *heap = NULL;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 u100 f64 u40 c24 q40 t m5000");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_assert_eq(h.found.n, 1);
	heap = h.found.at;
	cr_expect_str_eq(heap->allocator, "glibc");
	cr_expect_eq(heap->allocations, 4);
	cr_expect_eq(heap->allocation_bytes, 24 + 104 + 40 + 8176);
	cr_expect_eq(heap->free_bytes, 80 + 648 + 24 + 40);
	cr_expect_eq(heap->mapped_bytes, PTHEAP_PIECE + 8192);
	cr_expect_eq(h.blocks.n, heap->allocations);
	cr_expect_eq(h.blocks.bytes, heap->allocation_bytes);
	ptheap_deinit(&h);
}

/* A cache of an arena that is not proved may hold blocks of others, and is not in the sum. */
Test(glibc_chunks, counters_leave_out_what_is_not_proved_with_what_is_cached_there)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 q40 c24 u40 q24 t m5000 ; T u24 c24 u40 q40 t");
	ptheap_break(&h, "main.fast5 = 0x12340");
	cr_expect_str_empty(ptheap_try(&h, "M"), "%s", h.wrong);
	cr_assert_eq(h.found.n, 1);
	cr_expect_eq(h.found.at[0].allocations, 3);
	cr_expect_eq(h.found.at[0].allocation_bytes, 24 + 40 + 8176);
	cr_expect_eq(h.found.at[0].free_bytes, 648 + 24 + 40);
	ptheap_deinit(&h);
}

Test(glibc_chunks, every_comparison_is_a_line_of_evidence)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 f64 u40 c24 q40 t m5000 ; T u24 t");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.at[0].n_evidence, h.evidence.n);
	cr_expect(ptheap_says(&h, "laid out as in glibc 2.27 to 2.42, malloc_par as in 2.35 to"));
	cr_expect(ptheap_says(&h, "main arena 0x100200001a00: 1 segments of 16384 bytes"));
	cr_expect(ptheap_says(&h, "5 chunks in use, 1 free ones are those of its bins"));
	cr_expect(ptheap_says(&h, "arena 0x100100000030: 1 segments of 16384 bytes"));
	cr_expect(ptheap_says(&h, "1 mmapped chunks of 8192 bytes, as counted by malloc"));
	cr_expect(ptheap_says(&h, "of glibc 2.30 to 2.41: 2 decoded, 0 contradicting"));
	cr_expect(ptheap_says(&h, "1 chunks in fastbins"));
	ptheap_deinit(&h);
}

/*
 * Free chunks are proved to be those of the bins by what the walk has seen of them
 * (bins.c): nothing is read twice.
 */
Test(glibc_chunks, no_bin_of_a_good_heap_is_followed)
{
	uint64_t few;
	uint64_t many;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "u24 u3000 u24 u3000 u24 u3000 u24 t");
	h.fake.no_view = true;
	h.reads = 0;
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	few = h.reads;
	ptheap_deinit(&h);
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "u24 f3000 u24 f3000 u24 f3000 u24 t");
	h.fake.no_view = true;
	h.reads = 0;
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	many = h.reads;
	cr_expect(ptheap_says(&h, "3 free ones"));
	cr_expect_eq(few, many, "%llu reads, then %llu", (unsigned long long)few,
	             (unsigned long long)many);
	ptheap_deinit(&h);
}

/* ---- parts ---- */

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* A picture of one random heap after the other, for several arenas and segments. */
static void draw_random(uint32_t *state)
{
	static const char *const ends[] = { "t", "x77 u24 u40 t", "| u24 u2000 t",
		                            "t ; u24 T u9 t" };
	char picture[1200];
	char *to = picture + sprintf(picture, "T ");
	uint32_t bytes = 1000;

	while (bytes < 12000) {
		uint32_t size = next_random(state) % 8 ? 24 + next_random(state) % 200
		                                       : next_random(state) % 5000;

		if (bytes + size > 14000)
			break;
		to += sprintf(to, "u%u ", size);
		bytes += size + 32;
		if (next_random(state) % 3 == 0)
			to += sprintf(to, "f%u u24 ", 32 + size / 2);
		bytes += size / 2 + 64;
	}
	(void)sprintf(to, "%s", ends[next_random(state) % 4]);
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", picture);
}

/*
 * Headers of chunks that are none, inside of blocks: a chain of some that leads to the
 * block's end, as freed and joined chunks leave it, or elsewhere.
 */
static void write_stale(const struct ptheap_chunk *chunk, uint32_t *state)
{
	ms_addr end = chunk->addr + chunk->size;
	ms_addr at = chunk->addr + 32;

	while (at + 32 <= end) {
		uint64_t size = 32 + next_random(state) % 6 * 16;

		if (at + size + 32 > end)
			size = end - at + (next_random(state) % 4 ? 0 : 16);
		ms_fake_put(&h.fake, at + 8, size | 1);
		at += size;
	}
}

static void write_all_stale(uint32_t *state)
{
	for (size_t i = 0; i < h.n_chunks; i++)
		if (h.chunks[i].kind == 'u' && h.chunks[i].size >= 96 && next_random(state) % 4)
			write_stale(&h.chunks[i], state);
}

static void expect_no_difference(uint32_t seed)
{
	static const unsigned int workers[] = { 2, 5 };
	static const uint64_t parts[] = { 1024, 2048, 5120 };
	char *alone = ptheap_account(&h, 1, 0);

	for (size_t i = 0; i < 6; i++) {
		char *shared = ptheap_account(&h, workers[i % 2], parts[i / 2]);

		cr_expect_str_eq(shared, alone, "seed %u, %u workers, parts of %llu", seed,
		                 workers[i % 2], (unsigned long long)parts[i / 2]);
		free(shared);
	}
	free(alone);
}

Test(glibc_chunks, parts_walked_by_themselves_are_one_walk, .timeout = 60)
{
	for (uint32_t seed = 0; seed < 100; seed++) {
		uint32_t state = seed;

		draw_random(&state);
		write_all_stale(&state);
		cr_expect_str_empty(ptheap_try(&h, ""), "seed %u: %s", seed, h.wrong);
		expect_no_difference(seed);
		ptheap_deinit(&h);
	}
}

/* Any word of any chunk's header or links. */
Test(glibc_chunks, parts_of_a_bad_heap_end_where_one_walk_does, .timeout = 60)
{
	for (uint32_t seed = 1000; seed < 1200; seed++) {
		uint32_t state = seed;
		const struct ptheap_chunk *chunk;

		draw_random(&state);
		write_all_stale(&state);
		chunk = &h.chunks[next_random(&state) % h.n_chunks];
		ms_fake_put(&h.fake, chunk->addr + next_random(&state) % 4 * 8,
		            next_random(&state) % 100 * 16 + next_random(&state) % 2);
		expect_no_difference(seed);
		ptheap_deinit(&h);
	}
}
