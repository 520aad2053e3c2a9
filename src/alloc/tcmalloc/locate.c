/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/tcmalloc/tcmalloc.h"
#include "alloc/window.h"

/*
 * The anchor is the array of central lists: every class's number stands in its element, so
 * that the numbers from 0 on, one in each 1216 bytes, show it in a module's data. In the
 * same data stand the sizes of the classes, and these are known by themselves: they begin
 * with 8 and 16, rise, and end with 256 KiB.
 */

enum {
	/* A module's data has an array of central lists and a page map's root, of the fewest. */
	LEAST_DATA = MS_TC_LEAST_CLASSES * sizeof(struct ms_tc_central) + (256 << 10),
	MOST_SPAN_BYTES = MS_WINDOW_BYTES / 2, /* of a class; objects.c reads it at once */
};

/* What stands around the sizes; behind them, at a multiple of a word, the pages of spans. */
struct size_map {
	int32_t batches[MS_TC_CLASSES];
	int32_t sizes[MS_TC_CLASSES];
};

/* A piece of a module's data. */
struct piece {
	struct ms_range range;
	const uint8_t *bytes;
	ms_addr next; /* where the next one may begin: pieces of one run overlap by a word */
};

static uint64_t word_at(const struct piece *piece, ms_addr addr)
{
	uint64_t word;

	memcpy(&word, piece->bytes + (addr - piece->range.begin), sizeof(word));
	return word;
}

/* The next piece of @data behind @piece that has something in it; false behind the last. */
static bool next_piece(struct ms_tcmalloc *tc, struct ms_range data, struct piece *piece)
{
	struct ms_source *src = tc->d->src;
	struct ms_range rest = { piece->next, data.end };
	struct ms_range run;
	size_t len;

	if (!ms_source_present(src, rest, &run))
		return false;
	run.begin = ms_align_down(run.begin, sizeof(uint64_t));
	piece->next = run.end;
	if (ms_range_len(run) > MS_WINDOW_BYTES) {
		run.end = run.begin + MS_WINDOW_BYTES;
		piece->next = run.end - sizeof(uint64_t);
	}
	len = (size_t)ms_range_len(run);
	piece->range = run;
	piece->bytes = ms_source_view(src, run.begin, len);
	if (!piece->bytes) {
		ms_source_fill(src, run.begin, tc->buffer, len);
		piece->bytes = tc->buffer;
	}
	return true;
}

/* Whether the numbers of at least the fewest classes stand in the array at @central. */
static bool is_central(const struct ms_tcmalloc *tc, ms_addr central)
{
	for (uint64_t i = 1; i < MS_TC_LEAST_CLASSES; i++)
		if (ms_tc_word(tc, central + i * sizeof(struct ms_tc_central) +
		                           offsetof(struct ms_tc_central, class)) != i)
			return false;
	return true;
}

/* The number of classes that have @sizes, the first of them is class 0's; 0: they are none. */
static uint32_t count_sizes(const int32_t *sizes)
{
	if (sizes[0])
		return 0;
	for (uint32_t i = 1; i < MS_TC_CLASSES; i++) {
		if (sizes[i] <= sizes[i - 1] || sizes[i] % 8)
			return 0;
		if (sizes[i] == MS_TC_LARGEST)
			return i + 1 < MS_TC_LEAST_CLASSES ? 0 : i + 1;
	}
	return 0;
}

/* The pages of each class tell how large a page is: the largest class fits exactly. */
static bool read_pages(const struct ms_tcmalloc *tc, ms_addr pages, struct ms_tc_copy *copy)
{
	uint64_t last = ms_tc_word(tc, pages + (copy->n_classes - 1) * sizeof(uint64_t));
	uint64_t shift = MS_TC_LEAST_SHIFT;

	while (shift < MS_TC_MOST_SHIFT && last << shift < (uint64_t)MS_TC_LARGEST)
		shift++;
	if (last << shift != MS_TC_LARGEST)
		return false;
	copy->page_shift = (uint8_t)shift;
	for (uint32_t i = 1; i < copy->n_classes; i++) {
		struct ms_tc_class *class = &copy->classes[i];

		class->pages = ms_tc_word(tc, pages + i * sizeof(uint64_t));
		if (class->pages > (uint64_t)MOST_SPAN_BYTES >> shift ||
		    class->pages << shift < class->bytes)
			return false;
	}
	return true;
}

/* Take the size map whose sizes stand at @sizes, class 0's first; false when it is none. */
static bool read_classes(const struct ms_tcmalloc *tc, ms_addr sizes, struct ms_tc_copy *copy)
{
	struct size_map map;

	if (!ms_tc_read(tc, sizes - sizeof(map.batches), &map, sizeof(map)))
		return false;
	copy->n_classes = count_sizes(map.sizes);
	for (uint32_t i = 1; i < copy->n_classes; i++) {
		if (map.batches[i] < 1)
			return false;
		copy->classes[i].batch = (uint64_t)map.batches[i];
		copy->classes[i].bytes = (uint64_t)map.sizes[i];
	}
	return copy->n_classes &&
	       read_pages(tc, ms_align_up(sizes + sizeof(map.sizes), sizeof(uint64_t)), copy);
}

static void look_in_piece(const struct ms_tcmalloc *tc, const struct piece *piece,
                          struct ms_tc_copy *copy)
{
	const uint64_t first_sizes = 8 | UINT64_C(16) << 32;
	ms_addr at = piece->range.begin;

	for (; at + sizeof(uint64_t) <= piece->range.end; at += sizeof(int32_t)) {
		uint64_t word = word_at(piece, at);
		ms_addr central =
			at - offsetof(struct ms_tc_central, class) - sizeof(struct ms_tc_central);

		if (word == first_sizes && !copy->n_classes) {
			copy->sizes = at - sizeof(int32_t);
			if (!read_classes(tc, copy->sizes, copy))
				copy->n_classes = 0;
		}
		if (word == 1 && !copy->central && is_central(tc, central))
			copy->central = central;
	}
}

/* Read the central lists, whose number is known now. */
static enum ms_status read_central(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	size_t len = copy->n_classes * sizeof(struct ms_tc_central);

	copy->centrals = ms_arena_alloc(tc->d->arena, len);
	if (!copy->centrals)
		return MS_E_NOMEM;
	if (ms_source_read(tc->d->src, copy->central, copy->centrals, len) != len)
		copy->central = 0;
	for (uint32_t i = 0; i < copy->n_classes && copy->central; i++)
		if (copy->centrals[i].class != i)
			copy->central = 0;
	return MS_OK;
}

static enum ms_status locate_in(struct ms_tcmalloc *tc, const struct ms_region *region,
                                struct ms_range data)
{
	struct ms_tc_copy copy = { .region = region, .data = data };
	struct piece piece = { .next = data.begin };
	enum ms_status st = MS_OK;
	struct ms_tc_copy *slot;

	while ((!copy.central || !copy.n_classes) && next_piece(tc, data, &piece))
		look_in_piece(tc, &piece, &copy);
	if (copy.central && copy.n_classes)
		st = read_central(tc, &copy);
	if (st || !copy.central || !copy.n_classes || !ms_tc_find_root(tc, &copy))
		return st;
	slot = ms_vec_push(tc->d->arena, &tc->copies);
	if (!slot)
		return MS_E_NOMEM;
	*slot = copy;
	return MS_OK;
}

enum ms_status ms_tc_locate(struct ms_tcmalloc *tc)
{
	enum ms_status st = MS_OK;
	struct ms_data data;

	for (size_t i = 0; !st && ms_next_data(tc->d->src, tc->d->regions, &i, &data);)
		if (ms_range_len(data.range) >= LEAST_DATA)
			st = locate_in(tc, data.region, data.range);
	return st;
}

static bool is_memory(const struct ms_tcmalloc *tc, ms_addr addr)
{
	const struct ms_region *region = ms_region_of(tc->d->regions, addr);

	return region && (region->kind == MS_REGION_BRK || region->kind == MS_REGION_MEMORY);
}

bool ms_tc_find_word(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_tc_fits *fits)
{
	struct piece piece = { .next = copy->data.begin };

	while (next_piece(tc, copy->data, &piece))
		for (ms_addr at = piece.range.begin; at + 8 <= piece.range.end; at += 8) {
			uint64_t word = word_at(&piece, at);

			/* What is used up stands at its end; most words are zero. */
			if (word && word % sizeof(word) == 0 &&
			    (is_memory(tc, word) || is_memory(tc, word - 1)) &&
			    fits(tc, copy, at, word))
				return true;
		}
	return false;
}
