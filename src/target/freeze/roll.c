/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leading threads out of malloc.
 *
 * A heap that is frozen while one thread changes it does not decode: a chunk is
 * free by its neighbour's word, but in no list yet. Trying again works for most
 * programs and never for some, so with everything frozen each thread inside
 * malloc is let run alone until it has left:
 *
 *	in malloc's own instructions    one step at a time
 *	in memset, sbrk and the like    in one go, to a breakpoint (a debug register)
 *	                                at the return address into malloc
 *	at a repeating instruction,     in one go, to a breakpoint behind it: it traps
 *	which traps per iteration       once for each iteration otherwise
 *	asleep (waiting for a lock)     not at all: who waits is consistent
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
 * That is the danger while rolling: should this process be killed meanwhile, the
 * thread that it steps would die of SIGTRAP. Therefore it is not to die with its
 * parent just then, is no choice for the kernel when memory runs out, and the
 * time is limited. A program that runs a signal handler inside malloc is not
 * recognised.
 */
#include "target/freeze/roll.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/proc.h"

enum {
	MAX_STEPS = 20000, /* for one thread */
	MAX_STALLS = 64,   /* steps that did not move the thread */
	MAX_MISSES = 3,    /* breakpoints that it did not come to in time */
	STEP_TICKS = 2,
	STOP_TICKS = 50,
	CODE_BYTES = 16,
};

static const uint64_t MAX_ROLL_NS = 250000000;

/* What happened to a thread that was let run. */
enum run { RUN_TRAPPED, RUN_OTHERWISE, RUN_LATE, RUN_OVER };

enum outcome { OUTCOME_OUT, OUTCOME_WAITING, OUTCOME_STUCK };

/* One thread being led out. */
struct roll {
	struct ms_freezer *freezer;
	const struct ms_arch *arch;
	struct ms_tracee *tracee;
	uint64_t mask;     /* its own blocked signals */
	uint64_t mask_now; /* what it has instead */
	bool no_breaks;    /* debug registers were refused */
	unsigned steps;
	unsigned stalls;
	unsigned misses;
};

static bool is_in(const struct ms_range *ranges, uint32_t n, ms_addr addr)
{
	for (uint32_t i = 0; i < n && i < MS_CODE_RANGES; i++)
		if (ms_range_has(ranges[i], addr))
			return true;
	return false;
}

bool ms_roll_is_inside(const struct ms_collection *code, ms_addr pc, const uint64_t *stack,
                       size_t n, ms_addr *ret_back)
{
	*ret_back = 0;
	if (is_in(code->malloc_code, code->n_malloc_code, pc))
		return true;
	if (!is_in(code->libc_code, code->n_libc_code, pc))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (is_in(code->malloc_code, code->n_malloc_code, stack[i])) {
			*ret_back = stack[i];
			return true;
		}
	}
	return false;
}

bool ms_roll_is_waiting(const struct ms_cpu *cpu)
{
	enum { ERESTARTSYS = 512, ERESTART_RESTARTBLOCK = 516 }; /* include/linux/errno.h */

	return cpu->call >= 0 && ((cpu->result <= -ERESTARTSYS &&
	                           cpu->result >= -ERESTART_RESTARTBLOCK) ||
	                          cpu->result == -EINTR);
}

/* Read up to @len bytes of the target. Returns how many. */
static size_t read_target(pid_t tid, ms_addr addr, void *buf, size_t len)
{
	struct iovec local = { buf, len };
	struct iovec remote = { (void *)(uintptr_t)addr, len }; /* NOLINT(performance-no-int-to-ptr) */
	ssize_t n = process_vm_readv(tid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

/* Where the thread is: inside malloc, and whether it waits there. */
static bool is_inside(const struct ms_freezer *freezer, pid_t tid, struct ms_cpu *cpu,
                      ms_addr *ret_back)
{
	const struct ms_collection *code = freezer->shared;
	uint64_t stack[MS_ROLL_STACK_WORDS];
	size_t n = 0;

	if (!freezer->arch->look(tid, cpu))
		return false;
	if (is_in(code->libc_code, code->n_libc_code, cpu->pc))
		n = read_target(tid, cpu->sp, stack, sizeof(stack)) / sizeof(stack[0]);
	return ms_roll_is_inside(code, cpu->pc, stack, n, ret_back);
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
	if (ptrace(PTRACE_GETSIGMASK, roll->tracee->tid, sizeof(roll->mask), &roll->mask))
		return false;
	roll->mask_now = roll->mask;
	set_mask(roll, roll->mask & ~signal_bit(SIGTRAP));
	return true;
}

/* Whether the signal-delivery stop that the thread is in reports a step or breakpoint of ours. */
static bool is_our_trap(const struct ms_tracee *tracee)
{
	siginfo_t info;

	return tracee->signal == SIGTRAP &&
	       !ptrace(PTRACE_GETSIGINFO, tracee->tid, NULL, &info) &&
	       (info.si_code == TRAP_TRACE || info.si_code == TRAP_HWBKPT ||
	        info.si_code == TRAP_BRKPT); /* so a step over a system call reports itself */
}

/* Whether the stop's signal can wait until the thread has left: nobody needs it now. */
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

/* Stop a thread that did not come back by itself. */
static enum run call_back(struct roll *roll)
{
	(void)ptrace(PTRACE_INTERRUPT, roll->tracee->tid, NULL, NULL);
	ms_tracee_wait(roll->tracee, STOP_TICKS);
	return roll->tracee->state == MS_TRACEE_STOPPED ? RUN_LATE : RUN_OVER;
}

/*
 * Let the thread run, by a PTRACE_SINGLESTEP or PTRACE_CONT, until its next stop.
 * Its own signal, if it is stopped at one, goes back to the queue.
 */
static enum run run_on(struct roll *roll, enum __ptrace_request how)
{
	struct ms_tracee *tracee = roll->tracee;
	int signal = tracee->signal;

	if (signal)
		set_mask(roll, roll->mask_now | signal_bit(signal));
	tracee->state = MS_TRACEE_RUNNING;
	roll->steps++;
	if (ptrace(how, tracee->tid, NULL, (uintptr_t)signal))
		return RUN_OVER;
	ms_tracee_wait(tracee, STEP_TICKS);
	if (tracee->state == MS_TRACEE_RUNNING)
		return call_back(roll);
	if (tracee->state != MS_TRACEE_STOPPED)
		return RUN_OVER;
	if (!is_our_trap(tracee))
		return RUN_OTHERWISE;
	tracee->signal = 0;
	return RUN_TRAPPED;
}

/* Let the thread run freely until it comes to @addr. */
static enum run run_to(struct roll *roll, ms_addr addr)
{
	enum run run;

	if (roll->no_breaks || roll->misses >= MAX_MISSES ||
	    !roll->arch->stepping->set_break(roll->tracee->tid, addr)) {
		roll->no_breaks = true;
		return run_on(roll, PTRACE_SINGLESTEP);
	}
	run = run_on(roll, PTRACE_CONT);
	roll->misses += run == RUN_LATE;
	if (run != RUN_OVER)
		roll->arch->stepping->clear_break(roll->tracee->tid);
	return run;
}

/* The thread stands where it stood: behind the repeating instruction, then, if it is at one. */
static enum run pass_repeating(struct roll *roll, ms_addr pc)
{
	uint8_t code[CODE_BYTES];
	size_t n = read_target(roll->tracee->tid, pc, code, sizeof(code));
	size_t len = roll->arch->stepping->repeats(code, n);

	roll->stalls += !len;
	return len ? run_to(roll, pc + len) : RUN_TRAPPED;
}

static enum run step(struct roll *roll, ms_addr pc)
{
	enum run run = run_on(roll, PTRACE_SINGLESTEP);
	ms_addr now;

	if (run == RUN_TRAPPED && roll->arch->stepping->pc(roll->tracee->tid, &now) && now == pc)
		run = pass_repeating(roll, pc);
	return run;
}

/* Let a thread that is inside go on, by the shortest way. */
static enum outcome lead_out(struct roll *roll)
{
	while (roll->steps < MAX_STEPS && roll->stalls < MAX_STALLS) {
		struct ms_cpu cpu;
		ms_addr back;
		enum run run;

		if (!is_inside(roll->freezer, roll->tracee->tid, &cpu, &back))
			return OUTCOME_OUT;
		if (ms_roll_is_waiting(&cpu))
			return OUTCOME_WAITING;
		if (roll->tracee->signal && !can_wait(roll->tracee))
			return OUTCOME_STUCK;
		run = back ? run_to(roll, back) : step(roll, cpu.pc);
		if (run == RUN_OVER)
			return OUTCOME_STUCK;
		roll->stalls += run != RUN_TRAPPED;
	}
	return OUTCOME_STUCK;
}

/* Bring the thread into a stop from which it goes on unharmed whoever dies. */
static void park(struct roll *roll)
{
	struct ms_tracee *tracee = roll->tracee;

	if (tracee->state != MS_TRACEE_STOPPED)
		return;
	set_mask(roll, roll->mask);
	/* A signal that may not wait keeps the stop, as it would have without us. */
	if (tracee->signal)
		return;
	(void)ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL);
	tracee->state = MS_TRACEE_RUNNING;
	if (!ptrace(PTRACE_CONT, tracee->tid, NULL, NULL))
		ms_tracee_wait(tracee, STOP_TICKS);
}

/* Returns whether the thread was made to run. */
static bool roll_one(struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	struct roll roll = { .freezer = freezer, .arch = freezer->arch, .tracee = tracee };
	enum outcome outcome = OUTCOME_STUCK;
	struct ms_cpu cpu;
	ms_addr back;

	if (tracee->state != MS_TRACEE_STOPPED ||
	    !is_inside(freezer, tracee->tid, &cpu, &back) || ms_roll_is_waiting(&cpu))
		return false;
	if (ms_now_ns() < freezer->roll_until_ns && begin(&roll)) {
		outcome = lead_out(&roll);
		park(&roll);
	}
	freezer->shared->n_rolled++;
	freezer->shared->n_unrolled += outcome == OUTCOME_STUCK;
	freezer->shared->steps += roll.steps;
	return roll.steps > 0;
}

static void write_score(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, score, strlen(score)); /* lowering it needs a privilege */
	(void)close(fd);
}

/* Roll with the reasons for which the kernel might end this process put aside. */
static bool roll_spared(struct ms_freezer *freezer)
{
	struct ms_tracee *tracee;
	bool ran = false;
	char score[16];

	(void)ms_proc_read_path("/proc/self/oom_score_adj", score, sizeof(score));
	write_score("-1000");
	(void)prctl(PR_SET_PDEATHSIG, 0);
	ms_vec_for_each (tracee, &freezer->tracees)
		ran |= roll_one(freezer, tracee);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	write_score(score);
	return ran;
}

/* Whether there is anyone to lead out, seen from the registers alone. */
static bool is_any_inside(const struct ms_freezer *freezer)
{
	const struct ms_tracee *tracee;

	ms_vec_for_each (tracee, &freezer->tracees) {
		struct ms_cpu cpu;
		ms_addr back;

		if (tracee->state == MS_TRACEE_STOPPED &&
		    is_inside(freezer, tracee->tid, &cpu, &back) && !ms_roll_is_waiting(&cpu))
			return true;
	}
	return false;
}

static bool ignores_traps(pid_t pid)
{
	char status[MS_PROC_STATUS_BYTES];

	(void)ms_proc_read(pid, "status", status, sizeof(status));
	return ms_proc_field(status, "SigIgn", 16) & signal_bit(SIGTRAP);
}

bool ms_roll_all(struct ms_freezer *freezer)
{
	if (!freezer->shared->n_malloc_code || !is_any_inside(freezer) ||
	    ignores_traps(freezer->shared->pid))
		return false;
	freezer->roll_until_ns = ms_now_ns() + MAX_ROLL_NS;
	return roll_spared(freezer);
}
