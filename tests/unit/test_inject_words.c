/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/inject/sharing.h"
#include "target/inject/stopped/words.h"

/* Stacks in memory of our own, of threads that there are not. */
enum { BYTES = 1 << 20, SP = 0x1000, TP = 0x8000, OTHER = 0x80000 };

/* No memory beside has such words. */
#define ODD UINT64_C(0xfedcba9870000)
static const struct ms_range ranges[] = { { ODD + 0x4000, ODD + 0x4010 },
	                                  { ODD + 0x5005, ODD + 0x5006 } };
static struct ms_collection *frozen;
static ms_addr base;

static void setup(void)
{
	void *memory =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(memory, MAP_FAILED);
	base = (uintptr_t)memory;
	frozen = calloc(1, sizeof(*frozen) + 2 * sizeof(frozen->threads[0]));
	frozen->n_threads = 1;
	frozen->threads[0] =
		(struct ms_frozen_thread){ .tid = getpid(), .sp = base + SP, .tp = base + TP };
}

static void teardown(void)
{
	free(frozen);
}

TestSuite(inject_words, .init = setup, .fini = teardown);

static void put(ms_addr offset, uint64_t word)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is our own */
	memcpy((void *)(uintptr_t)(base + offset), &word, sizeof(word));
}

static bool found(void)
{
	pid_t tid = ms_words_find(frozen, ranges, 2);

	cr_assert(tid == 0 || tid == getpid());
	return tid;
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
	for (ms_addr at = SP; at < BYTES - 64; at += 0x3ff8) {
		put(at, ODD + 0x4000);
		cr_expect(found(), "at %#lx", (unsigned long)at);
		put(at, 0);
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
static void draw_signal_frame(ms_addr at)
{
	const struct ms_signal_layout *layout = &ms_native_arch.abi.signal_frame;

	put(at + 8 * layout->stack, base + SP - 0x800);
	put(at + 8 * layout->stack_size, 0x6000);
	put(at + 8 * layout->sp, base + OTHER);
	put(at + 8 * layout->mark, layout->mark_value);
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
