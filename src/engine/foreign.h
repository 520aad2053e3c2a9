/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_FOREIGN_H
#define MS_ENGINE_FOREIGN_H

/*
 * Memory that is no heap of a decoded allocator, nor a stack, nor a file's: blocks of an
 * allocator that is not decoded may be in it. A report about the rest of the process
 * must not pass for one about all of it.
 */

#include "engine/decoder.h"

/*
 * Say at the head of the report's warnings what may not have been seen. After the table
 * of blocks is sealed; report->totals has what was decoded.
 *
 * Sets the totals' unread_bytes when malloc was never called and there is much such memory.
 *
 * Returns MS_E_UNSUPPORTED when next to nothing was decoded, and there is another allocator.
 */
ms_must_check enum ms_status ms_foreign_check(const struct ms_decoding *d, struct ms_totals *totals,
                                              struct ms_error *err);

/* The same of the mappings that nothing reached, when these are known: sets unread_bytes alone. */
void ms_foreign_check_lost(const struct ms_decoding *d, const struct ms_lost_mappings *lost,
                           struct ms_totals *totals);

#endif
