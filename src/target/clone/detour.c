/* SPDX-License-Identifier: Apache-2.0 */
#include "target/clone/detour.h"

#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "target/room.h"

enum {
	BLOCK_BYTES = MS_VECTORS_BYTES + MS_FRAME_BYTES,
	MOST_CALLS = 4,
	MAX_LOOKS = 256, /* threads that are looked at for a fit one */
};

/* All may stand for so long, for one that waits for a processor. */
static const uint64_t patience_ns = UINT64_C(2000000000);

enum ms_status ms_detour_init(struct ms_detour *detour, struct ms_freezer *freezer,
                              struct ms_error *err)
{
	struct ms_arena *arena = &freezer->arena;

	*detour = (struct ms_detour){ .freezer = freezer,
		                      .calls = freezer->arch->calls,
		                      .worst = MS_STANDS_RESTARTED };
	detour->seccomp = ms_arena_alloc(arena, sizeof(*detour->seccomp));
	detour->vectors = ms_arena_alloc(arena, sizeof(*detour->vectors));
	detour->block = ms_arena_alloc(arena, BLOCK_BYTES);
	detour->saved = ms_arena_alloc(arena, BLOCK_BYTES);
	if (!detour->seccomp || !detour->vectors || !detour->block || !detour->saved)
		return ms_fail(err, MS_E_NOMEM, "no memory for a thread's detour");
	memset(detour->seccomp, 0, sizeof(*detour->seccomp)); /* so that it does not fault later */
	memset(detour->vectors, 0, sizeof(*detour->vectors));
	memset(detour->block, 0, BLOCK_BYTES);
	memset(detour->saved, 0, BLOCK_BYTES);
	return MS_OK;
}

/* ---- the choice of a thread ---- */

static enum ms_standing standing_of(const struct ms_cpu *cpu)
{
	if (cpu->call < 0)
		return MS_STANDS_AT_WORK;
	return cpu->call == SYS_restart_syscall ? MS_STANDS_RESTARTED : MS_STANDS_ASLEEP;
}

static bool is_fit(const struct ms_detour *detour, size_t i, enum ms_standing standing,
                   struct ms_range *ret)
{
	const struct ms_freezer *freezer = detour->freezer;
	const struct ms_tracee *tracee = &freezer->tracees.at[i];
	struct ms_cpu cpu;

	if (tracee->state != MS_TRACEE_STOPPED || tracee->signal || tracee->group_stop ||
	    !ms_tracee_look(freezer, tracee, &cpu) || standing != standing_of(&cpu))
		return false;

	const struct ms_room_of thread = { &freezer->arch->abi, tracee->tid,
		                           tracee->tid == freezer->shared->pid, cpu.sp, cpu.tp };

	return ms_room_for_calls(&freezer->places, &thread, BLOCK_BYTES, ret) &&
	       (standing != MS_STANDS_AT_WORK || !ms_fit_is_in_sequence(tracee->tid));
}

static enum ms_status may_call(const struct ms_detour *detour, pid_t tid,
                               const struct ms_named_call *calls, size_t n, struct ms_error *err)
{
	struct ms_injection in = detour->in;
	struct ms_wanted_call wanted[MOST_CALLS + 1];

	in.tid = tid;
	for (size_t i = 0; i < n; i++)
		wanted[i] = ms_fit_wanted(&in, calls[i].name, calls[i].call);
	wanted[n] = ms_fit_wanted(&in, "rt_sigreturn", (struct ms_call){ SYS_rt_sigreturn, { 0 } });
	return ms_fit_check(&in, wanted, n + 1, detour->seccomp, err);
}

static enum ms_status choose(struct ms_detour *detour, const struct ms_named_call *calls, size_t n,
                             struct ms_error *err)
{
	const struct ms_tracees *tracees = &detour->freezer->tracees;
	enum ms_status st =
		ms_fail(err, MS_E_BUSY,
	                "none of the threads of process %d is fit to make system calls "
	                "(on a stack of unknown size, about to handle a signal, or, before "
	                "Linux 5.13, computing)",
	                detour->freezer->shared->pid);

	ms_advise(err, "try again in another moment");
	for (enum ms_standing standing = MS_STANDS_ASLEEP; standing <= detour->worst; standing++)
		for (size_t i = 0; i < tracees->n && i < MAX_LOOKS; i++) {
			pid_t tid = tracees->at[i].tid;

			if (!is_fit(detour, i, standing, &detour->room))
				continue;
			st = may_call(detour, tid, calls, n, err);
			if (!st)
				detour->in.tid = tid;
			/* A filter is every thread's as a rule. */
			return st;
		}
	return st;
}

/* ---- taken and given back ---- */

static bool set_mask(pid_t tid, uint64_t mask)
{
	return !ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask);
}

/* Lay the block out from its lower end and write it. */
static bool write_block(struct ms_detour *detour)
{
	const struct ms_vectors *vectors = detour->vectors;
	ms_addr begin = detour->room.begin;
	size_t len = MS_FRAME_BYTES + vectors->n;

	(void)detour->calls->frame(&detour->in.registers, detour->in.gadgets, detour->mask,
	                           begin + MS_FRAME_BYTES, detour->block);
	memcpy(detour->block + MS_FRAME_BYTES, vectors->bytes, vectors->n);
	detour->in.sp = begin;
	return ms_room_read(detour->in.tid, begin, detour->saved, BLOCK_BYTES) == BLOCK_BYTES &&
	       ms_room_write(detour->in.tid, begin, detour->block, len) == len;
}

/* Send it on its way before its signals are blocked: from there the frame would unblock them. */
static bool divert(const struct ms_detour *detour, const struct ms_call *call)
{
	struct ms_registers registers = detour->in.registers;
	pid_t tid = detour->in.tid;

	detour->calls->call(&registers, detour->in.gadgets, call, detour->in.sp);
	return !ptrace(PTRACE_SETOPTIONS, tid, NULL, (uintptr_t)PTRACE_O_TRACESYSGOOD) &&
	       detour->calls->restore(tid, &registers, NULL) && set_mask(tid, ms_fit_blocked(tid));
}

enum ms_status ms_detour_begin(struct ms_detour *detour, const struct ms_named_call *calls,
                               size_t n, struct ms_error *err)
{
	struct ms_freezer *freezer = detour->freezer;
	enum ms_status st;

	detour->in = (struct ms_injection){ .arch = freezer->arch,
		                            .gadgets = &freezer->shared->gadgets,
		                            .deadline_ns = detour->until_ns
		                                                   ? detour->until_ns
		                                                   : ms_now_ns() + patience_ns };
	ms_fit_check_gadgets(freezer);
	if (!freezer->shared->gadgets.call) {
		st = ms_fail(err, MS_E_UNSUPPORTED,
		             "process %d has no code to make a system call by and to return from",
		             freezer->shared->pid);
		ms_advise(err,
		          "a static program of musl has it if it handles a signal (sigaction); "
		          "others can be started with libmalloc_debug");
		return st;
	}
	st = choose(detour, calls, n, err);
	if (st)
		return st;
	if (!detour->calls->save(detour->in.tid, &detour->in.registers, detour->vectors) ||
	    ptrace(PTRACE_GETSIGMASK, detour->in.tid, sizeof(detour->mask), &detour->mask) ||
	    !write_block(detour))
		return ms_fail(err, MS_E_BUSY, "thread %d has no room on its stack",
		               detour->in.tid);
	if (divert(detour, &calls[0].call))
		return MS_OK;
	return ms_fail(err, MS_E_GONE, "thread %d ended", detour->in.tid);
}

bool ms_detour_call(struct ms_detour *detour, const struct ms_call *call, int64_t *ret)
{
	return ms_inject(&detour->in, call, ret);
}

/* In the opposite order; the frame is needed until the registers are back. */
void ms_detour_end(struct ms_detour *detour)
{
	pid_t tid = detour->in.tid;

	if (!ms_inject_park(&detour->in))
		return;
	(void)set_mask(tid, detour->mask);
	if (detour->calls->restore(tid, &detour->in.registers, NULL))
		(void)ms_room_write(tid, detour->room.begin, detour->saved, BLOCK_BYTES);
	(void)ptrace(PTRACE_SETOPTIONS, tid, NULL, 0);
}
