/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/musl/oldmalloc.h"
#include "base/sort.h"

/*
 * A segment counts when each chunk's length is what the next one says of it, to the sentinel.
 *
 * A chunk with a mapping of its own says how far it is from the mapping's begin and from its
 * end. Nothing counts them, and mappings beside each other show as one: so such a chunk is
 * reported only where one end of it is the end of what shows, or lies at another one's.
 */

enum {
	WORD = 8,
	LENGTH = 8, /* in a chunk; in front of it, that of the one before */
	USED = 1,
	FIRST = 16, /* chunk in the first page of a segment or mapping */
	SHIFT = 5,  /* log2 of MS_OLD_ALIGN */
};

struct chunk {
	uint64_t before; /* length of the one before, with its bit */
	uint64_t length; /* with its bit */
};

static bool read_chunk(struct ms_window *window, ms_addr at, struct chunk *ret)
{
	const uint8_t *bytes = ms_window_at(window, at, MS_OLD_HEADER);

	if (!bytes)
		return false;
	memcpy(&ret->before, bytes, WORD);
	memcpy(&ret->length, bytes + LENGTH, WORD);
	return true;
}

/* The chunk behind @at, of @chunk; false when it does not say the same length. */
static bool next_chunk(struct ms_window *window, ms_addr *at, struct chunk *chunk)
{
	uint64_t length = chunk->length;
	uint64_t bytes = length & ~(uint64_t)USED;

	if (bytes < MS_OLD_ALIGN || bytes % MS_OLD_ALIGN || bytes > window->limits.end - *at)
		return false;
	*at += bytes;
	return read_chunk(window, *at, chunk) && chunk->before == length;
}

/* Where the segment ends whose first chunk is at @first; 0 when it is none. */
static ms_addr end_of_segment(struct ms_window *window, ms_addr first)
{
	struct chunk chunk;
	ms_addr at = first;

	if (!read_chunk(window, at, &chunk) || chunk.before != USED || chunk.length == USED)
		return 0;
	while (chunk.length != USED)
		if (!next_chunk(window, &at, &chunk))
			return 0;
	return at + MS_OLD_HEADER;
}

static enum ms_status add_segment(struct ms_old *old, struct ms_old_segment segment)
{
	struct ms_old_segment *slot = ms_vec_push(old->d->arena, &old->segments);

	if (!slot)
		return MS_E_NOMEM;
	*slot = segment;
	return MS_OK;
}

/* ---- mapped chunks ---- */

/* Where the mapping ends that has a chunk at @at; 0 when there is none. */
static ms_addr end_of_mapped(struct ms_window *window, ms_addr base)
{
	const uint32_t page = window->src->abi.page_bytes;
	struct chunk chunk;

	if (!read_chunk(window, base + FIRST, &chunk) || chunk.before != FIRST ||
	    chunk.length < page - FIRST || (chunk.length + FIRST) % page ||
	    chunk.length > window->limits.end - base - FIRST)
		return 0;
	return base + FIRST + chunk.length;
}

/* aligned_alloc() leaves the chunk's header, and puts another in front of what it returns. */
static ms_addr mapped_block(struct ms_window *window, struct ms_range map)
{
	ms_addr first = map.begin + FIRST + MS_OLD_HEADER;

	for (uint64_t align = UINT64_C(2) * MS_OLD_ALIGN; align && align < ms_range_len(map);
	     align *= 2) {
		ms_addr at = ms_align_up(first, align);
		struct chunk chunk;

		if (at > first && at < map.end && read_chunk(window, at - MS_OLD_HEADER, &chunk) &&
		    chunk.before == at - MS_OLD_HEADER - map.begin &&
		    chunk.length == map.end - at + MS_OLD_HEADER)
			return at;
	}
	return first;
}

/* ---- finding ---- */

/* What begins with a page at @base: its end, or 0. */
static enum ms_status look_at(struct ms_old *old, struct ms_window *window, ms_addr base,
                              ms_addr *ret_end)
{
	ms_addr end = end_of_segment(window, base + FIRST);
	struct ms_old_segment segment = { .range = { base + FIRST, end } };

	*ret_end = end;
	if (!end) {
		end = end_of_mapped(window, base);
		*ret_end = end;
		if (!end)
			return MS_OK;
		segment = (struct ms_old_segment){ .range = { base, end }, .mapped = true };
		segment.at = mapped_block(window, segment.range);
	}
	return add_segment(old, segment);
}

/* Search @memory, whose pages are malloc's or somebody else's. */
static enum ms_status search_memory(struct ms_old *old, struct ms_range memory)
{
	const uint32_t page = old->d->src->abi.page_bytes;
	struct ms_range rest = memory;
	enum ms_status st = MS_OK;
	struct ms_window window;
	struct ms_range run;

	ms_window_init(&window, old->d->src, memory, old->buffer);
	while (!st && ms_source_present(old->d->src, rest, &run)) {
		ms_addr at = ms_align_up(run.begin, page);

		rest.begin = run.end;
		while (at < run.end && !st) {
			ms_addr end;

			st = look_at(old, &window, at, &end);
			at = end ? ms_align_up(end, page) : at + page;
		}
		if (at > rest.begin)
			rest.begin = at < rest.end ? at : rest.end;
	}
	return st;
}

/* Search a module's data for what the loader gave. */
static enum ms_status search_data(struct ms_old *old, struct ms_range data)
{
	enum ms_status st = MS_OK;
	struct ms_window window;

	ms_window_init(&window, old->d->src, data, old->buffer);
	for (ms_addr at = ms_align_up(data.begin, MS_OLD_ALIGN) + MS_OLD_HEADER;
	     at < data.end && !st; at += MS_OLD_ALIGN) {
		ms_addr end = end_of_segment(&window, at);

		if (!end)
			continue;
		st = add_segment(old, (struct ms_old_segment){ .range = { at, end } });
		at = end + MS_OLD_HEADER - MS_OLD_ALIGN;
	}
	return st;
}

/* @map lies in @region; whether it is all of it, but for its neighbours. */
static bool is_bounded(const struct ms_old *old, size_t i, const struct ms_region *region)
{
	const struct ms_old_segment *s = &old->segments.at[i];

	return s->range.begin == region->range.begin || s->range.end == region->range.end ||
	       (i && s[-1].range.end == s->range.begin && !s[-1].unsure) ||
	       (i + 1 < old->segments.n && s[1].range.begin == s->range.end);
}

static void judge_mapped(struct ms_old *old)
{
	for (size_t i = 0; i < old->segments.n; i++) {
		struct ms_old_segment *s = &old->segments.at[i];
		const struct ms_region *region = ms_region_of(old->d->regions, s->range.begin);

		old->bytes += ms_range_len(s->range);
		s->unsure = s->mapped && region && !is_bounded(old, i, region);
		old->n_unsure += s->unsure;
	}
}

enum ms_status ms_old_find_segments(struct ms_old *old)
{
	const struct ms_region *region;
	enum ms_status st = MS_OK;

	ms_vec_for_each (region, old->d->regions) {
		const struct ms_mapping *map = ms_region_mapping(old->d->src, region);

		if (st || !(map->prot & MS_PROT_WRITE) || map->shared)
			continue;
		if (region->kind == MS_REGION_GLOBALS)
			st = search_data(old, region->range);
		else if (!map->file &&
		         (region->kind == MS_REGION_BRK || region->kind == MS_REGION_MEMORY))
			st = search_memory(old, region->range);
	}
	judge_mapped(old);
	return st;
}

/* ---- putting ---- */

static enum ms_status put_used(struct ms_old *old, uint32_t extent, ms_addr at, uint64_t length)
{
	uint64_t usable = (length & ~(uint64_t)USED) - MS_OLD_HEADER;

	old->n_blocks++;
	old->block_bytes += usable;
	return ms_blocks_put(old->d->blocks, extent, at + MS_OLD_HEADER, usable);
}

static enum ms_status put_free(struct ms_old *old, ms_addr at)
{
	ms_addr *slot = ms_vec_push(old->d->arena, &old->free);

	if (!slot)
		return MS_E_NOMEM;
	*slot = at;
	return MS_OK;
}

static enum ms_status put_segment(struct ms_old *old, const struct ms_old_segment *segment)
{
	struct ms_blocks *blocks = old->d->blocks;
	ms_addr at = segment->range.begin;
	struct ms_window window;
	struct chunk chunk;
	enum ms_status st;
	uint32_t extent;

	ms_window_init(&window, old->d->src, segment->range, old->buffer);
	st = ms_blocks_open(blocks, (struct ms_range){ at + MS_OLD_HEADER, segment->range.end },
	                    SHIFT, &extent);
	if (st)
		return st;
	blocks->extents.at[extent].group = old->group;
	if (!read_chunk(&window, at, &chunk))
		return MS_OK;
	while (chunk.length != USED && !st) {
		st = chunk.length & USED ? put_used(old, extent, at, chunk.length)
		                         : put_free(old, at);
		if (!next_chunk(&window, &at, &chunk))
			break;
	}
	if (!blocks->extents.at[extent].n)
		ms_blocks_cancel(blocks, extent);
	return st;
}

static enum ms_status put_mapped(struct ms_old *old, const struct ms_old_segment *segment)
{
	struct ms_range range = { segment->at, segment->range.end };
	enum ms_status st;
	uint32_t extent;

	if (segment->unsure)
		return MS_OK;
	st = ms_blocks_open_single(old->d->blocks, range, MS_EXTENT_HEAP, &extent);
	if (st)
		return st;
	old->d->blocks->extents.at[extent].group = old->group;
	old->n_mapped++;
	old->n_blocks++;
	old->block_bytes += ms_range_len(range);
	return MS_OK;
}

enum ms_status ms_old_put_blocks(struct ms_old *old)
{
	const struct ms_old_segment *segment;
	enum ms_status st = MS_OK;

	ms_vec_for_each (segment, &old->segments)
		if (!st)
			st = segment->mapped ? put_mapped(old, segment) : put_segment(old, segment);
	return st;
}
