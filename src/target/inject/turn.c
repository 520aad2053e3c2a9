/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/proc.h"

enum { NAP_NS = 5000000 };

int ms_turn_take(pid_t pid, uint64_t deadline_ns)
{
	int fd = ms_proc_open(pid, "", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK || ms_now_ns() >= deadline_ns) {
			(void)close(fd);
			return -1;
		}
		ms_sleep_ns(NAP_NS);
	}
	return fd < 0 ? -1 : fd;
}
