/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_MISPLACED_H
#define MS_ALLOC_MISPLACED_H

/*
 * Free blocks in lists of another size. operator delete(p, size) believes the size: with a wrong
 * one it puts the block into the list of another class, from where it is given out again. No word
 * is damaged by that, and the block is free like all others.
 */

#include "engine/decoder.h"

struct ms_misplaced {
	uint64_t n;
	/* the first of them */
	ms_addr at;
	uint64_t bytes;
	uint64_t listed; /* bytes of a block of that list's class */
};

void ms_misplaced_note(struct ms_misplaced *misplaced, ms_addr at, uint64_t bytes, uint64_t listed);

/* Warn of them, if there are any. */
void ms_misplaced_warn(const struct ms_misplaced *misplaced, const char *allocator,
                       const struct ms_decoding *d);

#endif
