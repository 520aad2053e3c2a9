/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/confirm.h"

#include <string.h>

#include "base/sort.h"
#include "engine/graph/walk.h"

enum { PIECE = 4096 };

/* Of a print: the block was lost for certain, not only possibly. */
static const uint64_t CERTAIN = 1;

/* The unmarked blocks in the order of addresses, and their beginnings. */
struct prints {
	struct ms_leak_list *list;
	const uint64_t *unmarked;
	enum ms_reason reason;
	/* of a source that cannot be viewed: to the end of the piece where a block's print ends */
	struct ms_range window;
	uint8_t bytes[PIECE + MS_LOST_BYTES];
};

/* ---- how a block begins ---- */

/* As many of @len bytes at @at as can be read. */
static const uint8_t *read_beginning(struct prints *p, ms_addr at, size_t len, size_t *ret_len)
{
	ms_addr end = ms_align_up(at + len, PIECE);

	if (at < p->window.begin || at + len > p->window.end) {
		size_t got = ms_source_read(p->list->blocks->src, at, p->bytes, (size_t)(end - at));

		p->window = (struct ms_range){ at, at + got };
	}
	*ret_len = (size_t)(p->window.end - at < len ? p->window.end - at : len);
	return p->bytes + (at - p->window.begin);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t print_of(struct prints *p, const struct ms_extent *extent, ms_addr begin,
                         uint64_t usable)
{
	size_t len = usable < MS_LOST_BYTES ? (size_t)usable : MS_LOST_BYTES;
	uint64_t words[MS_LOST_BYTES / sizeof(uint64_t)] = { 0 };
	const uint8_t *bytes = extent->host ? extent->host + (begin - extent->range.begin)
	                                    : read_beginning(p, begin, len, &len);
	uint64_t hash;

	memcpy(words, bytes, len);
	hash = mix(mix(1, usable), len);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = mix(hash, words[i]);
	return p->reason == MS_REASON_NONE ? hash | CERTAIN : hash & ~CERTAIN;
}

static struct ms_lost lost_of(struct prints *p, uint32_t extent_index, uint64_t granule)
{
	const struct ms_blocks *blocks = p->list->blocks;
	const struct ms_extent *extent = &blocks->extents.at[extent_index];
	ms_addr begin = ms_block_begin(extent, granule);
	uint64_t usable = ms_block_usable(blocks, extent, granule);

	return (struct ms_lost){ begin, ms_block_size(blocks, extent, granule),
		                 print_of(p, extent, begin, usable) };
}

/* Call @look for each of them; it answers false to stop. */
static bool look_at_all(struct prints *p, void *ctx,
                        bool (*look)(void *ctx, struct prints *p, struct ms_block block))
{
	const struct ms_blocks *blocks = p->list->blocks;

	for (uint32_t i = 0; i < blocks->extents.n; i++) {
		const struct ms_extent *extent = &blocks->extents.at[i];

		if (extent->kind != MS_EXTENT_HEAP)
			continue;
		for (size_t k = 0; k < extent->n_cells; k++)
			for (uint64_t left = p->unmarked[extent->cell0 + k]; left;
			     left &= left - 1) {
				uint64_t granule =
					k * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

				if (!look(ctx, p, (struct ms_block){ i, granule }))
					return false;
			}
	}
	return true;
}

static struct prints *prints_new(struct ms_leak_list *list, const uint64_t *unmarked,
                                 enum ms_reason reason)
{
	struct prints *p = ms_arena_alloc(list->arena, sizeof(*p));

	if (p) {
		p->list = list;
		p->unmarked = unmarked;
		p->reason = reason;
	}
	return p;
}

static enum ms_status no_memory(struct ms_error *err)
{
	enum ms_status st = ms_fail(err, MS_E_NOMEM, "no memory for the blocks to be confirmed");

	ms_advise(err, "free some memory on this machine, or scan without --confirm");
	return st;
}

/* ---- the first scan ---- */

static bool keep(void *ctx, struct prints *p, struct ms_block block)
{
	struct ms_lost_blocks *lost = ctx;
	struct ms_lost *slot = ms_vec_push(p->list->arena, lost);

	if (slot)
		*slot = lost_of(p, block.extent, block.granule);
	return slot;
}

static bool lost_before(const void *a, const void *b)
{
	const struct ms_lost *x = a;
	const struct ms_lost *y = b;

	return x->address < y->address;
}

enum ms_status ms_lost_list(struct ms_leak_list *list, const uint64_t *unmarked,
                            enum ms_reason reason, struct ms_error *err)
{
	struct ms_lost_blocks *lost = &list->report->lost;
	struct prints *p = prints_new(list, unmarked, reason);

	if (!p || !look_at_all(p, lost, keep) ||
	    !ms_sort(list->arena, lost->at, lost->n, sizeof(*lost->at), lost_before))
		return no_memory(err);
	return MS_OK;
}

/* ---- the second ---- */

struct confirming {
	const struct ms_lost_blocks *lost;
	size_t at; /* those before are below the present block */
	struct ms_walk *walk;
	bool any; /* block is not confirmed */
};

/* Whether a block that is lost as @now was so @before. */
static bool is_same(const struct ms_lost *before, const struct ms_lost *now)
{
	return (before->print | CERTAIN) == (now->print | CERTAIN) &&
	       (before->print & CERTAIN) >= (now->print & CERTAIN);
}

static bool compare(void *ctx, struct prints *p, struct ms_block block)
{
	struct ms_totals *totals = &p->list->report->totals;
	struct ms_lost now = lost_of(p, block.extent, block.granule);
	struct confirming *c = ctx;
	const struct ms_lost *before;

	while (c->at < c->lost->n && c->lost->at[c->at].address < now.address)
		c->at++;
	before = c->at < c->lost->n ? &c->lost->at[c->at] : NULL;
	if (before && before->address == now.address) {
		/* It is not one that was lost the first time only. */
		totals->unconfirmed_allocations--;
		totals->unconfirmed_bytes -= before->size;
		if (is_same(before, &now))
			return true;
	}
	ms_walk_block(c->walk, block);
	c->any = true;
	return true;
}

/* The sums go below zero, and come back when all of the first scan's are added. */
static void add_first(struct ms_totals *totals, const struct ms_lost_blocks *lost)
{
	const struct ms_lost *l;

	totals->unconfirmed_allocations += lost->n;
	ms_vec_for_each (l, lost)
		totals->unconfirmed_bytes += l->size;
}

enum ms_status ms_confirm(struct ms_leak_list *list, uint64_t *unmarked, enum ms_reason reason,
                          struct ms_error *err)
{
	struct ms_walk_options options = { .unaligned = list->options->unaligned,
		                           .edges = list->edges,
		                           .workers = list->options->workers };
	struct ms_totals *totals = &list->report->totals;
	struct prints *p = prints_new(list, unmarked, reason);
	struct confirming c = { .lost = list->options->lost,
		                .walk = ms_walk_new(list->blocks, &options, list->arena) };
	enum ms_status st = MS_OK;

	if (!p || !c.walk)
		return no_memory(err);
	(void)look_at_all(p, &c, compare);
	if (reason == MS_REASON_NONE)
		add_first(totals, c.lost);
	if (c.any)
		st = ms_walk_finish(c.walk, err);
	if (!st && c.any)
		ms_leaks_strike(list, unmarked, &totals->unconfirmed_allocations,
		                &totals->unconfirmed_bytes);
	return st;
}
