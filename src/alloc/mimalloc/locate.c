/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/mimalloc/mimalloc.h"

/*
 * The anchor is the table of queues in the first thread's heap, which is a variable of the
 * program or library that has mimalloc: for each size of blocks it has links to pages and the
 * size, and the sizes begin 8, 8, 16, 24, 32 … in every version, in use or not. A table that
 * the program's data looks like is known from it by what leads to the heap and back (2.x), or
 * by the page map, which must be in the same data (3.x). A table that is in use, and leads to
 * nothing that is known, is of a version that is not known.
 */

enum { BY_SIZE = 129 }; /* words in front of the queues: to pages that have blocks of some size */

enum { PIECE = 1 << 16, QUEUE_MOST = 64, FIRST_SIZES = 6, NEED = FIRST_SIZES * QUEUE_MOST };

/* Block sizes of the first queues. */
static const uint64_t first_sizes[FIRST_SIZES] = { 8, 8, 16, 24, 32, 40 };

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* Whether the first sizes stand at @bytes, @stride bytes from one to the next. */
static bool begins_sizes(const uint8_t *bytes, size_t stride)
{
	for (size_t i = 0; i < FIRST_SIZES; i++)
		if (word_at(bytes + i * stride) != first_sizes[i])
			return false;
	return true;
}

/* From one queue to the next sizes grow, but for the last two queues, which have none. */
static bool are_sizes(const struct ms_mimalloc *mi, ms_addr at, uint64_t stride)
{
	uint64_t before = 0;

	for (uint64_t i = 1; i + 2 < MS_MI_QUEUES; i++) {
		uint64_t size = ms_mi_word(mi, at + i * stride);

		if (size <= before || size % MS_MI_WORD || size > 2 * before + MS_MI_WORD)
			return false;
		before = size;
	}
	return true;
}

static bool is_same_module(const struct ms_mimalloc *mi, const struct ms_region *data, ms_addr addr)
{
	const struct ms_region *region = ms_region_of(mi->d->regions, addr);

	return region && region->kind == MS_REGION_GLOBALS && region->module == data->module;
}

/* 2.x: a first heap leads to what its thread has beside, and back. */
static bool is_first_heap(const struct ms_mimalloc *mi, const struct ms_mi_layout *layout,
                          const struct ms_region *data, ms_addr heap)
{
	ms_addr tld = ms_mi_word(mi, heap);

	return is_same_module(mi, data, heap) && is_same_module(mi, data, tld) &&
	       ms_mi_word(mi, tld + layout->tld.backing) == heap;
}

/* 3.x: each copy is there once, though several heaps may be variables. */
static bool is_known(const struct ms_mimalloc *mi, const struct ms_region *data)
{
	const struct ms_mi_copy *copy;

	ms_vec_for_each (copy, &mi->copies)
		if (copy->layout->map.is_there && copy->data->module == data->module)
			return true;
	return false;
}

/* The first layout that a table at @at can be of, and its heap; NULL: none is known. */
static const struct ms_mi_layout *layout_of(const struct ms_mimalloc *mi,
                                            const struct ms_mi_table *table, ms_addr *ret_heap)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++) {
		const struct ms_mi_layout *layout = &ms_mi_layouts[i];

		*ret_heap = table->at - layout->heap.queue_size - layout->heap.queues;
		if (layout->heap.queue_bytes == table->stride &&
		    (layout->map.is_there || is_first_heap(mi, layout, table->data, *ret_heap)))
			return layout;
	}
	return NULL;
}

/* The sizes of a table may begin where @table says. */
static enum ms_status try_table(struct ms_mimalloc *mi, struct ms_mi_table table)
{
	const struct ms_mi_layout *layout;
	struct ms_mi_table *slot;
	struct ms_mi_copy *copy;
	ms_addr heap;

	if (!are_sizes(mi, table.at, table.stride))
		return MS_OK;
	slot = ms_vec_push(mi->d->arena, &mi->tables);
	if (!slot)
		return MS_E_NOMEM;
	*slot = table;
	layout = layout_of(mi, &table, &heap);
	if (!layout || (layout->map.is_there && is_known(mi, table.data)))
		return MS_OK;
	copy = ms_vec_push(mi->d->arena, &mi->copies);
	if (!copy)
		return MS_E_NOMEM;
	*copy = (struct ms_mi_copy){
		.layout = layout,
		.data = table.data,
		.table = table.at,
		.main_heap = layout->map.is_there ? 0 : heap,
		.group = ms_blocks_new_group(mi->d->blocks),
	};
	copy->cookie = ms_mi_word(mi, heap + layout->heap.cookie);
	return MS_OK;
}

static enum ms_status try_place(struct ms_mimalloc *mi, const struct ms_region *data,
                                const uint8_t *bytes, ms_addr at)
{
	if (word_at(bytes) != first_sizes[0])
		return MS_OK;
	for (size_t stride = 24; stride <= QUEUE_MOST; stride += 8) {
		enum ms_status st;

		if (!begins_sizes(bytes, stride))
			continue;
		st = try_table(mi, (struct ms_mi_table){ data, at, stride });
		if (st)
			return st;
	}
	return MS_OK;
}

/* @range is of @data; no table's first sizes are cut in two by pieces of it. */
static enum ms_status search(struct ms_mimalloc *mi, const struct ms_region *data,
                             struct ms_range range)
{
	for (ms_addr at = range.begin; range.end - at >= NEED;) {
		uint64_t left = range.end - at;
		size_t n = ms_source_read(mi->d->src, at, mi->buffer,
		                          left < PIECE ? (size_t)left : (size_t)PIECE);

		if (n < NEED)
			return MS_OK;
		for (size_t i = 0; i + NEED <= n; i += MS_MI_WORD) {
			enum ms_status st = try_place(mi, data, mi->buffer + i, at + i);

			if (st)
				return st;
		}
		at += ms_align_down(n - NEED, MS_MI_WORD) + MS_MI_WORD;
	}
	return MS_OK;
}

enum ms_status ms_mi_locate(struct ms_mimalloc *mi)
{
	const struct ms_region *data;
	enum ms_status st = MS_OK;

	ms_vec_for_each (data, mi->d->regions) {
		struct ms_range rest = data->range;
		struct ms_range run;

		if (data->kind != MS_REGION_GLOBALS ||
		    !(ms_region_mapping(mi->d->src, data)->prot & MS_PROT_WRITE))
			continue;
		while (!st && ms_source_present(mi->d->src, rest, &run)) {
			st = search(mi, data, run);
			rest.begin = run.end;
		}
		if (st)
			return st;
	}
	return MS_OK;
}

static bool is_ordinary(const struct ms_mimalloc *mi, ms_addr addr, ms_addr *end)
{
	const struct ms_region *region = ms_region_of(mi->d->regions, addr);

	if (!region || region->kind != MS_REGION_MEMORY ||
	    ms_region_mapping(mi->d->src, region)->file)
		return false;
	*end = region->range.end;
	return true;
}

/* 2.x has the size of a queue behind two links, 3.x behind these and a count. */
bool ms_mi_is_used(const struct ms_mimalloc *mi, const struct ms_mi_table *table)
{
	ms_addr queues = table->at - (table->stride == 24 ? 16 : 24);
	ms_addr end;

	for (ms_addr at = queues - (ms_addr)BY_SIZE * MS_MI_WORD;
	     at < queues + MS_MI_QUEUES * table->stride; at += MS_MI_WORD)
		if (is_ordinary(mi, ms_mi_word(mi, at), &end))
			return true;
	return false;
}

struct ms_range ms_mi_mapped(const struct ms_mimalloc *mi, struct ms_range range)
{
	ms_addr at = range.begin;

	while (at < range.end && is_ordinary(mi, at, &at))
		;
	return (struct ms_range){ range.begin, at < range.end ? at : range.end };
}

void ms_mi_forget(struct ms_mi_copy *copy)
{
	copy->memory.n = 0;
	copy->maps.n = 0;
	copy->pages.n = 0;
	copy->proof = (struct ms_proof){ 0 };
}
