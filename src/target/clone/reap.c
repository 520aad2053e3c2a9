/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a clone.
 *
 * The image is a child of the target whose end sends no signal. It ends by exit(0) while we
 * trace it, so that nobody sees that before we take its end; then one thread of the target,
 * stopped alone, makes the call wait4(). Should the target end before the image does,
 * whoever adopts that reaps a child that has exited with status 0.
 *
 * Where all of memscan's processes were killed at once, the image remains as a zombie child,
 * which the next scan that clones the target has reaped: its name tells it apart.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "target/clone/borrow.h"
#include "target/clone/clone.h"
#include "target/proc.h"
#include "target/urgent.h"

enum {
	MOST_ENDED = 16,
	MOST_LOOKS = 256, /* threads whose children are looked at */
	CHILDREN_BYTES = 4096,
};

/* Limits for the end of the image, and for a thread of the target to stop and reap it. */
static const uint64_t end_ns = UINT64_C(1000000000);
static const uint64_t reap_ns = UINT64_C(4000000000);
static const uint64_t nap_ns = UINT64_C(1000000);

/* Wait for the end of @tid without taking it. */
static void await_end(pid_t tid)
{
	uint64_t deadline_ns = ms_now_ns() + end_ns;

	for (;;) {
		siginfo_t info = { 0 };
		int flags = WEXITED | WNOWAIT | WNOHANG | __WALL;

		/* Of one that is no tracee of ours only the state is known. */
		if (waitid(P_PID, (id_t)tid, &info, flags)
		            ? strchr("ZX", ms_proc_state(tid)) != NULL
		            : info.si_pid != 0)
			return;
		if (ms_now_ns() > deadline_ns)
			return;
		ms_sleep_ns(nap_ns / 4);
	}
}

void ms_clone_end(struct ms_cloner *cloner)
{
	pid_t child = cloner->child.tid;

	if (!cloner->image)
		return;
	if (cloner->image != child) {
		ms_urgent_ends(cloner->image);
		(void)kill(cloner->image, SIGKILL);
		(void)waitpid(cloner->image, NULL, __WALL);
	}
	cloner->image = 0;
	if (!child)
		return;
	ms_urgent_ends(child);
	(void)ptrace(PTRACE_CONT, child, NULL, NULL);
	await_end(child);
}

/* What is to be reaped, as the target calls it. */
struct ended {
	struct ms_collection *shared;
	size_t n;
	pid_t numbers[MOST_ENDED];
};

static struct ms_call call_reap(int64_t number)
{
	return (struct ms_call){ SYS_wait4, { (uint64_t)number, 0, WNOHANG | __WALL } };
}

/* ---- images that were left ---- */

static bool is_left(pid_t pid)
{
	char name[sizeof(MS_CLONE_NAME) + 1];

	return ms_proc_state(pid) == 'Z' && ms_proc_read(pid, "comm", name, sizeof(name)) > 0 &&
	       !strncmp(name, MS_CLONE_NAME "\n", sizeof(MS_CLONE_NAME));
}

/* Add the child @pid, by the number that it has where the target is. */
static void add(struct ended *ended, pid_t pid)
{
	pid_t target[MS_PROC_NAMESPACES];
	pid_t child[MS_PROC_NAMESPACES];
	size_t depth = ms_proc_ns_ids_of(ended->shared->pid, "NSpid", target);

	if (depth && ms_proc_ns_ids_of(pid, "NSpid", child) >= depth && ended->n < MOST_ENDED)
		ended->numbers[ended->n++] = child[depth - 1];
}

/* The children of one thread; where the kernel does not list them, none. */
static void add_left_by(struct ended *ended, pid_t tid)
{
	char text[CHILDREN_BYTES];
	char file[32];
	char *at = text;
	char *end;

	(void)snprintf(file, sizeof(file), "task/%d/children", tid);
	if (ms_proc_read(ended->shared->pid, file, text, sizeof(text)) <= 0)
		return;
	for (long pid; (pid = strtol(at, &end, 10)) > 0 && end != at; at = end)
		if (pid != ended->shared->child && is_left((pid_t)pid))
			add(ended, (pid_t)pid);
}

static void add_left(struct ended *ended, char *buf)
{
	struct ms_proc_list list;
	int32_t tid;

	if (ms_proc_list_open(&list, ended->shared->pid, "task", buf) < 0)
		return;
	for (int i = 0; i < MOST_LOOKS && ms_proc_list_next(&list, &tid); i++)
		add_left_by(ended, tid);
	ms_proc_list_close(&list);
}

/* ---- reaping ---- */

static enum ms_status reap_each(const struct ended *ended, struct ms_detour *detour,
                                struct ms_error *err)
{
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < ended->n; i++) {
		struct ms_call call = call_reap(ended->numbers[i]);
		int64_t result = 0;

		if (!ms_detour_call(detour, &call, &result))
			return ms_fail(err, MS_E_GONE, "thread %d ended", detour->in.tid);
		if (detour->in.dispatched)
			return ms_fit_dispatched(err); /* another thread may not be */
		/* ECHILD: the target has reaped it itself. */
		if (!result)
			st = ms_fail(err, MS_E_BUSY, "the clone has not ended yet");
	}
	return st;
}

static enum ms_status reap(void *ctx, struct ms_detour *detour, struct ms_error *err)
{
	const struct ended *ended = ctx;
	const struct ms_named_call call = { "wait4", call_reap(ended->numbers[0]) };
	enum ms_status st = ms_detour_begin(detour, &call, 1, err);

	if (st)
		return st;
	/* From here on a wait by another thread could see it. */
	(void)waitpid(ended->shared->child, NULL, __WALL | WNOHANG);
	st = reap_each(ended, detour, err);
	ms_detour_end(detour);
	return st;
}

void ms_clone_reap(struct ms_collection *shared)
{
	struct ended ended = { .shared = shared, .n = 1 };
	const struct ms_borrowing borrowing = { shared, reap, &ended };
	struct ms_arena arena = { 0 };
	char *buf = ms_arena_alloc(&arena, MS_PROC_LIST_BYTES);
	struct ms_error ignored;
	uint64_t deadline_ns;
	int urgency;

	if (!shared->child || !buf)
		return;
	urgency = ms_urgent_begin();
	await_end(shared->child);
	deadline_ns = ms_now_ns() + reap_ns;
	ended.numbers[0] = (pid_t)shared->child_number;
	add_left(&ended, buf);
	shared->timeout_ns = reap_ns;
	while (ms_borrow_thread(&borrowing, &ignored) == MS_E_BUSY && ms_now_ns() < deadline_ns)
		ms_sleep_ns(nap_ns);
	ms_urgent_end(urgency);
	(void)waitpid(shared->child, NULL, __WALL | WNOHANG);
	shared->child = 0;
	ms_arena_deinit(&arena);
}
