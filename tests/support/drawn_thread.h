/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_DRAWN_THREAD_H
#define MS_TESTS_DRAWN_THREAD_H

/* What glibc keeps of a thread in the thread's own stack, drawn; offsets are those of libc/glibc.c.
 */

#include "fake.h"

enum {
	DRAWN_LINKS = 704, /* in the list of stacks */
	DRAWN_TID = 720,
	DRAWN_FLAGS = 776,  /* of cancellation */
	DRAWN_STACK = 1680, /* its begin, length and guard */
	DRAWN_TABLE =
		0x12340, /* of its modules' storage: two words behind it the block's word points */
};

/*
 * A control block at @tcb, the only one of its list.
 *
 * @stack: what pthread_create() mapped, or the program gave
 * @guard: bytes at the stack's begin
 */
void drawn_thread(struct ms_fake *fake, ms_addr tcb, int tid, struct ms_range stack,
                  uint64_t guard);

#endif
