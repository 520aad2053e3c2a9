/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_URGENT_H
#define MS_TARGET_URGENT_H

/*
 * Running before others for as long as the target stands: on a crowded machine it would
 * stand until our turn comes. A privilege (CAP_SYS_NICE, or RLIMIT_RTPRIO or RLIMIT_NICE)
 * is needed, and is not missed without.
 *
 * Context: the calling thread alone; the processes that it forks inherit it.
 */

#include <sys/types.h>

/* Returns the argument for ms_urgent_end(). Calls may be nested. */
int ms_urgent_begin(void);
void ms_urgent_end(int before);

/* Let thread @tid of another process, a clone that works for us, run before others for good. */
void ms_urgent_set(pid_t tid);

/*
 * The same of a thread that runs nothing any more: it stands, and is about to be killed. Its
 * memory is free the sooner.
 */
void ms_urgent_ends(pid_t tid);

#endif
