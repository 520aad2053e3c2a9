/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/sharing.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/proc.h"

enum { KCMP_VM = 1 }; /* linux/kcmp.h */

/* Two processes that share their memory have the same numbers there, which few others have. */
static bool looks_same(pid_t a, pid_t b)
{
	char of_a[128], of_b[128];

	return ms_proc_read(a, "statm", of_a, sizeof(of_a)) > 0 &&
	       ms_proc_read(b, "statm", of_b, sizeof(of_b)) > 0 && !strcmp(of_a, of_b);
}

/* @tid: a thread that lives; a process's own may have ended, and has no memory then. */
static bool shares(pid_t tid, pid_t other)
{
	long order = syscall(SYS_kcmp, tid, other, KCMP_VM, 0, 0);

	if (order >= 0 || errno == ESRCH)
		return order == 0;
	return looks_same(tid, other);
}

enum ms_status ms_sharing_check(pid_t pid, struct ms_error *err)
{
	DIR *processes = opendir("/proc");
	const struct dirent *entry;
	pid_t tid = ms_proc_thread_of(pid);
	pid_t found = 0;

	if (!processes)
		return ms_fail_sys(err, errno, "listing processes");
	while (!found && (entry = readdir(processes))) {
		pid_t other = (pid_t)strtol(entry->d_name, NULL, 10);

		if (other > 0 && other != pid && shares(tid, other))
			found = other;
	}
	(void)closedir(processes);
	if (!found)
		return MS_OK;
	(void)ms_fail(err, MS_E_BUSY, "process %d, made by vfork, runs in the memory of process %d",
	              found, pid);
	ms_advise(err, "try again: it ends, or executes another program");
	return err->status;
}
