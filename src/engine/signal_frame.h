/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_SIGNAL_FRAME_H
#define MS_ENGINE_SIGNAL_FRAME_H

/*
 * The frames by which the kernel enters signal handlers, as far as they say on which stack a
 * handler runs. Where what stands in them is the source's to say (abi.h). Reads nothing
 * itself: callers bring the words.
 */

#include <stdbool.h>
#include <stdint.h>

#include "engine/abi.h"

enum { MS_SIGNAL_FRAMES_BYTES = 1 << 18 }; /* of a stack are searched for one */

/*
 * Whether the @layout->words words at @addr are the frame of a handler that runs on a
 * signal stack, on which @sp is, too. Such a stack may lie in a frame of the stack that it
 * interrupts, so that what lives there lies below @sp.
 *
 * @ret: the interrupted stack pointer
 */
bool ms_signal_frame_at(const struct ms_signal_layout *layout, const uint64_t *words, ms_addr addr,
                        ms_addr sp, ms_addr *ret);

#endif
