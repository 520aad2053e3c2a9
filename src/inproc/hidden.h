/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_HIDDEN_H
#define MS_INPROC_HIDDEN_H

/*
 * Memory that is not to be searched for pointers, such as results: they are full of the
 * addresses of leaks, and would hide these from the next search.
 */

#include <stddef.h>
#include <sys/types.h>

#include "base/range.h"

/*
 * Empty @size bytes at @p where they are searched, or stop doing so. Nonsense is ignored.
 *
 * @process: whose memory it is; the caller's own, or the one beside which it runs
 */
void ms_hidden_add(pid_t process, const void *p, size_t size);
void ms_hidden_remove(pid_t process, const void *p, size_t size);

/* Empty them all but @own. In the sweeper, whose memory is a copy. */
void ms_hidden_wipe(struct ms_range own);

#endif
