/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_SCAN_H
#define MS_ENGINE_SCAN_H

/* Steps 3 to 7 of a scan, in order: classify, decode, root, mark, fold. */

#include "engine/options.h"

/*
 * Scan what @src shows.
 *
 * Fills in report: heaps, evidence, totals, leaks, mappings, warnings and the
 * phases from CLASSIFY on; leaves the rest alone.
 *
 * @arena: owns everything that the report points to
 *
 * Returns MS_E_UNSUPPORTED when no allocator was understood, MS_E_NOMEM.
 * Context: no malloc; needs nothing of the OS but memory and the clock.
 */
ms_must_check enum ms_status ms_scan(struct ms_source *src, const struct ms_scan_options *options,
                                     struct ms_arena *arena, struct ms_report *report,
                                     struct ms_error *err);

#endif
