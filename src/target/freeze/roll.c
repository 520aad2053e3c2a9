/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leading threads of the target itself out of malloc: only where its memory is to be
 * copied. Those of a clone are led by clone/lead.c, where nothing can go wrong for the
 * target.
 *
 * A heap that is frozen while one thread changes it does not decode: a chunk is
 * free by its neighbour's word, but in no list yet. Trying again works for most
 * programs and never for some, so with everything frozen each thread inside
 * malloc is let run alone, a moment at a time, until it is found outside. One that never
 * is, because it hardly does anything else, is led out by traps:
 *
 *	in malloc's own instructions    in one go, to breakpoints (debug registers) at
 *	                                the return addresses on its stack that lead out
 *	in memset, sbrk and the like    in one go, to the return address into malloc
 *	with no such address            one step at a time
 *	at a repeating instruction,     in one go, to a breakpoint behind it: it traps
 *	                                once for each iteration under stepping
 *	asleep, waiting for a lock      not at all: it has begun nothing that others see
 *
 * A step costs 20 to 50 us, so a breakpoint is worth a hundred of them; on machines where
 * debug registers stop no thread (breaks.h) all of it is steps. A word on
 * the stack may be left from an earlier call; a thread that passes the right place
 * unseen runs on as it does all day, and is looked at again when it is called back.
 *
 * Signals which arrive meanwhile are handed back to the kernel's queue: a
 * signal that is given to a thread which blocks it is queued again, siginfo and
 * all (ptrace_signal()). So the thread blocks it until it has left malloc.
 * SIGTRAP, by which the kernel reports steps, must be neither blocked nor ignored,
 * or force_sig() would reset its handler: it is unblocked meanwhile, and a process
 * that ignores it is not rolled.
 *
 * At the end a thread is parked: an interrupt is made pending and the thread let
 * go, upon which it stops again before it has run an instruction. In the stop of
 * a step its trap flag would still be set, and our death would let it run into a
 * SIGTRAP of its own.
 *
 * That is the danger while rolling the target's own threads: should this process be
 * killed meanwhile, the thread that it steps would die of SIGTRAP. Therefore it is not
 * to die with its parent just then, is no choice for the kernel when memory runs out,
 * and the time is limited. A thread still inside then is seen by the search
 * (ms_inside_mark()), as is one that runs a signal's handler that interrupted malloc.
 */
#include "target/freeze/roll.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/follow.h"
#include "base/libc.h"
#include "target/freeze/breaks.h"
#include "target/freeze/queued.h"
#include "target/proc.h"

enum {
	MOMENTS = 50, /* for one thread, without traps */
	MOMENT_KINDS = 10,
	MAX_STEPS = 20000, /* for one thread */
	MAX_STALLS = 64,   /* steps that did not move the thread */
	SPINS = 100,       /* looks before sleeping: being woken takes longer than a step */
	STEP_TICKS = 2,
	LONGEST_TICKS = 32,
	STOP_TICKS = 1000, /* a thread that cannot stop is asleep in the kernel, or starved */
	CODE_BYTES = 16,
	CALL_BYTES = 8,  /* before a return address, to hold any call instruction */
	FAR_WORDS = 128, /* of the stack, where malloc's own return address is */
	MAX_WAYS_OUT = 4,
	MAX_DRAINS = 8,
};

/* Moments are one to MOMENT_KINDS of these long, lest they keep step with a loop. */
static const uint64_t MOMENT_NS = 10000;

/* What happened to a thread that was let run. */
enum run { RUN_TRAPPED, RUN_OTHERWISE, RUN_LATE, RUN_OVER };

enum outcome { OUTCOME_OUT, OUTCOME_WAITING, OUTCOME_STUCK };

/* One thread being led out. */
struct roll {
	struct ms_freezer *freezer;
	const struct ms_arch *arch;
	struct ms_tracee *tracee;
	uint64_t mask_now; /* signals that it blocks now */
	bool no_breaks;    /* debug registers were refused, or stop no thread */
	unsigned steps;
	unsigned stalls;
	int patience; /* ticks */
};

/* Read up to @len bytes of the target. Returns how many. */
static size_t read_target(pid_t tid, ms_addr addr, void *buf, size_t len)
{
	struct iovec local = { buf, len };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	struct iovec remote = { (void *)(uintptr_t)addr, len };
	ssize_t n = process_vm_readv(tid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

/* Read up to @n words of the target's, of which there is room for 64-bit ones. Returns how many. */
static size_t read_words(const struct ms_freezer *freezer, pid_t tid, ms_addr addr, uint64_t *words,
                         size_t n)
{
	const struct ms_abi *abi = &freezer->arch->abi;
	size_t got = read_target(tid, addr, words, n * abi->word_bytes) / abi->word_bytes;

	ms_abi_spread(abi, words, got);
	return got;
}

/* Where the thread at @cpu may return to, of at most @n words: by its register, and its stack. */
static size_t read_returns(const struct ms_freezer *freezer, pid_t tid, const struct ms_cpu *cpu,
                           uint64_t *words, size_t n)
{
	size_t got = ms_inside_put_link(cpu->link, words);

	got += read_words(freezer, tid, cpu->sp, words + got, n - got);
	ms_inside_unsign(freezer->arch, words, got);
	return got;
}

/* Where the thread is: inside malloc, and whether it waits there. */
static bool is_inside(const struct ms_freezer *freezer, const struct ms_tracee *tracee,
                      struct ms_cpu *cpu, ms_addr *ret_back)
{
	const struct ms_collection *code = freezer->shared;
	uint64_t stack[MS_NEAR_WORDS];
	size_t n = 0;

	if (!ms_tracee_look(freezer, tracee, cpu))
		return false;
	if (ms_inside_wants_stack(code, cpu->pc))
		n = read_returns(freezer, tracee->tid, cpu, stack, MS_NEAR_WORDS);
	return ms_inside_is(code, cpu->pc, stack, n, ret_back);
}

static uint64_t signal_bit(int signal)
{
	return (uint64_t)1 << (signal - 1);
}

static void set_mask(struct roll *roll, uint64_t mask)
{
	if (mask != roll->mask_now &&
	    !ptrace(PTRACE_SETSIGMASK, roll->tracee->tid, sizeof(mask), &mask))
		roll->mask_now = mask;
}

static bool begin(struct roll *roll)
{
	struct ms_tracee *tracee = roll->tracee;

	if (ptrace(PTRACE_GETSIGMASK, tracee->tid, sizeof(tracee->mask), &tracee->mask))
		return false;
	roll->mask_now = tracee->mask;
	tracee->armed = true;
	set_mask(roll, tracee->mask & ~signal_bit(SIGTRAP));
	return true;
}

/* Whether a signal reports a step or breakpoint of ours; only the kernel can send it like that. */
static bool is_trap(const siginfo_t *info)
{
	return info->si_signo == SIGTRAP &&
	       (info->si_code == TRAP_TRACE || info->si_code == TRAP_HWBKPT ||
	        info->si_code == TRAP_BRKPT); /* so a step over a system call reports itself */
}

/* Whether the signal-delivery stop that the thread is in is one of ours. */
static bool is_our_trap(const struct ms_tracee *tracee)
{
	siginfo_t info;

	return tracee->signal == SIGTRAP && !ptrace(PTRACE_GETSIGINFO, tracee->tid, NULL, &info) &&
	       is_trap(&info);
}

/* Whether a trap of ours is queued: the interrupt overtook it. */
static bool has_queued_trap(const struct ms_tracee *tracee)
{
	struct __ptrace_peeksiginfo_args args = { 0 };
	siginfo_t infos[MS_QUEUED_PIECE];
	long n;

	do {
		n = ms_queued_next(tracee->tid, &args, infos);
		for (long i = 0; i < n; i++)
			if (is_trap(&infos[i]))
				return true;
	} while (n > 0);
	return false;
}

/* Whether the stop's signal can wait until the thread has left: it is not needed now. */
static bool can_wait(const struct ms_tracee *tracee)
{
	siginfo_t info;

	if (tracee->signal == SIGSTOP || tracee->signal == SIGTRAP)
		return false;
	if (ptrace(PTRACE_GETSIGINFO, tracee->tid, NULL, &info))
		return false;
	/* A fault of the thread's own instruction would only come again. */
	return !(info.si_code > 0 && info.si_code != SI_KERNEL &&
	         (tracee->signal == SIGSEGV || tracee->signal == SIGBUS ||
	          tracee->signal == SIGFPE || tracee->signal == SIGILL ||
	          tracee->signal == SIGSYS));
}

/* Wait for the thread's next stop; one that does not come to it by itself is interrupted. */
static bool wait_or_interrupt(struct ms_tracee *tracee, int ticks)
{
	bool late;

	for (int i = 0; i < SPINS && tracee->state == MS_TRACEE_RUNNING; i++)
		ms_tracee_wait(tracee, 0);
	if (tracee->state == MS_TRACEE_RUNNING)
		ms_tracee_wait(tracee, ticks);
	late = tracee->state == MS_TRACEE_RUNNING;
	if (late) {
		(void)ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL);
		ms_tracee_wait(tracee, STOP_TICKS);
	}
	return late;
}

/*
 * Let the thread run, by a PTRACE_SINGLESTEP or PTRACE_CONT, until its next stop.
 * Its own signal, if it is stopped at one, goes back to the queue.
 */
static enum run run_on(struct roll *roll, MS_PTRACE_REQUEST how)
{
	struct ms_tracee *tracee = roll->tracee;
	int signal = tracee->signal;
	bool late;

	if (signal)
		set_mask(roll, roll->mask_now | signal_bit(signal));
	roll->steps++;
	if (ptrace(how, tracee->tid, NULL, (uintptr_t)signal))
		return RUN_OVER;
	tracee->state = MS_TRACEE_RUNNING;
	late = wait_or_interrupt(tracee, roll->patience);
	/* It has a long way, or waits for its turn on a crowded machine. */
	if (late && roll->patience < LONGEST_TICKS)
		roll->patience *= 2;
	if (tracee->state != MS_TRACEE_STOPPED)
		return RUN_OVER;
	/* It may have come to a breakpoint just when it was interrupted. */
	if (is_our_trap(tracee)) {
		tracee->signal = 0;
		return RUN_TRAPPED;
	}
	return late ? RUN_LATE : RUN_OTHERWISE;
}

static enum run step(struct roll *roll)
{
	return run_on(roll, PTRACE_SINGLESTEP);
}

static bool is_at(const struct roll *roll, ms_addr pc)
{
	ms_addr now;

	return roll->arch->stepping->pc(roll->tracee->tid, &now) && now == pc;
}

static void clear_breaks(const struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	if (!tracee->breaks || tracee->state != MS_TRACEE_STOPPED)
		return;
	freezer->arch->stepping->clear_breaks(tracee->tid);
	tracee->breaks = false;
}

/* Let the thread run freely until it comes to one of @n addresses; step when that cannot be. */
static enum run run_to(struct roll *roll, const ms_addr *at, size_t n)
{
	enum run run;

	if (!n || roll->no_breaks)
		return step(roll);
	if (!roll->arch->stepping->set_breaks(roll->tracee->tid, at, n)) {
		roll->no_breaks = true;
		return step(roll);
	}
	roll->tracee->breaks = true;
	run = run_on(roll, PTRACE_CONT);
	clear_breaks(roll->freezer, roll->tracee);
	return run;
}

/* The thread stands where it stood: go behind the repeating instruction, if it is at one. */
static enum run pass_repeating(struct roll *roll, ms_addr pc)
{
	uint8_t code[CODE_BYTES];
	size_t n = read_target(roll->tracee->tid, pc, code, sizeof(code));
	size_t len = roll->arch->stepping->repeats(code, n);
	ms_addr behind = pc + len;

	roll->stalls += !len;
	return len && !roll->no_breaks ? run_to(roll, &behind, 1) : RUN_TRAPPED;
}

/* Whether @addr, a word of the stack, is where a call returns to. */
static bool is_behind_call(const struct roll *roll, ms_addr addr)
{
	uint8_t before[CALL_BYTES];

	return read_target(roll->tracee->tid, addr - sizeof(before), before, sizeof(before)) ==
	               sizeof(before) &&
	       roll->arch->stepping->is_call(before, sizeof(before));
}

/* Whether execution may return to @addr, and is out of malloc then. */
static bool leads_out(const struct roll *roll, ms_addr addr)
{
	return ms_inside_leads_out(roll->freezer->shared, addr) && is_behind_call(roll, addr);
}

/* Where the thread, whose program counter is in malloc, may come out. Returns how many places. */
static size_t find_ways_out(const struct roll *roll, const struct ms_cpu *cpu,
                            ms_addr ways[MAX_WAYS_OUT])
{
	uint64_t stack[FAR_WORDS];
	size_t words = read_returns(roll->freezer, roll->tracee->tid, cpu, stack, FAR_WORDS);
	size_t n = 0;

	for (size_t i = 0; i < words && n < MAX_WAYS_OUT; i++)
		if (leads_out(roll, stack[i]))
			ways[n++] = stack[i];
	return n;
}

/* Let a thread that is inside go on, by the shortest way. */
static enum run go_on(struct roll *roll, const struct ms_cpu *cpu, ms_addr back)
{
	ms_addr ways[MAX_WAYS_OUT] = { back };

	return run_to(roll, ways, back ? 1 : find_ways_out(roll, cpu, ways));
}

/* Lead the thread out by traps, as far as that goes. */
static enum outcome lead_out(struct roll *roll)
{
	while (roll->steps < MAX_STEPS && roll->stalls < MAX_STALLS &&
	       ms_now_ns() < roll->freezer->roll_until_ns) {
		struct ms_cpu cpu;
		ms_addr back;
		enum run run;

		if (!is_inside(roll->freezer, roll->tracee, &cpu, &back))
			return OUTCOME_OUT;
		if (ms_inside_is_waiting(&cpu))
			return OUTCOME_WAITING;
		if (roll->tracee->signal && !can_wait(roll->tracee))
			return OUTCOME_STUCK;
		run = go_on(roll, &cpu, back);
		if (run == RUN_TRAPPED && is_at(roll, cpu.pc))
			run = pass_repeating(roll, cpu.pc);
		if (run == RUN_OVER)
			return OUTCOME_STUCK;
		roll->stalls += run == RUN_OTHERWISE;
	}
	return OUTCOME_STUCK;
}

/* Let the thread run for @ns, with no trap in its way. False when it did not stop again. */
static bool run_moment(struct roll *roll, uint64_t ns)
{
	struct ms_tracee *tracee = roll->tracee;
	uint64_t until_ns;

	roll->steps++;
	if (ptrace(PTRACE_CONT, tracee->tid, NULL, NULL))
		return false;
	tracee->state = MS_TRACEE_RUNNING;
	until_ns = ms_now_ns() + ns;
	while (ms_now_ns() < until_ns)
		;
	(void)ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL);
	ms_tracee_wait(tracee, STOP_TICKS);
	return tracee->state == MS_TRACEE_STOPPED;
}

/* Let the thread come out by itself; stuck when it is inside whenever it is looked at. */
static enum outcome let_out(struct roll *roll)
{
	for (unsigned moment = 0; moment < MOMENTS; moment++) {
		struct ms_cpu cpu;
		ms_addr back;

		/* What would handle a signal is not run: such a thread is led by traps. */
		if (roll->tracee->signal || ms_now_ns() >= roll->freezer->roll_until_ns ||
		    !run_moment(roll, (1 + moment % MOMENT_KINDS) * MOMENT_NS))
			break;
		if (!is_inside(roll->freezer, roll->tracee, &cpu, &back))
			return OUTCOME_OUT;
		if (ms_inside_is_waiting(&cpu))
			return OUTCOME_WAITING;
	}
	return OUTCOME_STUCK;
}

/* Let the thread go on to its next stop, which comes before it runs an instruction. */
static void go_to_stop(struct ms_tracee *tracee)
{
	if (ptrace(PTRACE_CONT, tracee->tid, NULL, NULL))
		return;
	tracee->state = MS_TRACEE_RUNNING;
	ms_tracee_wait(tracee, STOP_TICKS);
}

/*
 * Take our traps out of the thread's way. It may be stopped at one, or, where
 * get_signal() saw the interrupt first, have one queued; a forced signal is the
 * first that it stops at when it goes on.
 */
static void drain_traps(struct ms_tracee *tracee)
{
	for (int i = 0; i < MAX_DRAINS && tracee->state == MS_TRACEE_STOPPED; i++) {
		if (is_our_trap(tracee))
			tracee->signal = 0;
		if (tracee->signal || !has_queued_trap(tracee))
			return;
		go_to_stop(tracee);
	}
}

void ms_roll_disarm(const struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	if (!tracee->armed || tracee->state != MS_TRACEE_STOPPED)
		return;
	clear_breaks(freezer, tracee);
	drain_traps(tracee);
	if (tracee->state != MS_TRACEE_STOPPED)
		return;
	tracee->armed = false;
	(void)ptrace(PTRACE_SETSIGMASK, tracee->tid, sizeof(tracee->mask), &tracee->mask);
	/* A signal that could not wait keeps the stop, as it would have without us. */
	if (tracee->signal)
		return;
	/* Out of the stop of a step, in which the trap flag is set, into one that we ask for. */
	(void)ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL);
	go_to_stop(tracee);
}

bool ms_roll_is_thread_inside(const struct ms_freezer *freezer, const struct ms_tracee *tracee)
{
	struct ms_cpu cpu;
	ms_addr back;

	/* A thread that waits is mostly recognized by the registers alone. */
	return tracee->state == MS_TRACEE_STOPPED && ms_tracee_look(freezer, tracee, &cpu) &&
	       ms_inside_is_call(freezer->arch, cpu.call) && !ms_inside_is_waiting(&cpu) &&
	       is_inside(freezer, tracee, &cpu, &back);
}

static bool ignores_traps(pid_t pid)
{
	char status[MS_PROC_STATUS_BYTES];

	(void)ms_proc_read(pid, "status", status, sizeof(status));
	return ms_proc_field(status, "SigIgn", 16) & signal_bit(SIGTRAP);
}

static bool do_breaks_work(struct ms_freezer *freezer)
{
	if (freezer->breaks == MS_BREAKS_UNTRIED)
		freezer->breaks = ms_breaks_try(freezer->arch->stepping);
	return freezer->breaks == MS_BREAKS_WORK;
}

/* Returns whether the thread was made to run. */
static bool roll_thread(struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	struct roll roll = {
		.freezer = freezer, .arch = freezer->arch, .tracee = tracee, .patience = STEP_TICKS
	};
	enum outcome outcome = let_out(&roll);

	if (outcome == OUTCOME_STUCK && tracee->state == MS_TRACEE_STOPPED &&
	    ms_now_ns() < freezer->roll_until_ns && !ignores_traps(freezer->shared->pid) &&
	    begin(&roll)) {
		roll.no_breaks = !do_breaks_work(freezer);
		outcome = lead_out(&roll);
		ms_roll_disarm(freezer, tracee);
	}
	freezer->shared->n_rolled++;
	freezer->shared->n_unrolled += outcome == OUTCOME_STUCK;
	freezer->shared->steps += roll.steps;
	return roll.steps > 0;
}

/* Roll with the reasons for which the kernel might end this process put aside. */
static bool roll_spared(struct ms_freezer *freezer)
{
	struct ms_tracee *tracee;
	bool ran = false;
	char score[16];

	(void)ms_proc_read_path("/proc/self/oom_score_adj", score, sizeof(score));
	ms_proc_write(getpid(), "oom_score_adj", "-1000"); /* which needs a privilege */
	ms_follow_pause();
	ms_vec_for_each (tracee, &freezer->tracees)
		if (ms_roll_is_thread_inside(freezer, tracee))
			ran |= roll_thread(freezer, tracee);
	ms_follow_resume();
	ms_proc_write(getpid(), "oom_score_adj", score);
	return ran;
}

/* Whether there is anyone to lead out. */
static bool is_any_inside(const struct ms_freezer *freezer)
{
	const struct ms_tracee *tracee;

	ms_vec_for_each (tracee, &freezer->tracees)
		if (ms_roll_is_thread_inside(freezer, tracee))
			return true;
	return false;
}

bool ms_roll_all(struct ms_freezer *freezer)
{
	if (!freezer->shared->n_malloc_code || !is_any_inside(freezer))
		return false;
	freezer->roll_until_ns = ms_now_ns() + freezer->shared->roll_ns;
	return roll_spared(freezer);
}
