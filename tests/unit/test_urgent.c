/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/urgent.h"

/* Whether this process runs before others: as root it must. */
static bool is_urgent(void)
{
	return sched_getscheduler(0) == SCHED_FIFO || getpriority(PRIO_PROCESS, 0) == -20;
}

Test(urgent, ends_as_it_began)
{
	int urgency;

	(void)setpriority(PRIO_PROCESS, 0, 7);
	urgency = ms_urgent_begin();
	cr_expect(is_urgent() || geteuid(), "root may");
	ms_urgent_end(urgency);
	cr_expect_eq(sched_getscheduler(0), SCHED_OTHER);
	cr_expect_eq(getpriority(PRIO_PROCESS, 0), 7);
}

Test(urgent, a_child_can_end_it_for_itself)
{
	int urgency = ms_urgent_begin();
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		ms_urgent_end(urgency);
		_exit(is_urgent());
	}
	cr_expect(is_urgent() || geteuid());
	ms_urgent_end(urgency);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

Test(urgent, who_is_urgent_already_stays_so)
{
	int outer = ms_urgent_begin();
	int inner = ms_urgent_begin();

	ms_urgent_end(inner);
	cr_expect(is_urgent() || geteuid());
	ms_urgent_end(outer);
	cr_expect_eq(sched_getscheduler(0), SCHED_OTHER);
	cr_expect_eq(getpriority(PRIO_PROCESS, 0), 0);
}
