/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/proc.h"

enum { TICK_MS = 100 };

/* Who takes more than that is made to fill the memory. */
static const rlim_t most_new_bytes = (rlim_t)8 << 30;

/* To what we have by now: a report may be large, and so is what sanitizers keep. */
static void limit_memory(void)
{
	char status[MS_PROC_STATUS_BYTES];
	struct rlimit most;

	if (ms_proc_read(getpid(), "status", status, sizeof(status)) <= 0)
		return;
	most.rlim_cur = ms_proc_field(status, "VmData", 10) * 1024 + most_new_bytes;
	most.rlim_max = most.rlim_cur;
	(void)setrlimit(RLIMIT_DATA, &most);
}

static _Noreturn void be_worker(const struct ms_worker_call *call, const int ends[2], pid_t parent)
{
	const struct rlimit none = { 0, 0 };

	(void)close(ends[0]);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before that took effect */
		_exit(1);
	(void)prctl(PR_SET_NAME, call->title);
	(void)setrlimit(RLIMIT_CORE, &none);
	limit_memory();
	_exit(call->work(call->ctx, ends[1]));
}

enum ms_status ms_worker_start(const struct ms_worker_call *call, struct ms_worker *ret,
                               struct ms_error *err)
{
	pid_t parent = getpid();
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return ms_fail_sys(err, errno, "no pipe for the process %s", call->title);
	pid = fork();
	if (pid == 0)
		be_worker(call, ends, parent);
	(void)close(ends[1]);
	if (pid < 0) {
		(void)close(ends[0]);
		return ms_fail_sys(err, errno, "cannot start the process %s", call->title);
	}
	*ret = (struct ms_worker){ pid, ends[0], ms_now_ns() + call->limit_ns };
	return MS_OK;
}

ssize_t ms_worker_read(const struct ms_worker *worker, void *buf, size_t len)
{
	while (ms_now_ns() < worker->deadline_ns) {
		struct pollfd ready = { worker->fd, POLLIN, 0 };
		ssize_t n;

		if (poll(&ready, 1, TICK_MS) <= 0)
			continue;
		n = read(worker->fd, buf, len);
		if (n >= 0 || errno != EINTR)
			return n;
	}
	return -1;
}

/* Wait for it; false when its time is over. */
static bool ends(const struct ms_worker *worker, int *ret_status)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };

	for (;;) {
		pid_t ended = waitpid(worker->pid, ret_status, WNOHANG);

		if (ended > 0 || (ended < 0 && errno != EINTR))
			return true;
		if (ms_now_ns() >= worker->deadline_ns)
			return false;
		(void)nanosleep(&pause, NULL);
	}
}

bool ms_worker_end(const struct ms_worker *worker, bool heard)
{
	int status = 0;

	(void)close(worker->fd);
	if (!heard || !ends(worker, &status)) {
		(void)kill(worker->pid, SIGKILL);
		while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
