/* SPDX-License-Identifier: Apache-2.0 */
/* The list of processes without libproc2 says the same as the one that is built in. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ms_named_each named_each_by_proc
#include "target/process/named_proc.c"
#undef ms_named_each

enum ms_status ms_named_each(void (*see)(void *ctx, const struct ms_named_process *process),
                             void *ctx, struct ms_error *err);

/* Of the process that is looked for. */
struct seen {
	pid_t pid;
	unsigned n;
	char comm[64], first[256], exe[256];
};

static void see(void *ctx, const struct ms_named_process *process)
{
	struct seen *seen = ctx;

	if (process->pid != seen->pid)
		return;
	seen->n++;
	(void)snprintf(seen->comm, sizeof(seen->comm), "%s", process->comm);
	(void)snprintf(seen->first, sizeof(seen->first), "%s",
	               process->first ? process->first : "none");
	(void)snprintf(seen->exe, sizeof(seen->exe), "%s", process->exe ? process->exe : "none");
}

static struct seen look_for(pid_t pid)
{
	struct seen here = { .pid = pid };
	struct seen by_proc = { .pid = pid };
	struct ms_error err;

	cr_assert_eq(ms_named_each(see, &here, &err), MS_OK);
	cr_assert_eq(named_each_by_proc(see, &by_proc, &err), MS_OK);
	cr_expect_eq(by_proc.n, 1);
	cr_expect_eq(here.n, by_proc.n);
	cr_expect_str_eq(here.comm, by_proc.comm);
	cr_expect_str_eq(here.first, by_proc.first);
	cr_expect_str_eq(here.exe, by_proc.exe);
	return by_proc;
}

Test(named, a_process_has_its_name_its_first_argument_and_its_program)
{
	struct seen seen;

	(void)prctl(PR_SET_NAME, "ms (named) 1");
	seen = look_for(getpid());
	cr_expect_str_eq(seen.comm, "ms (named) 1");
	cr_expect(strstr(seen.exe, "test_named"), "%s", seen.exe);
}
