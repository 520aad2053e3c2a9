/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent that is mapped into foreign processes, in this one: each function of the C
 * library's malloc leads through it, and does what it did.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "diverted.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct libc libc;
static struct diverted agent;

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

static void put(uint64_t interval)
{
	libc_find(&libc);
	diverted_put(&agent, interval);
}

Test(agent, a_block_is_known_until_it_is_freed)
{
	put(0);
	char *block = libc.malloc(100);
	const struct ms_agent_record *record = diverted_find(&agent, block);

	cr_assert_not_null(record);
	cr_expect_eq(record->size, 100);
	cr_expect_eq(record->block, (uint64_t)(uintptr_t)block);
	memset(block, 1, 100);
	libc.free(block);
	cr_expect_null(diverted_find(&agent, block));
}
