/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/map.h"

enum { KEYS = 3000, STEPS = 60000 };

/* Drawn: what was added is found with its value, what was removed is not, also near others. */
Test(map, finds_what_is_there_and_nothing_else)
{
	static uint32_t truth[KEYS];
	struct ms_map map = { 0 };
	struct ms_arena arena;
	uint64_t state = 1;
	size_t n = 0;

	ms_arena_init(&arena);
	for (uint32_t step = 1; step <= STEPS; step++) {
		uint64_t key;

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		key = (state >> 33) % KEYS;
		if (truth[key]) {
			ms_map_remove(&map, key * 16);
			truth[key] = 0;
			n--;
		} else {
			cr_assert(ms_map_add(&map, &arena, key * 16, step));
			truth[key] = step;
			n++;
		}
		cr_assert_eq(map.used, n);
		for (uint64_t i = step % 97; i < KEYS; i += 97)
			cr_assert_eq(ms_map_find(&map, i * 16), truth[i], "step %u", step);
	}
	/* It grows with what is there, not with what was. */
	cr_assert_leq((size_t)1 << map.bits, 8 * KEYS);
	ms_arena_deinit(&arena);
}

Test(map, finds_nothing_in_an_empty_one)
{
	const struct ms_map map = { 0 };

	cr_assert_eq(ms_map_find(&map, 0), 0);
}
