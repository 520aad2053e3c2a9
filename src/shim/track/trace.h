/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_TRACK_TRACE_H
#define MS_SHIM_TRACK_TRACE_H

/*
 * Stacks, each stored once, found by number.
 *
 * They are never dropped: programs have far fewer stacks than blocks, and so neither
 * finding one nor reading one takes a lock.
 */

#include <stddef.h>
#include <stdint.h>

#include "malloc_debug/registry.h"

enum {
	MS_TRACE_OFF = 0,  /* capture was off */
	MS_TRACE_NONE = 1, /* left out by a filter, or nothing could be unwound */
	MS_TRACE_FIRST = 2,
};

struct ms_trace {
	_Alignas(8) struct ms_trace *next; /* of the same hash */
	_Alignas(8) uint64_t hash;
	uint32_t id;
	uint32_t n;
	uint64_t pc[]; /* n of them, innermost first */
};

/*
 * The number of the stack @pc, of the libraries that are loaded now: the same addresses in another
 * library are another stack. MS_TRACE_NONE when it is empty, or there is no memory.
 */
uint32_t ms_trace_keep(const uint64_t *pc, size_t n);

/* The number that the next new stack gets. */
uint32_t ms_trace_next(void);

/* NULL when @id stands for none. */
const struct ms_trace *ms_trace_find(uint32_t id);

/* The pages by which numbers lead to stacks, for the registry. */
struct malloc_debug_list ms_trace_pages(uint32_t *ret_a_page);

#endif
