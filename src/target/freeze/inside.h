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
 * @stack:    the register with its return address, if there is one, and the topmost words of
 *            its stack; n of them, without signatures
 * @ret_back: where that function returns to in malloc; 0 when @pc itself is there
 */
bool ms_inside_is(const struct ms_collection *code, ms_addr pc, const uint64_t *stack, size_t n,
                  ms_addr *ret_back);

/*
 * What a function returns to may be in a register yet: put it to @ret, in front of what is read
 * of the stack. Returns how many words that took.
 */
static inline size_t ms_inside_put_link(ms_addr link, uint64_t *ret)
{
	if (link)
		*ret = link;
	return link ? 1 : 0;
}

/* Take signatures out of @n words that may be return addresses. */
static inline void ms_inside_unsign(const struct ms_arch *arch, uint64_t *words, size_t n)
{
	for (size_t i = 0; arch->code_bits && i < n; i++)
		words[i] = ms_arch_code(arch, words[i]);
}

/* The register with the return address of @thread, as captured; 0: there is none. */
static inline ms_addr ms_inside_link(const struct ms_arch *arch,
                                     const struct ms_frozen_thread *thread)
{
	return arch->link && thread->stopped && thread->n_words > arch->link
	               ? thread->words[arch->link]
	               : 0;
}

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
