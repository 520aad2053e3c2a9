/* SPDX-License-Identifier: Apache-2.0 */
/* Stops that an earlier tracer asked for and did not wait for. lsan: off */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libc.h"
#include "held.h"
#include "target/freeze/freeze.h"

/* Between a test and its child. */
struct shared {
	volatile int done;
};

static struct shared *shared;

static void setup(void)
{
	shared = child_memory(sizeof(*shared));
}

TestSuite(left_stops, .init = setup, .timeout = 60);

/* Calls of the system without end, and children of vfork(). */
static void call_for_ever(void *arg)
{
	sigset_t children;

	(void)arg;
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD); /* which would be a stop, too */
	sigprocmask(SIG_BLOCK, &children, NULL);
	child_ready();
	for (;;) {
		pid_t pid = vfork();

		if (!pid)
			_exit(0);
		(void)waitpid(pid, NULL, 0);
		shared->done++;
	}
}

/* A stop that a tracer before us asked for with @options and @how, and left. */
static void check_left_stop(uintptr_t options, MS_PTRACE_REQUEST how, int status)
{
	pid_t pid = child_start(call_for_ever, NULL);
	struct ms_tracee tracee = { .tid = pid, .state = MS_TRACEE_RUNNING };
	siginfo_t info = { 0 };
	int done;

	cr_assert_eq(ptrace(PTRACE_SEIZE, pid, NULL, options), 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	cr_assert_eq(waitpid(pid, NULL, __WALL), pid);
	cr_assert_eq(ptrace(how, pid, NULL, NULL), 0);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT | __WALL), 0);
	cr_assert_eq(info.si_status, status);

	ms_tracee_wait(&tracee, 1000);
	cr_expect_eq(tracee.state, MS_TRACEE_STOPPED);
	cr_expect_eq(tracee.signal, 0);
	cr_expect_not(tracee.group_stop);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT | __WALL), 0);
	cr_expect_eq(info.si_status, SIGTRAP | PTRACE_EVENT_STOP << 8);
	cr_expect_eq(ptrace(PTRACE_DETACH, pid, NULL, (uintptr_t)tracee.signal), 0);
	done = shared->done;
	for (int i = 0; i < 5000 && shared->done == done; i++)
		usleep(1000);
	cr_expect_neq(shared->done, done);
	child_end(pid);
}

Test(left_stops, are_passed)
{
	check_left_stop(PTRACE_O_TRACESYSGOOD, PTRACE_SYSCALL, SIGTRAP | 0x80);
	check_left_stop(PTRACE_O_TRACEVFORKDONE, PTRACE_CONT,
	                SIGTRAP | PTRACE_EVENT_VFORK_DONE << 8);
}
