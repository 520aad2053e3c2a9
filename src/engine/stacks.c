/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/stacks.h"

#include "base/sort.h"
#include "engine/signal_frame.h"

/*
 * A read can cost as much as copying some KiB, so whatever is searched is read in large
 * pieces.
 */
enum {
	MAX_FRAMES = 1 << 16, /* of a stack that runs, looked through for one that was left */
	PIECE = 1 << 20,
	STEP = PIECE - MS_LIBC_KNOWN_BYTES,
};

struct finder {
	const struct ms_decoding *d;
	struct ms_source *src;
	const struct ms_regions *regions;
	const struct ms_libc_view *libc;
	struct ms_arena *arena;
	struct ms_stacks *ret;
	struct ms_ranges living; /* where control blocks of threads begin; tidy */
	bool main_seen;          /* some thread runs on the main stack */
	uint64_t *piece;         /* to read into: PIECE bytes, or words of any size */
	int32_t tid;             /* of the thread that is looked at; 0: one that ended */
	bool ok;                 /* false: no memory */
};

static void add(struct finder *f, struct ms_ranges *to, ms_addr begin, ms_addr end)
{
	f->ok &= ms_ranges_add(f->arena, to, begin, end);
}

static void add_part(struct finder *f, ms_addr begin, ms_addr end, bool open)
{
	struct ms_stack_part *part;

	if (begin >= end)
		return;
	add(f, &f->ret->live, begin, end);
	part = ms_vec_push(f->arena, &f->ret->parts);
	f->ok &= part != NULL;
	if (part)
		*part = (struct ms_stack_part){ { begin, end }, f->tid, open };
}

static void add_live(struct finder *f, ms_addr begin, ms_addr end)
{
	add_part(f, begin, end, false);
}

static void add_word(struct finder *f, uint64_t word, bool tls)
{
	uint64_t *slot = ms_vec_push(f->arena, &f->ret->words);
	struct ms_stack_word *owner = ms_vec_push(f->arena, &f->ret->word_owners);

	f->ok &= slot && owner;
	if (!slot || !owner)
		return;
	*slot = word;
	*owner = (struct ms_stack_word){ f->tid, tls };
}

/* The stack that a control block says; empty when none makes sense. */
static struct ms_stack_record stack_record(const struct finder *f,
                                           const struct ms_libc_bytes *block)
{
	struct ms_stack_record record;
	size_t at = 0;

	while (f->libc->ops->next_stack(block, &at, &record))
		if (ms_regions_cover(f->regions, record.block))
			return record;
	return (struct ms_stack_record){ .block = { block->at, block->at } };
}

static struct ms_range stack_block(const struct finder *f, ms_addr at)
{
	uint8_t room[MS_LIBC_BLOCK_BYTES];
	struct ms_libc_bytes block = ms_libc_read(f->src, at, room);

	return stack_record(f, &block).block;
}

static void add_table(struct finder *f, const struct ms_libc_thread *thread)
{
	if (thread->tls)
		add_word(f, thread->tls, true);
}

/*
 * The allocator's cache of a thread that fork() left behind: nobody can give it back, and it is
 * no block of the program's. A thread that ends has given it back, and cleared the pointer.
 */
static void add_cache(struct finder *f, const struct ms_libc_bytes *block)
{
	const struct ms_cache_place *place;
	uint64_t cache;

	if (!block->tp)
		return;
	ms_vec_for_each (place, &f->d->cache_places) {
		uint64_t usable;

		if (!ms_source_word(f->src, block->tp - place->below_tp, &cache) || !cache)
			continue;
		usable = ms_blocks_usable(f->d->blocks, cache);
		if (usable >= place->min_bytes && usable <= place->max_bytes)
			add_word(f, cache, true);
	}
}

/*
 * Whether a frame pointer may lead to @at: behind what that register held before, the address of an
 * instruction stands there. A callee-saved register may bring it to any stack, so that it says
 * nothing of where its own was left.
 */
static bool is_frame(const struct finder *f, ms_addr at)
{
	const struct ms_mapping *map;
	uint64_t pc;

	if (!ms_source_word(f->src, at + f->src->abi.word_bytes, &pc))
		return false;
	map = ms_range_find(&f->src->mappings, pc);
	return map && map->prot & MS_PROT_EXEC;
}

/*
 * The lowest word in @from that points into @stack; its begin when there is none, it may be the
 * pointer to a frame, or no such word says anything.
 */
static ms_addr lowest_pointer_into(const struct finder *f, struct ms_range from,
                                   struct ms_range stack)
{
	const struct ms_abi *abi = &f->src->abi;
	const uint8_t word = abi->word_bytes;
	ms_addr lowest = stack.end;

	if (abi->stays_anywhere)
		return stack.begin;
	if (ms_range_len(from) > MAX_FRAMES)
		from.end = from.begin + MAX_FRAMES;
	from.begin = ms_align_up(from.begin, word);
	while (from.begin + word <= from.end) {
		size_t n = ms_source_words(f->src, from.begin, f->piece, ms_range_len(from) / word);

		for (size_t i = 0; i < n; i++) {
			ms_addr value = ms_abi_address(abi, f->piece[i]);

			if (ms_range_has(stack, value) && value < lowest)
				lowest = value;
		}
		/* Go on behind what is not readable. */
		from.begin = ms_align_up(from.begin + word * n + 1, n ? word : abi->page_bytes);
	}
	return lowest == stack.end || is_frame(f, lowest) ? stack.begin : lowest;
}

/*
 * The lowest address in use of @stack, on which a thread runs from @sp on. It is lower than
 * that when a handler runs on a signal stack that lies in a frame of the same stack.
 */
static ms_addr lowest_in_use(const struct finder *f, struct ms_range stack, ms_addr sp)
{
	const struct ms_abi *abi = &f->src->abi;
	struct ms_range from = { ms_align_up(sp, abi->word_bytes), stack.end };
	ms_addr lowest = sp;
	ms_addr interrupted;
	size_t n;

	if (from.begin >= from.end)
		return sp - abi->red_zone_bytes;
	if (ms_range_len(from) > MS_SIGNAL_FRAMES_BYTES)
		from.end = from.begin + MS_SIGNAL_FRAMES_BYTES;
	n = ms_source_words(f->src, from.begin, f->piece, ms_range_len(from) / abi->word_bytes);
	for (size_t i = 0; i + abi->signal_frame.words <= n; i++)
		if (ms_signal_frame_at(&abi->signal_frame, f->piece + i,
		                       from.begin + abi->word_bytes * i, sp, &interrupted) &&
		    ms_range_has(stack, interrupted) && interrupted < lowest)
			lowest = interrupted;
	return lowest - abi->red_zone_bytes;
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
static ms_addr end_of_frames(const struct finder *f, const struct ms_region *region, ms_addr sp,
                             ms_addr tp)
{
	if (tp > sp && !f->src->abi.tls_above && ms_range_has(region->range, tp)) {
		ms_addr end = ms_align_up(tp + f->libc->ops->block_bytes, f->src->abi.page_bytes);

		return end < region->range.end ? end : region->range.end;
	}
	return region->range.end;
}

/*
 * A thread that runs elsewhere than on its own stack: on a signal stack, or as a
 * coroutine. The frames that it left are alive from the stack pointer saved there. But a
 * coroutine's may be saved elsewhere, and the lowest pointer be one to a caller's variable.
 */
static void add_left_stack(struct finder *f, struct ms_range running, struct ms_range own)
{
	ms_addr lowest = lowest_pointer_into(f, running, own);

	add_live(f, lowest, own.end);
	if (lowest > own.begin)
		add(f, &f->ret->doubtful, own.begin, lowest);
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
		add_word(f, own->block.begin - f->src->abi.word_bytes, false);
	if (region->range.end > own->block.end)
		add_word(f, own->block.end, false);
}

static void add_thread(struct finder *f, const struct ms_thread *t)
{
	const struct ms_region *region = ms_region_of(f->regions, t->sp);
	struct ms_stack_record record = { 0 };
	struct ms_range own = { 0, 0 };
	struct ms_range running = { t->sp - f->src->abi.red_zone_bytes, t->sp };
	uint8_t room[MS_LIBC_BLOCK_BYTES];

	f->tid = t->tid;
	if (t->tp) {
		struct ms_libc_bytes block = ms_libc_read(f->src, t->tp, room);
		struct ms_libc_thread thread = { 0 };

		f->libc->ops->thread(&block, &thread);
		add_table(f, &thread);
		record = stack_record(f, &block);
		own = record.block;
	}
	if (own.end > own.begin)
		add_around(f, &record);
	if (ms_range_has(own, t->sp)) {
		add_live(f, lowest_in_use(f, own, t->sp), own.end);
		add(f, &f->ret->whole, own.begin, own.end);
		return;
	}
	if (region) {
		bool main = region->kind == MS_REGION_STACK;

		running.end = end_of_frames(f, region, t->sp, t->tp);
		if (main)
			running.begin = lowest_in_use(f, region->range, t->sp);
		add_part(f, running.begin, running.end, !main);
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
		f->tid = t->tid;
		add_left_stack(f, (struct ms_range){ t->sp, region->range.end }, stack->range);
		return;
	}
}

/* Where the control blocks of the threads begin, so that each is looked up in O(log threads). */
static void find_living(struct finder *f)
{
	const struct ms_thread *t;

	ms_vec_for_each (t, &f->src->threads) {
		struct ms_range begins = ms_libc_begins(&f->src->abi, t->tp);

		add(f, &f->living, begins.begin, begins.end);
	}
	f->ok &= ms_ranges_tidy(f->arena, &f->living);
}

/*
 * The thread is not there, but may be joined still. Where that does not show, as of one that
 * is just being made or that fork() left behind, its block is kept: what it returned is no
 * leak before it is known to be one.
 */
static void add_dead_stack(struct finder *f, ms_addr at)
{
	uint8_t room[MS_LIBC_BLOCK_BYTES];
	struct ms_libc_bytes block = ms_libc_read_found(f->src, f->libc, at, room);
	struct ms_range own = stack_record(f, &block).block;
	struct ms_libc_thread thread = { 0 };
	ms_addr end = at + f->libc->ops->block_bytes;

	add_cache(f, &block);
	if (own.end == own.begin)
		return;
	f->libc->ops->thread(&block, &thread);
	add_table(f, &thread);
	if (!f->libc->ops->keeps(f->src, &block))
		return;
	f->ret->n_dead++;
	add(f, &f->ret->whole, own.begin, own.end);
	if (!f->libc->layout_known || !thread.over)
		add_live(f, at, end < own.end ? end : own.end);
}

static void find_dead_in(struct finder *f, struct ms_range run)
{
	struct ms_libc_bytes piece = { .abi = &f->src->abi, .bytes = (uint8_t *)f->piece };

	run.begin = ms_align_up(run.begin, MS_LIBC_BLOCK_ALIGN);
	/* A block that begins in the last bytes of a piece is found in the next one. */
	for (piece.at = run.begin; piece.at < run.end; piece.at += STEP) {
		uint64_t left = run.end - piece.at;
		size_t i = 0;

		piece.n = ms_source_read(f->src, piece.at, f->piece,
		                         left < PIECE ? (size_t)left : (size_t)PIECE);
		for (; (i = f->libc->ops->next_block(&piece, i)) < piece.n && i < STEP; i++)
			if (!ms_range_find(&f->living, piece.at + i))
				add_dead_stack(f, piece.at + i);
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

/* Take @holes, tidy as @ranges are, out of these. */
static bool leave_out(struct ms_arena *arena, struct ms_ranges *ranges,
                      const struct ms_ranges *holes)
{
	struct ms_ranges rest = { 0 };
	const struct ms_range *r;

	ms_vec_for_each (r, ranges) {
		struct ms_range left = *r;
		struct ms_range gap;

		while (ms_range_next_gap(&left, holes, &gap))
			if (!ms_ranges_add(arena, &rest, gap.begin, gap.end))
				return false;
	}
	*ranges = rest;
	return true;
}

static bool part_before(const void *a, const void *b)
{
	const struct ms_stack_part *x = a;
	const struct ms_stack_part *y = b;

	return x->range.begin != y->range.begin ? x->range.begin < y->range.begin
	                                        : x->range.end > y->range.end;
}

static bool sort_parts(const struct ms_decoding *d, struct ms_stacks *stacks)
{
	return ms_sort(d->arena, stacks->parts.at, stacks->parts.n, sizeof(*stacks->parts.at),
	               part_before);
}

/*
 * Stacks without a known end overlap: each reaches to the end of the memory that others lie in,
 * too. Let every byte be in one range, of what lives or else of what is doubtful, so that none is
 * read twice.
 */
static bool unite(const struct ms_decoding *d, struct ms_stacks *stacks)
{
	return ms_ranges_tidy(d->arena, &stacks->live) &&
	       leave_out(d->arena, &stacks->live, &d->own_words) &&
	       ms_ranges_tidy(d->arena, &stacks->doubtful) &&
	       leave_out(d->arena, &stacks->doubtful, &stacks->live);
}

enum ms_status ms_stacks_find(const struct ms_decoding *d, const struct ms_libc_view *libc,
                              struct ms_stacks *ret)
{
	struct finder f = { .d = d,
		            .src = d->src,
		            .regions = d->regions,
		            .libc = libc,
		            .arena = d->arena,
		            .ret = ret,
		            .ok = true };
	const struct ms_thread *t;

	f.piece = ms_arena_alloc(d->arena, PIECE);
	if (!f.piece)
		return MS_E_NOMEM;
	ms_vec_for_each (t, &d->src->threads)
		add_thread(&f, t);
	add_main_stack(&f);
	f.tid = 0;
	find_living(&f);
	find_dead_stacks(&f, &d->owned);
	if (!f.ok || !ms_ranges_tidy(d->arena, &ret->whole) || !sort_parts(d, ret) ||
	    !unite(d, ret))
		return MS_E_NOMEM;
	return MS_OK;
}

/* ---- stacks in blocks ---- */

/* The heap block around @addr; empty when there is none. */
static struct ms_range block_around(const struct ms_blocks *blocks, ms_addr addr)
{
	const struct ms_extent *extent = ms_blocks_extent_of(blocks, addr);
	const struct ms_range none = { addr, addr };
	struct ms_range block;
	uint64_t granule;

	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return none;
	granule = ms_block_start(blocks, extent, ms_granule_of(extent, addr));
	if (granule == UINT64_MAX)
		return none;
	block.begin = ms_block_begin(extent, granule);
	block.end = block.begin + ms_block_usable(blocks, extent, granule);
	return ms_range_has(block, addr) ? block : none;
}

/* What of @block, in which @tid has a stack of known bounds, is not stack lives as well. */
static bool add_rest(const struct ms_decoding *d, struct ms_stacks *stacks, struct ms_range block,
                     int32_t tid)
{
	struct ms_range gap;

	while (ms_range_next_gap(&block, &stacks->whole, &gap)) {
		struct ms_stack_part *rest = ms_vec_push(d->arena, &stacks->parts);

		if (!rest)
			return false;
		*rest = (struct ms_stack_part){ gap, tid, false };
	}
	return true;
}

/* The block that stacks were last found in; empty: none. */
struct host {
	struct ms_range block;
	bool kept; /* its rest, for a stack of known bounds, is a part already */
};

static void move_host(const struct ms_decoding *d, struct host *host, ms_addr to)
{
	if (!ms_range_has(host->block, to))
		*host = (struct host){ .block = block_around(d->blocks, to) };
}

/* Find the block that holds @part; false when none does. */
static bool find_host(const struct ms_decoding *d, const struct ms_stack_part *part,
                      struct host *host)
{
	ms_addr sp = part->range.begin + d->src->abi.red_zone_bytes;

	if (part->open) {
		move_host(d, host, sp);
		if (ms_range_len(host->block))
			return true;
	}
	/* An empty stack: its pointer is the end of the block. */
	move_host(d, host, part->range.begin);
	return ms_range_len(host->block) && host->block.end >= sp;
}

/* Let part @i end with the block that it is in. */
static bool fit_part(const struct ms_decoding *d, struct ms_stacks *stacks, size_t i,
                     struct host *host)
{
	struct ms_stack_part *part = &stacks->parts.at[i];
	const struct ms_range block = host->block;
	ms_addr sp = part->range.begin + d->src->abi.red_zone_bytes;

	if (part->range.end > block.end && block.end > sp)
		part->range.end = block.end;
	if (part->open)
		return ms_ranges_add(d->arena, &stacks->doubtful, block.begin, part->range.begin);
	if (host->kept)
		return true;
	host->kept = true;
	return add_rest(d, stacks, block, part->tid);
}

/* By address, those in one block are in a row: it is looked up, and its rest found, once. */
static bool fit_parts(const struct ms_decoding *d, struct ms_stacks *stacks)
{
	const size_t n = stacks->parts.n;
	struct host host = { 0 };

	for (size_t i = 0; i < n; i++)
		if (find_host(d, &stacks->parts.at[i], &host) && !fit_part(d, stacks, i, &host))
			return false;
	return sort_parts(d, stacks);
}

enum ms_status ms_stacks_fit(const struct ms_decoding *d, struct ms_stacks *stacks)
{
	const struct ms_stack_part *part;

	if (!fit_parts(d, stacks))
		return MS_E_NOMEM;
	stacks->live.n = 0;
	ms_vec_for_each (part, &stacks->parts)
		if (!ms_ranges_add(d->arena, &stacks->live, part->range.begin, part->range.end))
			return MS_E_NOMEM;
	return unite(d, stacks) ? MS_OK : MS_E_NOMEM;
}

const struct ms_stack_part *ms_stacks_part(const struct ms_stacks *stacks, ms_addr at)
{
	const struct ms_stack_part *parts = stacks->parts.at;
	size_t i = ms_lower_bound(0, stacks->parts.n, k, parts[k].range.begin <= at);

	while (i-- > 0)
		if (ms_range_has(parts[i].range, at))
			return &parts[i];
	return NULL;
}
