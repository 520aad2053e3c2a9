/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_WORDS_H
#define MS_TARGET_WORDS_H

/*
 * Whether a stopped thread will come back to an address: its stack has it then, as the return
 * address of a call or in the frame of a signal's handler.
 */

#include "base/range.h"
#include "target/collection.h"

/*
 * The thread whose stack has a word in one of the @n @ranges; 0: none has. A word that nobody
 * will use may be taken for one.
 *
 * Context: all threads stand.
 * Cost:    what of the stacks is in use is read.
 */
pid_t ms_words_find(const struct ms_collection *frozen, const struct ms_range *ranges, size_t n);

#endif
