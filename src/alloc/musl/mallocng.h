/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_MUSL_MALLOCNG_H
#define MS_ALLOC_MUSL_MALLOCNG_H

/*
 * What the files of this room share of musl's mallocng, the malloc of musl 1.2.1 and later.
 *
 * Blocks are slots of groups. A group's descriptor lies elsewhere, in a page of metadata that
 * begins with a secret:
 *
 *	__malloc_context          page of metadata           group
 *	│ secret          │       │ secret        │   ┌───▶ │ descriptor's address │
 *	│ first page      │ ────▶ │ next page     │   │     │ slot 0 │ slot 1 │ …  │
 *	│ groups in use,  │       │ descriptor 0 ─┼───┘
 *	│ by class        │       │ descriptor 1  │
 *
 * A group has a mapping of its own, or lies in a slot of a group of larger slots, or, where
 * the loader gave them to malloc, in the last bytes of a library's data.
 *
 *	context.c    __malloc_context in a module's data, and its descriptors
 *	lists.c      descriptors against the context's lists and counters
 *	groups.c     groups, slot by slot
 *	mallocng.c   the decoder: the order of these, and the evidence
 *
 * Source: musl 1.2.2, 1.2.3, 1.2.5 and 1.2.6, src/malloc/mallocng/meta.h and malloc.c; these
 * structures are the same in all.
 */

#include "alloc/proof.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

enum {
	MS_NG_UNIT = 16,
	MS_NG_TAIL = 4, /* bytes of a slot that hold the next one's header */
	MS_NG_CLASSES = 48,
	MS_NG_CLASS_NONE = 63, /* of blocks that are too large for any */
	MS_NG_CONTEXT_BYTES = 928,
	MS_NG_AREA_BYTES = 4096,
	MS_NG_AREA_HEADER = 24,
	MS_NG_DESCRIPTOR_BYTES = 40,
	MS_NG_AREA_DESCRIPTORS = (MS_NG_AREA_BYTES - MS_NG_AREA_HEADER) / MS_NG_DESCRIPTOR_BYTES,
};

/* struct meta */
struct ms_ng_group {
	ms_addr descriptor;
	ms_addr previous;
	ms_addr next; /* 0: in no list */
	ms_addr at;   /* 0: the descriptor describes none */
	uint32_t avail;
	uint32_t freed;
	uint64_t map_bytes; /* 0: not mapped by itself */
	uint8_t last;       /* index of its last slot */
	uint8_t class;
	bool freeable; /* false: memory that the loader gave */
	bool listed;   /* in the list that it should be in */
	bool reached;  /* in a slot of another one */
};

struct ms_ng_groups MS_VEC(struct ms_ng_group);

/* A page of metadata; its descriptors are a run of the context's. */
struct ms_ng_area {
	ms_addr at;
	uint32_t first;
};

struct ms_ng_areas MS_VEC(struct ms_ng_area);

/* A group that lies in no other one. */
struct ms_ng_outer {
	struct ms_range range;
	uint32_t index; /* of its descriptor */
};

/* struct malloc_context */
struct ms_ng_context {
	const struct ms_region *data; /* where it is */
	ms_addr at;
	uint64_t secret;
	ms_addr free_head;
	ms_addr unused; /* the first descriptor that was never used; behind the last area's: none */
	uint64_t n_unused;
	ms_addr first_area;
	ms_addr last_area;
	ms_addr active[MS_NG_CLASSES]; /* lists of groups that have free slots */
	uint64_t usage[MS_NG_CLASSES]; /* slots */

	struct ms_ng_areas areas; /* by address */
	struct ms_ng_groups groups;
	struct MS_VEC(struct ms_ng_outer) outer; /* by address */
	uint32_t group;                          /* of its extents */
	uint32_t n_groups;                       /* in use */
	uint32_t n_free;                         /* descriptors that are free */
	uint32_t n_nested;
	struct ms_ranges passing; /* slots that are just being taken or given back */
	uint64_t n_blocks;
	uint64_t block_bytes;
	uint64_t group_bytes; /* of outer groups */
	struct ms_proof proof;
};

struct ms_ng {
	struct ms_decoding *d;
	struct ms_peek peek;
	uint8_t *buffer; /* of MS_WINDOW_BYTES */
	struct MS_VEC(struct ms_ng_context) contexts;
};

/* context.c: find every context, and read its descriptors. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_ng_locate(struct ms_ng *ng);

/* The index of the descriptor at @addr; false when none is there. */
bool ms_ng_index(const struct ms_ng_context *c, ms_addr addr, uint32_t *ret);

/* lists.c: compare the descriptors of @c with its lists and counters. */
void ms_ng_check_lists(struct ms_ng_context *c);

/* groups.c: note the outer groups of @c. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_ng_plan(struct ms_ng *ng, struct ms_ng_context *c);

/* groups.c: put the blocks of @c. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_ng_put_blocks(struct ms_ng *ng, struct ms_ng_context *c);

/* Bytes of a slot, with those that hold the next one's header. */
uint64_t ms_ng_stride(const struct ms_ng_group *group);

/* All of a group's memory. */
struct ms_range ms_ng_range(const struct ms_ng_group *group);

static inline uint32_t ms_ng_all_slots(const struct ms_ng_group *group)
{
	return (uint32_t)((UINT64_C(2) << group->last) - 1);
}

#endif
