/* SPDX-License-Identifier: Apache-2.0 */
/* Tables over unwind entries as a program has them, or as it says that it has them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "target/stacks/stacks.h"

enum { FRAMES = 0x400000, BYTES = 80 };

/* Exactly as large as promised, so that AddressSanitizer sees what is beyond. */
static size_t make(const void *frames, size_t bytes, struct ms_unwind_entry *ret)
{
	const struct ms_range range = { FRAMES, FRAMES + bytes };
	struct ms_unwind_entry *table = malloc(bytes);
	char *copy = malloc(bytes);
	size_t n;

	memcpy(copy, frames, bytes);
	n = ms_unwind_table_make(range, copy, FRAMES, table);
	cr_assert_leq(n * sizeof(*table), bytes);
	memcpy(ret, table, n * sizeof(*table));
	free(copy);
	free(table);
	return n;
}

Test(tables, entries_are_sorted_by_the_code_that_they_are_of)
{
	static const uint32_t frames[] = {
		12, 0,  0,     0, /* what the others share */
		12, 20, 0x100, 4, /* code at 0x400118 */
		12, 36, 0x20,  4, /* and at 0x400048 */
		0,  0,  0,     0,
	};
	struct ms_unwind_entry table[BYTES];

	cr_assert_eq(make(frames, sizeof(frames), table), 2);
	cr_assert_eq(table[0].pc, 0x48);
	cr_assert_eq(table[0].frame, 0x20);
	cr_assert_eq(table[1].pc, 0x118);
	cr_assert_eq(table[1].frame, 0x10);
}

Test(tables, entries_too_short_to_be_any_end_it)
{
	struct ms_unwind_entry table[BYTES];

	for (uint8_t length = 1; length < 8; length++) {
		uint8_t frames[BYTES];

		memset(frames, 1, sizeof(frames));
		for (size_t at = 0; at + 4 <= BYTES; at += 4U + length)
			memcpy(frames + at, &(uint32_t){ length }, 4);
		cr_assert_eq(make(frames, sizeof(frames), table), 0, "length %d", length);
	}
}

Test(tables, an_entry_that_is_cut_off_ends_it)
{
	static const uint32_t frames[] = { 12, 4, 0x100, 4, 12, 20 };
	struct ms_unwind_entry table[BYTES];

	cr_assert_eq(make(frames, sizeof(frames), table), 1);
}
