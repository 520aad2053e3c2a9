/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/graph/fold.h"
#include "engine/graph/words.h"
#include "fake.h"
#include "random_heap.h"

/*
 * Random heaps, walked over bytes in place and over gathered edges: whatever the options
 * and the number of workers, the same blocks are marked and the same leaks folded.
 */
enum { RW = MS_PROT_READ | MS_PROT_WRITE, WORKERS = 3 };

/* Walk from the root, then fold; what was marked in between goes to @marks. */
static void walk_and_fold(struct random_heap *h, struct ms_walk_options options, uint64_t *marks,
                          struct ms_heads *heads)
{
	struct ms_walk *walk = ms_walk_new(&h->blocks, &options, &h->fake.arena);

	cr_assert_not_null(walk);
	ms_walk_range(walk, (struct ms_range){ RH_ROOT, RH_ROOT + RH_ROOT_BYTES });
	cr_assert(!ms_walk_finish(walk, &h->err));
	for (size_t i = 0; i < h->blocks.cells.n; i++)
		marks[i] = h->blocks.cells.at[i].marks;
	cr_assert(!ms_fold(&h->blocks, &options, &h->fake.arena, heads, &h->err));
}

static bool same_heads(const struct ms_heads *a, const struct ms_heads *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (a->at[i].extent != b->at[i].extent || a->at[i].granule != b->at[i].granule ||
		    a->at[i].absorbed != b->at[i].absorbed || a->at[i].count != b->at[i].count ||
		    a->at[i].bytes != b->at[i].bytes)
			return false;
	return a->n == b->n;
}

static size_t count_bits(const uint64_t *marks, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (size_t)__builtin_popcountll(marks[i]);
	return sum;
}

/* Compare what edges say, gathered and followed by @workers, with what is told by bytes. */
static void compare(uint64_t seed, struct ms_walk_options options, struct ms_workers *workers)
{
	struct ms_edge_options wanted = { options.unaligned, rh_mangling };
	struct ms_walk_options shared = options;
	static struct random_heap by_bytes, by_edges;
	struct ms_heads heads_a = { 0 };
	struct ms_heads heads_b = { 0 };
	struct ms_edges edges = { 0 };
	uint64_t *a;
	uint64_t *b;
	size_t n;

	random_heap_draw(&by_bytes, seed, false);
	random_heap_draw(&by_edges, seed, true);
	n = by_bytes.blocks.cells.n;
	a = ms_arena_alloc(&by_bytes.fake.arena, n * sizeof(*a));
	b = ms_arena_alloc(&by_edges.fake.arena, n * sizeof(*b));
	cr_assert(!ms_edges_wanted(&by_bytes.blocks));
	cr_assert(ms_edges_wanted(&by_edges.blocks));
	cr_assert(!ms_edges_gather(&by_edges.blocks, &wanted, workers, &edges, &by_edges.err));
	walk_and_fold(&by_bytes, options, a, &heads_a);
	shared.edges = &edges;
	shared.workers = workers;
	walk_and_fold(&by_edges, shared, b, &heads_b);
	cr_expect_arr_eq(a, b, n * sizeof(*a), "seed %d: marks", (int)seed);
	cr_expect(same_heads(&heads_a, &heads_b), "seed %d: leaks", (int)seed);
	cr_expect_gt(count_bits(a, n), 15, "seed %d marks %zu", (int)seed, count_bits(a, n));
	cr_expect_gt(heads_a.n, 100);
	ms_fake_deinit(&by_bytes.fake);
	ms_fake_deinit(&by_edges.fake);
}

Test(edges, lead_where_bytes_do)
{
	struct ms_workers *workers[2] = { NULL };
	struct ms_error err;

	cr_assert(!ms_workers_start(WORKERS, &workers[1], &err));
	for (unsigned i = 0; i < 16; i++) {
		struct ms_walk_options options = { .unaligned = i & 1,
			                           .starts_only = i & 2,
			                           .mangling = i & 4 ? rh_mangling
			                                             : (struct ms_mangling){ 0 } };

		compare(1000 + i, options, workers[i >> 3]);
	}
	ms_workers_stop(workers[1]);
}

/* So that a walk can add to the address of a piece's edges. */
Test(edges, have_a_place_where_there_are_none)
{
	static struct ms_fake fake;
	struct ms_edge_options options = { 0 };
	struct ms_edges edges = { 0 };
	struct ms_blocks blocks;
	struct ms_error err;
	uint32_t extent;

	ms_fake_init(&fake);
	fake.no_view = true;
	(void)ms_fake_map(&fake, RH_LOWER, 4096, RW, "");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ RH_LOWER, RH_LOWER + 4096 }, 4,
	                          &extent));
	cr_assert(!ms_blocks_put(&blocks, extent, RH_LOWER + 16, 24));
	cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
	cr_assert(!ms_edges_gather(&blocks, &options, NULL, &edges, &err));
	cr_expect_not_null(edges.pieces[0].at);
	ms_fake_deinit(&fake);
}

/* Bytes in place, too, can be walked by several. */
Test(edges, are_not_needed_for_sharing_the_walk)
{
	static struct random_heap alone, shared;
	struct ms_walk_options options = { .mangling = rh_mangling };
	struct ms_heads heads_a = { 0 };
	struct ms_heads heads_b = { 0 };
	uint64_t *a;
	uint64_t *b;

	random_heap_draw(&alone, 7, false);
	random_heap_draw(&shared, 7, false);
	a = ms_arena_alloc(&alone.fake.arena, alone.blocks.cells.n * sizeof(*a));
	b = ms_arena_alloc(&alone.fake.arena, alone.blocks.cells.n * sizeof(*b));
	walk_and_fold(&alone, options, a, &heads_a);
	cr_assert(!ms_workers_start(WORKERS, &options.workers, &alone.err));
	walk_and_fold(&shared, options, b, &heads_b);
	cr_assert_arr_eq(a, b, alone.blocks.cells.n * sizeof(*a));
	cr_assert(same_heads(&heads_a, &heads_b));
	ms_workers_stop(options.workers);
	ms_fake_deinit(&alone.fake);
	ms_fake_deinit(&shared.fake);
}

static bool same_bytes(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	return !n || !memcmp(a, b, (size_t)n * MS_EDGE_BYTES);
}

Test(edges, are_the_same_for_any_number_of_workers)
{
	struct ms_edge_options wanted = { true, rh_mangling };
	struct ms_edges a = { 0 };
	struct ms_edges b = { 0 };
	struct ms_workers *workers;
	static struct random_heap h;
	size_t n_pieces;

	random_heap_draw(&h, 3, true);
	n_pieces = (h.blocks.cells.n + MS_EDGE_CELLS - 1) / MS_EDGE_CELLS;
	cr_assert_gt(n_pieces, 2);
	cr_assert(!ms_workers_start(WORKERS, &workers, &h.err));
	cr_assert(!ms_edges_gather(&h.blocks, &wanted, NULL, &a, &h.err));
	cr_assert(!ms_edges_gather(&h.blocks, &wanted, workers, &b, &h.err));
	cr_assert_arr_eq(a.first, b.first, (h.blocks.cells.n + n_pieces) * sizeof(*a.first));
	for (size_t i = 0; i < n_pieces; i++)
		cr_assert(same_bytes(a.pieces[i].at, b.pieces[i].at,
		                     a.first[(i + 1) * (MS_EDGE_CELLS + 1) - 1] % MS_FIRST_COUNT *
		                             (i + 1 < n_pieces)));
	cr_assert_eq(a.parts.n, b.parts.n);
	for (size_t i = 0; i < a.parts.n; i++) {
		cr_assert_eq(a.parts.at[i].n, b.parts.at[i].n);
		cr_assert_eq(a.parts.at[i].again, b.parts.at[i].again);
		cr_assert(same_bytes(a.parts.at[i].at, b.parts.at[i].at, a.parts.at[i].n));
	}
	ms_workers_stop(workers);
	ms_fake_deinit(&h.fake);
}

/* One extent at RH_LOWER with one block of @len bytes at 16, full of pointers to itself + 16. */
static size_t edges_of_full_block(uint64_t len, struct ms_walk_count *ret, size_t *reads)
{
	struct ms_edge_options wanted = { 0 };
	struct ms_walk_options options = { 0 };
	struct ms_edges edges = { 0 };
	struct ms_blocks blocks;
	struct ms_error err;
	struct ms_fake fake;
	struct ms_walk *walk;
	uint32_t extent;
	size_t n;

	ms_fake_init(&fake);
	fake.no_view = true;
	ms_fake_map(&fake, RH_LOWER, RH_LOWER_BYTES, RW, "");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ RH_LOWER, RH_LOWER + RH_LOWER_BYTES },
	                          4, &extent));
	cr_assert(!ms_blocks_put(&blocks, extent, RH_LOWER + 16, len));
	cr_assert(!ms_blocks_put(&blocks, extent, RH_LOWER + RH_LOWER_BYTES - 32, 8));
	for (uint64_t at = 16; at < 16 + len; at += 8)
		ms_fake_put(&fake, RH_LOWER + at, RH_LOWER + RH_LOWER_BYTES - 32);
	cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
	cr_assert(!ms_edges_gather(&blocks, &wanted, NULL, &edges, &err));
	n = edges.first[blocks.cells.n] & MS_FIRST_COUNT;
	options.edges = &edges;
	walk = ms_walk_new(&blocks, &options, &fake.arena);
	fake.reads = 0;
	ms_walk_word(walk, RH_LOWER + 16);
	cr_assert(!ms_walk_finish(walk, &err));
	*ret = ms_walk_count(walk);
	*reads = fake.reads;
	ms_fake_deinit(&fake);
	return n;
}

Test(edges, of_large_blocks_full_of_pointers_are_not_kept)
{
	static const struct {
		uint64_t len;
		size_t edges;
		size_t reads;
	} cases[] = {
		{ 1000, 125, 0 },     { 2024, 253, 0 },
		{ 2040, 1, 1 }, /* the last word lies in a cell of its own */
		{ 65536 - 24, 0, 1 }, { 200008, 0, 4 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_walk_count count;
		size_t reads;

		cr_expect_eq(edges_of_full_block(cases[i].len, &count, &reads), cases[i].edges,
		             "case %zu", i);
		cr_expect_eq(reads, cases[i].reads, "case %zu: %zu reads", i, reads);
		cr_expect_eq(count.blocks, 2, "case %zu", i);
	}
}

/* A tree in the first half, a chain in the second: far more than one item of work follows. */
Test(edges, lead_several_workers_through_trees_and_chains)
{
	enum { N = 60000, STRIDE = 64 };

	for (unsigned n = 1; n <= WORKERS; n += 2) {
		struct ms_walk_options options = { 0 };
		struct ms_edge_options wanted = { 0 };
		struct ms_edges edges = { 0 };
		struct ms_blocks blocks;
		struct ms_error err;
		struct ms_fake fake;
		struct ms_walk *walk;
		uint32_t extent;

		ms_fake_init(&fake);
		fake.no_view = true;
		ms_fake_map(&fake, RH_UPPER, RH_UPPER_BYTES, RW, "");
		ms_blocks_init(&blocks, &fake.base, &fake.arena);
		cr_assert(!ms_blocks_open(&blocks,
		                          (struct ms_range){ RH_UPPER, RH_UPPER + RH_UPPER_BYTES },
		                          4, &extent));
		for (uint64_t i = 0; i < N; i++) {
			uint64_t at = RH_UPPER + i * STRIDE;

			cr_assert(!ms_blocks_put(&blocks, extent, at, 40));
			if (i < N / 2)
				ms_fake_put(&fake, at, RH_UPPER + (2 * i + 1) % (N / 2) * STRIDE);
			if (i < N / 2)
				ms_fake_put(&fake, at + 8,
				            RH_UPPER + (2 * i + 2) % (N / 2) * STRIDE);
			else if (i + 1 < N)
				ms_fake_put(&fake, at + 16, at + STRIDE);
			/* Nobody's word. */
			ms_fake_put(&fake, at + 48, RH_UPPER);
		}
		cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
		cr_assert(!ms_workers_start(n, &options.workers, &err));
		cr_assert(!ms_edges_gather(&blocks, &wanted, options.workers, &edges, &err));
		cr_expect_eq(edges.first[MS_EDGE_CELLS] & MS_FIRST_COUNT,
		             N + N / 2 - 3); /* two point to themselves */
		options.edges = &edges;
		walk = ms_walk_new(&blocks, &options, &fake.arena);
		ms_walk_word(walk, RH_UPPER);
		ms_walk_word(walk, RH_UPPER + N / 2 * STRIDE);
		cr_assert(!ms_walk_finish(walk, &err));
		cr_expect_eq(ms_walk_count(walk).blocks, N, "%u workers", n);
		ms_workers_stop(options.workers);
		ms_fake_deinit(&fake);
	}
}

/* Words about both ends of the range, in any place of any number of words. */
Test(words, that_lie_in_a_range_are_found_among_others)
{
	static const uint64_t low = UINT64_C(0x555500001230);
	static const uint64_t span = UINT64_C(0x2a0000000000);
	const uint64_t about[] = {
		low - 1, low, low + 1,        low + span - 1, low + span,
		0,       1,   low + span / 2, UINT64_MAX,     low ^ UINT64_C(1) << 63
	};
	enum { ABOUT = sizeof(about) / sizeof(about[0]), MOST = 64, ROUNDS = 4096 };
	uint64_t words[MOST + 1] = { 0 };
	struct random_heap h = { .random = 88172645463325252 };

	for (int round = 0; round < ROUNDS; round++) {
		size_t n = (size_t)round % (MOST + 1);
		uint64_t in = 0;
		uint64_t bits = 0;
		uint64_t all = 0;
		uint64_t found;

		for (size_t i = 0; i < n; i++) {
			words[i] = about[random_heap_next(&h) % ABOUT];
			in |= (uint64_t)(words[i] - low < span) << i;
			bits |= words[i];
		}
		found = ms_words_between((const uint8_t *)words, n, low, span, &all);
		cr_assert_eq(found & in, in);
		cr_assert_eq(all, bits);
		for (size_t i = 0; i < n; i++)
			cr_assert(!(found >> i & 1) || words[i] - low < span + (UINT64_C(1) << 32));
		cr_assert(n == MOST || !(found >> n));
	}
}

Test(edges, words_by_their_lower_bits)
{
	enum { MOST = 64 };
	uint64_t words[MOST];

	for (size_t n = 0; n <= MOST; n++)
		for (uint32_t low = 0; low < 16; low++) {
			uint64_t expected = 0;

			for (size_t i = 0; i < n; i++) {
				words[i] = (n + i * 7) * UINT64_C(0x9e3779b97f4a7c15);
				expected |= (uint64_t)((words[i] & 15) == low) << i;
			}
			cr_assert_eq(ms_words_ending((const uint8_t *)words, n, low), expected);
		}
}
