/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_CONFIRM_H
#define MS_ENGINE_CONFIRM_H

/*
 * What is lost stays lost: of two scans of one process, only what is unreachable in both is
 * a leak. Whatever was in flight at one of them (in a pipe, in another process, in a
 * thread's hands) is in memory again at the other.
 *
 *	first scan    lists every unreachable block in report.lost: where, how long, how it
 *	              begins; and nothing else of them
 *	second scan   takes an unreachable block that is not in that list for reachable, and
 *	              all that it leads to; the rest is suppressed, folded and reported as ever
 *
 * A block at the same address is the same one if its usable bytes are as many and its
 * first MS_LOST_BYTES, a cache line, are as they were: no code writes to what no code can
 * reach, and a block that was freed meanwhile has lost its beginning to the allocator's
 * lists. More bytes would cost more reading, and what programs write to at all (counts of
 * references, links, states) stands in front.
 *
 * Memory: 24 bytes for each unreachable block, in the report of the first.
 */

#include "engine/lost/list.h"

enum { MS_LOST_BYTES = 64 };

/* List the blocks of @unmarked that were lost for @reason. Reasons come one after the other. */
ms_must_check enum ms_status ms_lost_list(struct ms_leak_list *list, const uint64_t *unmarked,
                                          enum ms_reason reason, struct ms_error *err);

/*
 * Mark the unmarked heap blocks that the first scan did not find as lost as now, and what
 * they lead to. MS_REASON_NONE comes last, and has totals.unconfirmed_* completed: blocks
 * that were unreachable in only one of the scans, or changed.
 *
 * @unmarked: in/out; of each cell, the blocks that are not marked
 */
ms_must_check enum ms_status ms_confirm(struct ms_leak_list *list, uint64_t *unmarked,
                                        enum ms_reason reason, struct ms_error *err);

#endif
