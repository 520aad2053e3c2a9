/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_FUNCTIONS_H
#define MS_SYM_FUNCTIONS_H

#include <elfutils/libdwfl.h>

#include "base/arena.h"
#include "engine/backtrace.h"

/* Add the functions of @mod at @addr to @ret, innermost first; all in @arena. */
void ms_functions_find(Dwfl_Module *mod, ms_addr addr, struct ms_arena *arena,
                       struct ms_functions *ret);

#endif
