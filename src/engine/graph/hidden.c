/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/hidden.h"

#include <assert.h>
#include <string.h>

#include "base/sort.h"
#include "engine/graph/hidden_form.h"

/*
 * One sweep over all that is marked, in pieces that the workers share. Extents of the heap
 * are swept as a whole, and only of a pointer that leads somewhere it is asked whether it is in a
 * marked block. What is found is followed by an ordinary walk over bytes, which has the
 * blocks it comes to looked at in the same way.
 *
 * Pointers that are no evidence alone are kept aside until all memory has been seen.
 */

static const struct ms_hidden_form *const forms[MS_HIDDEN_FORMS] = {
	&ms_unaligned_form, &ms_odd_form,   &ms_numbered_form,
	&ms_shifted_form,   &ms_front_form, &ms_behind_form,
};

enum { FORM_WORDS = MS_HIDDEN_KINDS / 64 };

static const uint64_t LIMIT = UINT64_C(4) << 30;
static const uint64_t FAR = UINT64_C(1) << 30; /* what is farther away is in another zone */

static enum ms_status no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for hidden pointers");
}

/* ---- what is found ---- */

/* Where the words end that count in the block beginning in @granule. */
static ms_addr end_of(const struct ms_hidden *h, const struct ms_extent *extent, uint64_t granule)
{
	ms_addr end = ms_block_begin(extent, granule) + ms_block_usable(h->blocks, extent, granule);
	ms_addr words_end = ms_block_words_end(h->blocks, extent, granule);

	return words_end < end ? words_end : end;
}

/* Whether the word at @addr belongs to a marked block of @extent, as a whole. */
static bool is_alive(const struct ms_hidden *h, const struct ms_extent *extent, ms_addr addr)
{
	uint64_t granule = ms_block_start(h->blocks, extent, ms_granule_of(extent, addr));
	struct ms_block block = { (uint32_t)(extent - h->blocks->extents.at), granule };

	return granule != UINT64_MAX && ms_block_is_marked(h->blocks, block) &&
	       addr + h->abi->word_bytes <= end_of(h, extent, granule);
}

static uint64_t *word_of(const struct ms_hidden *h, const struct ms_hidden_clue *clue)
{
	return &h->believed[clue->form * FORM_WORDS + clue->kind / 64];
}

static bool is_believed(const struct ms_hidden *h, const struct ms_hidden_clue *clue)
{
	return clue->certain || *word_of(h, clue) >> (clue->kind % 64) & 1;
}

void ms_hidden_say(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                   ms_addr addr, struct ms_hidden_clue clue)
{
	struct ms_hidden_clue *slot;

	if (ms_block_is_marked(h->blocks, clue.block) || (p->heap && !is_alive(h, p->heap, addr)))
		return;
	clue.form = k->form;
	if (h->walk) {
		if (is_believed(h, &clue))
			ms_walk_block(h->walk, clue.block);
		return;
	}
	slot = ms_vec_push(ms_shared_take(&h->arena), &k->clues);
	ms_shared_give(&h->arena);
	k->out_of_memory |= !slot;
	if (slot)
		*slot = clue;
}

void ms_hidden_say_begin(struct ms_hidden *h, struct ms_hidden_seeker *k,
                         const struct ms_hidden_piece *p, ms_addr addr, uint64_t value)
{
	struct ms_hidden_clue clue = { .certain = true };

	if (value >= ms_hidden_small && ms_lookup_begin(&k->lookup, value, &clue.block))
		ms_hidden_say(h, k, p, addr, clue);
}

/* ---- the sweep ---- */

static void look_at(struct ms_hidden *h, struct ms_hidden_seeker *k,
                    const struct ms_hidden_piece *p)
{
	const uint8_t *bytes = p->host;

	if (!bytes) {
		uint64_t len = p->end - p->range.begin;

		ms_source_fill(h->blocks->src, p->range.begin, k->buffer,
		               (size_t)(len < sizeof(k->buffer) ? len : sizeof(k->buffer)));
		bytes = k->buffer;
	}
	for (k->form = 0; k->form < MS_HIDDEN_FORMS; k->form++)
		if (!forms[k->form]->wide || ms_abi_is_wide(h->abi))
			forms[k->form]->look(h, k, p, bytes);
}

static void look_at_piece(void *ctx, unsigned worker, size_t item)
{
	struct ms_hidden *h = ctx;

	look_at(h, h->seekers[worker], &h->pieces.at[item]);
}

/* Cut @whole.range, which is present, into pieces. False without memory. */
static bool cut(struct ms_hidden *h, struct ms_hidden_piece whole)
{
	ms_addr begin = whole.range.begin;

	for (ms_addr at = begin; at < whole.end; at += MS_HIDDEN_PIECE) {
		uint64_t len = whole.end - at < MS_HIDDEN_PIECE ? whole.end - at : MS_HIDDEN_PIECE;
		struct ms_hidden_piece *p;

		if (len > h->left) {
			h->limited = true;
			h->left = 0;
			return true;
		}
		h->left -= len;
		p = ms_vec_push(h->arena.arena, &h->pieces);
		if (!p)
			return false;
		*p = whole;
		p->range = (struct ms_range){ at, at + len };
		p->host = whole.host ? whole.host + (at - begin) : NULL;
	}
	return true;
}

/* What of @within is present; @kind: all but where it is. */
static bool plan(struct ms_hidden *h, struct ms_range within, const struct ms_hidden_piece *kind)
{
	struct ms_source *src = h->blocks->src;
	struct ms_range run;

	within.begin = ms_align_up(within.begin, h->abi->word_bytes);
	while (within.begin < within.end && ms_source_present(src, within, &run)) {
		struct ms_hidden_piece whole = *kind;

		whole.range = run;
		whole.end = run.end;
		whole.host = ms_source_view(src, run.begin, (size_t)ms_range_len(run));
		if (!cut(h, whole))
			return false;
		within.begin = run.end;
	}
	return true;
}

/* Code that no file has was made by the program itself. */
static bool is_made_code(const struct ms_hidden *h, const struct ms_extent *extent)
{
	const struct ms_mapping *map = &h->blocks->src->mappings.at[extent->mapping];

	return (map->prot & MS_PROT_EXEC) && !map->file;
}

/* What is in a file, and was not changed, has no addresses of this process. */
static bool is_files(const struct ms_hidden *h, const struct ms_extent *extent)
{
	const struct ms_mapping *map = &h->blocks->src->mappings.at[extent->mapping];

	return map->file && !(map->prot & MS_PROT_WRITE);
}

static bool plan_all(struct ms_hidden *h, const struct ms_hidden_options *options)
{
	const struct ms_extent *extent;
	const struct ms_range *r;

	ms_vec_for_each (extent, &h->blocks->extents) {
		bool heap = extent->kind == MS_EXTENT_HEAP;
		struct ms_hidden_piece kind = { .heap = heap ? extent : NULL,
			                        .code = !heap && is_made_code(h, extent) };

		if ((heap || !is_files(h, extent)) && !plan(h, extent->range, &kind))
			return false;
	}
	for (size_t i = 0; i < options->n_roots; i++)
		ms_vec_for_each (r, options->roots[i])
			if (!plan(h, *r, &(struct ms_hidden_piece){ 0 }))
				return false;
	return true;
}

/* ---- the unmarked blocks ---- */

/* Note that an unmarked block begins at @begin, which is behind all that were noted. */
static void note_zone(struct ms_hidden *h, ms_addr begin)
{
	struct ms_range *last = &h->zones[h->n_zones ? h->n_zones - 1 : 0];

	if (!h->n_zones || (begin - last->end > FAR && h->n_zones < MS_HIDDEN_ZONES)) {
		last = &h->zones[h->n_zones++];
		last->begin = begin;
	}
	last->end = begin + 1;
}

struct unmarked {
	struct ms_hidden *h;
	bool ok; /* false: no memory */
};

static void look_at_unmarked(void *ctx, struct ms_block block)
{
	struct unmarked *u = ctx;
	const struct ms_extent *extent = &u->h->blocks->extents.at[block.extent];

	note_zone(u->h, ms_block_begin(extent, block.granule));
	u->ok = u->ok && ms_behind_form_keep(u->h, extent, block.granule);
}

/* False without memory. */
static bool look_at_all_unmarked(struct ms_hidden *h)
{
	struct unmarked u = { h, true };

	ms_blocks_visit_unmarked(h->blocks, look_at_unmarked, &u);
	return u.ok;
}

/* ---- evidence ---- */

static bool is_before(const void *a, const void *b)
{
	const struct ms_hidden_clue *x = a;
	const struct ms_hidden_clue *y = b;

	if (x->form != y->form)
		return x->form < y->form;
	if (x->kind != y->kind)
		return x->kind < y->kind;
	if (x->block.extent != y->block.extent)
		return x->block.extent < y->block.extent;
	return x->block.granule < y->block.granule;
}

/* Bring together what all seekers have found. False without memory. */
static bool gather(struct ms_hidden *h)
{
	bool out_of_memory = false;

	for (unsigned i = 0; i < h->n_seekers; i++) {
		const struct ms_hidden_clue *clue;

		out_of_memory |= h->seekers[i]->out_of_memory;
		ms_vec_for_each (clue, &h->seekers[i]->clues) {
			struct ms_hidden_clue *slot = ms_vec_push(h->arena.arena, &h->clues);

			if (!slot)
				return false;
			*slot = *clue;
		}
	}
	return !out_of_memory &&
	       ms_sort(h->arena.arena, h->clues.at, h->clues.n, sizeof(h->clues.at[0]), is_before);
}

static uint64_t count_also(const struct ms_hidden *h, unsigned form)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < h->n_seekers; i++)
		n += h->seekers[i]->also[form];
	return n;
}

/* Choose the kinds of pointers that lead to enough blocks. */
static void believe(struct ms_hidden *h)
{
	const struct ms_hidden_clue *clue;
	uint64_t n = 0;

	ms_vec_for_each (clue, &h->clues) {
		const struct ms_hidden_clue *last = clue == h->clues.at ? NULL : clue - 1;

		assert(clue->kind < MS_HIDDEN_KINDS);
		if (!last || last->form != clue->form || last->kind != clue->kind)
			n = clue->kind ? 0 : count_also(h, clue->form);
		n += !last || is_before(last, clue);
		if (n >= MS_HIDDEN_ENOUGH)
			*word_of(h, clue) |= (uint64_t)1 << (clue->kind % 64);
	}
}

/* ---- the search ---- */

/* A block that the walk has come to. */
static void visit(void *ctx, struct ms_block block)
{
	struct ms_hidden *h = ctx;
	const struct ms_extent *extent = &h->blocks->extents.at[block.extent];
	ms_addr begin = ms_block_begin(extent, block.granule);
	ms_addr end = end_of(h, extent, block.granule);

	h->kept->allocations++;
	h->kept->bytes += ms_block_size(h->blocks, extent, block.granule);
	for (ms_addr at = begin; at < end; at += MS_HIDDEN_PIECE) {
		struct ms_hidden_piece p = {
			.range = { at, end - at < MS_HIDDEN_PIECE ? end : at + MS_HIDDEN_PIECE },
			.end = end,
			.heap = extent,
		};

		if (extent->host)
			p.host = extent->host + (at - extent->range.begin);
		look_at(h, h->seekers[0], &p);
	}
}

static bool make_seekers(struct ms_hidden *h, struct ms_workers *workers)
{
	h->believed = ms_arena_alloc(h->arena.arena,
	                             (size_t)MS_HIDDEN_FORMS * FORM_WORDS * sizeof(*h->believed));
	h->n_seekers = ms_workers_count(workers);
	for (unsigned i = 0; i < h->n_seekers; i++) {
		h->seekers[i] = ms_arena_alloc(h->arena.arena, sizeof(*h->seekers[i]));
		if (!h->seekers[i])
			return false;
		ms_lookup_init(&h->seekers[i]->lookup, h->blocks);
	}
	return h->believed;
}

enum ms_status ms_hidden_find(struct ms_blocks *blocks, const struct ms_hidden_options *options,
                              struct ms_hidden **ret, bool *ret_limited, struct ms_error *err)
{
	struct ms_hidden *h = ms_arena_alloc(blocks->arena, sizeof(*h));

	if (!h)
		return no_memory(err);
	*h = (struct ms_hidden){ .blocks = blocks,
		                 .abi = &blocks->src->abi,
		                 .left = options->limit ? options->limit : LIMIT };
	*ret = h;
	ms_shared_init(&h->arena, blocks->arena);
	if (!look_at_all_unmarked(h))
		return no_memory(err);
	*ret_limited = false;
	if (!h->n_zones)
		return MS_OK;
	if (!make_seekers(h, options->workers) || !plan_all(h, options))
		return no_memory(err);
	ms_workers_run(options->workers, h->pieces.n, look_at_piece, h);
	*ret_limited = h->limited;
	if (!gather(h))
		return no_memory(err);
	believe(h);
	return MS_OK;
}

enum ms_status ms_hidden_mark(struct ms_hidden *h, enum ms_reason reason,
                              struct ms_hidden_kept *ret, struct ms_error *err)
{
	struct ms_walk_options options = { .visit = visit, .visit_ctx = h };
	const struct ms_hidden_clue *clue;

	if (!h->clues.n)
		return MS_OK;
	h->kept = ret;
	h->walk = ms_walk_new(h->blocks, &options, h->arena.arena);
	if (!h->walk)
		return no_memory(err);
	ms_vec_for_each (clue, &h->clues)
		if (forms[clue->form]->reason == reason && is_believed(h, clue))
			ms_walk_block(h->walk, clue->block);
	return ms_walk_finish(h->walk, err);
}
