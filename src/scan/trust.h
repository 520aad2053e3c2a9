/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SCAN_TRUST_H
#define MS_SCAN_TRUST_H

/*
 * Whether what a scan answered can be believed, or is to be asked again: a heap may be
 * caught in the middle of a change, and then contradicts itself.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"
#include "engine/report.h"

/*
 * What was counted and what was found may disagree for a moment, or for good, because
 * the program's memory looks like the allocator's: few attempts show which.
 */
enum { MS_TRUST_ATTEMPTS = 8, MS_TRUST_DISAGREEING = 3 };

/* What was proved in part is not asked for a third time when the first two took longer. */
#define MS_TRUST_NS UINT64_C(1000000000)

/* What is remembered from one attempt to the next; zeros to begin with. */
struct ms_trust {
	unsigned attempts;
	uint64_t
		spent_ns; /* since the first one began; the caller's to set before each judgement */
	uint64_t seen;    /* tells the last answer's evidence from another's */
	const char *why;  /* the last answer that was in doubt was; NULL: it was a failure */
};

/*
 * Judge the answer of one more attempt.
 *
 * Returns why it is worth asking again, or NULL: the answer is good, will not get
 * better, or was asked for often enough. Wait ms_trust_pause_ns() before the next.
 */
const char *ms_trust_doubt(struct ms_trust *trust, enum ms_status st,
                           const struct ms_report *report, const struct ms_error *err);
uint64_t ms_trust_pause_ns(const struct ms_trust *trust);

/*
 * Take the last answer, and note in it how often was asked. When it has not a single
 * proved block, and so says nothing about leaks, returns MS_E_CORRUPT where the heap is
 * damaged, MS_E_BUSY where it was changed each time, else MS_E_UNSUPPORTED.
 */
ms_must_check enum ms_status ms_trust_take(const struct ms_trust *trust, pid_t pid,
                                           struct ms_arena *arena, struct ms_report *report,
                                           struct ms_error *err);

#endif
