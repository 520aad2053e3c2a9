/* SPDX-License-Identifier: Apache-2.0 */
/* A process that works for another one, with an end to its time. lsan: off */
#include <criterion/criterion.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/follow.h"
#include "held.h"
#include "target/helper.h"
#include "target/proc.h"

enum { LATE_US = 300000 };

static struct shared {
	volatile pid_t child;
} * shared;

TestSuite(helper, .timeout = 30);

/* Its child has something to put in order when it has ended. */
static int work(void *ctx)
{
	pid_t self = getpid();

	(void)ctx;
	if (!fork()) {
		if (!ms_follow_parent(self))
			_exit(0);
		ms_follow_pause();
		shared->child = getpid();
		while (getppid() == self)
			(void)usleep(1000);
		(void)usleep(LATE_US);
		ms_follow_resume();
		for (;;)
			pause();
	}
	for (;;)
		pause();
}

Test(helper, leaves_no_child_behind_when_its_time_is_over)
{
	struct ms_helper_call call = { .title = "helper", .work = work };

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	shared = child_memory(sizeof(*shared));
	call.deadline_ns = ms_now_ns() + UINT64_C(200000000);
	cr_expect_eq(ms_helper_run(&call), MS_HELPER_LATE);
	cr_assert(shared->child);
	cr_expect_eq(ms_proc_state(shared->child), 'Z');
	cr_expect_eq(waitpid(shared->child, NULL, WNOHANG), shared->child);
}
