/* SPDX-License-Identifier: Apache-2.0 */
#include "held.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitized.h"
#include "target/freeze/breaks.h"

enum { LIMIT_MS = 20000, PATIENCE_MS = 5000 };

/* Where a child writes its readiness; set before each fork. */
static int ready_fd = -1;

/* What a test says is malloc's code, too. */
static struct ms_range claimed;
/* The runtime of a sanitizer can register stacks, which is not what a test is about. */
static bool stacks_hidden = SANITIZED;

/* To lead threads out of malloc: a crowded machine takes long, and is not what is tested. */
static uint64_t lead_ns = (uint64_t)LIMIT_MS * 1000000;

static void (*between)(pid_t pid);

pid_t child_start(void (*body)(void *arg), void *arg)
{
	char byte;
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		abort();
	ready_fd = fds[1];
	pid = fork();
	if (!pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(arg);
		_exit(0);
	}
	(void)close(fds[1]);
	if (read(fds[0], &byte, 1) != 1)
		abort();
	(void)close(fds[0]);
	return pid;
}

void child_ready(void)
{
	if (write(ready_fd, "r", 1) != 1)
		_exit(1);
	(void)close(ready_fd);
}

void child_end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

bool child_meets_breakpoints(void)
{
	static enum ms_breaks breaks;

	if (breaks == MS_BREAKS_UNTRIED)
		breaks = ms_breaks_try(ms_native_arch.stepping);
	return breaks == MS_BREAKS_WORK;
}

void *child_memory(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

int child_waits_for(volatile int *flag)
{
	for (int i = 0; i < PATIENCE_MS && !*flag; i++)
		(void)usleep(1000);
	return *flag;
}

static enum ms_status start_collection(struct held *held)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		abort();
	held->collection = fork();
	if (!held->collection) {
		(void)close(fds[0]);
		_exit(ms_collection_serve(held->shared, fds[1]));
	}
	(void)close(fds[1]);
	held->channel = fds[0];
	return ms_collection_freeze(held->shared, held->channel, &held->err);
}

void held_call_between(void (*body)(pid_t pid))
{
	between = body;
}

void held_claim_malloc(struct ms_range code)
{
	claimed = code;
}

void held_hide_signal_stacks(bool hide)
{
	stacks_hidden = hide;
}

void held_lead_for(unsigned ms)
{
	lead_ns = (uint64_t)ms * 1000000;
}

static enum ms_status freeze(struct held *held, pid_t pid, unsigned limit_ms, bool to_clone)
{
	enum ms_status st;

	memset(held, 0, sizeof(*held));
	st = ms_collection_create(pid, (uint64_t)limit_ms * 1000000, &held->shared, &held->err);
	if (st)
		return st;
	ms_malloc_code_find(pid, held->shared, &held->arena);
	if (!to_clone) /* as if its library had none */
		held->shared->gadgets = (struct ms_gadgets){ 0 };
	if (claimed.end)
		held->shared->malloc_code[held->shared->n_malloc_code++] = claimed;
	held->shared->has_signal_stacks &= !stacks_hidden;
	held->shared->clone_wanted = to_clone;
	held->shared->roll_ns = lead_ns;
	held->shared->lead_ns = lead_ns;
	if (between)
		between(pid);
	return start_collection(held);
}

enum ms_status held_freeze_within(struct held *held, pid_t pid, unsigned limit_ms)
{
	return freeze(held, pid, limit_ms, false);
}

enum ms_status held_freeze(struct held *held, pid_t pid)
{
	return freeze(held, pid, LIMIT_MS, false);
}

enum ms_status held_freeze_to_clone(struct held *held, pid_t pid)
{
	return freeze(held, pid, LIMIT_MS, true);
}

enum ms_status held_clone(struct held *held)
{
	return ms_collection_clone(held->shared, held->channel, &held->err);
}

void held_end(struct held *held)
{
	int status = 0;

	(void)close(held->channel);
	(void)waitpid(held->collection, &status, 0);
	held->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	ms_collection_destroy(held->shared);
	ms_arena_deinit(&held->arena);
}

enum ms_status held_fork(struct held *held, pid_t pid, struct ms_source **ret)
{
	struct ms_arena early = { 0 };
	struct ms_error err;
	enum ms_status st = ms_fork_prepare(pid, &early, ret, &err);

	if (st)
		abort();
	st = held_freeze_to_clone(held, pid);
	held->arena = early;
	if (!st)
		st = held_clone(held);
	if (!st)
		st = ms_fork_hold(*ret, held->shared, &held->warnings, &held->err);
	if (!st)
		st = ms_collection_release(held->shared, held->channel, &held->err);
	if (!st)
		st = ms_fork_open(*ret, held->shared, &held->warnings, &held->err);
	if (st)
		held_end(held);
	return st;
}

enum ms_status held_release(struct held *held)
{
	enum ms_status st = ms_collection_release(held->shared, held->channel, &held->err);

	held_end(held);
	return st;
}
