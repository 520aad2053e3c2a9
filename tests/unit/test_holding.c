/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/holding/chains.h"
#include "random_heap.h"

/* Rows and chains of random heaps, against the marks of the quick walk. */

static const struct ms_range root = { RH_ROOT, RH_ROOT + RH_ROOT_BYTES };

static void draw(struct random_heap *h, struct ms_roots *roots, uint64_t seed, bool no_view)
{
	static const struct ms_regions none;

	random_heap_draw(h, seed, no_view);
	*roots = (struct ms_roots){ .regions = &none, .src = &h->fake.base };
	cr_assert(ms_ranges_add(&h->fake.arena, &roots->ranges, root.begin, root.end));
}

/* Mark what roots reach; the marks are left. */
static void mark(struct random_heap *h, const struct ms_roots *roots,
                 const struct ms_walk_options *like)
{
	struct ms_walk *walk = ms_walk_new(&h->blocks, like, &h->fake.arena);

	cr_assert(walk);
	ms_roots_walk(roots, walk);
	cr_assert(!ms_walk_finish(walk, &h->err));
}

/* How many blocks are held; all as they are marked. */
static size_t compare(const struct ms_chains *chains, const struct ms_blocks *blocks)
{
	size_t held = 0;

	for (uint32_t i = 0; i < ms_blocks_numbers(blocks); i++) {
		struct ms_block block = ms_block_numbered(blocks, i);

		held += ms_chains_held(chains, block);
		cr_assert_eq(ms_chains_held(chains, block), ms_block_is_marked(blocks, block),
		             "block %u", i);
	}
	return held;
}

Test(holding, reaches_what_the_quick_walk_marks)
{
	for (unsigned i = 0; i < 16; i++) {
		struct ms_walk_options like = { .unaligned = i & 1,
			                        .starts_only = i & 2,
			                        .mangling = i & 4 ? rh_mangling
			                                          : (struct ms_mangling){ 0 } };
		static struct random_heap h;
		struct ms_chains chains;
		struct ms_roots roots;
		struct ms_rows rows;

		draw(&h, &roots, 1000 + i, i & 8);
		mark(&h, &roots, &like);
		cr_assert(!ms_rows_gather(&h.blocks, &like, &h.fake.arena, &rows, &h.err));
		cr_assert(!ms_chains_walk(&rows, &roots, &h.fake.arena, &chains, &h.err));
		cr_expect_gt(compare(&chains, &h.blocks), 15, "case %u", i);
		ms_fake_deinit(&h.fake);
	}
}

/* ---- what is set aside ---- */

struct drawn {
	struct random_heap h;
	struct ms_walk_options like;
	struct ms_roots roots;
	struct ms_rows rows;
	struct ms_chains chains;
};

/* Let the word at @at point to a block that nothing else leads to, if there is one. */
static void hold_another(struct drawn *d, ms_addr at)
{
	mark(&d->h, &d->roots, &d->like);
	for (uint32_t i = 0; i < ms_blocks_numbers(&d->h.blocks); i++) {
		struct ms_block block = ms_block_numbered(&d->h.blocks, i);

		if (ms_block_is_marked(&d->h.blocks, block))
			continue;
		ms_fake_put(&d->h.fake, at,
		            ms_block_begin(&d->h.blocks.extents.at[block.extent], block.granule));
		break;
	}
	ms_blocks_unmark(&d->h.blocks);
}

static void draw_chains(struct drawn *d, uint64_t seed)
{
	uint64_t word;

	d->like = (struct ms_walk_options){ .unaligned = false };
	draw(&d->h, &d->roots, seed, seed & 1);
	if (seed % 3 == 0)
		hold_another(d, root.begin);
	/* From two words, of which one may be set aside. */
	if (seed % 6 == 0 && ms_source_word(&d->h.fake.base, root.begin, &word))
		ms_fake_put(&d->h.fake, root.end - 8, word);
	cr_assert(!ms_rows_gather(&d->h.blocks, &d->like, &d->h.fake.arena, &d->rows, &d->h.err));
	cr_assert(!ms_chains_walk(&d->rows, &d->roots, &d->h.fake.arena, &d->chains, &d->h.err));
}

/* Whether the word at @at points to @block. */
static bool points_to(struct drawn *d, ms_addr at, struct ms_block block)
{
	struct ms_numbered found;
	uint64_t word;

	return ms_source_word(&d->h.fake.base, at, &word) &&
	       ms_blocks_at(&d->h.blocks, word, &found) &&
	       found.number == ms_block_number(&d->h.blocks, block);
}

/* How many words of @range do; they are gone then. */
static size_t take_words(struct drawn *d, struct ms_range range, struct ms_block block)
{
	size_t n = 0;

	for (ms_addr at = range.begin; at + 8 <= range.end; at += 8) {
		if (!points_to(d, at, block))
			continue;
		ms_fake_put(&d->h.fake, at, 0);
		n++;
	}
	return n;
}

/* The block that the @nth word of the root points to, if it points to one. */
static bool pointed_to(struct drawn *d, size_t nth, struct ms_block *ret)
{
	struct ms_numbered found;
	uint64_t word;

	if (!ms_source_word(&d->h.fake.base, root.begin + 8 * nth, &word) ||
	    !ms_blocks_at(&d->h.blocks, word, &found))
		return false;
	*ret = ms_block_numbered(&d->h.blocks, (uint32_t)found.number);
	return true;
}

/* Pointers that are set aside count as if they were not there, and are found again. */
Test(holding, passes_over_what_is_set_aside)
{
	static const struct ms_range halves[] = { { RH_ROOT, RH_ROOT + RH_ROOT_BYTES / 2 },
		                                  { RH_ROOT, RH_ROOT + RH_ROOT_BYTES } };
	size_t lost = 0;

	for (unsigned i = 0; i < 12; i++) {
		static struct drawn d;
		struct ms_chain aside = { .steps = { 0 } };
		struct ms_chain chain;
		struct ms_block block;

		draw_chains(&d, 3000 + i);
		if (pointed_to(&d, (3000 + i) % 3 * i, &block)) {
			ms_chains_set_aside(&d.chains, halves[i & 1], block);
			cr_assert(ms_chains_find_aside(&d.chains, &aside));
			cr_assert_eq(aside.steps.n, 1);
			cr_assert(points_to(&d, aside.root.at, block));
			cr_assert(!ms_chains_find(&d.chains, block, &chain, &d.h.err));
			cr_assert(chain.steps.n != 1 ||
			          !ms_range_has(halves[i & 1], chain.root.at));
			cr_assert_gt(take_words(&d, halves[i & 1], block), 0);
			mark(&d.h, &d.roots, &d.like);
			compare(&d.chains, &d.h.blocks);
			lost += !ms_chains_held(&d.chains, block);
		}
		ms_fake_deinit(&d.h.fake);
	}
	cr_assert_gt(lost, 0);
}

/* The row of a block, word by word, by the table of blocks alone. */
struct row {
	uint32_t to[1 << 12];
	size_t n;
};

static void add_to_row(struct row *row, const struct ms_blocks *blocks, uint32_t from,
                       uint64_t value)
{
	struct ms_numbered found;

	if (!ms_blocks_at(blocks, value, &found) || found.number == from)
		return;
	for (size_t i = 0; i < row->n; i++)
		if (row->to[i] == found.number)
			return;
	cr_assert_lt(row->n, 1 << 12);
	row->to[row->n++] = (uint32_t)found.number;
}

static void read_row(struct random_heap *h, uint32_t number, struct row *ret)
{
	struct ms_block block = ms_block_numbered(&h->blocks, number);
	const struct ms_extent *e = &h->blocks.extents.at[block.extent];
	ms_addr end = ms_block_words_end(&h->blocks, e, block.granule);
	uint64_t word;

	ret->n = 0;
	for (ms_addr at = ms_align_up(ms_block_begin(e, block.granule), 8); at + 8 <= end;
	     at += 8) {
		cr_assert(ms_source_word(&h->fake.base, at, &word));
		add_to_row(ret, &h->blocks, number, ms_abi_address(&h->fake.base.abi, word));
		if (word >> 47)
			add_to_row(ret, &h->blocks, number,
			           ms_abi_address(&h->fake.base.abi,
			                          (word >> 17 | word << 47) ^ RH_GUARD));
	}
}

Test(holding, has_a_row_of_what_each_block_points_to)
{
	struct ms_walk_options like = { .mangling = rh_mangling };
	static struct random_heap h;
	static struct row row;
	struct ms_roots roots;
	struct ms_rows rows;

	draw(&h, &roots, 5, true);
	cr_assert(!ms_rows_gather(&h.blocks, &like, &h.fake.arena, &rows, &h.err));
	for (uint32_t i = 0; i < rows.n; i++) {
		size_t n;
		const uint32_t *found = ms_rows_of(&rows, i, &n);

		read_row(&h, i, &row);
		cr_assert_eq(n, row.n, "block %u", i);
		cr_assert_arr_eq(found, row.to, row.n * sizeof(row.to[0]));
	}
	cr_expect_eq(ms_offset_at(&rows.first, rows.n), rows.to.n);
	cr_expect_gt(rows.to.n, rows.n);
	ms_fake_deinit(&h.fake);
}

static void assert_same_rows(const struct ms_rows *a, const struct ms_rows *b)
{
	cr_assert_eq(a->n, b->n);
	cr_assert_eq(a->to.n, b->to.n);
	for (size_t i = 0; i <= a->n; i++)
		cr_assert_eq(ms_offset_at(&a->first, i), ms_offset_at(&b->first, i), "row %zu", i);
	cr_assert_arr_eq(a->to.at, b->to.at, a->to.n * sizeof(a->to.at[0]));
}

Test(holding, has_the_same_rows_however_many_gather_them)
{
	struct ms_walk_options like = { .mangling = rh_mangling };
	static struct random_heap h;
	struct ms_roots roots;
	struct ms_rows rows[2];

	for (int no_view = 0; no_view < 2; no_view++) {
		draw(&h, &roots, 7, no_view);
		like.workers = NULL;
		cr_assert(!ms_rows_gather(&h.blocks, &like, &h.fake.arena, &rows[0], &h.err));
		cr_assert(!ms_workers_start(3, &like.workers, &h.err));
		cr_assert(!ms_rows_gather(&h.blocks, &like, &h.fake.arena, &rows[1], &h.err));
		ms_workers_stop(like.workers);
		assert_same_rows(&rows[0], &rows[1]);
		ms_fake_deinit(&h.fake);
	}
}

/* Words that stand across the borders of what is read in one go. */
Test(holding, has_the_same_rows_of_what_is_read_as_of_what_is_viewed)
{
	enum { PIECE = 1 << 18, PIECES = 16 };
	struct ms_walk_options like = { .unaligned = true };
	static struct random_heap h[2];
	struct ms_rows rows[2];
	struct ms_roots roots;

	for (int i = 0; i < 2; i++) {
		draw(&h[i], &roots, 11, i);
		for (uint64_t k = 1; k <= PIECES; k++)
			ms_fake_put(&h[i].fake, RH_SINGLE + k * PIECE - k % 8, h[i].at[k]);
		cr_assert(!ms_rows_gather(&h[i].blocks, &like, &h[i].fake.arena, &rows[i],
		                          &h[i].err));
	}
	assert_same_rows(&rows[0], &rows[1]);
	ms_fake_deinit(&h[0].fake);
	ms_fake_deinit(&h[1].fake);
}

/* Blocks that cannot be viewed are read many at a time, where they stand one behind the other. */
Test(holding, reads_blocks_in_large_pieces)
{
	struct ms_walk_options like = { 0 };
	static struct random_heap h;
	struct ms_roots roots;
	struct ms_rows rows;

	draw(&h, &roots, 9, true);
	h.fake.reads = 0;
	cr_assert(!ms_rows_gather(&h.blocks, &like, &h.fake.arena, &rows, &h.err));
	cr_expect_gt(rows.n, 10000, "%u blocks", rows.n);
	cr_expect_lt(h.fake.reads, 150, "%zu reads", h.fake.reads);
	ms_fake_deinit(&h.fake);
}

Test(holding, says_when_there_is_no_memory)
{
	struct ms_walk_options like = { 0 };
	static struct random_heap h;
	struct ms_chains chains;
	struct rlimit old, none;
	enum ms_status st[2];
	struct ms_roots roots;
	struct ms_rows rows;
	struct ms_rows more;

	draw(&h, &roots, 9, false);
	cr_assert(!ms_rows_gather(&h.blocks, &like, &h.fake.arena, &rows, &h.err));
	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	none = old;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_AS, &none);
	st[0] = ms_rows_gather(&h.blocks, &like, &h.fake.arena, &more, &h.err);
	st[1] = ms_chains_walk(&rows, &roots, &h.fake.arena, &chains, &h.err);
	setrlimit(RLIMIT_AS, &old);
	cr_expect_eq(st[0], MS_E_NOMEM);
	cr_expect_eq(st[1], MS_E_NOMEM);
	ms_fake_deinit(&h.fake);
}
