/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OUT_REPORTS_H
#define MS_SHIM_OUT_REPORTS_H

/* What is logged of a block that something is wrong with. Context: inside the gate. */

#include <stdint.h>

#include "shim/frames/modules.h"
#include "shim/track/freed.h"
#include "shim/track/live.h"

/*
 * @p, given to @function, is no live block, or @known to be one whose header is damaged;
 * what it may be is found out here.
 */
void ms_report_pointer(const void *p, const char *function, bool known);

/* Check the guards of a live block and report those that are damaged. */
void ms_report_guards(const void *p);

/* Check a block that leaves the list of freed ones; false when its header is damaged. */
bool ms_report_freed(const struct ms_freed *block);

/* @block is the @nth of @n leaks. */
void ms_report_leak(struct ms_places *places, const struct ms_live_block *block, size_t nth,
                    size_t n);

#endif
