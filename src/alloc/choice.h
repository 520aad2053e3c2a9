/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_CHOICE_H
#define MS_ALLOC_CHOICE_H

/*
 * Which of many ranges are an allocator's, when all that it has kept of them is how
 * many there are and how many bytes they have together.
 *
 * Memory of the program's own can look like an allocator's. So there may be more
 * candidates than the counters allow, and candidates that overlap. A set of them
 * agrees when no two overlap and both counters are met. A range that is in every set
 * that agrees is proved, one that is in none is refuted, and all others are not known.
 *
 * This does not look at memory, and does not judge how likely a candidate is.
 */

#include "base/range.h"
#include "base/status.h"

enum ms_verdict {
	MS_VERDICT_NONE,  /* in no set that agrees */
	MS_VERDICT_MAYBE, /* in some */
	MS_VERDICT_ALL,   /* in every one */
};

struct ms_choice {
	struct ms_range range; /* whole pages, not empty */
	enum ms_verdict verdict;
};

struct ms_choices MS_VEC(struct ms_choice);

enum ms_agreement {
	MS_AGREE_NONE,    /* no set agrees */
	MS_AGREE_ONE,     /* exactly one does */
	MS_AGREE_SEVERAL, /* some ranges are in doubt */
	MS_AGREE_UNKNOWN, /* too many candidates to look at all sets */
};

/*
 * Find out which sets of @choices have @count ranges of @bytes together.
 *
 * @choices: in order of their begins; verdicts are written: all NONE when no set
 *           agrees, and all MAYBE when that is not known
 *
 * Returns MS_E_NOMEM only.
 * Cost: O(n log n) when all together agree, or there is one too many; else bounded by
 *       a limit on the partial results that are kept.
 */
ms_must_check enum ms_status ms_choose(struct ms_choices *choices, uint64_t count, uint64_t bytes,
                                       enum ms_agreement *ret);

#endif
