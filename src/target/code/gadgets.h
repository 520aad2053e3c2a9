/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_GADGETS_H
#define MS_TARGET_GADGETS_H

#include "base/arena.h"
#include "target/code/mapped_file.h"
#include "target/collection.h"

/*
 * Find the code in a process by which one of its threads can be made to clone it, and write it to
 * shared->gadgets, which are zeros before, and stay so when there is none. It is looked for in
 * shared->libc_code first, and then in all_code.
 */
void ms_gadgets_find(const struct ms_running *in, struct ms_collection *shared,
                     struct ms_arena *arena);

#endif
