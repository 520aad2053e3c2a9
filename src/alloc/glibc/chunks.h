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
 *	 used or free is told by P of the chunk behind it
 *
 * Walking one proves it: sizes must lead exactly from the first to the last, and
 * a free chunk must end with its own size.
 */

#include "alloc/glibc/ptmalloc.h"

enum ms_segment_end { MS_SEGMENT_TOP, MS_SEGMENT_FENCE, MS_SEGMENT_BAD };

struct ms_segment {
	ms_addr begin; /* the first chunk */
	ms_addr limit; /* no chunk lies behind */
	ms_addr top;   /* the arena's top chunk */
	bool main;     /* of the main arena */

	enum ms_segment_end how; /* how the walk ended */
	ms_addr end;             /* where: behind top or fence, or at the bad chunk */
	struct ms_tally tally;
};

/*
 * Walk @segment without keeping anything. Fills the lower half.
 * Cost: one pass over its chunks' headers.
 */
void ms_segment_try(struct ms_ptmalloc *pt, struct ms_segment *segment);

/*
 * Walk @segment and put its used chunks as blocks of @group; free ones get their
 * bit in `marks`, for ms_pt_check_bins(). A bad segment leaves an extent that the
 * caller drops with its group. MS_E_NOMEM only.
 */
ms_must_check enum ms_status ms_segment_read(struct ms_ptmalloc *pt, struct ms_segment *segment,
                                             uint32_t group);

#endif
