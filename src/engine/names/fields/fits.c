/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/names/fields/fields.h"

/* What allocators give for the fewest bytes. */
enum { LEAST_BYTES = 24, STEP_BYTES = 16 };

/*
 * Up to 128 bytes allocators round up to 16, from there on to a fifth of what they give
 * (jemalloc's classes, the widest).
 */
static bool is_rounding(uint64_t size, uint64_t wanted)
{
	uint64_t more = size - wanted;

	return more < STEP_BYTES || more <= wanted / 4 || size <= LEAST_BYTES;
}

enum ms_form ms_fits(const struct ms_book_type *type, uint64_t size)
{
	if (size < type->size)
		return MS_FORM_NONE;
	/* It may be the longer one, to which pointers are declared as to its first member. */
	if (type->longer && size >= type->longer)
		return MS_FORM_FRONT;
	if ((type->flags & MS_BOOK_GROWS) || is_rounding(size, type->size))
		return MS_FORM_ONE;
	return !type->longer && is_rounding(size, size - size % type->size) ? MS_FORM_MANY
	                                                                    : MS_FORM_FRONT;
}
