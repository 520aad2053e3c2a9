/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/follow.h"
#include "cli/broker.h"
#include "target/helper.h"
#include "target/jail/jail.h"
#include "target/proc.h"

enum { TICK_MS = 100, MOST_OPEN = 1024 };

static const uint64_t second_ns = UINT64_C(1000000000);

/* What it may take beside what it has by the fork, of which it can write to little. */
static const rlim_t most_new_bytes = (rlim_t)1 << 30;

/* Both ends of what connects two processes: ours, and the worker's or the broker's. */
struct ends {
	int results[2]; /* a pipe: to us, from the worker */
	int asked[2];   /* a pair: to the broker, from the worker */
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

static void close_ends(struct ends *ends)
{
	for (int i = 0; i < 2; i++) {
		close_fd(&ends->results[i]);
		close_fd(&ends->asked[i]);
	}
}

/* ---- the worker ---- */

/*
 * Pages that are only read are not copied, however many; and a page becomes writable by
 * mprotect() alone, which is not allowed.
 */
static bool make_read_only(uint64_t at, size_t len)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): of ours */
	void *memory = (void *)(uintptr_t)at;

	return !len || mprotect(memory, len, PROT_READ) == 0;
}

static bool hold(const struct ms_worker_call *call)
{
	for (size_t i = 0; i < MS_WORKER_HELD; i++) {
		const void *piece = NULL;
		size_t len;

		while (call->held[i] && (piece = ms_arena_next(call->held[i], piece, &len)))
			if (!make_read_only((uintptr_t)piece, len))
				return false;
	}
	return make_read_only(call->shared.begin, ms_range_len(call->shared));
}

static bool limit(__rlimit_resource_t resource, rlim_t most)
{
	const struct rlimit value = { most, most };

	return setrlimit(resource, &value) == 0;
}

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 }; /* its runtime needs memory and calls that no worker has */
#else
enum { SANITIZED = 0 };
#endif

static enum ms_status confine(const struct ms_worker_call *call, const struct ends *ends,
                              pid_t parent, struct ms_error *err)
{
	const int keep[] = { ends->results[1], ends->asked[1], call->keep };
	const struct ms_jail jail = {
		.keep = keep,
		.n_keep = sizeof(keep) / sizeof(keep[0]),
		.parent = parent,
		.uid = call->uid,
		.gid = call->gid,
		.new_bytes = most_new_bytes,
		.n_open = MOST_OPEN,
	};
	enum ms_status st;

	if (SANITIZED)
		return MS_OK;
	if (!hold(call) || !limit(RLIMIT_CPU, (rlim_t)(call->limit_ns / second_ns) + 1))
		return ms_fail_sys(err, errno, "the process %s cannot be given limits",
		                   call->title);
	st = ms_jail_drop(&jail, err);
	return st ? st : ms_jail_seal(MS_JAIL_READ, err);
}

static _Noreturn void be_worker(const struct ms_worker_call *call, struct ends *ends, pid_t parent)
{
	struct ms_finder finder = { ms_broker_find, &ends->asked[1] };
	const struct ms_worker_side side = { ends->results[1], &finder };
	struct ms_error err = { 0 };

	if (!ms_follow_parent(parent))
		_exit(0);
	(void)prctl(PR_SET_NAME, call->title);
	/* What is left to say before it begins. */
	err.status = confine(call, ends, parent, &err);
	if (write(side.fd, &err, sizeof(err)) != sizeof(err) || err.status)
		_exit(1);
	_exit(call->work(call->ctx, &side));
}

/* ---- the broker ---- */

static _Noreturn void be_broker(const struct ms_worker_call *call, struct ends *ends, pid_t parent)
{
	if (!ms_follow_parent(parent))
		_exit(0);
	(void)prctl(PR_SET_NAME, "memscan-open");
	ms_follow_unseen();
	close_fd(&ends->results[0]);
	close_fd(&ends->results[1]);
	close_fd(&ends->asked[1]);
	_exit(ms_broker_serve(call->opener, ends->asked[0]));
}

/* ---- the original ---- */

void ms_worker_take_ids(pid_t id, struct ms_worker_call *call)
{
	char status[MS_PROC_STATUS_BYTES];

	call->uid = 0;
	call->gid = 0;
	if (!id || ms_proc_read(id, "status", status, sizeof(status)) <= 0)
		return;
	call->uid = (uid_t)ms_proc_field(status, "Uid", 10);
	call->gid = (gid_t)ms_proc_field(status, "Gid", 10);
}

/* Its first words: whether it has given up what it has to. */
static enum ms_status hear_ready(const struct ms_worker *worker, struct ms_error *err)
{
	struct ms_error failure = { 0 };
	char *at = (char *)&failure;
	size_t left = sizeof(failure);

	while (left > 0) {
		ssize_t n = ms_worker_read(worker, at, left);

		if (n <= 0)
			return ms_fail(err, MS_E_DIED, "a process ended before it began");
		at += n;
		left -= (size_t)n;
	}
	if (failure.status)
		ms_error_take(err, &failure);
	return failure.status ? err->status : MS_OK;
}

static enum ms_status start(const struct ms_worker_call *call, struct ends *ends,
                            struct ms_worker *ret, struct ms_error *err)
{
	pid_t parent = getpid();

	if (pipe2(ends->results, O_CLOEXEC) != 0 ||
	    (call->opener &&
	     socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->asked) != 0))
		return ms_fail_sys(err, errno, "no pipe for the process %s", call->title);
	if (call->opener) {
		ret->broker = fork();
		if (ret->broker == 0)
			be_broker(call, ends, parent);
		if (ret->broker < 0)
			return ms_fail_sys(err, errno, "cannot start the process that opens files");
	}
	ret->pid = fork();
	if (ret->pid == 0)
		be_worker(call, ends, parent);
	if (ret->pid < 0)
		return ms_fail_sys(err, errno, "cannot start the process %s", call->title);
	ret->fd = ends->results[0];
	ends->results[0] = -1;
	return MS_OK;
}

enum ms_status ms_worker_start(const struct ms_worker_call *call, struct ms_worker *ret,
                               struct ms_error *err)
{
	struct ends ends = { { -1, -1 }, { -1, -1 } };
	enum ms_status st;

	*ret = (struct ms_worker){ .fd = -1, .deadline_ns = ms_now_ns() + call->limit_ns };
	st = start(call, &ends, ret, err);
	close_ends(&ends);
	if (!st)
		st = hear_ready(ret, err);
	if (st)
		(void)ms_worker_end(ret, false);
	return st;
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

bool ms_worker_end(const struct ms_worker *worker, bool heard)
{
	int status = 0;

	if (worker->fd >= 0)
		(void)close(worker->fd);
	if (worker->pid > 0)
		(void)ms_helper_reap(worker->pid, heard ? worker->deadline_ns : 0, &status, NULL);
	if (worker->broker > 0)
		(void)ms_helper_reap(worker->broker, 0, NULL, NULL);
	return worker->pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
