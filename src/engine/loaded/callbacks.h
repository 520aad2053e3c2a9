/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_CALLBACKS_H
#define MS_ENGINE_LOADED_CALLBACKS_H

/*
 * A block that has the address of a function is, as a rule, what this function will be called
 * with: a watcher, a timer, a job. So the function says what the block is for, where no type
 * does.
 *
 * Only an address at which a function begins counts, by the table over the frames of its file
 * (base/elf/rows.h): numbers and return addresses that are left in memory lie elsewhere.
 */

#include "engine/loaded/peek.h"
#include "engine/mapping.h"

enum { MS_CALLBACK_WORDS = 16 }; /* of a block that are looked at */

/* Whether a function of a program or library begins at @addr; where its file does is @begin. */
bool ms_callback_is(struct ms_peek *peek, const struct ms_regions *regions, ms_addr addr,
                    ms_addr *begin);

/*
 * The function that the first of the words at @addr points to, of which 16 are looked at.
 *
 * @size:  bytes at @addr that may be looked at
 * @begin: set to where the function's file begins
 *
 * Returns 0 where no word is one's.
 */
ms_addr ms_callback_of(struct ms_peek *peek, const struct ms_regions *regions, ms_addr addr,
                       uint64_t size, ms_addr *begin);

#endif
