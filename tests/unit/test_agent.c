/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent that is mapped into foreign processes, in this one: each function of the C
 * library's malloc leads through it, and does what it did.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "diverted.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { SIZE = 1000, LARGE = 1 << 20 };

static struct libc libc;
static struct diverted agent;

static void put(uint64_t interval)
{
	libc_find(&libc);
	diverted_put(&agent, interval);
}

Test(agent, its_head_says_where_the_hooks_are)
{
	struct ms_agent_head head;

	cr_assert_gt(ms_agent_blob_bytes, sizeof(head));
	cr_assert_leq(ms_agent_blob_bytes, MS_AGENT_SLOTS_AT);
	memcpy(&head, ms_agent_blob, sizeof(head));
	cr_expect_eq(memcmp(head.magic, MS_AGENT_TEXT_MAGIC, sizeof(head.magic)), 0);
	cr_expect_eq(head.n_functions, MS_AGENT_N);
	for (size_t i = 0, end = sizeof(head); i < MS_AGENT_N; i++) {
		cr_expect_geq(head.functions[i].hook, end, "%zu", i);
		end = head.functions[i].fast_end;
		cr_expect_gt(end, head.functions[i].hook, "%zu", i);
		cr_expect_lt(end, ms_agent_blob_bytes, "%zu", i);
	}
}

/* ---- each function ---- */

static void *by_malloc(void)
{
	return libc.malloc(SIZE);
}

static void *by_calloc(void)
{
	return libc.calloc(SIZE / 10, 10);
}

static void *by_realloc_of_nothing(void)
{
	return libc.realloc(NULL, SIZE);
}

static void *by_realloc_in_place(void)
{
	return libc.realloc(libc.malloc(SIZE + 1), SIZE);
}

static void *by_realloc_to_elsewhere(void)
{
	void *block = libc.malloc(SIZE / 10);
	void *behind = libc.malloc(SIZE);

	block = libc.realloc(block, SIZE);
	libc.free(behind);
	return block;
}

static void *by_memalign(void)
{
	return libc.memalign(256, SIZE);
}

static void *by_memalign_of_little(void)
{
	return libc.memalign(8, SIZE);
}

static void *by_aligned_alloc(void)
{
	return libc.aligned_alloc(64, SIZE);
}

static void *by_posix_memalign(void)
{
	void *block = NULL;

	cr_expect_eq(libc.posix_memalign(&block, 1024, SIZE), 0);
	return block;
}

static void *by_posix_memalign_of_little(void)
{
	void *block = NULL;

	cr_expect_eq(libc.posix_memalign(&block, 16, SIZE), 0);
	return block;
}

static void *by_valloc(void)
{
	return libc.valloc(SIZE);
}

static void *by_pvalloc(void)
{
	return libc.pvalloc(SIZE);
}

static const struct {
	const char *name;
	void *(*make)(void);
	uint64_t alignment;
} ways[] = {
	{ "malloc", by_malloc, 16 },
	{ "calloc", by_calloc, 16 },
	{ "realloc of NULL", by_realloc_of_nothing, 16 },
	{ "realloc in place", by_realloc_in_place, 16 },
	{ "realloc to elsewhere", by_realloc_to_elsewhere, 16 },
	{ "memalign", by_memalign, 256 },
	{ "memalign of 8", by_memalign_of_little, 8 },
	{ "aligned_alloc", by_aligned_alloc, 64 },
	{ "posix_memalign", by_posix_memalign, 1024 },
	{ "posix_memalign of 16", by_posix_memalign_of_little, 16 },
	{ "valloc", by_valloc, 4096 },
	{ "pvalloc", by_pvalloc, 4096 },
};

Test(agent, blocks_of_each_function_are_known_until_they_are_freed)
{
	put(0);
	for (size_t i = 0; i < N_OF(ways); i++) {
		size_t live = diverted_live(&agent);
		char *block = ways[i].make();
		const struct ms_agent_record *record = diverted_find(&agent, block);

		cr_assert_not_null(record, "%s", ways[i].name);
		cr_expect_eq(record->block, (uint64_t)(uintptr_t)block, "%s", ways[i].name);
		cr_expect_eq(record->size, SIZE, "%s: %zu", ways[i].name, (size_t)record->size);
		cr_expect_eq(record->block % ways[i].alignment, 0, "%s", ways[i].name);
		cr_expect_eq(diverted_live(&agent), live + 1, "%s: once", ways[i].name);
		memset(block, 1, SIZE);
		libc.free(block);
		cr_expect_null(diverted_find(&agent, block), "%s", ways[i].name);
		cr_expect_eq(diverted_live(&agent), live, "%s", ways[i].name);
	}
	cr_expect_eq(agent.data->n_dropped, 0);
}

/* Nor is a thread's first block a sample for being the first. */
Test(agent, between_samples_blocks_are_in_no_table)
{
	put(UINT64_C(1) << 50);
	uint64_t before = agent.data->n_samples;

	for (size_t i = 0; i < N_OF(ways); i++)
		libc.free(ways[i].make());
	cr_expect_eq(agent.data->n_samples, before);
	cr_expect_eq(diverted_live(&agent), 0);
}

Test(agent, errno_and_contents_stay)
{
	static const char zeros[SIZE];

	put(0);
	for (size_t i = 0; i < N_OF(ways); i++) {
		errno = EXDEV;
		void *block = ways[i].make();
		cr_expect_eq(errno, EXDEV, "%s", ways[i].name);
		memset(block, 0xff, SIZE);
		libc.free(block);
		cr_expect_eq(errno, EXDEV, "%s", ways[i].name);
	}
	char *block = libc.calloc(1, SIZE);
	cr_expect_arr_eq(block, zeros, SIZE);
	memset(block, 7, SIZE);
	block = libc.realloc(block, LARGE);
	for (size_t i = 0; i < SIZE; i++)
		cr_assert_eq(block[i], 7);
	libc.free(block);
}

/* ---- what fails ---- */

Test(agent, a_block_that_realloc_could_not_change_stays_known)
{
	put(0);
	size_t live = diverted_live(&agent);
	char *block = libc.malloc(SIZE);
	const struct ms_agent_record *record = diverted_find(&agent, block);
	uint64_t maker = record->registers[0];

	memset(block, 5, SIZE);
	errno = 0;
	cr_expect_null(libc.realloc(block, PTRDIFF_MAX - SIZE));
	cr_expect_eq(errno, ENOMEM);
	cr_expect_eq(block[SIZE - 1], 5);
	cr_expect_eq(diverted_find(&agent, block), record);
	cr_expect_eq(record->size, SIZE);
	cr_expect_eq(record->registers[0], maker);
	cr_expect_eq(diverted_live(&agent), live + 1);
	libc.free(block);
	cr_expect_eq(diverted_live(&agent), live);
}

Test(agent, a_block_that_realloc_freed_is_known_no_more)
{
	put(0);
	size_t live = diverted_live(&agent);

	cr_expect_null(libc.realloc(libc.malloc(SIZE), 0));
	cr_expect_eq(diverted_live(&agent), live);
}

Test(agent, what_fails_is_in_no_table_and_costs_no_record)
{
	void *block = &block;

	put(0);
	size_t live = diverted_live(&agent);
	for (unsigned i = 0; i < 2 * MS_AGENT_RECORDS; i++) {
		cr_assert_null(libc.malloc(PTRDIFF_MAX));
		cr_assert_null(libc.malloc(SIZE_MAX));
		cr_assert_null(libc.calloc(PTRDIFF_MAX, 1));
		cr_assert_null(libc.calloc(SIZE_MAX / 2, 4));
		cr_assert_null(libc.realloc(NULL, PTRDIFF_MAX));
		cr_assert_null(libc.memalign(64, PTRDIFF_MAX));
		cr_assert_eq(libc.posix_memalign(&block, 64, PTRDIFF_MAX), ENOMEM);
		cr_assert_eq(libc.posix_memalign(&block, 24, SIZE), EINVAL);
		cr_assert_eq(block, &block);
		cr_assert_null(libc.valloc(PTRDIFF_MAX));
		cr_assert_null(libc.pvalloc(PTRDIFF_MAX));
	}
	cr_expect_eq(diverted_live(&agent), live);
	cr_expect_eq(agent.data->n_dropped, 0);
}

Test(agent, blocks_of_before_pass)
{
	void *blocks[64];

	libc_find(&libc);
	for (size_t i = 0; i < N_OF(blocks); i++)
		blocks[i] = libc.malloc(SIZE);
	diverted_put(&agent, 0);
	for (size_t i = 0; i < N_OF(blocks); i++)
		blocks[i] =
			i % 2 ? libc.realloc(blocks[i], 2 * SIZE) : (libc.free(blocks[i]), NULL);
	for (size_t i = 1; i < N_OF(blocks); i += 2) {
		cr_expect_not_null(diverted_find(&agent, blocks[i]));
		libc.free(blocks[i]);
	}
	libc.free(NULL);
	cr_expect_eq(agent.data->n_dropped, 0);
}

/* ---- sizes ---- */

static const struct {
	size_t size;
	double probability; /* 1 - exp(-size / 4096) */
} sizes[] = {
	{ 24, 0.0058422 },   { 100, 0.0241184 },   { 1000, 0.2166225 },
	{ 5000, 0.7049773 }, { 30000, 0.9993407 },
};

/* Five times its standard error is what a share may be off; by one seed, it is the same always. */
Test(agent, blocks_are_sampled_as_their_size_makes_it_likely)
{
	enum { ROUNDS = 40000 };
	size_t n[N_OF(sizes)] = { 0 };

	put(4096);
	for (size_t i = 0; i < ROUNDS * N_OF(sizes); i++) {
		uint64_t before = agent.data->n_samples;

		libc.free(libc.malloc(sizes[i % N_OF(sizes)].size));
		n[i % N_OF(sizes)] += agent.data->n_samples - before;
	}
	for (size_t i = 0; i < N_OF(sizes); i++) {
		double p = sizes[i].probability, off = (double)n[i] - ROUNDS * p;

		cr_expect_leq(off * off, 25 * ROUNDS * p * (1 - p), "%zu: %zu, not %.0f",
		              sizes[i].size, n[i], ROUNDS * p);
	}
}
