/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/glibc/chunks.h"

/*
 * Many segments at once, and large ones in parts.
 *
 * A segment is cut at fixed distances, whole cells of its extent each. Every part is
 * walked by itself, from the first chunk there may be; where a part begins inside a
 * block this is a guess. Then, one after the other, each part is asked about the
 * chunk at which the part before ended:
 *
 *	the walk began there            all it found is right
 *	the walk came there             what it found before is no chunk: it is taken
 *	                                away again, the rest is right
 *	it never came there, or did     the part is emptied and walked once more
 *	not begin
 *
 * For what a walk finds behind a chunk does not depend on how it came to that chunk.
 * So the result is that of a single walk from the segment's begin, whether the
 * guesses were right or not; also where it ends at a bad chunk.
 */

static const uint64_t NONE = UINT64_MAX;

struct parts MS_VEC(struct ms_part);

/* What the threads share. */
struct work {
	struct ms_ptmalloc *pt;
	struct parts parts;
	uint64_t part_bytes;
};

enum ms_status ms_segment_open(struct ms_ptmalloc *pt, struct ms_segment *segment, uint32_t group)
{
	struct ms_range range = { segment->begin + pt->shape->header, segment->limit };
	struct ms_extent *extent;
	enum ms_status st;

	memset(&segment->tally, 0, sizeof(segment->tally));
	segment->how = MS_SEGMENT_BAD;
	segment->end = segment->begin;
	/* Too short for a chunk; the extent then is only there to be dropped. */
	if (segment->limit < segment->begin || segment->limit - segment->begin <= pt->shape->header)
		range.end = range.begin + 1;
	st = ms_blocks_open(pt->d->blocks, range, 4, &segment->extent);
	if (st)
		return st;
	extent = &pt->d->blocks->extents.at[segment->extent];
	extent->group = group;
	extent->slack = pt->shape->word;
	return MS_OK;
}

/* How many parts @segment has. */
static size_t count_parts(const struct work *work, const struct ms_segment *segment)
{
	uint64_t len = segment->limit - segment->begin;

	if (segment->limit < segment->begin || len <= work->pt->shape->header)
		return 0;
	return (size_t)((len - 1) / work->part_bytes + 1);
}

static bool cut(struct work *work, const struct ms_segment *segment)
{
	const struct ms_blocks *blocks = work->pt->d->blocks;
	size_t n = count_parts(work, segment);

	for (size_t i = 0; i < n; i++) {
		struct ms_part *part = ms_vec_push(work->pt->d->arena, &work->parts);

		if (!part)
			return false;
		part->segment = segment;
		part->first = segment->begin + i * work->part_bytes;
		part->stop = i + 1 < n ? part->first + work->part_bytes : segment->limit;
		part->cells = &blocks->cells.at[blocks->extents.at[segment->extent].cell0];
		part->begin = i ? 0 : segment->begin;
		part->end = part->begin;
	}
	return true;
}

static void walk_one(void *ctx, unsigned worker, size_t item)
{
	struct work *work = ctx;
	struct ms_part *part = &work->parts.at[item];
	const struct ms_segment *s = part->segment;
	uint8_t *buffer = work->pt->buffers[worker];

	/* Behind top there is nothing. */
	if (!part->begin && !(s->top >= s->begin && s->top < part->first))
		ms_part_guess(work->pt, part, buffer);
	if (part->begin)
		ms_part_walk(work->pt, part, buffer);
}

static uint64_t granule_of(const struct ms_part *part, ms_addr chunk)
{
	return (chunk - part->segment->begin) / MS_ALIGNMENT;
}

/* Forget what was put into @part before granule @end. */
static void clear_before(const struct ms_part *part, uint64_t end)
{
	uint64_t granule = granule_of(part, part->first);
	struct ms_cell *cell = &part->cells[granule / MS_CELL_GRANULES];
	const struct ms_cell *last = &part->cells[end / MS_CELL_GRANULES];
	uint64_t keep = ~(ms_granule_bit(end) - 1);

	memset(cell, 0, (size_t)(last - cell) * sizeof(*cell));
	if (end % MS_CELL_GRANULES == 0)
		return;
	cell = &part->cells[end / MS_CELL_GRANULES];
	cell->starts &= keep;
	cell->ends &= keep;
	cell->marks &= keep;
}

/* The same for all of @part. Only the segment's last part can end inside a cell. */
static void clear(struct ms_part *part)
{
	if (part->begin)
		clear_before(part, granule_of(part, part->stop + MS_ALIGNMENT - 1));
	part->begin = 0;
}

static void subtract(struct ms_tally *from, const struct ms_tally *what)
{
	from->n_used -= what->n_used;
	from->used_bytes -= what->used_bytes;
	from->n_free -= what->n_free;
	from->free_bytes -= what->free_bytes;
	from->links -= what->links;
}

static void add(struct ms_tally *to, const struct ms_tally *what)
{
	to->n_used += what->n_used;
	to->used_bytes += what->used_bytes;
	to->n_free += what->n_free;
	to->free_bytes += what->free_bytes;
	to->links += what->links;
}

/* True when the walk of @part came to the chunk at @at and took it for one. */
static bool came_to(const struct ms_part *part, ms_addr at)
{
	uint64_t granule = granule_of(part, at);
	const struct ms_cell *cell = &part->cells[granule / MS_CELL_GRANULES];

	return part->begin && ((cell->starts | cell->marks) & ms_granule_bit(granule));
}

/* Make @part what a walk finds that comes to the chunk at @at. */
static void settle(const struct work *work, struct ms_part *part, ms_addr at)
{
	struct ms_part wrong = *part;

	if (part->begin == at)
		return;
	if (came_to(part, at)) {
		wrong.stop = at;
		wrong.cells = NULL;
		ms_part_walk(work->pt, &wrong, work->pt->buffers[0]);
		subtract(&part->tally, &wrong.tally);
		clear_before(part, granule_of(part, at));
	} else {
		clear(part);
		part->begin = at;
		ms_part_walk(work->pt, part, work->pt->buffers[0]);
	}
	part->begin = at;
}

/* Put @segment together from its @n parts. */
static void join(const struct work *work, struct ms_segment *segment, struct ms_part *parts,
                 size_t n)
{
	ms_addr at = segment->begin;
	uint64_t late_end = NONE;
	size_t next = 0;

	for (;;) {
		struct ms_part *part = &parts[(at - segment->begin) / work->part_bytes];

		for (; &parts[next] < part; next++)
			clear(&parts[next]);
		next++;
		settle(work, part, at);
		if (late_end != NONE)
			part->cells[late_end / MS_CELL_GRANULES].ends |= ms_granule_bit(late_end);
		add(&segment->tally, &part->tally);
		segment->how = part->how;
		at = segment->end = part->end;
		late_end = part->late_end;
		if (part->how != MS_SEGMENT_ON)
			break;
	}
	for (; next < n; next++)
		clear(&parts[next]);
}

enum ms_status ms_segments_read(struct ms_ptmalloc *pt, struct ms_segment *segments, size_t n)
{
	struct ms_blocks *blocks = pt->d->blocks;
	struct work work = { .pt = pt, .part_bytes = pt->part_bytes };
	struct ms_part *parts;

	/* Alone there is nothing to be won by guessing. */
	if (ms_workers_count(pt->d->workers) == 1)
		work.part_bytes = UINT64_MAX;
	for (size_t i = 0; i < n; i++)
		if (!cut(&work, &segments[i]))
			return MS_E_NOMEM;
	ms_workers_run(pt->d->workers, work.parts.n, walk_one, &work);
	parts = work.parts.at;
	for (size_t i = 0; i < n; i++) {
		struct ms_segment *s = &segments[i];
		size_t n_parts = count_parts(&work, s);

		if (n_parts)
			join(&work, s, parts, n_parts);
		parts += n_parts;
		blocks->extents.at[s->extent].n = (uint32_t)s->tally.n_used;
		blocks->extents.at[s->extent].bytes = s->tally.used_bytes;
		ms_blocks_shrink(blocks, s->extent, s->end);
	}
	return MS_OK;
}
