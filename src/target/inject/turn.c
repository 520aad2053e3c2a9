/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock is on /proc/PID/mem: only a process that may trace @pid can open that file, while
 * everyone can open, and lock, the folder /proc/PID. All that have the file open share its inode.
 *
 * The target and its owner can open it, too, so the wait is short.
 */
#include "target/inject/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/proc.h"

enum { NAP_NS = 5000000 };

/* Longer than an attach takes on a crowded machine. */
static const uint64_t most_ns = UINT64_C(3000000000);

int ms_turn_take(pid_t pid, uint64_t deadline_ns)
{
	int fd = ms_proc_open(ms_proc_thread_of(pid), "mem", O_RDONLY | O_CLOEXEC);
	uint64_t until_ns = ms_now_ns() + most_ns;

	until_ns = until_ns < deadline_ns ? until_ns : deadline_ns;
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK || ms_now_ns() >= until_ns) {
			(void)close(fd);
			return -1;
		}
		ms_sleep_ns(NAP_NS);
	}
	return fd < 0 ? -1 : fd;
}
