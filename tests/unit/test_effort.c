/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "target/code/effort.h"

static struct ms_arena arena;
static struct ms_effort effort;

static void setup(void)
{
	ms_arena_init(&arena);
	effort = (struct ms_effort){ 0 };
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(effort, .init = setup, .fini = teardown);

Test(effort, a_file_without_anything_is_looked_at_once)
{
	struct ms_mapping map = { .inode = 7, .dev_major = 8, .offset = 4096 };

	cr_expect_not(ms_effort_may_skip(&effort, &map, 0));
	ms_effort_remember(&effort, &map, &arena);
	cr_expect(ms_effort_may_skip(&effort, &map, 1));
	map.offset = 0;
	cr_expect_not(ms_effort_may_skip(&effort, &map, 2), "another part of it");
	map.offset = 4096;
	map.dev_minor = 1;
	cr_expect_not(ms_effort_may_skip(&effort, &map, 3), "another file");
}

Test(effort, reads_and_kept_bytes_have_a_limit)
{
	cr_expect(ms_effort_take(&effort, 2000000, 500 << 20));
	cr_expect_not(effort.ended);
	cr_expect_not(ms_effort_take(&effort, 1, 13 << 20), "bytes");
	cr_expect(effort.ended);
	cr_expect_not(ms_effort_take(&effort, 1, 0), "for good");
	effort = (struct ms_effort){ 0 };
	cr_expect_not(ms_effort_take(&effort, 3000000, 0), "reads");
}

/* To find where a file begins all mappings in front may have to be passed. */
Test(effort, many_mappings_are_not_walked_through_for_each)
{
	struct ms_mapping map = { .dev_major = 8 };
	size_t n = 0;

	for (map.inode = 1; !ms_effort_may_skip(&effort, &map, n); map.inode++)
		n++;
	cr_expect(n > 10000 && n < 30000, "%zu", n);
}
