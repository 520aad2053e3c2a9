/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/misplaced.h"

void ms_misplaced_note(struct ms_misplaced *misplaced, ms_addr at, uint64_t bytes, uint64_t listed)
{
	if (misplaced->n++)
		return;
	misplaced->at = at;
	misplaced->bytes = bytes;
	misplaced->listed = listed;
}

void ms_misplaced_warn(const struct ms_misplaced *misplaced, const char *allocator,
                       const struct ms_decoding *d)
{
	if (!misplaced->n)
		return;
	ms_note_add(
		d->arena, d->warnings,
		"%s has %llu free block%s in lists of another size (0x%llx of %llu bytes in that "
		"of %llu), as operator delete leaves them when it is given a wrong size",
		allocator, (unsigned long long)misplaced->n, misplaced->n == 1 ? "" : "s",
		(unsigned long long)misplaced->at, (unsigned long long)misplaced->bytes,
		(unsigned long long)misplaced->listed);
}
