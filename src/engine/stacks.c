/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stacks.h"

#include <string.h>

#include "engine/tcb.h"

/*
 * struct pthread, 64-bit glibc 2.31 to 2.43 (nptl/descr.h, x86_64 tcbhead_t):
 * word 0 and word 2 hold its own address, word 1 the dynamic thread vector; the
 * thread's id is at 720; for the record of its stack see tcb.c. At 704 stand the links of
 * the list of stacks in which glibc keeps the block, in use or for the next thread. A
 * stack that the program gave (pthread_attr_setstack) is in none when its thread has ended
 * and was joined or detached: it is the program's memory again, whatever is left there.
 *
 * At 776 stand the flags of cancelhandling. A thread that ends sets one there, and
 * whoever gives the block back, which is pthread_join(), pthread_detach() or a
 * detached thread itself, sets another: this alone shows whether a result can still
 * be asked for. The id does not: from 2.42 on a join leaves it as the kernel did.
 * Nor does it show which list the block is in: their heads have no name.
 *
 * A read can cost as much as copying some KiB, so whatever is searched is read in large
 * pieces.
 */
enum {
	TCB_BYTES = MS_TCB_BYTES,
	TCB_ALIGN = 64,
	TCB_DTV = 8,
	TCB_SELF = 16,
	TCB_LINKS = 704, /* next and previous */
	TCB_TID = 720,
	TCB_FLAGS = 776,
	DTV_BIAS = 16,  /* the vector is a block whose second entry it points to */
	RED_ZONE = 128, /* bytes below the stack pointer that a leaf function may use */
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

/* A thread control block; zeros where it cannot be read. */
struct tcb {
	ms_addr at;
	size_t n;
	uint64_t words[TCB_BYTES / 8];
};

static void read_tcb(const struct finder *f, ms_addr at, struct tcb *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->at = at;
	ret->n = ms_source_read(f->src, at, ret->words, sizeof(ret->words)) / 8;
}

/* Its record of the stack; empty when none makes sense. */
static struct ms_stack_record stack_record(const struct finder *f, const struct tcb *tcb)
{
	struct ms_stack_record record;
	size_t at = 0;

	while (ms_tcb_next_record(tcb->words, tcb->n, tcb->at, &at, &record))
		if (is_mapped(f->regions, record.block))
			return record;
	return (struct ms_stack_record){ .block = { tcb->at, tcb->at } };
}

static struct ms_range stack_block(const struct finder *f, ms_addr at)
{
	struct tcb tcb;

	read_tcb(f, at, &tcb);
	return stack_record(f, &tcb).block;
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

/*
 * The lowest address in use of @stack, on which a thread runs from @sp on. It is lower than
 * that when a handler runs on a signal stack that lies in a frame of the same stack.
 */
static ms_addr lowest_in_use(const struct finder *f, struct ms_range stack, ms_addr sp)
{
	struct ms_range from = { ms_align_up(sp, 8), stack.end };
	ms_addr lowest = sp;
	ms_addr interrupted;
	size_t n;

	if (from.begin >= from.end)
		return sp - RED_ZONE;
	if (ms_range_len(from) > MS_SIGNAL_FRAMES_BYTES)
		from.end = from.begin + MS_SIGNAL_FRAMES_BYTES;
	n = ms_source_read(f->src, from.begin, f->piece, ms_range_len(from)) / 8;
	for (size_t i = 0; i + MS_SIGNAL_FRAME_WORDS <= n; i++)
		if (ms_signal_frame_at(f->piece + i, from.begin + 8 * i, sp, &interrupted) &&
		    ms_range_has(stack, interrupted) && interrupted < lowest)
			lowest = interrupted;
	return lowest - RED_ZONE;
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

/*
 * A thread on a stack that the program gave, in the middle of a mapping: what lies around
 * it is one piece with it, and as much in use.
 */
static void add_around(struct finder *f, const struct ms_stack_record *own)
{
	const struct ms_region *region = ms_region_of(f->regions, own->block.begin);

	if (own->guarded || !region)
		return;
	if (region->range.begin < own->block.begin)
		add_word(f, own->block.begin - 8);
	if (region->range.end > own->block.end)
		add_word(f, own->block.end);
}

static void add_thread(struct finder *f, const struct ms_thread *t)
{
	const struct ms_region *region = ms_region_of(f->regions, t->sp);
	struct ms_stack_record record = { 0 };
	struct ms_range own = { 0, 0 };
	struct ms_range running = { t->sp - RED_ZONE, t->sp };
	struct tcb tcb;

	if (t->tp) {
		read_tcb(f, t->tp, &tcb);
		record = stack_record(f, &tcb);
		own = record.block;
		if (tcb.n > TCB_DTV / 8)
			add_word(f, tcb.words[TCB_DTV / 8] - DTV_BIAS);
	}
	if (own.end > own.begin)
		add_around(f, &record);
	if (ms_range_has(own, t->sp)) {
		add(f, &f->ret->live, lowest_in_use(f, own, t->sp), own.end);
		add(f, &f->ret->whole, own.begin, own.end);
		return;
	}
	if (region) {
		bool main = region->kind == MS_REGION_STACK;

		running.end = end_of_frames(region, t->sp, t->tp);
		if (main)
			running.begin = lowest_in_use(f, region->range, t->sp);
		add(f, &f->ret->live, running.begin, running.end);
		f->main_seen |= main;
		add(f, &f->ret->whole, main ? region->range.begin : running.begin, running.end);
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

/* Read the flags of a control block; false when they are none. */
static bool read_flags(const struct tcb *tcb, uint32_t *ret)
{
	*ret = (uint32_t)tcb->words[TCB_FLAGS / 8];
	return tcb->n > TCB_FLAGS / 8 && !(*ret & ~(uint32_t)FLAGS);
}

/* True when every living thread has its id and its flags where they are expected. */
static bool layout_fits(const struct finder *f)
{
	const struct ms_thread *t;
	struct tcb tcb;
	uint32_t flags;

	ms_vec_for_each (t, &f->src->threads) {
		if (!t->tp)
			continue;
		read_tcb(f, t->tp, &tcb);
		if ((uint32_t)tcb.words[TCB_TID / 8] != (uint32_t)t->tid ||
		    !read_flags(&tcb, &flags))
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
 * A thread that is not there, but may be joined still. Where that does not show, as of
 * one that is just being made or that fork() left behind, its block is kept: what it
 * returned is no leak before it is known to be one.
 */
static bool may_be_joined(const struct finder *f, const struct tcb *tcb)
{
	const uint32_t gone = FLAG_ENDING | FLAG_GIVEN_BACK;
	uint32_t flags;

	return !f->layout_known || !read_flags(tcb, &flags) || (flags & gone) != gone;
}

/* Whether one of glibc's lists of stacks has it. */
static bool is_listed(const struct finder *f, const struct tcb *tcb)
{
	ms_addr links = tcb->at + TCB_LINKS;
	uint64_t back;
	uint64_t forth;

	return ms_source_word(f->src, tcb->words[TCB_LINKS / 8] + 8, &back) &&
	       ms_source_word(f->src, tcb->words[TCB_LINKS / 8 + 1], &forth) && back == links &&
	       forth == links;
}

static void add_dead_stack(struct finder *f, ms_addr at)
{
	struct ms_range own;
	struct tcb tcb;
	ms_addr end;

	read_tcb(f, at, &tcb);
	own = stack_record(f, &tcb).block;
	end = at + TCB_BYTES < own.end ? at + TCB_BYTES : own.end;
	if (own.end == own.begin)
		return;
	add_word(f, tcb.words[TCB_DTV / 8] - DTV_BIAS);
	if (!is_listed(f, &tcb))
		return;
	f->ret->n_dead++;
	add(f, &f->ret->whole, own.begin, own.end);
	if (may_be_joined(f, &tcb))
		add(f, &f->ret->live, at, end);
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

		if (region->kind != MS_REGION_MEMORY || ms_region_mapping(f->src, region)->file)
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
	f.layout_known = layout_fits(&f);
	ms_vec_for_each (t, &src->threads)
		add_thread(&f, t);
	add_main_stack(&f);
	find_dead_stacks(&f, owned);
	if (!f.ok || !ms_ranges_tidy(arena, &ret->live) || !ms_ranges_tidy(arena, &ret->whole))
		return MS_E_NOMEM;
	return MS_OK;
}
