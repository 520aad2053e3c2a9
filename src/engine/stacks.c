/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stacks.h"

#include <string.h>

/*
 * struct pthread, 64-bit glibc 2.31 to 2.43 (nptl/descr.h, x86_64 tcbhead_t):
 * word 0 and word 2 hold its own address, word 1 the dynamic thread vector; the
 * thread's id is at 720; stackblock and stackblock_size are neighbours whose
 * place varies, so they are looked for by what they must satisfy.
 *
 * At 776 stand the flags of cancelhandling. A thread that ends sets one there, and
 * whoever gives the block back, which is pthread_join(), pthread_detach() or a
 * detached thread itself, sets another: this alone shows whether a result can still
 * be asked for. The id does not: from 2.42 on a join leaves it as the kernel did.
 * Neither do the lists of stacks, whose heads have no name, nor the sums beside them.
 *
 * A read can cost as much as copying some KiB, so whatever is searched is read in large
 * pieces.
 */
enum {
	TCB_BYTES = 2304,
	TCB_ALIGN = 64,
	TCB_DTV = 8,
	TCB_SELF = 16,
	TCB_HEADER = 704, /* tcbhead_t */
	TCB_TID = 720,
	TCB_FLAGS = 776,
	DTV_BIAS = 16,         /* the vector is a block whose second entry it points to */
	RED_ZONE = 128,        /* bytes below the stack pointer that a leaf function may use */
	ABOVE_TCB = 64 * 1024, /* at most so much of the stack block lies behind the block */
	PAGE = 4096,
	MAX_FRAMES = 1 << 16, /* of a stack that runs, looked through for one that was left */
	PIECE = 1 << 20,
};

/* Flags of a thread control block, the same from glibc 2.31 to 2.43. */
enum { FLAG_ENDING = 0x10, FLAG_GIVEN_BACK = 0x20, FLAGS = 0x7f };

struct finder {
	struct ms_source *src;
	const struct ms_regions *regions;
	struct ms_arena *arena;
	struct ms_stacks *ret;
	bool layout_known; /* every living thread's id and flags are where they are expected */
	bool main_seen;    /* some thread runs on the main stack */
	uint64_t *piece;   /* PIECE bytes to read into */
	bool ok;           /* false: no memory */
};

static void add(struct finder *f, struct ms_ranges *to, ms_addr begin, ms_addr end)
{
	f->ok &= ms_ranges_add(f->arena, to, begin, end);
}

static void add_word(struct finder *f, uint64_t word)
{
	uint64_t *slot = ms_vec_push(f->arena, &f->ret->words);

	f->ok &= slot != NULL;
	if (slot)
		*slot = word;
}

/* True when memory is mapped from @range's begin to its end without a hole. */
static bool is_mapped(const struct ms_regions *regions, struct ms_range range)
{
	const struct ms_region *r = ms_region_of(regions, range.begin);

	while (r && r->range.end < range.end) {
		const struct ms_region *next = r + 1;

		if (next == regions->at + regions->n || next->range.begin != r->range.end)
			return false;
		r = next;
	}
	return r;
}

/* The stack block that the thread control block at @tcb names; empty when none makes sense. */
static struct ms_range stack_block(const struct finder *f, ms_addr tcb)
{
	uint64_t words[TCB_BYTES / 8];
	size_t n = ms_source_read(f->src, tcb, words, sizeof(words)) / 8;

	for (size_t i = TCB_HEADER / 8; i + 1 < n; i++) {
		ms_addr begin = words[i];
		uint64_t len = words[i + 1];

		if (begin <= tcb && begin % 16 == 0 && len >= PAGE && tcb - begin < len &&
		    len - (tcb - begin) <= ABOVE_TCB &&
		    is_mapped(f->regions, (struct ms_range){ begin, begin + len }))
			return (struct ms_range){ begin, begin + len };
	}
	return (struct ms_range){ tcb, tcb };
}

/* The lowest word in [@from, @to) that points into @stack; its begin when there is none. */
static ms_addr lowest_pointer_into(const struct finder *f, struct ms_range from,
                                   struct ms_range stack)
{
	ms_addr lowest = stack.end;

	if (ms_range_len(from) > MAX_FRAMES)
		from.end = from.begin + MAX_FRAMES;
	from.begin = ms_align_up(from.begin, 8);
	while (from.begin + 8 <= from.end) {
		size_t n = ms_source_read(f->src, from.begin, f->piece, ms_range_len(from)) / 8;

		for (size_t i = 0; i < n; i++)
			if (ms_range_has(stack, f->piece[i]) && f->piece[i] < lowest)
				lowest = f->piece[i];
		/* Go on behind what is not readable. */
		from.begin = ms_align_up(from.begin + 8 * n + 1, n ? 8 : PAGE);
	}
	return lowest == stack.end ? stack.begin : lowest;
}

static const struct ms_region *main_stack(const struct ms_regions *regions)
{
	const struct ms_region *r;

	ms_vec_for_each (r, regions)
		if (r->kind == MS_REGION_STACK)
			return r;
	return NULL;
}

/* Where the frames end that begin at @sp, when no stack block is known. */
static ms_addr end_of_frames(const struct ms_region *region, ms_addr sp, ms_addr tp)
{
	if (tp > sp && ms_range_has(region->range, tp)) {
		ms_addr end = ms_align_up(tp + TCB_BYTES, PAGE);

		return end < region->range.end ? end : region->range.end;
	}
	return region->range.end;
}

/*
 * A thread that runs elsewhere than on its own stack: on a signal stack, or as a
 * coroutine. The frames that it left are alive from the stack pointer saved there.
 */
static void add_left_stack(struct finder *f, struct ms_range running, struct ms_range own)
{
	add(f, &f->ret->live, lowest_pointer_into(f, running, own), own.end);
	add(f, &f->ret->whole, own.begin, own.end);
}

static void add_thread(struct finder *f, const struct ms_thread *t)
{
	const struct ms_region *region = ms_region_of(f->regions, t->sp);
	struct ms_range own = { 0, 0 };
	struct ms_range running = { t->sp - RED_ZONE, t->sp };
	uint64_t dtv;

	if (t->tp) {
		own = stack_block(f, t->tp);
		if (ms_source_word(f->src, t->tp + TCB_DTV, &dtv))
			add_word(f, dtv - DTV_BIAS);
	}
	if (ms_range_has(own, t->sp)) {
		add(f, &f->ret->live, running.begin, own.end);
		add(f, &f->ret->whole, own.begin, own.end);
		return;
	}
	if (region) {
		running.end = end_of_frames(region, t->sp, t->tp);
		add(f, &f->ret->live, running.begin, running.end);
		f->main_seen |= region->kind == MS_REGION_STACK;
		add(f, &f->ret->whole,
		    region->kind == MS_REGION_STACK ? region->range.begin : running.begin,
		    running.end);
	}
	if (own.end > own.begin)
		add_left_stack(f, running, own);
}

/* The main thread may have left its stack, like any other. */
static void add_main_stack(struct finder *f)
{
	const struct ms_region *stack = main_stack(f->regions);
	const struct ms_thread *t;

	if (!stack || f->main_seen)
		return;
	ms_vec_for_each (t, &f->src->threads) {
		const struct ms_region *region = ms_region_of(f->regions, t->sp);

		if (!region || (t->tp && ms_range_has(stack_block(f, t->tp), t->sp)))
			continue;
		add_left_stack(f, (struct ms_range){ t->sp, region->range.end }, stack->range);
		return;
	}
}

/* Read the flags of the block at @tcb; false when they are none. */
static bool read_flags(struct ms_source *src, ms_addr tcb, uint32_t *ret)
{
	return ms_source_read(src, tcb + TCB_FLAGS, ret, 4) == 4 && !(*ret & ~(uint32_t)FLAGS);
}

/* True when every living thread has its id and its flags where they are expected. */
static bool layout_fits(struct ms_source *src)
{
	const struct ms_thread *t;
	uint32_t flags;
	uint32_t tid;

	ms_vec_for_each (t, &src->threads) {
		if (!t->tp)
			continue;
		if (ms_source_read(src, t->tp + TCB_TID, &tid, 4) != 4 || tid != (uint32_t)t->tid ||
		    !read_flags(src, t->tp, &flags))
			return false;
	}
	return true;
}

static bool is_living_thread(const struct ms_source *src, ms_addr tcb)
{
	const struct ms_thread *t;

	ms_vec_for_each (t, &src->threads)
		if (t->tp == tcb)
			return true;
	return false;
}

/*
 * A thread that is not there, but may be joined still. Where that cannot be told, as of
 * one that is just being made or that fork() left behind, its block is kept: what it
 * returned is no leak before it is known to be one.
 */
static bool may_be_joined(const struct finder *f, ms_addr tcb)
{
	const uint32_t gone = FLAG_ENDING | FLAG_GIVEN_BACK;
	uint32_t flags;

	return !f->layout_known || !read_flags(f->src, tcb, &flags) || (flags & gone) != gone;
}

static void add_dead_stack(struct finder *f, ms_addr tcb)
{
	struct ms_range own = stack_block(f, tcb);
	ms_addr end = tcb + TCB_BYTES < own.end ? tcb + TCB_BYTES : own.end;
	uint64_t dtv;

	if (own.end == own.begin)
		return;
	f->ret->n_dead++;
	add(f, &f->ret->whole, own.begin, own.end);
	if (ms_source_word(f->src, tcb + TCB_DTV, &dtv))
		add_word(f, dtv - DTV_BIAS);
	if (may_be_joined(f, tcb))
		add(f, &f->ret->live, tcb, end);
}

/* Look for control blocks: a word that holds its own address, as does the second behind it. */
static void find_dead_in(struct finder *f, struct ms_range run)
{
	const uint64_t *piece = f->piece;

	for (ms_addr at = ms_align_up(run.begin, TCB_ALIGN); at < run.end; at += PIECE) {
		uint64_t left = run.end - at;
		size_t n = ms_source_read(f->src, at, f->piece,
		                          left < PIECE ? (size_t)left : (size_t)PIECE);

		for (size_t i = 0; i + TCB_SELF < n; i += TCB_ALIGN)
			if (piece[i / 8] == at + i && piece[(i + TCB_SELF) / 8] == at + i &&
			    !is_living_thread(f->src, at + i))
				add_dead_stack(f, at + i);
	}
}

static void find_dead_stacks(struct finder *f, const struct ms_ranges *owned)
{
	const struct ms_region *region;

	ms_vec_for_each (region, f->regions) {
		struct ms_range rest = region->range;
		struct ms_range gap;
		struct ms_range run;

		if (region->kind != MS_REGION_MEMORY || ms_region_mapping(f->src, region)->inode)
			continue;
		while (ms_range_next_gap(&rest, owned, &gap))
			while (ms_source_present(f->src, gap, &run)) {
				find_dead_in(f, run);
				gap.begin = run.end;
			}
	}
}

enum ms_status ms_stacks_find(struct ms_source *src, const struct ms_regions *regions,
                              const struct ms_ranges *owned, struct ms_arena *arena,
                              struct ms_stacks *ret)
{
	struct finder f = {
		.src = src, .regions = regions, .arena = arena, .ret = ret, .ok = true
	};
	const struct ms_thread *t;

	f.piece = ms_arena_alloc(arena, PIECE);
	if (!f.piece)
		return MS_E_NOMEM;
	f.layout_known = layout_fits(src);
	ms_vec_for_each (t, &src->threads)
		add_thread(&f, t);
	add_main_stack(&f);
	find_dead_stacks(&f, owned);
	if (!f.ok || !ms_ranges_tidy(arena, &ret->live) || !ms_ranges_tidy(arena, &ret->whole))
		return MS_E_NOMEM;
	return MS_OK;
}
