/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_REGISTRY_REGISTRY_H
#define MS_ALLOC_REGISTRY_REGISTRY_H

/*
 * Reading what libmalloc_debug.so, preloaded to the target, keeps of its blocks; see
 * malloc_debug/registry.h. Everything is read and judged before anything is changed, so
 * that a registry which contradicts itself leaves what the allocator's decoder told.
 */

#include "alloc/window.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"
#include "malloc_debug/registry.h"

/* Of the number of a block's stack. */
enum { MS_ENTRY_MISSING = 0, MS_ENTRY_STACKLESS = 1 };

struct ms_registry {
	struct ms_decoding *d;
	ms_addr at;
	struct malloc_debug_registry told;
	struct ms_peek peek;
	uint8_t *buffer;     /* of MS_WINDOW_BYTES */
	const char *problem; /* why it is not believed, or NULL */

	/* By the number of the block. */
	uint64_t n_blocks;
	uint32_t *less;  /* as ms_blocks_trim() takes it */
	uint32_t *front; /* the same; NULL without headers */
	uint32_t *stack; /* enum above, or the stack's number */

	struct ms_ranges memory; /* the library's, without references to blocks */
	uint64_t table_bytes;
	uint64_t mapped_bytes; /* all tables together are no longer */
	uint64_t n_entries;
	uint64_t n_believed; /* entries that are a live block each */
	uint64_t n_freed;    /* blocks that were freed, but that the allocator has not back */
	uint64_t freed_bytes;
	uint64_t n_stale;       /* entries that are not of the block there, of a bypassed library */
	uint64_t n_lost_stacks; /* that could not be read */
};

/* Find it in the target, and judge it: sets r->at, or leaves 0; r->told; r->problem. */
void ms_registry_find(struct ms_registry *r);

/* True when @list, unless it is empty, lies in one mapping. */
bool ms_registry_is_mapped(const struct ms_registry *r, const struct malloc_debug_list *list);

/*
 * Read the table of live blocks and the lists of freed ones into the arrays by number.
 * False without memory; r->problem is set where they make no sense.
 */
ms_must_check bool ms_registry_read_entries(struct ms_registry *r);

/* Read which libraries were unloaded, into d->origins. False without memory. */
ms_must_check bool ms_registry_read_modules(struct ms_registry *r);

/*
 * Read the stacks of @n blocks, r->stack, whose entries become places in
 * d->origins->stacks plus one, or 0. False without memory.
 */
ms_must_check bool ms_registry_read_stacks(struct ms_registry *r, uint64_t n);

#endif
