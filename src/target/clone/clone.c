/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever happens to us must not hurt the target, so each step leaves a state from
 * which everyone finds the way out without us. Before a register is changed, a block
 * is written into free room below the thread's stack pointer (room.h):
 *
 *	               ┌──────────────────────────────┐
 *	               │ vectors        (XSAVE)       │◀─┐
 *	               │ frame: true registers, mask ─┼──┘
 *	               │ restorer                     │◀─┐
 *	               │ frame: wait4(image, __WALL)  ┼──┘
 *	   reap_sp ──▶ │ restorer                     │◀─┐
 *	               │ frame: wait4(helper, __WALL) ┼──┘
 *	   call_sp ──▶ │ restorer                     │
 *	               │ frame: exit(0)               │
 *	  child_sp ──▶ │ restorer                     │
 *	               │ name of the image            │
 *	               └──────────────────────────────┘
 *
 * A thread that is let go behind a call returns to the restorer, which is libc's way
 * out of a signal handler; so it reaps helper and image, and then has the registers that
 * it had. Helper and image come to exit(0). Their numbers are written to the frames by
 * the kernel, as it makes them (CLONE_PARENT_SETTID); until then they are one that no
 * process has. Signals are blocked meanwhile, and the last frame gives the mask back.
 *
 * The image has the same block in memory of its own. Before a fork of it is made, its
 * reap_sp is made to lead to the end of that fork, and then to exit(0): finish.c.
 *
 * If we are killed in that moment, the thread's poll() or nanosleep() begins its time-out
 * anew, or returns EINTR when it had been restarted once before, and the bytes below the
 * stack pointer, which are not in use, are not what they were. If we are killed later, the
 * image ends by exit(0), and another process of memscan's has the target reap it: reap.c.
 */
#include "target/clone/clone.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/clone/files.h"
#include "target/clone/fit.h"
#include "target/clone/inject.h"
#include "target/proc.h"
#include "target/room.h"

enum {
	NAME_BYTES = 64,
	BLOCK_BYTES = NAME_BYTES + MS_VECTORS_BYTES + 4 * MS_FRAME_BYTES,
	NO_PROCESS = INT32_MAX,
	MAX_LOOKS = 256, /* threads that are looked at for a fit one */
};

static const uintptr_t own_options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;

/* One making of a clone. */
struct making {
	struct ms_cloner *cloner;
	const struct ms_arch_calls *calls;
	struct ms_injection thread;
	struct ms_injection helper;
	struct ms_range room; /* of the block */
	ms_addr call_sp;
	ms_addr name;
	bool named;            /* the image may call prctl() */
	ms_addr helper_reaped; /* where the number of the helper goes */
	int64_t helper_number; /* as the target calls it; 0: not made or reaped */
	uint64_t mask;         /* the thread's own */
};

/* ---- before the freeze ---- */

enum ms_status ms_cloner_init(struct ms_cloner *cloner, struct ms_freezer *freezer,
                              struct ms_error *err)
{
	struct ms_arena *arena = &freezer->arena;

	memset(cloner, 0, sizeof(*cloner));
	cloner->freezer = freezer;
	if (!freezer->arch->calls)
		return ms_fail(err, MS_E_UNSUPPORTED, "no way to clone is known on %s",
		               freezer->arch->name);
	if (!freezer->shared->gadgets.call || !freezer->shared->gadgets.restore)
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "it has no C library's code to make a clone by");
	cloner->leaves_late = !ms_files_leave_at_once();
	if (!ms_room_is_allowed())
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "a filter forbids process_vm_readv() or process_vm_writev() here");
	cloner->seccomp = ms_arena_alloc(arena, sizeof(*cloner->seccomp));
	cloner->block = ms_arena_alloc(arena, BLOCK_BYTES);
	cloner->saved = ms_arena_alloc(arena, BLOCK_BYTES);
	cloner->vectors = ms_arena_alloc(arena, sizeof(*cloner->vectors));
	if (!cloner->seccomp || !cloner->block || !cloner->saved || !cloner->vectors)
		return ms_fail(err, MS_E_NOMEM, "no memory for cloning");
	memset(cloner->seccomp, 0, sizeof(*cloner->seccomp)); /* so that it does not fault later */
	memset(cloner->block, 0, BLOCK_BYTES);
	memset(cloner->saved, 0, BLOCK_BYTES);
	memset(cloner->vectors, 0, sizeof(*cloner->vectors));
	return MS_OK;
}

/* ---- the choice of a thread ---- */

static bool fits(const struct ms_cloner *cloner, size_t i, bool asleep, struct ms_range *ret)
{
	const struct ms_freezer *freezer = cloner->freezer;
	const struct ms_tracee *tracee = &freezer->tracees.at[i];
	const struct ms_frozen_thread *captured = &freezer->shared->threads[i];
	const struct ms_room_of thread = { &freezer->arch->abi, captured->tid,
		                           captured->tid == freezer->shared->pid, captured->sp,
		                           captured->tp };
	struct ms_cpu cpu;

	if (tracee->state != MS_TRACEE_STOPPED || tracee->signal || tracee->group_stop ||
	    captured->tid != tracee->tid || captured->pc == freezer->shared->gadgets.call ||
	    !ms_room_for_calls(&freezer->places, &thread, BLOCK_BYTES, ret))
		return false;
	if (!ms_tracee_look(freezer, tracee, &cpu) || (asleep && cpu.call < 0))
		return false;
	return cpu.call >= 0 || !ms_fit_is_in_sequence(tracee->tid);
}

/*
 * A thread that sleeps in a system call if there is one: its stack is as the ABI
 * wants it, and it is in the middle of nothing.
 */
static pid_t choose(const struct ms_cloner *cloner, struct ms_range *ret)
{
	const struct ms_freezer *freezer = cloner->freezer;
	size_t n = freezer->tracees.n < freezer->shared->n_threads ? freezer->tracees.n
	                                                           : freezer->shared->n_threads;

	for (int asleep = 1; asleep >= 0; asleep--)
		for (size_t i = 0; i < n && i < MAX_LOOKS; i++)
			if (fits(cloner, i, asleep, ret))
				return freezer->tracees.at[i].tid;
	return 0;
}

/* ---- the calls ---- */

static struct ms_call call_helper(const struct making *m)
{
	return (struct ms_call){ SYS_clone,
		                 { CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_PARENT_SETTID,
		                   m->cloner->child_sp, m->helper_reaped } };
}

static struct ms_call call_image(const struct making *m)
{
	return (struct ms_call){ SYS_clone,
		                 { CLONE_FILES | CLONE_PARENT | CLONE_PARENT_SETTID,
		                   m->cloner->child_sp, m->cloner->reaped } };
}

static struct ms_call call_exit(void)
{
	return (struct ms_call){ SYS_exit, { 0 } };
}

static struct ms_call call_reap(int64_t pid)
{
	return (struct ms_call){ SYS_wait4, { (uint64_t)pid, 0, __WALL } };
}

static struct ms_call call_name(const struct making *m)
{
	return (struct ms_call){ SYS_prctl, { PR_SET_NAME, m->name } };
}

static enum ms_status check_thread(struct making *m, struct ms_error *err)
{
	const struct ms_wanted_call name = ms_fit_wanted(&m->thread, "prctl", call_name(m));
	const struct ms_injection *in = &m->thread;
	const bool late = m->cloner->leaves_late;
	const struct ms_call leave = late ? ms_files_call_unshare() : ms_files_call_close_range();
	const struct ms_wanted_call calls[] = {
		ms_fit_wanted(in, "clone", call_helper(m)),
		ms_fit_wanted(in, "clone", call_image(m)),
		ms_fit_wanted(in, "exit", call_exit()),
		ms_fit_wanted(in, "wait4", call_reap(NO_PROCESS)),
		ms_fit_wanted(in, late ? "unshare" : "close_range", leave),
		ms_fit_wanted(in, "rt_sigreturn", (struct ms_call){ SYS_rt_sigreturn, { 0 } }),
		ms_fit_wanted(in, "close", ms_files_call_close(0)),
	};
	const size_t n = sizeof(calls) / sizeof(calls[0]);

	m->named = !ms_fit_check(in, &name, 1, m->cloner->seccomp, err);
	return ms_fit_check(in, calls, late ? n : n - 1, m->cloner->seccomp, err);
}

/* ---- the block ---- */

/* Lay the block out from its lower end and write it. */
static bool write_block(struct making *m)
{
	struct ms_cloner *cloner = m->cloner;
	const struct ms_call leave = call_exit();
	const struct ms_call reap = call_reap(NO_PROCESS);
	ms_addr begin = m->room.begin;
	size_t child = NAME_BYTES;
	size_t helper = child + MS_FRAME_BYTES;
	size_t image = helper + MS_FRAME_BYTES;
	size_t own = image + MS_FRAME_BYTES;
	size_t vectors = own + MS_FRAME_BYTES;

	m->name = begin;
	cloner->child_sp = begin + child;
	m->call_sp = begin + helper;
	m->helper_reaped = begin + helper + m->calls->first_argument;
	cloner->reap_sp = begin + image;
	cloner->reaped = begin + image + m->calls->first_argument;
	memcpy(cloner->block, MS_CLONE_NAME, sizeof(MS_CLONE_NAME));
	ms_inject_frame(&m->thread, &leave, cloner->child_sp, cloner->block + child);
	ms_inject_frame(&m->thread, &reap, cloner->reap_sp, cloner->block + helper);
	ms_inject_frame(&m->thread, &reap, begin + own, cloner->block + image);
	memcpy(cloner->block + vectors, cloner->vectors->bytes, cloner->vectors->n);
	(void)m->calls->frame(&m->thread.registers, m->thread.gadgets, m->mask, begin + vectors,
	                      cloner->block + own);
	return ms_room_read(m->thread.tid, begin, cloner->saved, BLOCK_BYTES) == BLOCK_BYTES &&
	       ms_room_write(m->thread.tid, begin, cloner->block, BLOCK_BYTES) == BLOCK_BYTES;
}

/* ---- the thread, taken and given back ---- */

static bool set_mask(pid_t tid, uint64_t mask)
{
	return !ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask);
}

static bool set_options(pid_t tid, uintptr_t options)
{
	return !ptrace(PTRACE_SETOPTIONS, tid, NULL, options);
}

/*
 * Several times what cloning takes. It can take for ever: where the target is to be told
 * of forks by userfaultfd, a thread of it would have to listen.
 */
static uint64_t patience_ns(const struct ms_freezer *freezer)
{
	const uint64_t least_ns = UINT64_C(500000000);
	const uint64_t page_ns = 400; /* 100 ms for 1 GiB */
	char text[128];
	char *end;

	(void)ms_proc_read(freezer->shared->live_tid, "statm", text, sizeof(text));
	(void)strtoull(text, &end, 10);
	return least_ns + page_ns * strtoull(end, NULL, 10); /* the second number: resident */
}

static enum ms_status take(struct making *m, struct ms_error *err)
{
	struct ms_freezer *freezer = m->cloner->freezer;
	enum ms_status st;

	m->thread = (struct ms_injection){ .arch = freezer->arch,
		                           .gadgets = &freezer->shared->gadgets,
		                           .deadline_ns = ms_now_ns() + 2 * patience_ns(freezer) };
	m->calls = freezer->arch->calls;
	if (!freezer->shared->gadgets.call)
		return ms_fail(err, MS_E_UNSUPPORTED, "the code to make a clone by is gone");
	m->thread.tid = choose(m->cloner, &m->room);
	if (!m->thread.tid)
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "none of its threads is fit to make a clone (stopped by a signal, "
		               "on a stack of unknown size, or, before Linux 5.13, computing)");
	st = check_thread(m, err);
	if (st)
		return st;
	if (!m->calls->save(m->thread.tid, &m->thread.registers, m->cloner->vectors) ||
	    ptrace(PTRACE_GETSIGMASK, m->thread.tid, sizeof(m->mask), &m->mask) || !write_block(m))
		return ms_fail(err, MS_E_UNSUPPORTED, "thread %d has no room on its stack",
		               m->thread.tid);
	m->thread.sp = m->call_sp;
	return MS_OK;
}

/*
 * Send the thread on its way to the first call before its signals are blocked: from
 * there the frame would unblock them.
 */
static bool divert(const struct making *m)
{
	struct ms_registers registers = m->thread.registers;
	struct ms_call call = call_helper(m);

	m->calls->call(&registers, m->thread.gadgets, &call, m->thread.sp);
	return set_options(m->thread.tid, own_options) &&
	       m->calls->restore(m->thread.tid, &registers, NULL) &&
	       set_mask(m->thread.tid, ms_fit_blocked(m->thread.tid));
}

/* In the opposite order; the frame is needed until the registers are back. */
static void give_back(struct making *m)
{
	pid_t tid = m->thread.tid;

	if (!ms_inject_park(&m->thread))
		return;
	(void)set_mask(tid, m->mask);
	if (m->calls->restore(tid, &m->thread.registers, NULL))
		(void)ms_room_write(tid, m->room.begin, m->cloner->saved, BLOCK_BYTES);
	(void)set_options(tid, 0);
}

/* ---- what the thread does ---- */

static enum ms_status lost(const struct making *m, struct ms_error *err)
{
	return ms_fail(err, MS_E_UNSUPPORTED, "thread %d ended, or did not answer", m->thread.tid);
}

static enum ms_status explain_errno(int64_t result, struct ms_error *err)
{
	if (result == -EAGAIN)
		return ms_fail(err, MS_E_DENIED,
		               "it may not have another process (RLIMIT_NPROC, or pids.max of its "
		               "cgroup)");
	if (result == -ENOMEM)
		return ms_fail(err, MS_E_DENIED,
		               "the kernel does not let it share so much memory "
		               "(vm.overcommit_memory)");
	(void)ms_fail_sys(err, (int)-result, "its clone failed");
	return err->status;
}

/*
 * Have @parent make a process by @call, to stand behind it. Returns its number, as the target
 * calls it, also when it is lost; 0: none was made, and @err says why.
 */
static int64_t make(struct making *m, struct ms_injection *parent, const struct ms_call *call,
                    struct ms_injection *ret, struct ms_error *err)
{
	int64_t number = 0;

	if (!ms_inject(parent, call, &number)) {
		(void)lost(m, err);
		return 0;
	}
	if (parent->dispatched) {
		(void)ms_fit_dispatched(err);
		return 0;
	}
	if (number < 0) {
		(void)explain_errno(number, err);
		return 0;
	}
	*ret = *parent;
	ret->tid = parent->child;
	ret->sp = m->cloner->child_sp;
	ret->lost = !ms_inject_await(ret->tid, m->thread.deadline_ns) ||
	            !m->calls->save(ret->tid, &ret->registers, NULL);
	return number;
}

static enum ms_status make_helper(struct making *m, struct ms_error *err)
{
	struct ms_call call = call_helper(m);

	m->helper_number = make(m, &m->thread, &call, &m->helper, err);
	if (!m->helper_number)
		return err->status;
	m->helper.deadline_ns = ms_now_ns() + patience_ns(m->cloner->freezer);
	if (m->helper.lost || !set_options(m->helper.tid, own_options | PTRACE_O_EXITKILL))
		return lost(m, err);
	return MS_OK;
}

static enum ms_status make_image(struct making *m, struct ms_error *err)
{
	struct ms_collection *shared = m->cloner->freezer->shared;
	struct ms_injection *image = &m->cloner->child;
	struct ms_call call = call_image(m);

	shared->child_number = make(m, &m->helper, &call, image, err);
	if (!shared->child_number)
		return err->status;
	shared->child = image->tid;
	/* It ends by itself, with status 0. */
	return image->lost || !set_options(image->tid, own_options) ? lost(m, err) : MS_OK;
}

/*
 * Take the image out of the table of files; no file was open through it alone. By its name
 * it is known for ours.
 */
static enum ms_status leave_files(struct making *m, struct ms_error *err)
{
	struct ms_call call = ms_files_call_close_range();
	struct ms_call name = call_name(m);
	int64_t result = 0;

	if (m->named && !ms_inject(&m->cloner->child, &name, &result))
		return lost(m, err);
	if (m->cloner->leaves_late)
		return MS_OK;
	if (!ms_inject(&m->cloner->child, &call, &result))
		return lost(m, err);
	if (result < 0)
		return explain_errno(result, err);
	return MS_OK;
}

/* End a process that stands, one way or the other, and have the thread reap it. */
static void end(struct making *m, struct ms_injection *in, int64_t *number)
{
	struct ms_call last = call_exit();
	struct ms_call reap = call_reap(*number);
	int64_t result;

	if (!*number)
		return;
	if (!ms_inject_last(in, &last)) {
		(void)kill(in->tid, SIGKILL);
		while (ms_inject_await(in->tid, m->thread.deadline_ns))
			;
	}
	(void)ms_inject(&m->thread, &reap, &result);
	*number = 0;
}

enum ms_status ms_clone_make(struct ms_cloner *cloner, struct ms_error *err)
{
	struct ms_collection *shared = cloner->freezer->shared;
	struct making m = { .cloner = cloner };
	enum ms_status st = take(&m, err);

	if (st)
		return st;
	if (!divert(&m))
		st = lost(&m, err);
	if (!st)
		st = make_helper(&m, err);
	if (!st)
		st = make_image(&m, err);
	if (!st)
		st = leave_files(&m, err);
	end(&m, &m.helper, &m.helper_number);
	if (st) {
		end(&m, &cloner->child, &shared->child_number);
		shared->child = 0;
	}
	cloner->image = shared->child;
	give_back(&m);
	return st;
}

enum ms_status ms_clone_leave_files(struct ms_cloner *cloner, struct ms_error *err)
{
	const uint64_t patience = UINT64_C(5000000000);

	if (!cloner->leaves_late)
		return MS_OK;
	cloner->child.deadline_ns = ms_now_ns() + patience;
	if (ms_files_leave_each(&cloner->child, cloner->freezer->list_buf))
		return MS_OK;
	ms_clone_end(cloner);
	return ms_fail(err, MS_E_UNSUPPORTED,
	               "its clone did not close its files, and this kernel has no close_range() "
	               "(Linux 5.9)");
}
