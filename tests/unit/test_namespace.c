/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held.h"
#include "target/proc.h"

static struct ms_error err;
static struct ms_chosen found;
static pid_t ids[MS_PROC_NAMESPACES];

/* ---- the line of /proc/PID/status ---- */

Test(namespace, the_numbers_of_a_process_are_told_from_the_outside_in)
{
	static const char status[] =
		"Name:\tNSpid:\t7\nPid:\t9\nNStgid:\t4711\t12\t1\nNSpid:\t4712\t13\t2\n";

	cr_expect_eq(ms_proc_ns_ids(status, "NSpid", ids), 3);
	cr_expect(ids[0] == 4712 && ids[1] == 13 && ids[2] == 2);
	cr_expect_eq(ms_proc_ns_ids(status, "NStgid", ids), 3);
	cr_expect(ids[0] == 4711 && ids[2] == 1);
}

Test(namespace, without_the_line_there_are_none)
{
	cr_expect_eq(ms_proc_ns_ids("Name:\tx\n", "NSpid", ids), 0);
	cr_expect_eq(ms_proc_ns_ids("", "NSpid", ids), 0);
	cr_expect_eq(ms_proc_ns_ids("NSpid:\n", "NSpid", ids), 0);
	cr_expect_eq(ms_proc_ns_ids("NSpid:\tx\n", "NSpid", ids), 0);
}

Test(namespace, no_more_are_told_than_there_can_be)
{
	char status[MS_PROC_STATUS_BYTES] = "NSpid:";

	for (int i = 0; i < 100; i++)
		strcat(status, "\t5");
	cr_expect_eq(ms_proc_ns_ids(status, "NSpid", ids), MS_PROC_NAMESPACES);
}

/* ---- a process in one ---- */

static void sleep_for_ever(void *arg)
{
	(void)arg;
	child_ready();
	for (;;)
		pause();
}

static enum ms_status find(const char *ns, pid_t id)
{
	memset(&err, 0, sizeof(err));
	memset(&found, 0, sizeof(found));
	return ms_target_find_in_namespace(ns, id, &found, &err);
}

Test(namespace, in_our_own_a_number_is_what_it_is)
{
	pid_t pid = child_start(sleep_for_ever, NULL);
	char self[16];

	(void)snprintf(self, sizeof(self), "%d", getpid());
	cr_expect_eq(find(self, pid), MS_OK, "%s", err.text);
	cr_expect(found.pid == pid && found.ns_pid == pid);
	cr_expect_eq(find("/proc/self/ns/pid", pid), MS_OK, "%s", err.text);
	cr_expect(found.pid == pid && found.ns_pid == pid);
	child_end(pid);
}

static volatile int *inner;

/* The first process of a new namespace, which is a child of the one that is scanned. */
static void be_outside_of_one(void *arg)
{
	pid_t child = unshare(CLONE_NEWPID) ? -1 : fork();

	if (child) {
		*inner = child;
		sleep_for_ever(arg);
	}
	for (;;)
		pause();
}

Test(namespace, in_another_one_it_is_found)
{
	char ns[64];
	pid_t outside;

	inner = child_memory(sizeof(*inner));
	outside = child_start(be_outside_of_one, NULL);
	if (*inner <= 0)
		cr_skip_test("no pid namespace can be made here");
	(void)snprintf(ns, sizeof(ns), "%d", *inner);
	cr_expect_eq(find(ns, 1), MS_OK, "%s", err.text);
	cr_expect(found.pid == *inner && found.ns_pid == 1);
	cr_expect_eq(find(ns, 2), MS_E_GONE);
	cr_expect(strstr(err.text, "has the id 2 in the pid namespace of process"), "%s", err.text);
	/* That one is of ours: its children alone are of the other. */
	(void)snprintf(ns, sizeof(ns), "%d", outside);
	cr_expect_eq(find(ns, *inner), MS_OK, "%s", err.text);
	cr_expect(found.pid == *inner && found.ns_pid == *inner);
	cr_assert_gt(found.pid, 1);
	kill(found.pid, SIGKILL);
	child_end(outside);
}

Test(namespace, what_is_none_is_refused)
{
	static const struct {
		const char *ns;
		enum ms_status want;
		const char *part;
	} cases[] = {
		{ "/proc/self/ns/uts", MS_E_UNSUPPORTED, "/proc/self/ns/uts is no pid namespace" },
		{ "/proc/self/exe", MS_E_UNSUPPORTED, "is no pid namespace" },
		{ "/dev/null", MS_E_UNSUPPORTED, "is no pid namespace" },
		{ "/proc/self/ns", MS_E_UNSUPPORTED, "is no pid namespace" },
		{ "/no/such", MS_E_SYS, "/no/such: No such file" },
		{ "2147483647", MS_E_GONE, "2147483647, which --ns gives" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(find(cases[i].ns, 1), cases[i].want, "%s: %s", cases[i].ns, err.text);
		cr_expect(strstr(err.text, cases[i].part) && err.advice[0], "%s", err.text);
	}
}

/* ---- /proc itself ---- */

Test(namespace, a_proc_of_another_one_is_refused)
{
	pid_t child;
	int status = 0;

	cr_expect_eq(ms_target_check_proc(&err), MS_OK, "%s", err.text);
	child = fork();
	if (!child) {
		if (unshare(CLONE_NEWPID))
			_exit(77);
		child = fork();
		if (!child)
			_exit(ms_target_check_proc(&err) == MS_E_UNSUPPORTED &&
			      strstr(err.text, "another pid namespace") && err.advice[0]);
		(void)waitpid(child, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	(void)waitpid(child, &status, 0);
	if (WEXITSTATUS(status) == 77)
		cr_skip_test("no pid namespace can be made here");
	cr_expect_eq(WEXITSTATUS(status), 1);
}
