/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/graph/fold.h"
#include "engine/graph/words.h"
#include "fake.h"

/*
 * Random heaps, walked over bytes in place and over gathered edges: whatever the options
 * and the number of workers, the same blocks are marked and the same leaks folded.
 *
 * A heap has two extents of small and large blocks, one of them of several pieces and
 * with a block longer than a piece, blocks that were freed, chunks that are extents of
 * their own, and a node of several mappings, of which some hold nothing.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	MIB = 1 << 20,
	UPPER_BYTES = 14 * MIB,
	LOWER_BYTES = 1 * MIB,
	SINGLE_BYTES = 5 * MIB + 4096,
	SHORT_BYTES = 3 * 4096,
	NODE_BYTES = 1 * MIB,
	N_NODES = 4,
	MAX_BLOCKS = 1 << 16,
	ROOTS = 8192,
	WORKERS = 3,
};

#define ROOT   UINT64_C(0x10000000)
#define LOWER  UINT64_C(0x20000000)
#define UPPER  UINT64_C(0x20400000)
#define SINGLE UINT64_C(0x30000010)
#define SHORT  UINT64_C(0x38000000)
#define NODE   UINT64_C(0x40000000)

static const struct ms_mangling mangling = { 0x9d1f3a5b7c2e4f60, 17 };

struct heap {
	struct ms_fake fake;
	struct ms_blocks blocks;
	ms_addr *at; /* of all blocks, and their lengths */
	uint64_t *len;
	size_t n;
	uint64_t random;
	struct ms_error err;
};

static uint64_t next_random(struct heap *h)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	return h->random;
}

static void note_block(struct heap *h, ms_addr at, uint64_t len)
{
	cr_assert_lt(h->n, MAX_BLOCKS);
	h->at[h->n] = at;
	h->len[h->n++] = len;
}

static uint64_t random_size(struct heap *h, bool huge)
{
	uint64_t r = next_random(h);

	if (huge)
		return 5 * MIB;
	switch (r % 64) {
	case 0:
		return 2040 + r / 64 % 80; /* about as long as a large one */
	case 1:
		return 8 + r / 64 % 30000;
	default:
		return 8 + r / 64 % 1000;
	}
}

/* Blocks with a header of 8 bytes before each, like glibc's; one in eight is free. */
static void put_blocks(struct heap *h, ms_addr begin, size_t bytes, bool huge)
{
	uint32_t extent;
	uint64_t len;
	int i = 0;

	cr_assert(
		!ms_blocks_open(&h->blocks, (struct ms_range){ begin, begin + bytes }, 4, &extent));
	for (ms_addr at = begin + 16;; at = ms_align_up(at + len + 8, 16)) {
		len = random_size(h, huge && ++i == 700) | 8;
		len = (len & ~UINT64_C(15)) + 8;
		if (at + len + 16 > begin + bytes)
			break;
		cr_assert(!ms_blocks_put(&h->blocks, extent, at, len));
		note_block(h, at, len);
	}
}

static void put_single(struct heap *h, struct ms_range range, enum ms_extent_kind kind)
{
	uint32_t extent;

	cr_assert(!ms_blocks_open_single(&h->blocks, range, kind, &extent));
	note_block(h, range.begin, ms_range_len(range));
}

static uint64_t random_pointer(struct heap *h)
{
	uint64_t r = next_random(h);
	size_t i = (size_t)(next_random(h) % h->n);
	uint64_t value = h->at[i];

	switch (r % 8) {
	case 0:
		value += r / 8 % (h->len[i] + 24);
		break;
	case 1:
		value -= r / 8 % 24;
		break;
	case 2:
		value ^= mangling.guard;
		value = value << 17 | value >> 47;
		break;
	case 3:
		return r;
	default:
		break;
	}
	return value;
}

/* Blocks with few pointers, and some that are full of them. */
static void put_pointers(struct heap *h)
{
	for (size_t i = 0; i < h->n; i++) {
		uint64_t r = next_random(h);
		uint64_t in_heap = h->at[i] < SINGLE ? 8 : 0;
		uint64_t n = r % 16 == 0 ? h->len[i] / 8 : r / 16 % 3 / 2;

		if (h->at[i] >= NODE || h->len[i] > 100000)
			n = 200;
		if (h->at[i] == SHORT)
			n = h->len[i] / 16;
		for (uint64_t k = 0; k < n; k++) {
			/* Also into the word behind it. */
			ms_addr at = h->at[i] + next_random(h) % (h->len[i] - 7 + in_heap);

			if (next_random(h) % 8)
				at = ms_align_down(at, 8);
			ms_fake_put(&h->fake, at, random_pointer(h));
		}
	}
	for (int i = 0; i < 40; i++)
		ms_fake_put(&h->fake, ROOT + next_random(h) % (ROOTS - 8) / 8 * 8,
		            random_pointer(h));
}

static void draw(struct heap *h, uint64_t seed, bool no_view)
{
	memset(h, 0, sizeof(*h));
	h->random = seed;
	ms_fake_init(&h->fake);
	h->fake.no_view = no_view;
	h->at = ms_arena_alloc(&h->fake.arena, MAX_BLOCKS * sizeof(*h->at));
	h->len = ms_arena_alloc(&h->fake.arena, MAX_BLOCKS * sizeof(*h->len));
	ms_fake_map(&h->fake, ROOT, ROOTS, RW, "");
	ms_fake_map(&h->fake, LOWER, LOWER_BYTES, RW, "[heap]");
	ms_fake_map(&h->fake, UPPER, UPPER_BYTES, RW, "");
	ms_fake_map(&h->fake, SINGLE - 16, SINGLE_BYTES, RW, "");
	ms_fake_map(&h->fake, SHORT, SHORT_BYTES, RW, "");
	for (unsigned i = 0; i < N_NODES; i++) {
		ms_fake_map(&h->fake, NODE + i * NODE_BYTES, NODE_BYTES, RW, "");
		h->fake.absent[h->fake.base.mappings.n - 1] = i == 1;
	}
	ms_blocks_init(&h->blocks, &h->fake.base, &h->fake.arena);
	put_blocks(h, UPPER, UPPER_BYTES, true);
	put_single(h, (struct ms_range){ NODE, NODE + N_NODES * NODE_BYTES }, MS_EXTENT_MAPPING);
	put_single(h, (struct ms_range){ SINGLE, SINGLE - 16 + SINGLE_BYTES }, MS_EXTENT_HEAP);
	put_blocks(h, LOWER, LOWER_BYTES, false);
	put_single(h, (struct ms_range){ SHORT, SHORT + SHORT_BYTES }, MS_EXTENT_HEAP);
	put_pointers(h);
	memset(ms_fake_at(&h->fake, NODE + NODE_BYTES), 0, NODE_BYTES); /* the absent one */
	cr_assert(!ms_blocks_sort(&h->blocks));
	for (size_t i = 0; i < h->n; i += 1 + next_random(h) % 15)
		(void)ms_blocks_kill(&h->blocks, h->at[i]);
	cr_assert(!ms_blocks_seal(&h->blocks));
}

/* Walk from the root, then fold; what was marked in between goes to @marks. */
static void walk_and_fold(struct heap *h, struct ms_walk_options options, uint64_t *marks,
                          struct ms_heads *heads)
{
	struct ms_walk *walk = ms_walk_new(&h->blocks, &options, &h->fake.arena);

	cr_assert_not_null(walk);
	ms_walk_range(walk, (struct ms_range){ ROOT, ROOT + ROOTS });
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
	struct ms_edge_options wanted = { options.unaligned, mangling };
	struct ms_walk_options shared = options;
	static struct heap by_bytes, by_edges;
	struct ms_heads heads_a = { 0 };
	struct ms_heads heads_b = { 0 };
	struct ms_edges edges = { 0 };
	uint64_t *a;
	uint64_t *b;
	size_t n;

	draw(&by_bytes, seed, false);
	draw(&by_edges, seed, true);
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
			                           .mangling.guard = i & 4 ? mangling.guard : 0,
			                           .mangling.rotate = mangling.rotate };

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
	(void)ms_fake_map(&fake, LOWER, 4096, RW, "");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ LOWER, LOWER + 4096 }, 4, &extent));
	cr_assert(!ms_blocks_put(&blocks, extent, LOWER + 16, 24));
	cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
	cr_assert(!ms_edges_gather(&blocks, &options, NULL, &edges, &err));
	cr_expect_not_null(edges.pieces[0].at);
	ms_fake_deinit(&fake);
}

/* Bytes in place, too, can be walked by several. */
Test(edges, are_not_needed_for_sharing_the_walk)
{
	static struct heap alone, shared;
	struct ms_walk_options options = { .mangling = mangling };
	struct ms_heads heads_a = { 0 };
	struct ms_heads heads_b = { 0 };
	uint64_t *a;
	uint64_t *b;

	draw(&alone, 7, false);
	draw(&shared, 7, false);
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
	struct ms_edge_options wanted = { true, mangling };
	struct ms_edges a = { 0 };
	struct ms_edges b = { 0 };
	struct ms_workers *workers;
	static struct heap h;
	size_t n_pieces;

	draw(&h, 3, true);
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

/* One extent at LOWER with one block of @len bytes at 16, full of pointers to itself + 16. */
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
	ms_fake_map(&fake, LOWER, LOWER_BYTES, RW, "");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ LOWER, LOWER + LOWER_BYTES }, 4,
	                          &extent));
	cr_assert(!ms_blocks_put(&blocks, extent, LOWER + 16, len));
	cr_assert(!ms_blocks_put(&blocks, extent, LOWER + LOWER_BYTES - 32, 8));
	for (uint64_t at = 16; at < 16 + len; at += 8)
		ms_fake_put(&fake, LOWER + at, LOWER + LOWER_BYTES - 32);
	cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
	cr_assert(!ms_edges_gather(&blocks, &wanted, NULL, &edges, &err));
	n = edges.first[blocks.cells.n] & MS_FIRST_COUNT;
	options.edges = &edges;
	walk = ms_walk_new(&blocks, &options, &fake.arena);
	fake.reads = 0;
	ms_walk_word(walk, LOWER + 16);
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
		ms_fake_map(&fake, UPPER, UPPER_BYTES, RW, "");
		ms_blocks_init(&blocks, &fake.base, &fake.arena);
		cr_assert(!ms_blocks_open(&blocks, (struct ms_range){ UPPER, UPPER + UPPER_BYTES },
		                          4, &extent));
		for (uint64_t i = 0; i < N; i++) {
			uint64_t at = UPPER + i * STRIDE;

			cr_assert(!ms_blocks_put(&blocks, extent, at, 40));
			if (i < N / 2)
				ms_fake_put(&fake, at, UPPER + (2 * i + 1) % (N / 2) * STRIDE);
			if (i < N / 2)
				ms_fake_put(&fake, at + 8, UPPER + (2 * i + 2) % (N / 2) * STRIDE);
			else if (i + 1 < N)
				ms_fake_put(&fake, at + 16, at + STRIDE);
			/* Nobody's word. */
			ms_fake_put(&fake, at + 48, UPPER);
		}
		cr_assert(!ms_blocks_sort(&blocks) && !ms_blocks_seal(&blocks));
		cr_assert(!ms_workers_start(n, &options.workers, &err));
		cr_assert(!ms_edges_gather(&blocks, &wanted, options.workers, &edges, &err));
		cr_expect_eq(edges.first[MS_EDGE_CELLS] & MS_FIRST_COUNT,
		             N + N / 2 - 3); /* two point to themselves */
		options.edges = &edges;
		walk = ms_walk_new(&blocks, &options, &fake.arena);
		ms_walk_word(walk, UPPER);
		ms_walk_word(walk, UPPER + N / 2 * STRIDE);
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
	struct heap h = { .random = 88172645463325252 };

	for (int round = 0; round < ROUNDS; round++) {
		size_t n = (size_t)round % (MOST + 1);
		uint64_t in = 0;
		uint64_t bits = 0;
		uint64_t all = 0;
		uint64_t found;

		for (size_t i = 0; i < n; i++) {
			words[i] = about[next_random(&h) % ABOUT];
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
