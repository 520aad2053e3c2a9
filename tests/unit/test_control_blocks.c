/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/inject/stopped/blocks.h"

/* Control blocks in memory of our own, more than are read by one call, of threads that there are
 * not. */
enum { N = 1000, WORDS = 512, MISSING = 77, CUT = 500 };

static uint64_t (*memory)[WORDS]; /* a page each, so that it can be missing by itself */
static struct ms_collection *frozen;
static struct ms_control_blocks blocks;
static struct ms_arena arena;

static void setup(void)
{
	struct ms_error err;

	memory = mmap(NULL, N * sizeof(*memory), PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq((void *)memory, MAP_FAILED);
	frozen = calloc(1, sizeof(*frozen) + N * sizeof(frozen->threads[0]));
	frozen->n_threads = N;
	frozen->live_tid = getpid();
	for (uint32_t i = 0; i < N; i++) {
		frozen->threads[i].tp = (uintptr_t)memory[i];
		memory[i][0] = i;
		memory[i][ms_control_glibc.stack / 8 + 1] = 1000 + i;
	}
	cr_assert_eq(ms_control_blocks_init(&blocks, &ms_control_glibc, N, &arena, &err), MS_OK);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
	free(frozen);
	(void)munmap((void *)memory, N * sizeof(*memory));
}

TestSuite(control_blocks, .init = setup, .fini = teardown);

static bool has(uint32_t i)
{
	return blocks.at[i].has_words && blocks.at[i].words[0] == i && blocks.at[i].has_stack &&
	       blocks.at[i].stack[1] == 1000 + i;
}

Test(control_blocks, are_read)
{
	ms_control_blocks_read(&blocks, frozen);
	for (uint32_t i = 0; i < N; i++)
		cr_expect(has(i), "thread %u", i);
}

Test(control_blocks, that_are_missing_hide_no_other)
{
	(void)munmap((void *)memory[MISSING], sizeof(*memory));
	(void)munmap((void *)memory[CUT + 1], sizeof(*memory));
	/* Its words are there, its stack is not. */
	frozen->threads[CUT].tp = (uintptr_t)memory[CUT + 1] - MS_CONTROL_BYTES;
	ms_control_blocks_read(&blocks, frozen);
	for (uint32_t i = 0; i < N; i++)
		if (i != MISSING && i != CUT && i != CUT + 1)
			cr_expect(has(i), "thread %u", i);
	cr_expect(!blocks.at[MISSING].has_words && !blocks.at[MISSING].has_stack);
	cr_expect(blocks.at[CUT].has_words && !blocks.at[CUT].has_stack);
}

Test(control_blocks, are_what_the_last_reading_found)
{
	ms_control_blocks_read(&blocks, frozen);
	(void)munmap((void *)memory[MISSING], sizeof(*memory));
	memory[0][0] = 5;
	ms_control_blocks_read(&blocks, frozen);
	cr_expect(!blocks.at[MISSING].has_words);
	cr_expect_eq(blocks.at[0].words[0], 5);
}
