/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_FOLLOW_H
#define MS_BASE_FOLLOW_H

/*
 * Ending with the parent, with status 0.
 *
 * A process whose parent was killed is adopted: in a container by its init, which may be a
 * server's master. A master that reaps a child "killed by signal 9" may take it for a crash
 * of one of its own: PostgreSQL then ends all sessions and recovers.
 */

#include <stdbool.h>
#include <sys/types.h>

/*
 * Exit with status 0 as soon as the parent ends. Call it again after a change of user ids,
 * which makes the kernel forget it. Unlike SIGKILL this does not end a wait for a file
 * system that does not answer: see ms_follow_unseen().
 *
 * Returns false when @parent has ended already (errno is ESRCH), or a filter forbids the call.
 */
bool ms_follow_parent(pid_t parent);

/*
 * From now on the end of the parent only breaks off a wait (EINTR) and is to be asked for:
 * for a process that has something to put in order first.
 */
void ms_follow_in_order(void);
bool ms_follow_is_over(void);

/*
 * Give up the standard input, output and error: for a process that may be stuck in the kernel
 * when its parent ends, so that no reader of what memscan prints waits for its end.
 */
void ms_follow_unseen(void);

/* Put the end off until ms_follow_resume(). */
void ms_follow_pause(void);
void ms_follow_resume(void);

#endif
