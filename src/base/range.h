/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_RANGE_H
#define MS_BASE_RANGE_H

/* Addresses of the target and half-open ranges of them. */

#include <stdbool.h>
#include <stdint.h>

#include "base/search.h"
#include "base/vec.h"

/* An address in the scanned process. Never dereferenced, never stored in a pointer. */
typedef uint64_t ms_addr;

/* [begin, end), bytes; begin <= end. */
struct ms_range {
	ms_addr begin;
	ms_addr end;
};

struct ms_ranges MS_VEC(struct ms_range);

static inline bool ms_range_has(struct ms_range r, ms_addr addr)
{
	return addr - r.begin < r.end - r.begin;
}

static inline uint64_t ms_range_len(struct ms_range r)
{
	return r.end - r.begin;
}

/* What both have; empty (begin == end) when they do not meet. */
static inline struct ms_range ms_range_common(struct ms_range a, struct ms_range b)
{
	ms_addr begin = a.begin > b.begin ? a.begin : b.begin;
	ms_addr end = a.end < b.end ? a.end : b.end;

	return (struct ms_range){ begin, end > begin ? end : begin };
}

/*
 * The first of @n entries that ends behind @addr, or @n. Entries are in address
 * order, do not overlap, have @size bytes each and begin with their struct ms_range.
 */
static inline size_t ms_range_search(const void *entries, size_t n, size_t size, ms_addr addr)
{
	return ms_lower_bound(
		0, n, i,
		((const struct ms_range *)(const void *)((const char *)entries + i * size))->end <=
			addr);
}

/* The entry that has @addr, or NULL; entries as above. */
static inline void *ms_range_entry(void *entries, size_t n, size_t size, ms_addr addr)
{
	size_t i = ms_range_search(entries, n, size, addr);
	void *entry;

	if (i == n)
		return NULL;
	entry = (char *)entries + i * size;
	return ms_range_has(*(const struct ms_range *)entry, addr) ? entry : NULL;
}

/* The same for the vector @vec. */
#define ms_range_find(vec, addr) ms_range_entry((vec)->at, (vec)->n, sizeof(*(vec)->at), (addr))

static inline ms_addr ms_align_down(ms_addr addr, uint64_t to)
{
	return addr & ~(to - 1);
}

static inline ms_addr ms_align_up(ms_addr addr, uint64_t to)
{
	return (addr + to - 1) & ~(to - 1);
}

/* Order @ranges by address and join those that overlap or touch. False without memory. */
bool ms_ranges_tidy(struct ms_arena *arena, struct ms_ranges *ranges);

/*
 * Take the next part of @rest that no tidy @holes cover: sets @ret, moves @rest
 * behind it. False when nothing is left.
 */
bool ms_range_next_gap(struct ms_range *rest, const struct ms_ranges *holes, struct ms_range *ret);

/* Append [@begin, @end); false without memory. An empty range is not kept. */
bool ms_ranges_add(struct ms_arena *arena, struct ms_ranges *ranges, ms_addr begin, ms_addr end);

/* Append all of @from; false without memory. */
bool ms_ranges_add_all(struct ms_arena *arena, struct ms_ranges *ranges,
                       const struct ms_ranges *from);

#endif
