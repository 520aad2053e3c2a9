/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_GLIBC_CHUNKS_H
#define MS_ALLOC_GLIBC_CHUNKS_H

/*
 * A segment is a stretch of memory that is nothing but chunks, from its first to
 * the arena's top or to the fence that malloc leaves where a segment was given up:
 *
 *	┌──────┬──────┬─────────┬──────┬─────────────┐
 *	│ used │ free │  used   │ used │     top     │
 *	└──────┴──────┴─────────┴──────┴─────────────┘
 *	 a chunk: prev_size │ size|A|M|P │ bytes …
 *	 used or free is known by P of the chunk behind it
 *
 * Walking one proves it: sizes must lead exactly from the first to the last, and
 * a free chunk must end with its own size.
 *
 * What a walk does from a chunk on depends on nothing before that chunk. So several
 * threads can each walk a part of one segment, and what they found is what a single
 * walk would have found as far as that one meets them (parts.c).
 */

#include "alloc/glibc/ptmalloc.h"

enum ms_segment_end {
	MS_SEGMENT_TOP,
	MS_SEGMENT_FENCE,
	MS_SEGMENT_BAD,
	MS_SEGMENT_ON, /* not ended: the walk was to stop here */
};

struct ms_segment {
	ms_addr begin; /* the first chunk */
	ms_addr limit; /* no chunk lies behind */
	ms_addr top;   /* the arena's top chunk */
	bool main;     /* of the main arena */
	ms_addr heap;  /* where the heap begins that it is of; 0: it is of none */

	uint32_t extent;         /* after ms_segment_open() */
	enum ms_segment_end how; /* how the walk ended */
	ms_addr end;             /* where: behind top or fence, or at the bad chunk */
	struct ms_tally tally;
};

struct ms_pt_segments MS_VEC(struct ms_segment);

/* Part of a segment. */
struct ms_part {
	const struct ms_segment *segment;
	ms_addr first;         /* chunks from here on are the part's */
	ms_addr stop;          /* and before here */
	struct ms_cell *cells; /* the segment's extent's; NULL: keep nothing */
	uint64_t max_chunks;   /* 0: as many as there are */

	ms_addr begin; /* the first chunk; 0: none was found */
	enum ms_segment_end how;
	ms_addr end;       /* as of a segment; the first chunk at or behind stop when it goes on */
	uint64_t late_end; /* granule of a block's end that may be a later part's, or UINT64_MAX */
	struct ms_tally tally;
};

/*
 * Walk @part from part->begin on and put its used chunks into its cells; free ones
 * get their bit in `marks`, and so do used ones that may be a thread's cache.
 *
 * @buffer: of MS_WINDOW_BYTES
 * Cost:    one pass over its chunks' headers. Any thread.
 */
void ms_part_walk(const struct ms_ptmalloc *pt, struct ms_part *part, uint8_t *buffer);

/*
 * Set part->begin to the first address in @part from which a chain of chunks
 * leads on for long; it may be wrong, and 0 when there is none near.
 */
void ms_part_guess(const struct ms_ptmalloc *pt, struct ms_part *part, uint8_t *buffer);

/* Walk the first chunks of @segment without keeping anything. Fills the lower half. */
void ms_segment_try(const struct ms_ptmalloc *pt, struct ms_segment *segment);

/* parts.c: make an extent of @group for @segment. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_segment_open(struct ms_ptmalloc *pt, struct ms_segment *segment,
                                             uint32_t group);

/*
 * parts.c: walk the @n opened segments at @segments and put their blocks. A bad
 * segment leaves an extent that the caller drops with its group. MS_E_NOMEM only.
 */
ms_must_check enum ms_status ms_segments_read(struct ms_ptmalloc *pt, struct ms_segment *segments,
                                              size_t n);

#endif
