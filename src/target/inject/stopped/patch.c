/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/stopped/patch.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"

enum { MOST_STACK = 1 << 30 };

/* The order in which jumps are put in; they are taken out from the end. */
struct order {
	uint8_t at[MS_AGENT_N];
};

static unsigned turn_of(size_t i)
{
	if (i == MS_AGENT_MALLOC)
		return 2;
	return ms_function_releases((enum ms_agent_function)i) ? 0 : 1;
}

static struct order order_all(void)
{
	struct order order = { { 0 } };
	size_t n = 0;

	for (unsigned turn = 0; turn <= 2; turn++)
		for (size_t i = 0; i < MS_AGENT_N; i++)
			if (turn_of(i) == turn)
				order.at[n++] = (uint8_t)i;
	assert(n == MS_AGENT_N);
	return order;
}

static ms_addr slot_of(const struct ms_patch *patch, size_t i)
{
	return patch->text + MS_AGENT_SLOTS_AT + i * MS_AGENT_SLOT_BYTES;
}

static ms_addr moved_of(const struct ms_patch *patch, size_t i)
{
	return slot_of(patch, i) + MS_AGENT_MOVED_AT;
}

/* ---- the slots ---- */

static bool make_slot(struct ms_patch *patch, size_t i)
{
	const struct ms_place *place = &patch->functions->at[i].place;
	uint8_t *slot = patch->slots[i];
	ms_addr hook = patch->text + patch->head.functions[i].hook;
	uint8_t jump[MS_JUMP];

	static_assert(MS_PLACE_UNDO + MS_JUMP <= MS_AGENT_MOVED_AT, "room for the glue");
	static_assert(MS_PLACE_MOVED <= MS_AGENT_SLOT_BYTES - MS_AGENT_MOVED_AT,
	              "and for the rest");
	if (!ms_place_move(place, moved_of(patch, i), &patch->moved[i]) ||
	    !ms_jump_write(slot_of(patch, i) + place->n_undo, hook, slot + place->n_undo) ||
	    !ms_jump_write(place->window, slot_of(patch, i), jump))
		return false;
	memcpy(slot, place->undo, place->n_undo);
	memcpy(slot + MS_AGENT_MOVED_AT, patch->moved[i].bytes, patch->moved[i].len);
	return true;
}

enum ms_status ms_patch_prepare(struct ms_patch *patch, struct ms_error *err)
{
	memset(patch->slots, 0, sizeof(patch->slots));
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		if (!patch->functions->at[i].found || make_slot(patch, i))
			continue;
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "%s of process %d leads further than 2 GB away",
		              ms_function_name((enum ms_agent_function)i), patch->pid);
		ms_advise(err, "start the program with libmalloc_debug instead");
		return err->status;
	}
	return MS_OK;
}

/* ---- what stands there ---- */

static enum ms_window window_of(const struct ms_patch *patch, size_t i)
{
	return ms_window_look(patch->mem_fd, &patch->functions->at[i].place,
	                      patch->text ? slot_of(patch, i) : 0);
}

struct ms_patch_state ms_patch_look(const struct ms_patch *patch)
{
	struct ms_patch_state state = { .frees = true };

	for (size_t i = 0; i < MS_AGENT_N; i++) {
		enum ms_window window;

		if (!patch->functions->at[i].found)
			continue;
		window = window_of(patch, i);
		state.n_found++;
		state.n_ours += window == MS_WINDOW_OURS;
		if (ms_function_releases((enum ms_agent_function)i) && window != MS_WINDOW_OURS)
			state.frees = false;
		if (window == MS_WINDOW_FOREIGN && !state.foreign)
			state.foreign = ms_function_name((enum ms_agent_function)i);
	}
	return state;
}

enum ms_status ms_patch_check(const struct ms_patch *patch, struct ms_error *err)
{
	const char *foreign = ms_patch_look(patch).foreign;

	if (!foreign)
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s of process %d is changed already by another tool",
	              foreign, patch->pid);
	ms_advise(err, "end that tool (a profiler, a debugger's breakpoint, another memscan) and "
	               "try again");
	return err->status;
}

/* ---- threads ---- */

static enum ms_status check_stands(const struct ms_freezer *frozen, const struct ms_tracee *tracee,
                                   struct ms_error *err)
{
	pid_t pid = frozen->shared->pid;

	if (tracee->group_stop) {
		(void)ms_fail(err, MS_E_DENIED, "process %d is stopped by a signal", pid);
		ms_advise(err, "let it go on (kill -CONT %d) and try again", pid);
		return err->status;
	}
	if (tracee->state == MS_TRACEE_STOPPED)
		return MS_OK;
	(void)ms_fail(
		err, MS_E_BUSY,
		"thread %d of process %d does not stop: it waits in the kernel, perhaps for a "
		"child of vfork",
		tracee->tid, pid);
	ms_advise(err, "try again in another moment");
	return err->status;
}

static enum ms_status fail_block(const struct ms_patch *patch, pid_t tid,
                                 enum ms_control_verdict verdict, struct ms_error *err)
{
	if (verdict == MS_CONTROL_USED) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "a tool uses what the C library leaves free in the control block of "
		              "thread %d of process %d",
		              tid, patch->pid);
		ms_advise(err, "end that tool and try again");
		return err->status;
	}
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "thread %d of process %d was not made by the C library, or that is a version "
	              "of %s that is not known",
	              tid, patch->pid, patch->functions->control->name);
	ms_advise(err, "start the program with libmalloc_debug instead");
	return err->status;
}

enum ms_status ms_patch_check_stand(const struct ms_freezer *frozen, struct ms_error *err)
{
	const struct ms_collection *shared = frozen->shared;
	const struct ms_tracee *tracee;

	ms_vec_for_each (tracee, &frozen->tracees) {
		enum ms_status st = check_stands(frozen, tracee, err);

		if (st)
			return st;
	}
	if (shared->n_threads != frozen->tracees.n)
		return ms_fail(err, MS_E_BUSY, "a thread of process %d ended meanwhile",
		               shared->pid);
	return MS_OK;
}

enum ms_status ms_patch_check_blocks(const struct ms_patch *patch, const struct ms_freezer *frozen,
                                     bool agent_was, struct ms_error *err)
{
	const struct ms_collection *shared = frozen->shared;
	bool any = false;

	for (uint32_t i = 0; i < shared->n_threads; i++) {
		const struct ms_frozen_thread *thread = &shared->threads[i];
		const struct ms_control_block *block = &patch->blocks.at[i];
		enum ms_control_verdict verdict = MS_CONTROL_UNKNOWN;

		/* musl's threads unmap their own before they end. */
		if (thread->tp && !block->has_words)
			return ms_fail(err, MS_E_BUSY,
			               "thread %d of process %d has no control block; it may be "
			               "about to end",
			               thread->tid, patch->pid);
		if (thread->tp)
			verdict = ms_control_check(patch->functions->control, thread->tp,
			                           block->words, agent_was);
		if (verdict != MS_CONTROL_FREE && verdict != MS_CONTROL_MOVING)
			return fail_block(patch, thread->tid, verdict, err);
		any = any || verdict == MS_CONTROL_FREE;
	}
	return any ? MS_OK : fail_block(patch, shared->threads[0].tid, MS_CONTROL_UNKNOWN, err);
}

static struct ms_range text_range(const struct ms_patch *patch)
{
	return (struct ms_range){ patch->text, patch->text + MS_AGENT_TEXT_BYTES };
}

enum ms_words_verdict ms_patch_inside(struct ms_patch *patch, const struct ms_collection *frozen,
                                      pid_t *ret)
{
	struct ms_range text = text_range(patch);

	for (uint32_t i = 0; i < frozen->n_threads; i++) {
		if (!ms_range_has(text, frozen->threads[i].pc))
			continue;
		*ret = frozen->threads[i].tid;
		return MS_WORDS_FOUND;
	}
	return ms_words_find(&patch->words, frozen, &(struct ms_ranges){ &text, 1, 1 }, ret);
}

enum ms_status ms_patch_fail_stacks(const struct ms_patch *patch, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_BUSY,
	              "to look through the stacks of process %d takes longer than the %d ms that "
	              "its threads may stand for it",
	              patch->pid, MS_WORDS_LIMIT_MS);
	ms_advise(err, "try again when fewer of its threads run, or start the program with "
	               "libmalloc_debug instead");
	return err->status;
}

void ms_patch_zero_counts(const struct ms_patch *patch, const struct ms_collection *frozen)
{
	const struct ms_control *control = patch->functions->control;
	const uint64_t none = 0;

	for (uint32_t i = 0; i < frozen->n_threads; i++) {
		const struct ms_control_block *block = &patch->blocks.at[i];
		const ms_addr tp = frozen->threads[i].tp;

		/* That of a thread which is about to end may be unmapped, and something else. */
		if (!block->has_words || block->words[0] != tp)
			continue;
		if (block->words[control->left / 8])
			(void)!pwrite(patch->mem_fd, &none, sizeof(none),
			              (off_t)(tp + control->left));
		if (((const uint8_t *)block->words)[control->started])
			(void)!pwrite(patch->mem_fd, &none, 1, (off_t)(tp + control->started));
	}
}

/* Whether what the control block at @tp has for the thread's stack is one. */
static bool has_stackblock(const struct ms_control_block *block, ms_addr tp)
{
	const uint64_t *stack = block->stack;

	return block->has_stack && stack[0] && stack[0] % 16 == 0 && tp - stack[0] < stack[1] &&
	       stack[1] < MOST_STACK;
}

uint64_t ms_patch_stackblock(const struct ms_patch *patch, const struct ms_collection *frozen)
{
	const uint64_t at = patch->functions->control->stack;

	for (uint32_t i = 0; i < frozen->n_threads; i++)
		if (frozen->threads[i].tid != frozen->pid &&
		    !has_stackblock(&patch->blocks.at[i], frozen->threads[i].tp))
			return 0;
	return at;
}

/* Where each thread is to go on; 0 leaves it. */
static bool lead(const struct ms_patch *patch, const struct ms_freezer *frozen,
                 ms_addr (*where)(const struct ms_patch *patch, ms_addr pc))
{
	struct ms_collection *shared = frozen->shared;

	for (uint32_t i = 0; i < shared->n_threads; i++) {
		ms_addr pc = where(patch, shared->threads[i].pc);

		if (!pc)
			continue;
		if (!frozen->arch->stepping->set_pc(shared->threads[i].tid, pc))
			return false;
		shared->threads[i].pc = pc;
	}
	return true;
}

/* ---- writing ---- */

/* By the word, of which a kernel that lets no one write to code by /proc does not know. */
static bool poke(pid_t tid, ms_addr at, const uint8_t *bytes, size_t len)
{
	while (len) {
		size_t in_page = MS_PAGE_BYTES - at % MS_PAGE_BYTES;
		/* A word does not cross pages, so that it is written whole. */
		size_t before = in_page < sizeof(uint64_t) ? sizeof(uint64_t) - in_page : 0;
		size_t n = sizeof(uint64_t) - before;
		uint64_t word;

		n = n < len ? n : len;
		/* The raw call stores the word; glibc's wrapper returns it. */
		if (syscall(SYS_ptrace, PTRACE_PEEKTEXT, tid, at - before, &word))
			return false;
		memcpy((uint8_t *)&word + before, bytes, n);
		if (syscall(SYS_ptrace, PTRACE_POKETEXT, tid, at - before, word))
			return false;
		at += n;
		bytes += n;
		len -= n;
	}
	return true;
}

bool ms_code_write(int mem_fd, pid_t tid, ms_addr at, const void *bytes, size_t len)
{
	return pwrite(mem_fd, bytes, len, (off_t)at) == (ssize_t)len || poke(tid, at, bytes, len);
}

static enum ms_status fail_write(const struct ms_patch *patch, size_t i, struct ms_error *err)
{
	(void)ms_fail_sys(err, errno, "the kernel does not let memscan write to %s of process %d",
	                  ms_function_name((enum ms_agent_function)i), patch->pid);
	ms_advise(err,
	          "see memscan attach --status: functions may be diverted in part, which does no "
	          "harm; memscan detach takes them back");
	return err->status;
}

/* ---- in ---- */

static ms_addr moved_pc(const struct ms_patch *patch, ms_addr pc)
{
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		ms_addr to = 0;

		if (patch->functions->at[i].found)
			to = ms_place_moved_pc(&patch->functions->at[i].place, &patch->moved[i],
			                       moved_of(patch, i), pc);
		if (to && window_of(patch, i) == MS_WINDOW_PLAIN)
			return to;
	}
	return 0;
}

/* What lies behind the first byte of each window: whoever comes back to there finds half a jump. */
static size_t insides(const struct ms_patch *patch, struct ms_range ret[MS_AGENT_N])
{
	size_t n = 0;

	for (size_t i = 0; i < MS_AGENT_N; i++)
		if (patch->functions->at[i].found)
			ret[n++] = (struct ms_range){ patch->functions->at[i].place.window + 1,
				                      patch->functions->at[i].place.end };
	return n;
}

enum ms_status ms_patch_look_ahead(struct ms_patch *patch, uint32_t max_threads,
                                   struct ms_arena *arena, struct ms_error *err)
{
	struct ms_range at[MS_AGENT_N + 1];
	struct ms_ranges wanted = { at, insides(patch, at), MS_AGENT_N + 1 };
	enum ms_status st = ms_control_blocks_init(&patch->blocks, patch->functions->control,
	                                           max_threads, arena, err);

	if (st)
		return st;
	at[wanted.n++] = text_range(patch);
	patch->words = (struct ms_words_search){ .stack_at = patch->functions->control->stack,
		                                 .max_threads = max_threads };
	return ms_words_prepare(&patch->words, patch->pid, &wanted, arena, err);
}

/* That no thread comes back to the inside of a window. */
static enum ms_status check_windows(struct ms_patch *patch, const struct ms_collection *frozen,
                                    bool *ret_unknown, struct ms_error *err)
{
	struct ms_range at[MS_AGENT_N];
	const struct ms_ranges wanted = { at, insides(patch, at), MS_AGENT_N };
	pid_t back;

	switch (ms_words_find(&patch->words, frozen, &wanted, &back)) {
	case MS_WORDS_NONE:
		return MS_OK;
	case MS_WORDS_UNKNOWN:
		*ret_unknown = true;
		return ms_patch_fail_stacks(patch, err);
	case MS_WORDS_FOUND:
		break;
	}
	(void)ms_fail(err, MS_E_BUSY, "a signal has interrupted thread %d at the begin of malloc",
	              back);
	ms_advise(err, "try again");
	return err->status;
}

enum ms_status ms_patch_divert(struct ms_patch *patch, const struct ms_freezer *frozen,
                               bool *ret_unknown, struct ms_error *err)
{
	pid_t tid = frozen->shared->threads[0].tid;
	const struct order order = order_all();

	if (check_windows(patch, frozen->shared, ret_unknown, err))
		return err->status;
	/* First: the moved code does the same, jump or no jump. */
	if (!lead(patch, frozen, moved_pc))
		return ms_fail(err, MS_E_GONE, "a thread of process %d was killed", patch->pid);
	for (size_t k = 0; k < MS_AGENT_N; k++) {
		size_t i = order.at[k];
		const struct ms_place *place = &patch->functions->at[i].place;
		uint8_t jump[MS_JUMP];

		if (!patch->functions->at[i].found || window_of(patch, i) != MS_WINDOW_PLAIN)
			continue;
		(void)ms_jump_write(place->window, slot_of(patch, i), jump);
		if (!ms_code_write(patch->mem_fd, tid, place->window, jump, sizeof(jump)))
			return fail_write(patch, i, err);
	}
	return MS_OK;
}

/* ---- out ---- */

/* The same place in function @i, of a thread that is at @pc in what stands for it. */
static ms_addr original_pc_in(const struct ms_patch *patch, size_t i, ms_addr pc)
{
	const struct ms_place *place = &patch->functions->at[i].place;
	const struct ms_moved *moved = &patch->moved[i];
	ms_addr glue = slot_of(patch, i);
	const struct ms_range fast = { patch->text + patch->head.functions[i].hook,
		                       patch->text + patch->head.functions[i].fast_end };

	if (pc == glue && place->n_undo)
		return place->window;
	if (pc == glue + place->n_undo || ms_range_has(fast, pc))
		return place->entry;
	for (unsigned k = 0; k < place->n_insns; k++)
		if (pc == moved_of(patch, i) + moved->at[k])
			return place->entry + place->at[k];
	return pc == moved_of(patch, i) + moved->at[place->n_insns] ? place->end : 0;
}

static ms_addr original_pc(const struct ms_patch *patch, ms_addr pc)
{
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		ms_addr to = patch->functions->at[i].found ? original_pc_in(patch, i, pc) : 0;

		if (to)
			return to;
	}
	return 0;
}

enum ms_status ms_patch_restore(const struct ms_patch *patch, const struct ms_freezer *frozen,
                                struct ms_error *err)
{
	pid_t tid = frozen->shared->threads[0].tid;
	const struct order order = order_all();

	for (size_t k = MS_AGENT_N; k-- > 0;) {
		size_t i = order.at[k];
		const struct ms_place *place = &patch->functions->at[i].place;

		if (!patch->functions->at[i].found || window_of(patch, i) != MS_WINDOW_OURS)
			continue;
		if (!ms_code_write(patch->mem_fd, tid, place->window,
		                   place->bytes + (place->window - place->entry), MS_JUMP))
			return fail_write(patch, i, err);
	}
	/* Afterwards: until then what they would find there is half a jump. */
	if (!lead(patch, frozen, original_pc))
		return ms_fail(err, MS_E_GONE, "a thread of process %d was killed", patch->pid);
	return MS_OK;
}
