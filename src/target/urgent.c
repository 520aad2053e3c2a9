/* SPDX-License-Identifier: Apache-2.0 */
#include "target/urgent.h"

#include <limits.h>
#include <sched.h>
#include <sys/resource.h>

enum { MOST_URGENT = -20, WAS_URGENT = INT_MIN };

int ms_urgent_begin(void)
{
	const struct sched_param param = { .sched_priority = 1 };
	int before = getpriority(PRIO_PROCESS, 0);

	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO)
		return WAS_URGENT;
	/* A cgroup may have no time for this class, for any caller. */
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		(void)setpriority(PRIO_PROCESS, 0, MOST_URGENT);
	return before;
}

void ms_urgent_end(int before)
{
	const struct sched_param param = { 0 };

	if (before == WAS_URGENT)
		return;
	(void)sched_setscheduler(0, SCHED_OTHER, &param);
	(void)setpriority(PRIO_PROCESS, 0, before);
}

void ms_urgent_set(pid_t tid)
{
	(void)setpriority(PRIO_PROCESS, (id_t)tid, MOST_URGENT);
}

void ms_urgent_ends(pid_t tid)
{
	const struct sched_param param = { .sched_priority = 1 };

	(void)sched_setscheduler(tid, SCHED_FIFO, &param);
}
