/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that end with their parent. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/follow.h"

enum { PATIENCE_MS = 5000 };

TestSuite(follow, .timeout = 30);

/*
 * Run @body in a process whose parent is killed, as soon as it says so by the pipe that it
 * gets. Returns its status, as the one that adopts it sees it.
 */
static int status_of_orphan(void (*body)(pid_t parent, int ready))
{
	int ends[2];
	int status = -1;
	char byte;
	pid_t parent;

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	cr_assert_eq(pipe(ends), 0);
	parent = fork();
	if (!parent) {
		pid_t self = getpid();

		if (!fork())
			body(self, ends[1]);
		for (;;)
			pause();
	}
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	(void)kill(parent, SIGKILL);
	cr_assert_eq(waitpid(parent, NULL, 0), parent);
	for (int i = 0; i < PATIENCE_MS && waitpid(-1, &status, WNOHANG) <= 0; i++)
		(void)usleep(1000);
	return status;
}

static void say_ready(int ready)
{
	if (write(ready, "r", 1) != 1)
		_exit(9);
}

static void wait_for_ever(pid_t parent, int ready)
{
	if (!ms_follow_parent(parent))
		_exit(8);
	say_ready(ready);
	for (;;)
		pause();
}

Test(follow, ends_with_status_0)
{
	cr_expect_eq(status_of_orphan(wait_for_ever), 0);
}

static void end_in_order(pid_t parent, int ready)
{
	if (!ms_follow_parent(parent))
		_exit(8);
	ms_follow_in_order();
	say_ready(ready);
	while (!ms_follow_is_over())
		(void)usleep(1000);
	_exit(7);
}

Test(follow, can_put_something_in_order_first)
{
	int status = status_of_orphan(end_in_order);

	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%#x", status);
}

static void put_off(pid_t parent, int ready)
{
	sigset_t pending;

	if (!ms_follow_parent(parent))
		_exit(8);
	ms_follow_pause();
	say_ready(ready);
	while (getppid() == parent)
		(void)usleep(1000);
	if (sigpending(&pending) || sigismember(&pending, SIGSTKFLT) != 1)
		_exit(6);
	ms_follow_resume();
	_exit(5);
}

Test(follow, is_put_off_and_not_lost)
{
	cr_expect_eq(status_of_orphan(put_off), 0);
}

Test(follow, refuses_a_parent_that_has_ended)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(ms_follow_parent(1) ? 1 : 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
}
