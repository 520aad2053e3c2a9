/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_PYMALLOC_PYMALLOC_H
#define MS_ALLOC_PYMALLOC_PYMALLOC_H

/*
 * What the files of this room share: CPython's allocator of small objects, as far as it
 * has been understood. It takes arenas from the kernel and cuts them into pools of one
 * size of blocks each; what is larger than 512 bytes it leaves to malloc.
 *
 *	arena    address                              pool_address        end
 *	         ├──────┬──────┬──────┬────── … ──────┼───────────────────┤
 *	         │ pool │ pool │ pool │               │ not carved so far │
 *	         └──────┴──────┴──────┴────── … ──────┴───────────────────┘
 *	pool     ├────────┬───────┬───────┬─── … ──┼──────────────────────┤
 *	         │ header │ block │ block │        │ not carved so far    │
 *	         └────────┴───────┴───────┴─── … ──┴──────────────────────┘
 *	         0        48                       nextoffset
 *
 *	locate.c    the table of used pools in a module's data, and from there the arenas
 *	pools.c     the blocks of an arena, pool by pool
 *	pymalloc.c  the decoder: the order of these, and the evidence
 *
 * Nothing marks a thread that is inside this allocator: the interpreter's own lock keeps
 * others out. What such a thread is changing contradicts itself, for the pool's counter,
 * its list and what is carved of it are three words that are written one by one, and
 * whichever of them was written first, two of them do not agree with the third.
 *
 * Arenas of interpreters beside the main one (3.12), whose state is in a block of malloc's,
 * are not looked for; they stay memory that is followed as a whole.
 */

#include "alloc/proof.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

enum {
	MS_PY_SHIFT = 4, /* log2 of the alignment */
	MS_PY_ALIGNMENT = 1 << MS_PY_SHIFT,
	MS_PY_CLASSES = 32, /* sizes of blocks: multiples of the alignment, to 512 */
	MS_PY_MAX_POOL = 1 << 14,
	MS_PY_MAX_POOLS = 256, /* in an arena */
};

/* struct pool_header. */
struct ms_py_pool {
	uint32_t count; /* of blocks in use */
	uint32_t padding;
	uint64_t freeblock;
	uint64_t nextpool; /* in a ring of pools that have free blocks, or in freepools */
	uint64_t prevpool;
	uint32_t arenaindex;
	uint32_t szidx;
	uint32_t nextoffset;
	uint32_t maxnextoffset;
};

/* struct arena_object. */
struct ms_py_object {
	uint64_t address;
	uint64_t pool_address;
	uint32_t nfreepools;
	uint32_t ntotalpools;
	uint64_t freepools;
	uint64_t nextarena; /* of one not in use: the next such one */
	uint64_t prevarena;
};

struct ms_py_layout {
	const char *versions;
	uint32_t arena_bytes;
	uint32_t pool_bytes;
};

struct ms_py_arena {
	struct ms_range range;
	struct ms_py_object object;
	uint32_t index; /* in the array of arena objects */
	uint32_t heap;  /* in ms_pymalloc.heaps */
	bool refused;   /* it overlaps what is another's */
};

struct ms_py_arenas MS_VEC(struct ms_py_arena);

/* One interpreter's. */
struct ms_py_heap {
	const struct ms_py_layout *layout;
	ms_addr used;   /* the table of rings of used pools */
	ms_addr arenas; /* the array of arena objects */
	uint32_t n_objects;
	bool of_interpreter; /* the two are an interpreter's state (3.12); else a program's */

	/* Of the arenas that were read. */
	uint64_t n_arenas;
	uint64_t n_pools;
	uint64_t n_used; /* blocks */
	uint64_t used_bytes;
	uint64_t n_free;
	uint64_t free_bytes;
	uint64_t n_unproved; /* pools */
	struct ms_proof proof;
};

struct ms_py_heaps MS_VEC(struct ms_py_heap);

struct ms_pymalloc {
	struct ms_decoding *d;
	struct ms_peek *peek;
	uint8_t *buffer;   /* of MS_WINDOW_BYTES */
	uint32_t n_tables; /* that were looked at closely */
	uint32_t n_arrays;
	struct ms_py_heaps heaps;
	struct ms_py_arenas arenas; /* of all heaps, by address, without overlap but for refused */
};

/* locate.c: find heaps and their arenas. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_py_locate(struct ms_pymalloc *py);

/* pools.c: put the blocks of @arena; pools that contradict themselves become unproved. */
ms_must_check enum ms_status ms_py_read_arena(struct ms_pymalloc *py,
                                              const struct ms_py_arena *arena);

/* The first pool of an arena that begins at @address. */
static inline ms_addr ms_py_first_pool(ms_addr address, const struct ms_py_layout *layout)
{
	return ms_align_up(address, layout->pool_bytes);
}

/* How many pools such an arena has. */
static inline uint32_t ms_py_n_pools(ms_addr address, const struct ms_py_layout *layout)
{
	return layout->arena_bytes / layout->pool_bytes - (address % layout->pool_bytes != 0);
}

static inline uint32_t ms_py_block_bytes(uint32_t szidx)
{
	return (szidx + 1) << MS_PY_SHIFT;
}

#endif
