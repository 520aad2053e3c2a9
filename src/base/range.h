/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_RANGE_H
#define MS_BASE_RANGE_H

/* Addresses of the target and half-open ranges of them. */

#include <stdbool.h>
#include <stdint.h>

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

#endif
