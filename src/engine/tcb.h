/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_TCB_H
#define MS_ENGINE_TCB_H

/*
 * What a thread's own memory says of the stack that it has and of the one that it runs on:
 * glibc's record of the stack, in the thread's control block (struct pthread), and the frames by
 * which the kernel enters signal handlers.
 *
 * Knows 64-bit glibc 2.31 to 2.43 on x86_64. Reads nothing itself: callers bring the words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/range.h"

enum {
	MS_TCB_BYTES = 2304,              /* as much of a control block as is looked at */
	MS_SIGNAL_FRAME_WORDS = 25,       /* as much of the frame of a handler */
	MS_SIGNAL_FRAMES_BYTES = 1 << 18, /* of a stack are searched for one */
};

struct ms_stack_record {
	struct ms_range block;
	bool guarded; /* glibc's own stacks are, a program's own ones are not */
};

/*
 * The next record from word *@at on, 0 at first, in the @n words at @tcb. Its place varies between
 * versions, so it is looked for by what it must satisfy. False: there are no more.
 */
bool ms_tcb_next_record(const uint64_t *words, size_t n, ms_addr tcb, size_t *at,
                        struct ms_stack_record *ret);

/*
 * Whether the MS_SIGNAL_FRAME_WORDS words at @addr are the frame of a handler that runs on a
 * signal stack, on which @sp is, too. Such a stack may lie in a frame of the stack that it
 * interrupts, so that what lives there lies below @sp.
 *
 * @ret: the interrupted stack pointer
 */
bool ms_signal_frame_at(const uint64_t *words, ms_addr addr, ms_addr sp, ms_addr *ret);

#endif
