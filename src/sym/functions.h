/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_FUNCTIONS_H
#define MS_SYM_FUNCTIONS_H

#include "engine/backtrace.h"
#include "sym/units.h"

/* Add the functions at @addr, of the file that has @units, to @ret, innermost first. */
void ms_functions_find(struct ms_unit_source *units, ms_addr addr, struct ms_functions *ret);

#endif
