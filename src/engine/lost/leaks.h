/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LEAKS_H
#define MS_ENGINE_LEAKS_H

/*
 * From marks to the report's list: count the unmarked blocks, fold them, choose
 * and sort the entries.
 *
 * Entries whose blocks come from the same calls are one, that of the lowest address; the
 * others are "similar" to it. So are those of which no calls are known, and that have one
 * signature (signature.h). Not so when every leak, or every block, is to be listed; and a
 * program that asks for its own leaks gets those without calls one by one, as on Android.
 *
 * Blocks of the same calls may have several signatures; the entry has the least of them,
 * as the lowest address is another in the next run.
 */

#include "engine/lost/list.h"

/*
 * Take every unmarked heap block for a leak of @reason: MS_REASON_NONE for
 * certain ones, else possible ones; but not those that are suppressed, or not confirmed.
 * Marks them all. The first of two scans only keeps them (confirm.h).
 */
ms_must_check enum ms_status ms_leaks_take(struct ms_leak_list *list, enum ms_reason reason,
                                           struct ms_error *err);

/*
 * Sort the entries, leave out the small ones, cut them to the limit, and write them to the
 * report, with their stacks.
 */
ms_must_check enum ms_status ms_leaks_finish(struct ms_leak_list *list, struct ms_error *err);

#endif
