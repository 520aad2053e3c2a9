/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_GLIBC_PTMALLOC_H
#define MS_ALLOC_GLIBC_PTMALLOC_H

/*
 * What the files of this room share: one C library's malloc, as far as it has
 * been understood. A process can hold several (dlmopen), each with its own main
 * arena and malloc_par; mmapped chunks and thread caches are told apart only in
 * sum.
 *
 *	locate.c    main_arena and malloc_par in a module's data
 *	arenas.c    the ring of arenas, and the segments of memory of each
 *	chunks.c    one segment, chunk by chunk
 *	parts.c     many segments, and parts of large ones, by several threads
 *	bins.c      free chunks against the arena's lists; fastbins
 *	mmapped.c   chunks with a mapping of their own
 *	tcache.c    thread caches
 *	glibc.c     the decoder: the order of these, and the evidence
 */

#include <string.h>

#include "alloc/glibc/layout.h"
#include "alloc/proof.h"
#include "base/workers.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

/* What a walk over chunks found. */
struct ms_tally {
	uint64_t n_used;
	uint64_t used_bytes; /* usable */
	uint64_t n_free;
	uint64_t free_bytes;
	uint64_t links; /* of the free ones, as ms_pt_edge() sums them up; see bins.c */
};

/* Chunks that look used, and are free: in a thread's cache or a fastbin; and the caches. */
struct ms_pt_spared {
	uint64_t n;
	uint64_t bytes; /* usable */
};

/* One struct malloc_state and its memory. */
struct ms_pt_arena {
	ms_addr addr;
	ms_addr top; /* its last chunk */
	uint64_t system_mem;
	uint64_t flags;
	uint32_t group;       /* of its extents */
	uint32_t segments;    /* walked */
	size_t first_planned; /* in ms_ptmalloc.planned: segments that are walked together */
	size_t n_planned;
	ms_addr lost_heap; /* where the list of heaps leads to none */
	bool heap_is_lost;
	struct ms_tally tally;
	struct ms_pt_spared spared;
	uint64_t covered_bytes; /* by its segments */
	struct ms_proof proof;
};

struct ms_pt_arenas MS_VEC(struct ms_pt_arena);

/* One C library. */
struct ms_libc {
	const struct ms_arena_layout *layout;
	const struct ms_par_layout *par_layout; /* NULL: malloc_par was not found */
	const struct ms_region *data;           /* where main_arena is */
	ms_addr main_arena;
	ms_addr par;
	bool unused; /* malloc was never called */
	ms_addr sbrk_base;
	uint64_t n_mmaps;
	uint64_t mmapped_mem;
	uint64_t hp_pagesize;
	uint64_t tcache_count;
	size_t first_arena; /* in ms_ptmalloc.arenas */
	size_t n_arenas;
};

struct ms_libcs MS_VEC(struct ms_libc);

struct ms_mmapped {
	uint64_t n;
	uint64_t bytes; /* usable */
	uint64_t total; /* mapped */
	struct ms_pt_spared spared;
	uint64_t n_unknown; /* memory that may be one, and is not reported */
	uint64_t n_missing; /* so many of it are */
	bool proved;
	char problem[MS_NOTE_TEXT / 2];
};

struct ms_tcaches {
	uint32_t n;         /* threads whose cache was decoded */
	uint32_t n_failed;  /* threads whose cache contradicted itself */
	uint32_t n_orphans; /* caches that no thread has, left by fork() */
	uint64_t n_entries;
	const char *versions; /* of the layout that fits; NULL when there is no cache */
};

/* Memory that belongs to an arena. */
struct ms_pt_share {
	struct ms_range range;
	uint32_t group;
};

struct ms_pt_shares MS_VEC(struct ms_pt_share);

struct ms_pt_segments;

struct ms_ptmalloc {
	struct ms_decoding *d;
	const struct ms_pt_shape *shape;
	const struct ms_claim *claim; /* as it became: from settle on */
	struct ms_peek *peek;
	uint8_t *buffers[MS_WORKERS_MAX]; /* of MS_WINDOW_BYTES, one for each worker */
	uint8_t *trial_buffer;            /* of the same size, for chunks.c; by one thread only, */
	uint8_t *search_buffer; /* and for who looks for something, meanwhile trying chunks */
	uint32_t page;          /* bytes */
	uint64_t part_bytes;    /* large segments are cut at multiples of it */
	uint64_t key;           /* which the target cannot know */
	uint64_t tcache_count;  /* how many a bin of a cache may hold; 0: not known */
	struct ms_pt_segments *planned; /* of all arenas, to be walked together */
	struct ms_libcs libcs;
	struct ms_pt_arenas arenas;
	struct ms_mmapped mmapped;
	struct ms_tcaches tcaches;
	struct ms_pt_shares shares; /* of every arena */
	struct ms_ranges owned;     /* the same, and others'; tidy before mmapped chunks */
	uint64_t fast_entries;
};

/* glibc.c: ms_decoder.claim, for segments cut at multiples of @part_bytes, whole KiB. */
ms_must_check enum ms_status ms_pt_claim(struct ms_decoding *d, uint64_t part_bytes,
                                         struct ms_claim *ret);

/* locate.c: fill pt->libcs but for their arenas. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_pt_locate(struct ms_ptmalloc *pt);

/* arenas.c: find the arenas, and what of their memory shows without a walk. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_pt_plan_arenas(struct ms_ptmalloc *pt);

/* arenas.c: put their blocks, and find the rest of their memory. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_pt_read_arenas(struct ms_ptmalloc *pt);

/* bins.c: compare the free chunks of @arena with its bins; doubts it on a difference. */
void ms_pt_check_bins(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                      struct ms_pt_arena *arena);

/* bins.c: take what is in @arena's fastbins for free. */
void ms_pt_take_fastbins(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                         struct ms_pt_arena *arena);

/* mmapped.c: find mmapped chunks and put them. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_pt_read_mmapped(struct ms_ptmalloc *pt);

/* tcache.c: take what threads have cached for free. MS_E_NOMEM only. Blocks are sorted. */
ms_must_check enum ms_status ms_pt_take_tcaches(struct ms_ptmalloc *pt);

/*
 * tcache.c: whether a block of @usable bytes may be a thread's cache that is not
 * empty. @bytes: @n of its first ones. Any thread.
 */
bool ms_pt_may_be_cache(const struct ms_ptmalloc *pt, const uint8_t *bytes, size_t n,
                        uint64_t usable);

/* The arena that has the extents or the memory of @group; NULL: none has. */
static inline struct ms_pt_arena *ms_pt_arena_of(const struct ms_ptmalloc *pt, uint32_t group)
{
	uint32_t index = pt->arenas.n ? group - pt->arenas.at[0].group : 0;

	return index < pt->arenas.n ? &pt->arenas.at[index] : NULL;
}

/* As ms_source_read(), for little. */
static inline size_t ms_pt_read(const struct ms_ptmalloc *pt, ms_addr addr, void *buf, size_t len)
{
	return ms_peek_read(pt->peek, addr, buf, len);
}

/* The word at @bytes; only of a low end first are heaps decoded. */
static inline uint64_t ms_pt_load(const struct ms_ptmalloc *pt, const uint8_t *bytes)
{
	uint64_t word = 0;

	if (pt->shape->word == sizeof(word))
		memcpy(&word, bytes, sizeof(word));
	else
		memcpy(&word, bytes, sizeof(uint32_t));
	return word;
}

/* Read the word at @addr; false when it cannot be read. */
static inline bool ms_pt_read_word(const struct ms_ptmalloc *pt, ms_addr addr, uint64_t *ret)
{
	*ret = 0;
	return ms_pt_read(pt, addr, ret, pt->shape->word) == pt->shape->word;
}

/* The word at @addr, or 0 when it cannot be read. */
static inline uint64_t ms_pt_word(const struct ms_ptmalloc *pt, ms_addr addr)
{
	uint64_t word;

	return ms_pt_read_word(pt, addr, &word) ? word : 0;
}

/* The first address not below @addr at which a chunk may begin: its bytes are aligned. */
static inline ms_addr ms_pt_chunk_from(const struct ms_ptmalloc *pt, ms_addr addr)
{
	return ms_align_up(addr + pt->shape->header, MS_ALIGNMENT) - pt->shape->header;
}

/* Both halves of a product, as one word: every bit depends on all bits of both. */
static inline uint64_t ms_pt_mum(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* A number for the link from @from to @to; sums of them tell sets of links apart. */
static inline uint64_t ms_pt_edge(const struct ms_ptmalloc *pt, ms_addr from, ms_addr to)
{
	static const uint64_t odd[] = { 0x9e3779b97f4a7c15, 0xd1342543de82ef95,
		                        0xa24baed4963ee407 };
	uint64_t one = ms_pt_mum(from ^ pt->key ^ odd[0], to ^ pt->key * odd[1]);

	return ms_pt_mum(one ^ odd[2], pt->key ^ odd[1]);
}

/*
 * Undo safe-linking (glibc 2.32): a link is stored xored with the page number of
 * the place it is stored at.
 */
static inline ms_addr ms_pt_reveal(ms_addr place, uint64_t stored)
{
	return place >> 12 ^ stored;
}

#endif
