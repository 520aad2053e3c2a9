/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/inject/sharing.h"
#include "target/inject/stopped/words.h"
#include "target/proc.h"

/* Stacks in memory of our own, of threads that there are not. */
enum {
	BYTES = 1 << 20,
	SP = 0x1000,
	TP = 0x8000,
	OTHER = 0x80000,
	SPARSE = 8 << 20,
	LARGE = 64 << 20,
	MOST = 1000,
};

/* No memory beside has such words. */
#define ODD UINT64_C(0xfedcba9870000)
static struct ms_range ranges[] = { { ODD + 0x4000, ODD + 0x4010 },
	                            { ODD + 0x5005, ODD + 0x5006 } };
static const struct ms_ranges wanted = { ranges, 2, 2 };
static struct ms_collection *frozen;
static struct ms_words_search search;
static struct ms_arena arena;
static ms_addr base;

static ms_addr map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert_neq(memory, MAP_FAILED);
	(void)madvise(memory, bytes, MADV_NOHUGEPAGE);
	return (uintptr_t)memory;
}

static void setup(void)
{
	base = map(BYTES);
	frozen = calloc(1, sizeof(*frozen) + MOST * sizeof(frozen->threads[0]));
	frozen->n_threads = 1;
	frozen->threads[0] =
		(struct ms_frozen_thread){ .tid = getpid(), .sp = base + SP, .tp = base + TP };
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
	free(frozen);
}

TestSuite(inject_words, .init = setup, .fini = teardown);

static void *at(ms_addr addr)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is our own */
	return (void *)(uintptr_t)addr;
}

static void put(ms_addr offset, uint64_t word)
{
	memcpy(at(base + offset), &word, sizeof(word));
}

static void prepare(pid_t pid)
{
	struct ms_error err;

	if (search.words)
		ms_words_end(&search);
	search = (struct ms_words_search){ .max_threads = MOST };
	cr_assert_eq(ms_words_prepare(&search, pid, &wanted, &arena, &err), MS_OK, "%s", err.text);
	/* A machine may be slow; what is read is counted. */
	search.limit_ns = UINT64_MAX / 2;
}

static enum ms_words_verdict find(void)
{
	pid_t tid;
	enum ms_words_verdict verdict = ms_words_find(&search, frozen, &wanted, &tid);

	cr_assert_eq(tid, verdict == MS_WORDS_FOUND ? getpid() : 0);
	return verdict;
}

static bool found(void)
{
	enum ms_words_verdict verdict;

	prepare(getpid());
	verdict = find();
	cr_assert_neq(verdict, MS_WORDS_UNKNOWN);
	return verdict == MS_WORDS_FOUND;
}

Test(inject_words, are_none_on_an_empty_stack)
{
	cr_expect_not(found());
}

Test(inject_words, are_found_from_the_stack_pointer_to_the_control_block)
{
	static const ms_addr live[] = { SP, SP + 8, TP - 8 };

	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
		put(live[i], ODD + 0x4000);
		cr_expect(found(), "at %#lx", (unsigned long)live[i]);
		put(live[i], 0);
	}
	put(SP - 8, ODD + 0x4000);
	put(TP, ODD + 0x4000);
	cr_expect_not(found());
}

Test(inject_words, are_those_within_the_ranges)
{
	static const struct {
		uint64_t word;
		bool is;
	} cases[] = { { ODD + 0x3fff, false }, { ODD + 0x4000, true },  { ODD + 0x400f, true },
		      { ODD + 0x4010, false }, { ODD + 0x5004, false }, { ODD + 0x5005, true },
		      { ODD + 0x5006, false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put(SP + 64, cases[i].word);
		cr_expect_eq(found(), cases[i].is, "%#lx", (unsigned long)cases[i].word);
	}
}

Test(inject_words, are_looked_for_to_the_end_of_the_mapping_without_a_control_block)
{
	frozen->threads[0].tp = 0;
	put(BYTES - 8, ODD + 0x4000);
	cr_expect(found());
}

Test(inject_words, are_found_in_every_piece_of_a_large_stack)
{
	frozen->threads[0].tp = base + BYTES - 64;
	for (ms_addr place = SP; place < BYTES - 64; place += 0x3ff8) {
		put(place, ODD + 0x4000);
		cr_expect(found(), "at %#lx", (unsigned long)place);
		put(place, 0);
	}
}

Test(inject_words, of_any_thread_are_found)
{
	frozen->n_threads = 2;
	frozen->threads[1] = frozen->threads[0];
	frozen->threads[1].sp = base + OTHER;
	frozen->threads[1].tp = base + OTHER + 0x1000;
	put(OTHER + 8, ODD + 0x4000);
	cr_expect(found());
}

/* A handler on a signal stack at SP, that has interrupted the stack at OTHER. */
static void draw_signal_frame(ms_addr place)
{
	const struct ms_signal_layout *layout = &ms_native_arch.abi.signal_frame;

	put(place + 8 * layout->stack, base + SP - 0x800);
	put(place + 8 * layout->stack_size, 0x6000);
	put(place + 8 * layout->sp, base + OTHER);
	put(place + 8 * layout->mark, layout->mark_value);
}

Test(inject_words, are_found_on_the_stack_that_a_handler_has_interrupted)
{
	draw_signal_frame(SP + 0x200);
	cr_expect_not(found());
	put(OTHER + 8, ODD + 0x4000);
	cr_expect(found());
	put(OTHER + 8, 0);
	put(OTHER - 8, ODD + 0x4000);
	cr_expect_not(found());
}

/* ---- how much is read ---- */

/* @n threads whose stacks begin @apart from one another. */
static void draw_threads(uint32_t n, size_t apart)
{
	frozen->n_threads = n;
	for (uint32_t i = 0; i < n; i++)
		frozen->threads[i] =
			(struct ms_frozen_thread){ .tid = getpid(), .sp = base + i * apart };
}

Test(inject_words, of_stacks_that_overlap_are_read_once)
{
	memset(at(base), 1, BYTES);
	draw_threads(MOST, 1024);
	cr_expect_not(found());
	cr_expect_geq(search.n_bytes, BYTES);
	cr_expect_lt(search.n_bytes, BYTES + BYTES / 16);
	cr_expect_lt(search.n_reads, 20);
}

Test(inject_words, that_one_thread_of_many_has_are_its_own)
{
	draw_threads(MOST, 1024);
	frozen->threads[7].tid = 1; /* what is read of it is read by its neighbour's number */
	frozen->threads[8].tid = getpid();
	put(8 * 1024 + 8, ODD + 0x4000);
	cr_expect(found());
}

Test(inject_words, are_not_looked_for_in_pages_that_are_not_there)
{
	base = map(SPARSE);
	draw_threads(1, 0);
	put(0, 1);
	put(SPARSE - 8, 1);
	cr_expect_not(found());
	cr_expect_leq(search.n_bytes, 2 * 4096);
	put(SPARSE - 8, ODD + 0x4000);
	cr_expect(found());
}

Test(inject_words, are_looked_for_as_far_as_a_coroutine_needs_in_a_large_mapping)
{
	base = map(LARGE);
	memset(at(base), 1, LARGE);
	draw_threads(1, 0);
	put(MS_WORDS_COROUTINE - 8, ODD + 0x4000);
	cr_expect(found());
	put(MS_WORDS_COROUTINE - 8, 1);
	put(MS_WORDS_COROUTINE, ODD + 0x4000);
	cr_expect_not(found());
	cr_expect_geq(search.n_bytes, MS_WORDS_COROUTINE);
	cr_expect_lt(search.n_bytes, 2 * MS_WORDS_COROUTINE);
}

Test(inject_words, are_looked_for_on_all_of_a_stack_of_the_c_librarys)
{
	enum { RECORD = 0x690 };
	const uint64_t tp = LARGE - 4096;
	enum ms_words_verdict verdict;

	base = map(LARGE);
	draw_threads(1, 0);
	frozen->threads[0].tp = base + tp;
	put(tp - 8, ODD + 0x4000);
	cr_expect_not(found());
	put(tp + RECORD, base);
	put(tp + RECORD + 8, LARGE);
	prepare(getpid());
	search.stack_at = RECORD;
	verdict = find();
	cr_expect_eq(verdict, MS_WORDS_FOUND);
}

Test(inject_words, are_looked_for_only_while_there_is_time)
{
	put(SP, ODD + 0x4000);
	prepare(getpid());
	search.limit_ns = 0;
	cr_expect_eq(find(), MS_WORDS_UNKNOWN);
	search.until_ns = UINT64_MAX;
	cr_expect_eq(find(), MS_WORDS_FOUND);
}

Test(inject_words, of_more_interrupted_stacks_than_there_can_be_are_not_looked_for)
{
	const struct ms_signal_layout *layout = &ms_native_arch.abi.signal_frame;
	const size_t step = 512;

	frozen->threads[0].sp = base;
	frozen->threads[0].tp = 0;
	for (size_t i = 0; i < MOST; i++) {
		draw_signal_frame(i * step);
		put(i * step + 8 * layout->stack, base);
		put(i * step + 8 * layout->stack_size, BYTES);
		put(i * step + 8 * layout->sp, base + OTHER + 16 * i);
	}
	prepare(getpid());
	cr_expect_eq(find(), MS_WORDS_UNKNOWN);
}

/* ---- threads that sleep ---- */

enum { DEEP = 1 << 20 };

/* Sleeps with a word on a deep stack, or without; each signal wakes it, and it sleeps again. */
static void __attribute__((noinline)) sleep_deep(int ready, uint64_t word)
{
	volatile uint64_t deep[DEEP / 8];
	sigset_t none;

	(void)sigemptyset(&none);
	for (size_t i = 0; i < DEEP / 8; i++)
		deep[i] = 1;
	deep[DEEP / 16] = word;
	(void)!write(ready, deep[0] ? "" : NULL, 1);
	for (;;)
		(void)sigsuspend(&none);
}

static void wake(int signal)
{
	(void)signal;
}

static pid_t start_sleeper(uint64_t word)
{
	int ends[2];
	pid_t child;
	char byte;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	if (!child) {
		(void)signal(SIGUSR1, wake);
		sleep_deep(ends[1], word);
	}
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	return child;
}

static void await_sleep(pid_t child)
{
	char text[64];

	/* On its way there it may sleep elsewhere: in write(), or for a page. */
	do
		(void)ms_proc_read(child, "syscall", text, sizeof(text));
	while (strtol(text, NULL, 10) != SYS_rt_sigsuspend);
}

/* What is found on the stack of the child when it has stopped; it is let go again. */
static enum ms_words_verdict stop_and_find(pid_t child)
{
	enum ms_words_verdict verdict;
	struct ms_cpu cpu;
	int status;
	pid_t tid;

	cr_assert_eq(ptrace(PTRACE_SEIZE, child, NULL, NULL), 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	frozen->threads[0].tid = child;
	cr_assert(ms_native_arch.capture(child, MS_CAPTURED_ROOTS, &frozen->threads[0], &cpu));
	search.until_ns = 0;
	verdict = ms_words_find(&search, frozen, &wanted, &tid);
	cr_expect_eq(ptrace(PTRACE_DETACH, child, NULL, NULL), 0);
	return verdict;
}

Test(inject_words, of_a_thread_that_slept_since_are_not_looked_for_again)
{
	pid_t child = start_sleeper(1);

	await_sleep(child);
	prepare(child);
	cr_expect_eq(search.sleepers.n, 1);
	cr_expect_geq(search.n_bytes, DEEP);
	cr_expect_eq(stop_and_find(child), MS_WORDS_NONE);
	cr_expect_eq(search.n_bytes, 0);
	(void)kill(child, SIGUSR1);
	await_sleep(child);
	cr_expect_eq(stop_and_find(child), MS_WORDS_NONE);
	cr_expect_geq(search.n_bytes, DEEP, "it ran since");
	(void)kill(child, SIGKILL);
	cr_expect_eq(waitpid(child, NULL, 0), child);
}

Test(inject_words, that_were_seen_before_are_found_again)
{
	pid_t child = start_sleeper(ODD + 0x4000);

	await_sleep(child);
	prepare(child);
	cr_expect_eq(stop_and_find(child), MS_WORDS_FOUND);
	(void)kill(child, SIGKILL);
	cr_expect_eq(waitpid(child, NULL, 0), child);
}

/* ---- who else has this memory ---- */

static int wait_for_end(void *arg)
{
	char byte;

	return read(*(int *)arg, &byte, 1) == 0 ? 0 : 1;
}

Test(inject_words, memory_that_nobody_shares_is_ours_alone)
{
	struct ms_error err;
	int ends[2];
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	if (!child) {
		(void)close(ends[1]);
		_exit(wait_for_end(&ends[0]));
	}
	cr_expect_eq(ms_sharing_check(getpid(), &err), MS_OK, "%s", err.text);
	(void)close(ends[1]);
	cr_expect_eq(waitpid(child, NULL, 0), child);
}

Test(inject_words, a_process_in_this_memory_is_told_by_its_number)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	struct ms_error err;
	char number[16];
	int ends[2];
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = clone(wait_for_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, &ends[0]);
	cr_assert_gt(child, 0);
	(void)snprintf(number, sizeof(number), "process %d", child);
	cr_expect_eq(ms_sharing_check(getpid(), &err), MS_E_BUSY);
	cr_expect(strstr(err.text, number), "%s", err.text);
	(void)kill(child, SIGKILL);
	cr_expect_eq(waitpid(child, NULL, 0), child);
}
