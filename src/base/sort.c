/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"

#include <string.h>

/* A merge sort from the bottom up, between two buffers. */

struct merge {
	const char *from;
	char *to;
	size_t size;
	ms_before before;
};

static bool is_sorted(const char *entries, size_t n, size_t size, ms_before before)
{
	for (size_t i = 1; i < n; i++)
		if (before(entries + i * size, entries + (i - 1) * size))
			return false;
	return true;
}

/* Merge the sorted runs [low, middle) and [middle, high). */
static void merge_runs(const struct merge *m, size_t low, size_t middle, size_t high)
{
	size_t left = low;
	size_t right = middle;

	for (size_t out = low; out < high; out++) {
		bool take_right = left == middle ||
		                  (right < high &&
		                   m->before(m->from + right * m->size, m->from + left * m->size));
		size_t take = take_right ? right++ : left++;

		memcpy(m->to + out * m->size, m->from + take * m->size, m->size);
	}
}

bool ms_sort(struct ms_arena *arena, void *entries, size_t n, size_t size, ms_before before)
{
	struct merge m = { entries, NULL, size, before };
	char *spare;

	if (is_sorted(entries, n, size, before))
		return true;
	spare = ms_arena_alloc(arena, n * size);
	if (!spare)
		return false;
	m.to = spare;
	for (size_t run = 1; run < n; run *= 2) {
		char *swap = m.to;

		for (size_t low = 0; low < n; low += 2 * run) {
			size_t middle = low + run < n ? low + run : n;
			size_t high = middle + run < n ? middle + run : n;

			merge_runs(&m, low, middle, high);
		}
		m.to = m.from == entries ? entries : spare;
		m.from = swap;
	}
	if (m.from != entries)
		memcpy(entries, m.from, n * size);
	return true;
}
