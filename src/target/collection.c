/* SPDX-License-Identifier: Apache-2.0 */
#include "target/collection.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/follow.h"
#include "base/libc.h"
#include "target/clone/clone.h"
#include "target/clone/fit.h"
#include "target/clone/signal_stacks.h"
#include "target/freeze/freeze.h"
#include "target/proc.h"
#include "target/target.h"
#include "target/urgent.h"

enum {
	SPARE_THREADS = 1024,
	PATIENCE_MS = 10000, /* beyond the time limit of the freeze itself */
	STOP_TICKS = 1000,   /* for the sweeper to stop, which sleeps */
	ROOM_MS = 2,         /* between looks at the target's memory cgroup */
	NOTICE_MS = 50,      /* until the end of the parent is noticed */
	HANG_UP_MS = 1000,   /* for the sweeper to end with its parent */
};

static const uint64_t ROLL_NS = UINT64_C(100000000);
static const uint64_t LEAD_NS = UINT64_C(400000000);

/* What goes over the channel, a byte each. */
enum message {
	MESSAGE_NONE = 0, /* the other side is gone */
	MESSAGE_FREEZE = 'f',
	MESSAGE_CLONE = 'c',
	MESSAGE_RELEASE = 'r',
	MESSAGE_DONE = 'd',
	MESSAGE_FAILED = 'x',
};

enum ms_status ms_collection_create(pid_t pid, uint64_t timeout_ns, struct ms_collection **ret,
                                    struct ms_error *err)
{
	char status[MS_PROC_STATUS_BYTES];
	struct ms_collection *shared;
	struct ms_proc_stat stat;
	uint32_t n_before;
	uint32_t max_threads;
	size_t bytes;

	if (!ms_proc_stat(pid, &stat) || ms_proc_read(pid, "status", status, sizeof(status)) <= 0)
		return ms_fail(err, MS_E_GONE, "no process has the id %d", pid);
	n_before = (uint32_t)ms_proc_field(status, "Threads", 10);
	max_threads = 2 * n_before + SPARE_THREADS;
	bytes = sizeof(*shared) + (size_t)max_threads * sizeof(shared->threads[0]);
	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shared == MAP_FAILED)
		return ms_fail(err, MS_E_NOMEM, "no memory for the registers of %u threads",
		               max_threads);
	shared->pid = pid;
	shared->arch = ms_target_arch(ms_proc_thread_of(pid));
	shared->start_ticks = stat.start_ticks;
	shared->timeout_ns = timeout_ns;
	shared->roll_ns = ROLL_NS;
	shared->lead_ns = LEAD_NS;
	shared->n_before = n_before;
	shared->max_threads = max_threads;
	shared->map_bytes = bytes;
	*ret = shared;
	return MS_OK;
}

void ms_collection_destroy(struct ms_collection *shared)
{
	(void)munmap(shared, shared->map_bytes);
}

/* False when the other side is gone. */
static bool tell(int channel, enum message message)
{
	uint8_t byte = (uint8_t)message;

	return send(channel, &byte, 1, MSG_NOSIGNAL) == 1;
}

/* The next message. */
static enum message hear(int channel)
{
	uint8_t byte = 0;
	ssize_t n;

	struct pollfd ready = { .fd = channel, .events = POLLIN };

	/* The parent's end may be noted directly before the wait begins. */
	while (poll(&ready, 1, NOTICE_MS) <= 0)
		if (ms_follow_is_over())
			return MESSAGE_NONE;
	do {
		n = recv(channel, &byte, 1, 0);
	} while (n < 0 && errno == EINTR);
	return n == 1 ? (enum message)byte : MESSAGE_NONE;
}

static void ignore_tick(int signal)
{
	(void)signal;
}

/*
 * No signal may end this process while it holds threads, and no handler of the
 * program that we may be a fork of may run here. SIGALRM ticks, to end a wait.
 */
void ms_collection_set_signals(void)
{
	struct sigaction act = { .sa_handler = SIG_DFL };
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	for (int i = 1; i < NSIG; i++)
		(void)sigaction(i, &act, NULL);
	act.sa_handler = ignore_tick;
	(void)sigaction(SIGALRM, &act, NULL);
	(void)sigdelset(&all, SIGALRM);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
}

void ms_collection_set_tick(bool on)
{
	const suseconds_t every_us = on ? MS_TICK_NS / 1000 : 0;
	const struct itimerval tick = { { 0, every_us }, { 0, every_us } };

	(void)setitimer(ITIMER_REAL, &tick, NULL);
}

/* Map what the freeze will write, so that it does not fault while threads stand. */
static void populate(struct ms_collection *shared)
{
	const size_t n = (size_t)shared->n_before + 1;

	(void)madvise(shared, sizeof(*shared) + n * sizeof(shared->threads[0]),
	              MADV_POPULATE_WRITE);
}

void ms_collection_clear(struct ms_collection *shared)
{
	memset(&shared->error, 0, sizeof(shared->error));
	memset(&shared->clone_error, 0, sizeof(shared->clone_error));
	shared->live_tid = 0;
	shared->n_inside = 0;
	shared->image = 0;
	shared->clone_ns = 0;
	shared->n_threads = 0;
	shared->n_signal_words = 0;
	shared->n_rolled = 0;
	shared->n_unrolled = 0;
	shared->n_unstopped = 0;
	shared->n_unasked = 0;
	shared->steps = 0;
	shared->begun_ns = 0;
	shared->freeze_ns = 0;
	shared->pause_ns = 0;
}

bool ms_collection_begin(struct ms_collection *shared)
{
	pid_t parent = getppid();

	ms_collection_set_signals();
	(void)setsid(); /* out of reach of what is sent to a terminal or a process group */
	if (!ms_follow_parent(parent))
		return false;
	ms_collection_clear(shared);
	populate(shared);
	return true;
}

/* What the collection process works with. */
struct server {
	struct ms_collection *shared;
	int channel;
	struct ms_freezer freezer;
	struct ms_cloner cloner;
	struct ms_stack_asker asker;
};

/* Answer the last request. */
static bool answer(const struct server *s, enum ms_status st)
{
	return tell(s->channel, st ? MESSAGE_FAILED : MESSAGE_DONE);
}

static enum ms_status freeze(struct server *s, struct ms_error *err)
{
	enum ms_status st = ms_freeze(&s->freezer, err);

	if (st)
		return st;
	ms_fit_check_gadgets(&s->freezer);
	ms_signal_stacks_ask(&s->asker);
	return MS_OK;
}

static enum ms_status make_clone(struct server *s)
{
	struct ms_collection *shared = s->shared;
	uint64_t since_ns = ms_now_ns();
	enum ms_status st = shared->clone_error.status;

	if (!st)
		st = ms_clone_make(&s->cloner, &shared->clone_error);
	shared->image = s->cloner.image;
	shared->clone_ns = ms_now_ns() - since_ns;
	return st;
}

/* Serve what is asked while the target stands. Returns whether its release was among it. */
static bool serve_standing(struct server *s)
{
	for (;;) {
		switch (hear(s->channel)) {
		case MESSAGE_CLONE:
			ms_collection_set_tick(true);
			if (!answer(s, make_clone(s)))
				return false;
			break;
		case MESSAGE_RELEASE:
			return true;
		default:
			return false;
		}
	}
}

/* End the clone before the target's memory cgroup has no room left. */
static void end_for_room(struct server *s, uint64_t bytes)
{
	(void)ms_fail(&s->shared->clone_error, MS_E_UNSUPPORTED,
	              "its memory cgroup had only %llu MiB left when a clone was read",
	              (unsigned long long)(bytes >> 20));
	ms_clone_end(&s->cloner);
}

/* Until the sweeper is done. */
static void keep_image(struct server *s)
{
	uint64_t least = s->shared->least_room;
	struct pollfd done = { .fd = s->channel, .events = POLLIN };
	int urgency = least ? ms_urgent_begin() : 0;

	while (least && s->cloner.image && poll(&done, 1, ROOM_MS) <= 0) {
		uint64_t room = ms_fork_room(s->shared->pid);

		if (room < least)
			end_for_room(s, room);
	}
	if (least)
		ms_urgent_end(urgency);
	while (hear(s->channel) != MESSAGE_NONE)
		;
}

/* A sweeper whose parent has ended may be stuck in a read, which only this ends. */
static void end_sweeper(const struct server *s)
{
	const uint64_t until_ns = ms_now_ns() + HANG_UP_MS * UINT64_C(1000000);
	struct pollfd closed = { .fd = s->channel };

	if (!ms_follow_is_over() || !s->shared->sweeper)
		return;
	/* The end of our parent may come just now, and break a wait off. */
	while (poll(&closed, 1, HANG_UP_MS) <= 0)
		if (ms_now_ns() > until_ns) {
			(void)kill(s->shared->sweeper, SIGKILL);
			return;
		}
}

/* With a clone: lead its threads out of malloc, and keep it until the sweeper is done. */
static bool serve_image(struct server *s)
{
	bool answered;
	int urgency;

	/* It, and not the target, is to end for want of memory. */
	ms_proc_write(s->cloner.image, "oom_score_adj", MS_SCORE_FIRST);
	urgency = ms_urgent_begin();
	ms_urgent_set(s->cloner.image);
	ms_collection_set_tick(true);
	if (!ms_clone_leave_files(&s->cloner, &s->shared->clone_error))
		ms_clone_finish_malloc(&s->cloner);
	s->shared->image = s->cloner.image;
	ms_collection_set_tick(false);
	ms_urgent_end(urgency);
	answered = answer(s, MS_OK);
	keep_image(s);
	return answered;
}

static int serve_frozen(struct server *s)
{
	int urgency = ms_urgent_begin();
	bool asked = false;
	bool answered = false;
	enum ms_status st;

	ms_follow_in_order(); /* only this process restores broken-off calls and reaps the clone */
	ms_collection_set_tick(true);
	st = freeze(s, &s->shared->error);
	if (!st && s->shared->clone_wanted)
		st = ms_clone_note_inside(&s->cloner, &s->shared->error);
	ms_collection_set_tick(false);
	if (!st && answer(s, MS_OK))
		asked = serve_standing(s);
	ms_collection_set_tick(true);
	ms_freezer_release(&s->freezer);
	ms_collection_set_tick(false);
	ms_urgent_end(urgency);
	if (st)
		(void)answer(s, st);
	else if (asked)
		answered = s->cloner.image ? serve_image(s) : answer(s, MS_OK);
	ms_clone_end(&s->cloner);
	ms_collection_set_tick(true);
	ms_clone_reap(s->shared);
	ms_collection_set_tick(false);
	end_sweeper(s);
	return answered || ms_follow_is_over() ? 0 : 1;
}

int ms_collection_serve(struct ms_collection *shared, int channel)
{
	struct server s = { .shared = shared, .channel = channel };
	enum ms_status st;
	int status = 1;

	if (!ms_collection_begin(shared))
		return 1;
	if (hear(channel) != MESSAGE_FREEZE)
		return 1;
	st = ms_freezer_init(&s.freezer, shared, 0, &shared->error);
	if (!st)
		st = ms_stack_asker_init(&s.asker, &s.freezer, &shared->error);
	/* A target that cannot be cloned can still be frozen. */
	if (!st && shared->clone_wanted &&
	    ms_cloner_init(&s.cloner, &s.freezer, &shared->clone_error) == MS_E_NOMEM)
		st = ms_fail(&shared->error, MS_E_NOMEM, "%s", shared->clone_error.text);
	if (st)
		(void)answer(&s, st);
	else
		status = serve_frozen(&s);
	ms_arena_deinit(&s.freezer.arena);
	return status;
}

int ms_collection_reap(struct ms_collection *shared)
{
	ms_collection_set_signals();
	ms_collection_set_tick(true);
	ms_clone_reap(shared);
	return 0;
}

/* ---- a program that searches itself ---- */

/* Fork the frozen program's memory: no handler of fork() is to run, and no lock to be taken. */
static enum ms_status fork_sweeper(const struct ms_self_collection *self, const int channel[2],
                                   pid_t *ret, struct ms_error *err)
{
	pid_t collection = getpid();
	long pid = syscall(SYS_clone, (long)SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid < 0)
		return ms_fail_sys(err, errno, "cannot fork the sweeper process");
	if (pid > 0) {
		*ret = (pid_t)pid;
		return MS_OK;
	}
	(void)close(channel[0]);
	if (!ms_follow_parent(collection))
		_exit(0);
	ms_proc_write(getpid(), "oom_score_adj", MS_SCORE_FIRST);
	_exit(self->sweep(self->ctx, channel[1]));
}

/* Have the sweeper execute what the program's threads had left to do in malloc. */
static bool finish_stopped(struct server *s, pid_t sweeper, struct ms_vectors *vectors)
{
	const struct ms_arch_calls *calls = s->freezer.arch->calls;
	struct ms_registers registers;
	uint64_t mask;

	if (!calls->save(sweeper, &registers, vectors) ||
	    ptrace(PTRACE_GETSIGMASK, sweeper, sizeof(mask), &mask))
		return false;
	s->cloner.image = sweeper;
	ms_clone_finish_malloc(&s->cloner);
	if (!calls->restore(sweeper, &registers, vectors))
		(void)kill(sweeper, SIGKILL);
	(void)ptrace(PTRACE_SETSIGMASK, sweeper, sizeof(mask), &mask);
	return true;
}

static void finish_in(struct server *s, pid_t sweeper)
{
	struct ms_tracee tracee = { .tid = sweeper, .state = MS_TRACEE_RUNNING };
	struct ms_vectors *vectors = ms_arena_alloc(&s->freezer.arena, sizeof(*vectors));
	bool done = false;

	if (!s->cloner.insiders.n)
		return;
	ms_collection_set_tick(true);
	if (vectors && !ptrace(PTRACE_SEIZE, sweeper, NULL, NULL) &&
	    !ptrace(PTRACE_INTERRUPT, sweeper, NULL, NULL))
		ms_tracee_wait(&tracee, STOP_TICKS);
	if (tracee.state == MS_TRACEE_STOPPED)
		done = finish_stopped(s, sweeper, vectors);
	(void)ptrace(PTRACE_DETACH, sweeper, NULL, NULL);
	if (!done)
		s->shared->n_unrolled += (uint32_t)s->cloner.insiders.n;
	ms_collection_set_tick(false);
}

static bool add_own(const struct ms_self_collection *self, const struct ms_arena *arena)
{
	const void *piece = NULL;
	size_t len;

	while ((piece = ms_arena_next(arena, piece, &len)))
		if (!ms_ranges_add(self->arena, self->own, (uintptr_t)piece,
		                   (uintptr_t)piece + len))
			return false;
	return ms_ranges_tidy(self->arena, self->own);
}

static enum ms_status serve_self_frozen(struct server *s, const struct ms_self_collection *self,
                                        const int channel[2], pid_t *ret, struct ms_error *err)
{
	int urgency = ms_urgent_begin();
	enum ms_status st;
	bool asked = false;

	self->shared->sweeper_urgency = urgency; /* it is our child */
	ms_collection_set_tick(true);
	st = freeze(s, err);
	if (!st)
		st = ms_clone_note_inside(&s->cloner, err);
	ms_collection_set_tick(false);
	if (!st && !add_own(self, &s->freezer.arena))
		st = ms_fail(err, MS_E_NOMEM, "no memory for the list of memscan's own memory");
	if (!st)
		st = fork_sweeper(self, channel, ret, err);
	(void)close(channel[1]);
	if (!st)
		asked = serve_standing(s);
	ms_collection_set_tick(true);
	ms_freezer_release(&s->freezer);
	ms_collection_set_tick(false);
	ms_urgent_end(urgency);
	if (asked) {
		finish_in(s, *ret);
		(void)answer(s, MS_OK);
	}
	return st;
}

enum ms_status ms_collection_serve_self(const struct ms_self_collection *self, pid_t *ret,
                                        struct ms_error *err)
{
	struct server s = { .shared = self->shared };
	int channel[2];
	enum ms_status st;

	ms_collection_clear(self->shared);
	populate(self->shared);
	self->shared->clone_wanted = true; /* that is: no thread is rolled while it stands */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel))
		return ms_fail_sys(err, errno, "no socket for a scan");
	s.channel = channel[0];
	st = ms_freezer_init(&s.freezer, self->shared, 0, err);
	if (!st)
		st = ms_stack_asker_init(&s.asker, &s.freezer, err);
	s.cloner.freezer = &s.freezer;
	if (!st)
		st = serve_self_frozen(&s, self, channel, ret, err);
	else
		(void)close(channel[1]);
	(void)close(channel[0]);
	ms_arena_deinit(&s.freezer.arena);
	return st;
}

static enum ms_status died(struct ms_error *err)
{
	enum ms_status st = ms_fail(err, MS_E_DIED, "the collection process ended unexpectedly");

	ms_advise(err, "the target runs on; try again (was memscan killed for want of memory?)");
	return st;
}

/* Send @message and wait for the answer, within @patience_ms. */
static enum ms_status ask(struct ms_collection *shared, int channel, enum message message,
                          struct ms_error *err)
{
	uint64_t limit_ms = shared->timeout_ns / 1000000 + PATIENCE_MS;
	struct pollfd wait = { .fd = channel, .events = POLLIN };
	int n;

	if (!tell(channel, message))
		return died(err);
	do {
		n = poll(&wait, 1, limit_ms < INT32_MAX ? (int)limit_ms : INT32_MAX);
	} while (n < 0 && errno == EINTR);
	if (!n)
		return ms_fail(err, MS_E_TIMEOUT, "the collection process does not answer");
	switch (hear(channel)) {
	case MESSAGE_DONE:
		return MS_OK;
	case MESSAGE_FAILED:
		*err = message == MESSAGE_CLONE ? shared->clone_error : shared->error;
		return err->status;
	default:
		return died(err);
	}
}

enum ms_status ms_collection_freeze(struct ms_collection *shared, int channel, struct ms_error *err)
{
	return ask(shared, channel, MESSAGE_FREEZE, err);
}

enum ms_status ms_collection_clone(struct ms_collection *shared, int channel, struct ms_error *err)
{
	return ask(shared, channel, MESSAGE_CLONE, err);
}

enum ms_status ms_collection_release(struct ms_collection *shared, int channel,
                                     struct ms_error *err)
{
	return ask(shared, channel, MESSAGE_RELEASE, err);
}

enum ms_status ms_collection_threads(const struct ms_collection *frozen, struct ms_arena *arena,
                                     struct ms_threads *ret, struct ms_error *err)
{
	if (!ms_vec_reserve(arena, ret, frozen->n_threads))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of threads");
	for (uint32_t i = 0; i < frozen->n_threads; i++) {
		const struct ms_frozen_thread *from = &frozen->threads[i];

		ret->at[ret->n++] = (struct ms_thread){
			.tid = from->tid,
			.stopped = from->stopped,
			.pc = from->pc,
			.sp = from->sp,
			.tp = from->tp,
			.words = from->words,
			.n_words = from->n_words,
		};
	}
	return MS_OK;
}
