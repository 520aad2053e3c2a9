/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OUT_PRIVATE_H
#define MS_SHIM_OUT_PRIVATE_H

/*
 * Files of the shim: whole or not at all, for the program's user alone, never through a link
 * (base/newfile.h). Without malloc or a lock.
 */

#include "base/newfile.h"

/* Begin one. Returns 0, or errno; what may have been planted there is logged. */
int ms_private_begin(const char *path, struct ms_newfile *ret);

/* End it, @whole or not at all. Returns 0, or errno, which is logged. */
int ms_private_end(const char *path, struct ms_newfile *file, bool whole);

#endif
