/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "target/proc.h"
#include "target/process/named.h"

enum { COMM_BYTES = 64, FIRST_BYTES = PATH_MAX };

enum ms_status ms_named_each(void (*see)(void *ctx, const struct ms_named_process *process),
                             void *ctx, struct ms_error *err)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	int32_t pid;
	int error = ms_proc_list_open(&list, 0, NULL, buf);

	if (error)
		return ms_fail_sys(err, -error, "listing processes");
	while (ms_proc_list_next(&list, &pid)) {
		char comm[COMM_BYTES], first[FIRST_BYTES], exe[PATH_MAX];
		struct ms_named_process process = { .pid = pid, .comm = comm };

		(void)ms_proc_read(pid, "comm", comm, sizeof(comm));
		comm[strcspn(comm, "\n")] = '\0';
		if (ms_proc_read(pid, "cmdline", first, sizeof(first)) > 0)
			process.first = first;
		ms_proc_link(pid, "exe", exe, sizeof(exe));
		if (*exe)
			process.exe = exe;
		see(ctx, &process);
	}
	ms_proc_list_close(&list);
	return MS_OK;
}
