/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call is made as the clone's are (clone.c), from a block in free room on the thread's
 * stack, so that a thread that is let go at any moment finds its own way:
 *
 *	┌──────────────────────────────┐
 *	│ vectors        (XSAVE)       │◀─┐
 *	│ frame: true registers, mask ─┼──┘
 *	│ restorer                     │◀─ call_sp
 *	│ what the kernel answers      │
 *	└──────────────────────────────┘
 *
 * What was there before is not in use, and is not put back.
 *
 * A thread has to be given a processor twice for it, so many are under way at a time.
 */
#include "target/clone/signal_stacks.h"

#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "target/clone/fit.h"
#include "target/clone/inject.h"
#include "target/proc.h"
#include "target/room.h"
#include "target/target.h"

enum {
	ANSWER_BYTES = 64,
	BLOCK_BYTES = ANSWER_BYTES + MS_FRAME_BYTES + MS_VECTORS_BYTES,
	ENOUGH_NS = 20000000,
	PATIENCE_NS = 500000000,
	AT_A_TIME = 64,
	MOST_WITHOUT_HANDLER = 256, /* threads, 6 ms */
};

/* One thread that is asked. */
struct ms_asked {
	struct ms_stack_asker *asker;
	const struct ms_arch_calls *calls;
	struct ms_frozen_thread *thread; /* for the answer */
	struct ms_injection in;
	struct ms_range room;
	uint64_t mask;
};

enum ms_status ms_stack_asker_init(struct ms_stack_asker *asker, struct ms_freezer *freezer,
                                   struct ms_error *err)
{
	struct ms_arena *arena = &freezer->arena;

	*asker = (struct ms_stack_asker){ .freezer = freezer,
		                          .cannot_run = ms_target_is_frozen(freezer->shared->pid) };
	asker->seccomp = ms_arena_alloc(arena, sizeof(*asker->seccomp));
	asker->vectors = ms_arena_alloc(arena, sizeof(*asker->vectors));
	asker->block = ms_arena_alloc(arena, BLOCK_BYTES);
	asker->asked = ms_arena_alloc(arena, AT_A_TIME * sizeof(*asker->asked));
	if (!asker->seccomp || !asker->vectors || !asker->block || !asker->asked)
		return ms_fail(err, MS_E_NOMEM, "no memory for asking threads");
	memset(asker->seccomp, 0, sizeof(*asker->seccomp)); /* so that it does not fault later */
	memset(asker->vectors, 0, sizeof(*asker->vectors));
	memset(asker->block, 0, BLOCK_BYTES);
	return MS_OK;
}

static struct ms_call call_sigaltstack(const struct ms_asked *a)
{
	return (struct ms_call){ SYS_sigaltstack, { 0, a->room.begin } };
}

static bool may_call(const struct ms_asked *a)
{
	const struct ms_wanted_call calls[] = {
		ms_fit_wanted(&a->in, "sigaltstack", call_sigaltstack(a)),
		ms_fit_wanted(&a->in, "rt_sigreturn", (struct ms_call){ SYS_rt_sigreturn, { 0 } }),
	};
	struct ms_error ignored;

	return !ms_fit_check(&a->in, calls, sizeof(calls) / sizeof(calls[0]), a->asker->seccomp,
	                     &ignored);
}

static bool has_room(struct ms_asked *a, const struct ms_cpu *cpu)
{
	const struct ms_freezer *freezer = a->asker->freezer;
	const struct ms_room_of thread = { &freezer->arch->abi, a->in.tid,
		                           a->in.tid == freezer->shared->pid, cpu->sp, cpu->tp };

	return ms_room_for_calls(&freezer->places, &thread, BLOCK_BYTES, &a->room);
}

/* Whether the thread stands where a detour does no harm. */
static bool is_fit(struct ms_asked *a, const struct ms_tracee *tracee)
{
	struct ms_cpu cpu;

	return tracee->state == MS_TRACEE_STOPPED && !tracee->signal && !tracee->group_stop &&
	       ms_tracee_look(a->asker->freezer, tracee, &cpu) && has_room(a, &cpu) &&
	       cpu.pc != a->in.gadgets->call &&
	       (cpu.call >= 0 || !ms_fit_is_in_sequence(tracee->tid)) && may_call(a);
}

/* Lay the block out from its lower end and write it. */
static bool write_block(struct ms_asked *a)
{
	struct ms_stack_asker *asker = a->asker;
	ms_addr vectors_at = a->room.begin + ANSWER_BYTES + MS_FRAME_BYTES;
	size_t len = ANSWER_BYTES + MS_FRAME_BYTES + asker->vectors->n;

	a->in.sp = a->room.begin + ANSWER_BYTES;
	(void)a->calls->frame(&a->in.registers, a->in.gadgets, a->mask, vectors_at,
	                      asker->block + ANSWER_BYTES);
	memcpy(asker->block + ANSWER_BYTES + MS_FRAME_BYTES, asker->vectors->bytes,
	       asker->vectors->n);
	return ms_room_write(a->in.tid, a->room.begin, asker->block, len) == len;
}

static bool set_mask(pid_t tid, uint64_t mask)
{
	return !ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask);
}

/* Send it on its way before its signals are blocked: from there the frame would unblock them. */
static bool divert(struct ms_asked *a, const struct ms_call *call)
{
	struct ms_registers registers = a->in.registers;

	a->calls->call(&registers, a->in.gadgets, call, a->in.sp);
	return !ptrace(PTRACE_SETOPTIONS, a->in.tid, NULL, (uintptr_t)PTRACE_O_TRACESYSGOOD) &&
	       a->calls->restore(a->in.tid, &registers, NULL) &&
	       set_mask(a->in.tid, ms_fit_blocked(a->in.tid));
}

/* Have a thread begin to ask; false when it cannot. */
static bool begin(struct ms_asked *a, const struct ms_tracee *tracee)
{
	struct ms_call call;

	if (!is_fit(a, tracee) || !a->calls->save(a->in.tid, &a->in.registers, a->asker->vectors) ||
	    ptrace(PTRACE_GETSIGMASK, a->in.tid, sizeof(a->mask), &a->mask) || !write_block(a))
		return false;
	call = call_sigaltstack(a);
	a->in.lost = !divert(a, &call);
	if (!a->in.lost)
		ms_inject_begin(&a->in, &call);
	return true;
}

/* What the kernel answered, a stack_t: its place, flags (an int), and how large it is. */
static bool read_answer(const struct ms_asked *a, struct ms_range *ret)
{
	enum { WORDS = 3 };
	const struct ms_abi *abi = &a->in.arch->abi;
	const size_t len = WORDS * (size_t)abi->word_bytes;
	uint64_t words[WORDS];
	uint64_t begin, size;

	if (ms_room_read(a->in.tid, a->room.begin, words, len) != len)
		return false;
	ms_abi_spread(abi, words, WORDS);
	begin = words[0];
	size = words[2];
	if (!((uint32_t)words[1] & SS_DISABLE))
		*ret = (struct ms_range){ begin, begin + size };
	return true;
}

/* Give the thread back what it had. */
static bool end(struct ms_asked *a)
{
	struct ms_range stack = { 0 };
	pid_t tid = a->in.tid;
	bool ok;

	ms_inject_end(&a->in);
	if (a->in.lost)
		return false;
	ok = !a->in.dispatched && read_answer(a, &stack);
	(void)set_mask(tid, a->mask);
	(void)a->calls->restore(tid, &a->in.registers, NULL);
	(void)ptrace(PTRACE_SETOPTIONS, tid, NULL, 0);
	if (ok && stack.end)
		a->thread->signal_stack = stack;
	return ok;
}

/* Let the @n threads that have begun come to their ends. */
static void finish(struct ms_stack_asker *asker, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ms_inject_go_on(&asker->asked[i].in);
	for (size_t i = 0; i < n; i++)
		asker->freezer->shared->n_unasked += !end(&asker->asked[i]);
}

static bool begin_thread(struct ms_stack_asker *asker, const struct ms_tracee *tracee,
                         struct ms_frozen_thread *thread, struct ms_asked *ret)
{
	struct ms_freezer *freezer = asker->freezer;

	*ret = (struct ms_asked){ .asker = asker,
		                  .calls = freezer->arch->calls,
		                  .thread = thread,
		                  .in = { .arch = freezer->arch,
		                          .gadgets = &freezer->shared->gadgets,
		                          .tid = tracee->tid,
		                          .deadline_ns = ms_now_ns() + PATIENCE_NS } };
	return begin(ret, tracee);
}

/*
 * How many threads are worth the time: where a signal has a handler, all. Without one no stack is
 * in use, but it may be registered already, the handler to follow.
 */
static size_t most_asked(const struct ms_collection *shared)
{
	if (ms_proc_has_handlers(shared->live_tid))
		return SIZE_MAX;
	return shared->has_signal_stacks ? MOST_WITHOUT_HANDLER : 0;
}

void ms_signal_stacks_ask(struct ms_stack_asker *asker)
{
	struct ms_freezer *freezer = asker->freezer;
	struct ms_collection *shared = freezer->shared;
	const struct ms_gadgets *gadgets = &shared->gadgets;
	/* Threads of a frozen cgroup would stay on their way, where the next scan found them. */
	bool can = freezer->arch->calls && gadgets->call && gadgets->restore && !asker->cannot_run;
	uint64_t enough_ns = shared->freeze_ns > ENOUGH_NS ? shared->freeze_ns : ENOUGH_NS;
	uint64_t until_ns = ms_now_ns() + enough_ns;
	size_t most = most_asked(shared);
	size_t n = 0;
	uint32_t k = 0;

	if (!most)
		return;
	for (size_t i = 0; i < freezer->tracees.n && k < shared->n_threads; i++) {
		const struct ms_tracee *tracee = &freezer->tracees.at[i];

		if (tracee->tid != shared->threads[k].tid)
			continue;
		if (can && k < most && ms_now_ns() < until_ns &&
		    begin_thread(asker, tracee, &shared->threads[k], &asker->asked[n]))
			n++;
		else
			shared->n_unasked++;
		k++;
		if (n == AT_A_TIME) {
			finish(asker, n);
			n = 0;
		}
	}
	finish(asker, n);
}
