/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_DESCRIPTORS_H
#define MS_TARGET_DESCRIPTORS_H

/*
 * Which of a process's descriptors are epoll instances, and which are rings (io_uring).
 *
 * To look at a descriptor takes microseconds, and there may be many, so they are looked at before
 * the process is stopped. While it stands, those that were one of these are looked at again,
 * and those whose numbers are new; of the rest, as many as a time limit allows. A number that was
 * closed and given to a new one in between is missed behind that limit.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/vec.h"

struct ms_fds MS_VEC(int32_t);

struct ms_descriptors {
	struct ms_fds epolls; /* one for each instance, however many duplicates there are */
	struct ms_fds rings;  /* the same */
	struct ms_fds others; /* looked at, and neither; ascending */
	uint32_t n_unseen;    /* not looked at since the process stands */
	bool faults;          /* one of them fills memory when it is touched (userfaultfd) */
	bool serves_files;    /* one of them is of a file system, or a device, in this process */
};

/*
 * Look at the descriptors of @tid's process, with @before, what was found before it stood, or
 * NULL: at all of them. What cannot be read is left out.
 */
void ms_descriptors_look(pid_t tid, const struct ms_descriptors *before, struct ms_arena *arena,
                         struct ms_descriptors *ret);

#endif
