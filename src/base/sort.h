/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_SORT_H
#define MS_BASE_SORT_H

/* Sorting without malloc: qsort() may allocate, and the malloc lock may be held. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* True when @a must stand before @b. */
typedef bool (*ms_before)(const void *a, const void *b);

/*
 * Sort @n entries of @size bytes in place, equal ones in their present order.
 * False when there is no memory for the copy of them that merging needs.
 * Cost: O(n log n), O(n) when already sorted.
 */
bool ms_sort(struct ms_arena *arena, void *entries, size_t n, size_t size, ms_before before);

#endif
