/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include <stdint.h>
#include <string.h>

enum { FIRST_BYTES = 4000 };

bool ms_vec_reserve_bytes(struct ms_arena *arena, void *at, size_t *cap, size_t want, size_t size)
{
	size_t grown = *cap ? *cap + *cap / 2 : FIRST_BYTES / size;
	void *moved;

	if (grown < want)
		grown = want;
	if (grown > PTRDIFF_MAX / size)
		return false;
	memcpy(&moved, at, sizeof(moved));
	moved = ms_arena_resize(arena, moved, grown * size);
	if (!moved)
		return false;
	memcpy(at, &moved, sizeof(moved));
	*cap = grown;
	return true;
}
