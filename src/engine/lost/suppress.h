/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_SUPPRESS_H
#define MS_ENGINE_SUPPRESS_H

/*
 * Leaks that the user does not want to be told.
 *
 * As LeakSanitizer has it: every unreachable block, direct or not, whose names (its type,
 * its module, and those of the calls that allocated it) match a suppression becomes a root of a
 * further marking. What it leads to is suppressed with it, also when another leak leads there as
 * well; what is then left is told.
 *
 * To be called only when there are suppressions.
 */

#include "engine/lost/list.h"

/* List the suppressions in the report, unused so far. False without memory. */
bool ms_suppress_prepare(struct ms_leak_list *list);

/*
 * Mark the unmarked heap blocks that are suppressed, and count them in the totals.
 *
 * @unmarked: in/out; of each cell, the blocks that are not marked
 *
 * Cost: a look at each unmarked block's first word; a match for each type there is.
 */
ms_must_check enum ms_status ms_suppress(struct ms_leak_list *list, uint64_t *unmarked,
                                         struct ms_error *err);

/* Say in the report which suppressions matched nothing. */
void ms_suppress_warn(const struct ms_leak_list *list);

#endif
