/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_VEC_H
#define MS_BASE_VEC_H

/*
 * A growing array in the scan arena, typed by its declaration:
 *
 *	struct ms_ranges MS_VEC(struct ms_range);
 *
 *	struct ms_range *r = ms_vec_push(arena, &ranges);
 *	if (!r)
 *		return MS_E_NOMEM;
 *	*r = (struct ms_range){ begin, end };
 *
 * Pointers into it are good until the next push. Growing does not copy.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* A type cannot stand in parentheses. */
#define MS_VEC(type)                                               \
	{                                                          \
		type *at; /* NOLINT(bugprone-macro-parentheses) */ \
		size_t n;                                          \
		size_t cap;                                        \
	}

/*
 * Room for @want entries of @size bytes; false when the kernel refuses. For the
 * macros below; @at is the address of the typed pointer.
 */
bool ms_vec_reserve_bytes(struct ms_arena *arena, void *at, size_t *cap, size_t want, size_t size);

#define ms_vec_reserve(arena, vec, want) \
	((vec)->cap >= (want) ||         \
	 ms_vec_reserve_bytes((arena), &(vec)->at, &(vec)->cap, (want), sizeof(*(vec)->at)))

/* A pointer to one more zeroed entry at the end, or NULL when the kernel refuses. */
#define ms_vec_push(arena, vec) \
	(ms_vec_reserve((arena), (vec), (vec)->n + 1) ? &(vec)->at[(vec)->n++] : NULL)

#define ms_vec_for_each(item, vec) \
	for ((item) = (vec)->at; (item) && (item) < (vec)->at + (vec)->n; (item)++)

#endif
