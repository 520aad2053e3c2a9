/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_DRAWN_SCAN_H
#define MS_TESTS_DRAWN_SCAN_H

/*
 * A whole scan of a fake process: a stack, a module's data at DATA, a heap at HEAP
 * with a block of 32 bytes at every 64 and break memory before and behind it, and
 * anonymous memory at NODE, behind which a test can map more. The decoder says what
 * the test drew, in two extents, the upper one first.
 */

#include "engine/scan.h"
#include "fake.h"

enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	STACK = 0x300000,
	MODULE = 0x400000,
	DATA = 0x401000,
	HEAP = 0x500000,
	NODE = 0x700000,
	LIBRARY = 0x800000,
	SLOT = 64,
	USABLE = 32,
	PAGE = 4096,
	IN_LOWER = 2, /* blocks in the lower extent */
};

extern struct ms_fake fake;
extern struct ms_report report;
extern const struct ms_decoder *const drawn_decoders[];

/* What the decoder is to say; draw() sets all of it, a test may change it. */
extern unsigned int n_blocks;
extern uint64_t usable;
extern bool unproved;
extern struct ms_rival rival;
/* Of each block a letter, its stack, or a dot for one that is not known; NULL: nobody kept any. */
extern const char *allocators;
extern uint64_t sampled;   /* they are samples, one in so many bytes; 0: they are none */
extern bool sampled_whole; /* any might have been one since attach */

static inline ms_addr block(unsigned int i)
{
	return HEAP + (ms_addr)i * SLOT;
}

/* Draw a process whose heap has @n blocks; ms_fake_deinit() ends it. */
void draw(unsigned int n);

/* Scan; and again without a view, alone and by several workers, which must say the same. */
void scan(struct ms_scan_options options);

#endif
