/* SPDX-License-Identifier: Apache-2.0 */
#include "target/clone/files.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "target/proc.h"

enum {
	UNSHARE = 2,        /* CLOSE_RANGE_UNSHARE */
	MOST_CLOSED = 4096, /* one by one: some 50 ms */
};

bool ms_files_leave_at_once(void)
{
	/* A range that ends before it begins is refused by a kernel that knows the call. */
	return syscall(SYS_close_range, 1, 0, 0) && errno == EINVAL;
}

enum ms_status ms_files_check(pid_t pid, struct ms_error *err)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	unsigned n = 0;
	int32_t fd;

	if (ms_files_leave_at_once() || ms_proc_list_open(&list, pid, "fd", buf) != 0)
		return MS_OK;
	while (n <= MOST_CLOSED && ms_proc_list_next(&list, &fd))
		n++;
	ms_proc_list_close(&list);
	if (n <= MOST_CLOSED)
		return MS_OK;
	return ms_fail(err, MS_E_UNSUPPORTED,
	               "it has more than %d files open, and this kernel has no close_range() "
	               "(Linux 5.9)",
	               MOST_CLOSED);
}

struct ms_call ms_files_call_close_range(void)
{
	return (struct ms_call){ SYS_close_range, { 0, UINT32_MAX, UNSHARE } };
}

struct ms_call ms_files_call_unshare(void)
{
	return (struct ms_call){ SYS_unshare, { CLONE_FILES } };
}

struct ms_call ms_files_call_close(int fd)
{
	return (struct ms_call){ SYS_close, { (uint64_t)fd } };
}

/* Whether a file was open; *lost when it may still be. */
static bool close_listed(struct ms_injection *image, char *buf, bool *lost)
{
	struct ms_proc_list list;
	bool found = false;
	int32_t fd;

	*lost = ms_proc_list_open(&list, image->tid, "fd", buf) != 0;
	if (*lost)
		return false;
	while (!*lost && ms_proc_list_next(&list, &fd)) {
		const struct ms_call call = ms_files_call_close(fd);
		int64_t result;

		found = true;
		*lost = !ms_inject(image, &call, &result) || result == -EBADF;
	}
	ms_proc_list_close(&list);
	return found;
}

bool ms_files_leave_each(struct ms_injection *image, char *buf)
{
	const struct ms_call call = ms_files_call_unshare();
	int64_t result;
	bool lost = false;

	if (!ms_inject(image, &call, &result) || result)
		return false;
	/* Nobody else opens a file there: the second look finds none. */
	for (int look = 0; look < 2 && !lost; look++)
		if (!close_listed(image, buf, &lost))
			return !lost;
	return false;
}
