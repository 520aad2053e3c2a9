/* SPDX-License-Identifier: Apache-2.0 */
#include "target/freeze/inside.h"

#include <errno.h>

#include "target/code/calls.h"
#include "target/proc.h"

enum {
	MAX_DEPTH = 3,        /* of return addresses looked at */
	HANDLER_WORDS = 2048, /* of the stack, looked through for what was interrupted */
};

static bool is_in(const struct ms_range *ranges, uint32_t n, ms_addr addr)
{
	for (uint32_t i = 0; i < n && i < MS_CODE_RANGES; i++)
		if (ms_range_has(ranges[i], addr))
			return true;
	return false;
}

static bool is_malloc(const struct ms_collection *code, ms_addr addr)
{
	return is_in(code->malloc_code, code->n_malloc_code, addr);
}

static bool is_libc(const struct ms_collection *code, ms_addr addr)
{
	return is_in(code->libc_code, code->n_libc_code, addr);
}

static bool is_code(const struct ms_collection *code, ms_addr addr)
{
	size_t i = ms_range_search(code->all_code, code->n_all_code, sizeof(*code->all_code), addr);

	return i < code->n_all_code && ms_range_has(code->all_code[i], addr);
}

bool ms_inside_is(const struct ms_collection *code, ms_addr pc, const uint64_t *stack, size_t n,
                  ms_addr *ret_back)
{
	*ret_back = 0;
	if (is_malloc(code, pc))
		return true;
	if (!is_libc(code, pc))
		return false;
	/* sysmalloc() calls sbrk() calls brk(): deeper than that, a word is the callers' or stale.
	 */
	for (size_t i = 0, n_code = 0; i < n && n_code < MAX_DEPTH; i++) {
		if (is_malloc(code, stack[i])) {
			*ret_back = stack[i];
			return true;
		}
		if (!is_code(code, stack[i]))
			continue;
		/* Called from elsewhere. */
		if (!is_libc(code, stack[i]))
			return false;
		n_code++;
	}
	return false;
}

bool ms_inside_wants_stack(const struct ms_collection *code, ms_addr pc)
{
	return !is_malloc(code, pc) && is_libc(code, pc);
}

bool ms_inside_leads_out(const struct ms_collection *code, ms_addr addr)
{
	return is_code(code, addr) && !is_malloc(code, addr);
}

bool ms_inside_is_call(const struct ms_arch *arch, int64_t call)
{
	return call < 0 || ms_malloc_calls(ms_arch_own_call(arch, call));
}

bool ms_inside_is_waiting(const struct ms_cpu *cpu)
{
	enum { ERESTARTSYS = 512, ERESTART_RESTARTBLOCK = 516 }; /* include/linux/errno.h */

	return cpu->call >= 0 &&
	       ((cpu->result <= -ERESTARTSYS && cpu->result >= -ERESTART_RESTARTBLOCK) ||
	        cpu->result == -EINTR);
}

/* What is looked at: the place of a thread, or of one that a signal interrupted. */
struct view {
	const struct ms_collection *frozen;
	struct ms_source *src;
};

struct place {
	ms_addr pc, sp;
	ms_addr link; /* 0: there is none */
};

/* Whether it is inside; where in malloc's code then. */
static bool is_place_inside(const struct view *view, struct place place, ms_addr *ret_at)
{
	uint64_t stack[MS_NEAR_WORDS];
	size_t n = 0;

	if (ms_inside_wants_stack(view->frozen, place.pc)) {
		n = ms_inside_put_link(place.link, stack);
		n += ms_source_words(view->src, place.sp, stack + n, MS_NEAR_WORDS - n);
		ms_inside_unsign(view->frozen->arch, stack, n);
	}
	if (!ms_inside_is(view->frozen, place.pc, stack, n, ret_at))
		return false;
	if (!*ret_at)
		*ret_at = place.pc;
	return true;
}

/*
 * The same of a place where a signal came. Which system call it was in, if any, cannot be
 * told, so stale words would count: only callees without a frame of their own are looked
 * at, and what they are called from.
 */
static bool is_interrupted_place_inside(const struct view *view, struct place place,
                                        ms_addr *ret_at)
{
	uint64_t top = place.link;

	if (ms_inside_wants_stack(view->frozen, place.pc) &&
	    ((!top && !ms_source_word(view->src, place.sp, &top)) ||
	     !is_code(view->frozen, ms_arch_code(view->frozen->arch, top))))
		return false;
	return is_place_inside(view, place, ret_at);
}

/* Whether the thread runs the handler of a signal that came while it was inside. */
static bool was_interrupted_inside(const struct view *view, const struct ms_frozen_thread *thread,
                                   ms_addr *ret_at)
{
	const struct ms_signal_mark *mark = &view->frozen->arch->signal_mark;
	uint64_t stack[HANDLER_WORDS];
	size_t n = ms_source_words(view->src, thread->sp, stack, HANDLER_WORDS);

	for (size_t i = mark->link ? mark->link : mark->sp; i < n; i++) {
		struct place place = { stack[i - mark->pc], stack[i - mark->sp], 0 };

		if (stack[i] != mark->word)
			continue;
		if (mark->link)
			place.link = stack[i - mark->link];
		if (is_interrupted_place_inside(view, place, ret_at))
			return true;
	}
	return false;
}

static enum ms_in_malloc look_at(const struct view *view, const struct ms_frozen_thread *thread,
                                 bool has_handlers, ms_addr *ret_at)
{
	const struct ms_cpu cpu = { .call = thread->call, .result = thread->result };
	const struct place place = { thread->pc, thread->sp,
		                     ms_inside_link(view->frozen->arch, thread) };
	bool may_be = ms_inside_is_call(view->frozen->arch, thread->call);
	enum ms_in_malloc if_inside =
		ms_inside_is_waiting(&cpu) ? MS_MALLOC_WAITS : MS_MALLOC_WORKS;

	/* Where malloc's code is not known, any thread that runs may be in it or its callees,
	   and any that sleeps where these do. */
	if (!view->frozen->n_malloc_code)
		return may_be ? if_inside : MS_MALLOC_OUT;
	if (may_be && is_place_inside(view, place, ret_at))
		return if_inside;
	if (has_handlers && was_interrupted_inside(view, thread, ret_at))
		return MS_MALLOC_WORKS;
	*ret_at = 0;
	return MS_MALLOC_OUT;
}

void ms_inside_mark(const struct ms_collection *frozen, struct ms_source *src)
{
	const struct view view = { frozen, src };
	/* A core has no entry in /proc. */
	bool handlers = !frozen->live_tid || ms_proc_has_handlers(frozen->live_tid);

	src->malloc_code = frozen->malloc_code;
	src->n_malloc_code = frozen->n_malloc_code;
	src->n_linked_code = frozen->n_linked_code;
	src->anchors = frozen->anchors;
	for (size_t i = 0; i < src->threads.n; i++) {
		const struct ms_cpu cpu = { .call = frozen->threads[i].call,
			                    .result = frozen->threads[i].result };
		struct ms_thread *t = &src->threads.at[i];
		bool may_be = ms_inside_is_call(frozen->arch, cpu.call);

		t->runs = may_be && !ms_inside_is_waiting(&cpu);
		t->may_wait = may_be && ms_inside_is_waiting(&cpu);
		t->malloc_at = 0;
		t->in_malloc =
			(uint8_t)look_at(&view, &frozen->threads[i], handlers, &t->malloc_at);
	}
}
