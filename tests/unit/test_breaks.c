/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/freeze/breaks.h"

static bool pretend(pid_t tid, const ms_addr *at, size_t n)
{
	(void)tid;
	(void)at;
	return n > 0;
}

static bool refuse(pid_t tid, const ms_addr *at, size_t n)
{
	(void)tid;
	(void)at;
	(void)n;
	return false;
}

/* Stop the child where it is on its way anyhow, as a debug register would. */
static bool stop_soon(pid_t tid, const ms_addr *at, size_t n)
{
	(void)at;
	return n > 0 && !kill(tid, SIGTRAP);
}

static bool is_any_child_left(void)
{
	return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
}

Test(breaks, registers_that_stop_nobody_are_found_out)
{
	struct ms_arch_stepping stepping = *ms_native_arch.stepping;

	stepping.set_breaks = pretend;
	cr_expect_eq(ms_breaks_try(&stepping), MS_BREAKS_FAIL);
	stepping.set_breaks = refuse;
	cr_expect_eq(ms_breaks_try(&stepping), MS_BREAKS_FAIL);
	cr_expect_not(is_any_child_left());
}

Test(breaks, registers_that_stop_are_believed)
{
	struct ms_arch_stepping stepping = *ms_native_arch.stepping;

	stepping.set_breaks = stop_soon;
	cr_expect_eq(ms_breaks_try(&stepping), MS_BREAKS_WORK);
	cr_expect_not(is_any_child_left());
}

/* Of this machine only that it is known: some have none that work. */
Test(breaks, this_machine_is_tried)
{
	cr_expect_neq(ms_breaks_try(ms_native_arch.stepping), MS_BREAKS_UNTRIED);
	cr_expect_not(is_any_child_left());
}

/* ---- what is around it ---- */

static bool end_here(pid_t tid, const ms_addr *at, size_t n)
{
	(void)tid;
	(void)at;
	(void)n;
	return !kill(getpid(), SIGKILL);
}

/* Its child, which is stopped at that moment, becomes ours. */
Test(breaks, nothing_is_left_of_who_is_killed_while_it_tries, .timeout = 30)
{
	struct ms_arch_stepping stepping = *ms_native_arch.stepping;
	pid_t pid;
	int status;

	stepping.set_breaks = end_here;
	cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	pid = fork();
	if (!pid)
		_exit(ms_breaks_try(&stepping) == MS_BREAKS_WORK);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	pid = waitpid(-1, &status, 0);
	cr_expect(pid > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%d %x", pid,
	          (unsigned int)status);
	cr_expect_not(is_any_child_left());
}

static unsigned int forks;

static void count_fork(void)
{
	forks++;
}

Test(breaks, a_program_s_handlers_of_fork_do_not_run)
{
	cr_assert_eq(pthread_atfork(count_fork, count_fork, NULL), 0);
	(void)ms_breaks_try(ms_native_arch.stepping);
	cr_expect_eq(forks, 0);
}
