/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"
#include "target/freeze/inside.h"

/*
 * A libc at 0x10000, its malloc at 0x14000; a program at 0x1000; a library that is an
 * allocator at 0x30000; the vDSO at 0x40000.
 */
static const struct ms_collection code = {
	.n_malloc_code = 2,
	.n_libc_code = 2,
	.malloc_code = { { 0x14000, 0x18000 }, { 0x30000, 0x38000 } },
	.libc_code = { { 0x10000, 0x20000 }, { 0x40000, 0x42000 } },
	.n_all_code = 4,
	.all_code = { { 0x1000, 0x2000 },
	              { 0x10000, 0x20000 },
	              { 0x30000, 0x38000 },
	              { 0x40000, 0x42000 } },
};

static const struct {
	const char *what;
	ms_addr pc;
	uint64_t stack[4];
	bool inside;
	ms_addr back;
} cases[] = {
	{ "in malloc", 0x14000, { 0 }, true, 0 },
	{ "at malloc's last byte", 0x17fff, { 0 }, true, 0 },
	{ "behind malloc", 0x18000, { 0 }, false, 0 },
	{ "memset called from malloc", 0x19000, { 0x14abc }, true, 0x14abc },
	{ "brk called from sbrk from malloc", 0x19000, { 0x1a000, 7, 0x14abc }, true, 0x14abc },
	{ "memset called from the program, malloc's address left below",
	  0x19000,
	  { 0x1500, 0x14abc },
	  false,
	  0 },
	{ "too deep to be malloc's callee",
	  0x19000,
	  { 0x1a000, 0x1a100, 0x1a200, 0x14abc },
	  false,
	  0 },
	{ "in another allocator", 0x37fff, { 0 }, true, 0 },
	{ "libc called from there", 0x19000, { 0x30abc }, true, 0x30abc },
	{ "the vDSO called from libc from there", 0x41000, { 0x19000, 0x30abc }, true, 0x30abc },
	{ "there, called from libc's malloc", 0x30100, { 0x14abc }, true, 0 },
	{ "the program called from there", 0x1500, { 0x30abc }, false, 0 },
	{ "libc, not from malloc", 0x19000, { 1, 2, 3, 4 }, false, 0 },
	{ "the program, malloc's address on the stack", 0x1500, { 0x14abc }, false, 0 },
};

Test(inside, is_malloc_and_what_it_calls)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ms_addr back = 1;

		cr_expect_eq(ms_inside_is(&code, cases[i].pc, cases[i].stack, 4, &back),
		             cases[i].inside, "%s", cases[i].what);
		cr_expect_eq(back, cases[i].back, "%s", cases[i].what);
	}
}

static const struct {
	const char *what;
	struct ms_cpu cpu;
	bool waiting;
} waits[] = {
	{ "futex that the kernel restarts", { .call = SYS_futex, .result = -512 }, true },
	{ "with a time-out", { .call = SYS_futex, .result = -516 }, true },
	{ "a call we broke off", { .call = SYS_epoll_pwait, .result = -EINTR }, true },
	{ "a call that is done", { .call = SYS_brk, .result = 0x5555 }, false },
	{ "no call", { .call = -1, .result = -512 }, false },
	{ "a call that failed", { .call = SYS_mmap, .result = -ENOMEM }, false },
	{ "not a restart code", { .call = SYS_read, .result = -517 }, false },
};

Test(inside, waiting_is_a_call_that_will_be_made_again)
{
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		cr_expect_eq(ms_inside_is_waiting(&waits[i].cpu), waits[i].waiting, "%s",
		             waits[i].what);
}

/* ---- a captured thread, with its stack ---- */

enum { STACK = 0x50000, SP = STACK + 0x100, MARK = 0x33 };

/* In place of an offset: words of a signal frame that has its mark at 0x400, and where what was
 * interrupted has its return address. */
enum { SAVED_PC = 1, SAVED_SP, ON_TOP, SAVED_LAST };

static const struct {
	const char *what;
	ms_addr pc;
	int64_t call, result;
	struct {
		ms_addr offset; /* from SP on */
		uint64_t word;
	} stack[5];
	enum ms_in_malloc want;
	ms_addr at; /* malloc's instruction */
} marks[] = {
	{ "in malloc", 0x14000, -1, 0, { { 0 } }, MS_MALLOC_WORKS, 0x14000 },
	{ "in the program", 0x1500, -1, 0, { { 0, 0x14abc } }, MS_MALLOC_OUT, 0 },
	{ "in brk, called from malloc",
	  0x19000,
	  SYS_brk,
	  0,
	  { { 0, 0x14abc } },
	  MS_MALLOC_WORKS,
	  0x14abc },
	{ "in a call that malloc does not make",
	  0x19000,
	  SYS_pwrite64,
	  0,
	  { { 0, 0x14abc } },
	  MS_MALLOC_OUT,
	  0 },
	{ "waiting for a lock of malloc's",
	  0x19000,
	  SYS_futex,
	  -512,
	  { { 8, 0x14abc } },
	  MS_MALLOC_WAITS,
	  0x14abc },
	{ "waiting for another lock",
	  0x19000,
	  SYS_futex,
	  -512,
	  { { 8, 0x1500 } },
	  MS_MALLOC_OUT,
	  0 },
	{ "asleep in a page of malloc's, uninterruptible",
	  0x14abc,
	  -1,
	  0,
	  { { 0 } },
	  MS_MALLOC_WORKS,
	  0x14abc },
	{ "a handler, malloc interrupted",
	  0x1500,
	  -1,
	  0,
	  { { SAVED_SP, 0x50800 }, { SAVED_PC, 0x14abc }, { 0x400, MARK } },
	  MS_MALLOC_WORKS,
	  0x14abc },
	{ "a handler that sleeps, memset called from malloc interrupted",
	  0x19800,
	  SYS_ppoll,
	  -514,
	  { { SAVED_SP, 0x50800 }, { SAVED_PC, 0x19000 }, { 0x400, MARK }, { ON_TOP, 0x14abc } },
	  MS_MALLOC_WORKS,
	  0x14abc },
	{ "a handler, the program interrupted",
	  0x1500,
	  -1,
	  0,
	  { { SAVED_SP, 0x50800 }, { SAVED_PC, 0x1600 }, { 0x400, MARK } },
	  MS_MALLOC_OUT,
	  0 },
	{ "a handler, a libc function with a frame interrupted, malloc's address left in it",
	  0x1500,
	  -1,
	  0,
	  { { SAVED_SP, 0x50800 }, { SAVED_PC, 0x19000 }, { 0x400, MARK }, { 0x708, 0x14abc } },
	  MS_MALLOC_OUT,
	  0 },
	{ "another allocator that waits for a lock",
	  0x19000,
	  SYS_futex,
	  -516,
	  { { 8, 0x30abc } },
	  MS_MALLOC_WAITS,
	  0x30abc },
	{ "another allocator asking for the time",
	  0x41000,
	  -1,
	  0,
	  { { 0, 0x19000 }, { 8, 0x30abc } },
	  MS_MALLOC_WORKS,
	  0x30abc },
	{ "no frame of a signal's", 0x1500, -1, 0, { { SAVED_PC, 0x14abc } }, MS_MALLOC_OUT, 0 },
};

static ms_addr offset_of(ms_addr drawn)
{
	const struct ms_signal_mark *frame = &ms_native_arch.signal_mark;
	const ms_addr saved[SAVED_LAST] = {
		[SAVED_PC] = 0x400 - 8 * (ms_addr)frame->pc,
		[SAVED_SP] = 0x400 - 8 * (ms_addr)frame->sp,
		[ON_TOP] = frame->link ? 0x400 - 8 * (ms_addr)frame->link : 0x700,
	};

	return drawn && drawn < SAVED_LAST ? saved[drawn] : drawn;
}

static bool may_be_inside(size_t i)
{
	return ms_inside_is_call(&ms_native_arch, marks[i].call);
}

static void mark(size_t i, const struct ms_collection *libc, enum ms_in_malloc want)
{
	static union {
		struct ms_collection collection;
		char bytes[sizeof(struct ms_collection) + sizeof(struct ms_frozen_thread)];
	} frozen;
	struct ms_fake fake;

	ms_fake_init(&fake);
	(void)ms_fake_map(&fake, STACK, 0x2000, MS_PROT_READ | MS_PROT_WRITE, "");
	(void)ms_fake_thread(&fake, 7, SP, 0);
	for (size_t k = 0; k < 5; k++)
		if (marks[i].stack[k].word)
			ms_fake_put(&fake, SP + offset_of(marks[i].stack[k].offset),
			            marks[i].stack[k].word == MARK ? ms_native_arch.signal_mark.word
			                                           : marks[i].stack[k].word);
	frozen.collection = *libc;
	frozen.collection.arch = &ms_native_arch;
	frozen.collection.live_tid = getpid(); /* Criterion's workers handle signals */
	frozen.collection.threads[0] = (struct ms_frozen_thread){ .tid = 7,
		                                                  .stopped = 1,
		                                                  .pc = marks[i].pc,
		                                                  .sp = SP,
		                                                  .call = marks[i].call,
		                                                  .result = marks[i].result };
	ms_inside_mark(&frozen.collection, &fake.base);
	cr_expect_eq(fake.base.threads.at[0].in_malloc, want, "%s", marks[i].what);
	cr_expect_eq(fake.base.threads.at[0].runs, may_be_inside(i) && marks[i].result >= 0, "%s",
	             marks[i].what);
	cr_expect_eq(fake.base.threads.at[0].may_wait, may_be_inside(i) && marks[i].result < 0,
	             "%s", marks[i].what);
	cr_expect_eq(fake.base.n_malloc_code, libc->n_malloc_code);
	cr_expect_eq(fake.base.malloc_code, frozen.collection.malloc_code);
	cr_expect_eq(fake.base.threads.at[0].malloc_at, libc->n_malloc_code ? marks[i].at : 0, "%s",
	             marks[i].what);
	ms_fake_deinit(&fake);
}

static void handle(int number)
{
	(void)number;
}

Test(inside, a_thread_left_inside_is_marked)
{
	cr_assert(signal(SIGUSR1, handle) != SIG_ERR);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		mark(i, &code, marks[i].want);
}

/* Without malloc's code nobody knows where a thread is that runs, nor for what another waits. */
Test(inside, where_malloc_is_not_known_whoever_runs_or_waits_may_be_inside)
{
	static const struct ms_collection unknown;

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		mark(i, &unknown,
		     !may_be_inside(i)      ? MS_MALLOC_OUT
		     : marks[i].result >= 0 ? MS_MALLOC_WORKS
		                            : MS_MALLOC_WAITS);
}
