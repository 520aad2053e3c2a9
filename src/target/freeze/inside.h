/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_INSIDE_H
#define MS_TARGET_INSIDE_H

/*
 * Which threads are inside malloc.
 *
 * Knows instructions of malloc and of the library that has them by their addresses, and
 * reads return addresses from the top of a stack. It never runs a thread, and does not
 * know what malloc does.
 */

#include "engine/source.h"
#include "target/arch/arch.h"
#include "target/collection.h"

enum { MS_NEAR_WORDS = 20 }; /* of the stack, where a callee's return address is */

/*
 * Whether a thread at @pc is inside malloc: in its instructions, or in a function of the
 * same library that was called from there.
 *
 * @stack:    the topmost words of its stack, n of them
 * @ret_back: where that function returns to in malloc; 0 when @pc itself is there
 */
bool ms_inside_is(const struct ms_collection *code, ms_addr pc, const uint64_t *stack, size_t n,
                  ms_addr *ret_back);

/* Whether the stack of a thread at @pc has to be read for that. */
bool ms_inside_wants_stack(const struct ms_collection *code, ms_addr pc);

/* Whether @addr is in an executable mapping, but not in malloc: execution may return to it. */
bool ms_inside_leads_out(const struct ms_collection *code, ms_addr addr);

/* Whether malloc makes such a call; -1, none, is one. What is below another's frame is stale. */
bool ms_inside_is_call(const struct ms_arch *arch, int64_t call);

/*
 * Whether a thread sleeps, or slept until we came, in a call that it will make
 * once more: it changes nothing meanwhile.
 */
bool ms_inside_is_waiting(const struct ms_cpu *cpu);

/*
 * Set in_malloc, malloc_at and runs of each of @src's threads, as they were captured at last:
 * what was led out of malloc is outside. @src borrows from @frozen where malloc's code is.
 */
void ms_inside_mark(const struct ms_collection *frozen, struct ms_source *src);

#endif
