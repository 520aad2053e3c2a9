/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_MUSL_OLDMALLOC_H
#define MS_ALLOC_MUSL_OLDMALLOC_H

/*
 * What the files of this room share of musl's oldmalloc: the malloc of musl up to 1.2.0, and of
 * later ones that are built with it.
 *
 * Memory comes in segments, cut into chunks. Each chunk says its own length and that of the one
 * before, a segment begins behind a chunk of no length and ends with one:
 *
 *	  segment                                                end
 *	  │ (1) │ length 0 │ …  bytes  … │ length 0 │ length 1 │ … │ (1) │
 *	        └ chunk 0                └ chunk 1                 └ sentinel
 *
 * Bit 0 of a length says that the chunk is in use; free ones are in the ring of one of 64
 * bins. Segments are listed nowhere: they are found by how they begin, which is at the begin of
 * a page, or, where the loader gave it to malloc, anywhere in a library's data.
 *
 * A long block has a mapping of its own, which nothing counts.
 *
 *	oldbins.c    the bins in a module's data, and the free chunks in them
 *	oldchunks.c  segments, and chunks with mappings of their own
 *	oldmalloc.c  the decoder: the order of these, and the evidence
 *
 * Source: musl 1.2.3, src/malloc/oldmalloc/.
 */

#include "alloc/proof.h"
#include "alloc/window.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

enum {
	MS_OLD_BINS = 64,
	MS_OLD_BYTES = 1552, /* of `mal` */
	MS_OLD_ALIGN = 32,
	MS_OLD_HEADER = 16, /* of a chunk: both lengths */
};

struct ms_old_segment {
	struct ms_range range; /* from its first chunk to its sentinel's end */
	bool mapped;           /* one chunk with a mapping of its own; its block begins at `at` */
	bool unsure;           /* it may as well be something else's memory */
	ms_addr at;
};

struct ms_old {
	struct ms_decoding *d;
	struct ms_peek peek;
	uint8_t *buffer;              /* of MS_WINDOW_BYTES */
	const struct ms_region *data; /* where the bins are; NULL: there are none */
	ms_addr at;
	uint64_t bin_map;
	ms_addr heads[MS_OLD_BINS];
	bool locked;                                   /* one of its locks is held */
	uint32_t group;                                /* of extents */
	struct MS_VEC(struct ms_old_segment) segments; /* by address */
	struct MS_VEC(ms_addr) free;                   /* chunks, by address */
	uint64_t n_blocks;
	uint64_t block_bytes;
	uint64_t n_mapped;
	uint64_t n_unsure;
	uint64_t bytes; /* of segments */
	struct ms_proof proof;
};

/* oldbins.c: find the bins; old->data stays NULL when there are none. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_old_locate(struct ms_old *old);

/* oldbins.c: whether the bins' rings have all free chunks, and nothing else. */
void ms_old_check_bins(struct ms_old *old);

/* oldchunks.c: find the segments. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_old_find_segments(struct ms_old *old);

/* oldchunks.c: put the blocks of all segments, and note their free chunks. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_old_put_blocks(struct ms_old *old);

#endif
