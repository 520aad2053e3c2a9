/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of malloc can be long: malloc_consolidate() walks through all that the fastbins
 * held, free() of a thread's end through its cache. So the clone runs at full speed, to
 * traps in its own copy of the code, at every place that its stack says execution could
 * return to:
 *
 *	sp ─▶ │ locals of malloc's functions, return addresses in malloc,
 *	      │ stale words
 *	      │ ──▶ the return address that leads out      ◀─ its trap is met first
 *	      │ the caller's locals, its return address    ◀─ traps that are never met
 *
 * A stale word may be an address that malloc itself passes, in memset() say; the trap
 * there is taken out when it is met. Nothing of the program can run: the first of its
 * instructions is where the trap is. Should the stack hold no such word, because a way of
 * calling is unknown here, then what the program would do is kept from having effects: no
 * system call is made but those that malloc makes, and what is not out in time is stuck.
 *
 * A lock that is held is seen before the thread sleeps: the call that would sleep is not
 * made.
 */
#include "target/clone/lead.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libc.h"
#include "target/clone/inject.h"
#include "target/freeze/inside.h"

enum {
	STACK_WORDS = 2048, /* malloc_info() has the largest frame, of 5 KiB */
	MAX_WAYS = 256,
	MAX_STOPS = 4096, /* system calls and traps on the way */
	TRAP_STOP = 5,    /* SIGTRAP */
};

static const uint64_t STOP_NS = 1000000000; /* for an interrupted thread to stop */

struct way {
	ms_addr at;
	uint8_t was[sizeof(((struct ms_trap *)NULL)->code)];
};

struct lead {
	struct ms_freezer *freezer;
	const struct ms_arch_stepping *stepping;
	struct ms_tracee *image;
	struct way ways[MAX_WAYS];
	size_t n_ways;
};

/* Read up to @len bytes of the clone. Returns how many. */
static size_t read_image(const struct lead *l, ms_addr addr, void *buf, size_t len)
{
	struct iovec local = { buf, len };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	struct iovec remote = { (void *)(uintptr_t)addr, len };
	ssize_t n = process_vm_readv(l->image->tid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

/* ---- traps ---- */

/* Put @len bytes, which do not cross a multiple of 8, to @addr in code; @was gets what was there.
 */
static bool exchange(const struct lead *l, ms_addr addr, const uint8_t *bytes, uint8_t *was)
{
	size_t len = l->stepping->trap.len;
	ms_addr base = ms_align_down(addr, sizeof(uint64_t));
	uint8_t word[sizeof(uint64_t)];
	uint64_t value;

	/* The raw call stores the word; the C library's function returns it. */
	if (syscall(SYS_ptrace, PTRACE_PEEKTEXT, l->image->tid, base, word))
		return false;
	if (was)
		memcpy(was, word + (addr - base), len);
	memcpy(word + (addr - base), bytes, len);
	memcpy(&value, word, sizeof(value));
	return !ptrace(PTRACE_POKETEXT, l->image->tid, base, value);
}

static bool has_way(const struct lead *l, ms_addr at)
{
	for (size_t i = 0; i < l->n_ways; i++)
		if (l->ways[i].at == at)
			return true;
	return false;
}

/* Where the thread at @cpu may return to, of at most @n words: by its register, and its stack. */
static size_t read_returns(const struct lead *l, const struct ms_cpu *cpu, uint64_t *words,
                           size_t n)
{
	const struct ms_abi *abi = &l->freezer->arch->abi;
	size_t got = ms_inside_put_link(cpu->link, words);
	size_t more;

	more = read_image(l, cpu->sp, words + got, (n - got) * abi->word_bytes) / abi->word_bytes;
	ms_abi_spread(abi, words + got, more);
	got += more;
	ms_inside_unsign(l->freezer->arch, words, got);
	return got;
}

static void set_traps(struct lead *l, const struct ms_cpu *cpu)
{
	const struct ms_collection *code = l->freezer->shared;
	uint64_t stack[STACK_WORDS];
	size_t n = read_returns(l, cpu, stack, STACK_WORDS);

	for (size_t i = 0; i < n && l->n_ways < MAX_WAYS; i++) {
		struct way *way = &l->ways[l->n_ways];

		if (!ms_inside_leads_out(code, stack[i]) || has_way(l, stack[i]))
			continue;
		way->at = stack[i];
		l->n_ways += exchange(l, way->at, l->stepping->trap.code, way->was);
	}
}

static void take_trap(struct lead *l, size_t i)
{
	(void)exchange(l, l->ways[i].at, l->ways[i].was, NULL);
	l->ways[i] = l->ways[--l->n_ways];
}

/* The thread met a trap: set it to where that is. False when it is none of ours. */
static bool step_back(struct lead *l)
{
	ms_addr pc;

	if (!l->stepping->pc(l->image->tid, &pc))
		return false;
	pc -= l->stepping->trap.behind;
	for (size_t i = 0; i < l->n_ways; i++) {
		if (l->ways[i].at != pc)
			continue;
		take_trap(l, i);
		return l->stepping->set_pc(l->image->tid, pc);
	}
	return false;
}

/* ---- system calls ---- */

static bool is_held(const struct lead *l, const struct ms_cpu *cpu)
{
	uint32_t word;

	return read_image(l, cpu->args[0], &word, sizeof(word)) == sizeof(word) &&
	       word == (uint32_t)cpu->args[2];
}

enum verdict { MAKE, WAIT, REFUSE };

/* What malloc advises of its own memory; nothing that reaches a file that is shared. */
static enum verdict judge_advice(int advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_FREE:
	case MADV_HUGEPAGE:
	case MADV_NOHUGEPAGE:
	case MADV_DONTDUMP:
	case MADV_DODUMP:
		return MAKE;
	default:
		return REFUSE;
	}
}

/*
 * Whether malloc makes such a call. It also reads what the kernel says of processors and
 * of overcommitting.
 */
static enum verdict judge(const struct lead *l, const struct ms_cpu *cpu)
{
	switch (ms_arch_own_call(l->freezer->arch, cpu->call)) {
	case SYS_futex:
		switch ((int)cpu->args[1] & FUTEX_CMD_MASK) {
		case FUTEX_WAKE:
			return MAKE;
		case FUTEX_WAIT:
		case FUTEX_WAIT_BITSET:
			return is_held(l, cpu) ? WAIT : MAKE;
		default:
			return REFUSE;
		}
	case SYS_madvise:
		return judge_advice((int)cpu->args[2]);
	case SYS_prctl:
		return cpu->args[0] == PR_SET_VMA ? MAKE : REFUSE;
	case SYS_openat:
		return (cpu->args[2] & (O_ACCMODE | O_CREAT | O_TRUNC)) == O_RDONLY ? MAKE : REFUSE;
	case SYS_read:
	case SYS_close:
	case SYS_rt_sigprocmask: /* of the clone alone; libunwind's, which tcmalloc calls */
		return MAKE;
	default:
		return ms_inside_is_call(l->freezer->arch, cpu->call) ? MAKE : REFUSE;
	}
}

/* Have the thread, which stands at the instruction of a call, make it. */
static bool make_call(const struct lead *l)
{
	enum { BEFORE_AND_BEHIND = 2 };

	for (int stops = 0; stops < BEFORE_AND_BEHIND; stops++)
		if (ptrace(PTRACE_SYSCALL, l->image->tid, NULL, NULL) ||
		    ms_inject_next_stop(l->image->tid, l->freezer->roll_until_ns) != MS_STOP_CALL)
			return false;
	return true;
}

/* The thread stands before a call that will not be made: make it, if that may be. */
static enum verdict take_call(const struct lead *l)
{
	const struct ms_arch *arch = l->freezer->arch;
	enum verdict verdict;
	struct ms_cpu cpu;

	if (!arch->look(l->image->tid, &cpu))
		return REFUSE;
	verdict = judge(l, &cpu);
	if (verdict == REFUSE || !arch->rewind(l->image->tid, NULL))
		return REFUSE;
	return verdict == MAKE && !make_call(l) ? REFUSE : verdict;
}

/* ---- the way ---- */

/* Whether the thread, which stands where a trap was, is outside of malloc. */
static bool is_out(const struct lead *l)
{
	const struct ms_collection *code = l->freezer->shared;
	uint64_t stack[MS_NEAR_WORDS];
	struct ms_cpu cpu;
	ms_addr back;
	size_t n;

	if (!l->freezer->arch->look(l->image->tid, &cpu))
		return false;
	n = read_returns(l, &cpu, stack, MS_NEAR_WORDS);
	return !ms_inside_is(code, cpu.pc, stack, n, &back);
}

/* Have a thread that is late, or anywhere, stop; or know that it is gone. */
static void stop(struct lead *l)
{
	uint64_t until_ns = ms_now_ns() + STOP_NS;

	if (ptrace(PTRACE_INTERRUPT, l->image->tid, NULL, NULL) ||
	    ms_inject_next_stop(l->image->tid, until_ns) == MS_STOP_ENDED)
		l->image->state = MS_TRACEE_GONE;
}

static enum ms_led run(struct lead *l)
{
	for (int i = 0; i < MAX_STOPS; i++) {
		int status;

		/* Which stops before a system call and does not make it. */
		if (ptrace(PTRACE_SYSEMU, l->image->tid, NULL, NULL))
			return MS_LED_STUCK;
		status = ms_inject_next_stop(l->image->tid, l->freezer->roll_until_ns);
		if (status == MS_STOP_ENDED) {
			stop(l);
			return MS_LED_STUCK;
		}
		if (status == MS_STOP_CALL) {
			enum verdict verdict = take_call(l);

			if (verdict != MAKE)
				return verdict == WAIT ? MS_LED_WAITING : MS_LED_STUCK;
		} else if (status != TRAP_STOP || !step_back(l)) {
			return MS_LED_STUCK;
		} else if (is_out(l)) {
			return MS_LED_OUT;
		}
	}
	return MS_LED_STUCK;
}

enum ms_led ms_lead_out(struct ms_freezer *freezer, struct ms_tracee *image)
{
	struct lead *l = ms_arena_alloc(&freezer->arena, sizeof(*l));
	enum ms_led led = MS_LED_STUCK;
	struct ms_cpu cpu;

	if (!l || !freezer->arch->look(image->tid, &cpu))
		return MS_LED_STUCK;
	l->freezer = freezer;
	l->stepping = freezer->arch->stepping;
	l->image = image;
	set_traps(l, &cpu);
	if (l->n_ways)
		led = run(l);
	while (image->state == MS_TRACEE_STOPPED && l->n_ways)
		take_trap(l, 0);
	return led;
}
