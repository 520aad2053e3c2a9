/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scan.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "engine/decode.h"
#include "engine/foreign.h"
#include "engine/graph/bias.h"
#include "engine/graph/hidden.h"
#include "engine/graph/relative.h"
#include "engine/graph/requested.h"
#include "engine/holding/why.h"
#include "engine/kinds/kinds.h"
#include "engine/kinds/python/plain.h"
#include "engine/kinds/ruby.h"
#include "engine/live/histogram.h"
#include "engine/live/sites.h"
#include "engine/lost/leaks.h"
#include "engine/lost/maker.h"
#include "engine/lost/signature.h"
#include "engine/lost/suppress.h"
#include "engine/names/fields/fields.h"
#include "engine/names/types.h"
#include "engine/retained/answer.h"
#include "engine/roots.h"
#include "engine/strict/veil.h"

/*
 * The marks of the blocks pass through these states; * only with --possible:
 *
 *	1    follow from the roots, pointers to beginnings only       S
 *	2    follow what other pointers of these lead to              P
 *	3 *  what is in P and not in S: possible, "interior"
 *	4    follow from mappings that nothing reached                Q
 *	5 *  what is in Q and not in P: possible, "mapping"
 *	6    follow from parts of stacks that may be dead             D
 *	7 *  what is in D and not in Q: possible, "stack"
 *	8    follow from what CPython's collector would free          G
 *	9 *  what is in G and not in D: possible, "gc"
 *	10   follow pointers at no multiple of eight bytes            U
 *	11 * what is in U and not in G: possible, "unaligned"
 *	12   follow pointers that have a number or a tag beside them  N
 *	13 * what is in N and not in U: possible, "tagged"
 *	14   follow addresses in front of a block, or behind it       O
 *	15 * what is in O and not in N: possible, "outside"
 *	16   follow what looks like pointers relative to themselves   R
 *	17 * what is in R and not in O: possible, "relative"
 *	18   follow from what may be a thread's signal stack          T
 *	19 * what is in T and not in R: possible, "signal-stack"
 *	20   follow from what requests in the kernel may hold         K
 *	21 * what is in K and not in T: possible, "requests"
 *	22   all, where the kernel may hold handles of open files     F
 *	23 * what is in F and not in K: possible, "fuse"
 *	24   all, where memory could not be read                      V
 *	25 * what is in V and not in F: possible, "unseen"
 *	26   what is in none: leaks
 */

/* From this number of possible leaks by pointers into the middle on, a rule is looked for. */
enum { FLOOD = 1000 };

struct scan {
	struct ms_source *src;
	const struct ms_scan_options *options;
	struct ms_arena *arena;
	struct ms_report *report;
	struct ms_error *err;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_libc_view libc;
	struct ms_decoding decoding;
	struct ms_origins origins;
	struct ms_roots roots;
	struct ms_edges edges;
	const struct ms_edges *followed; /* these, or NULL: blocks are read */
	struct ms_leak_list list;
	struct ms_kinds_search kinds;
	struct ms_tails tails;
	struct ms_marks wide;      /* blocks whose users point to their middle, as a rule */
	struct ms_marks by_begins; /* what pointers to begins lead to; with --possible */
	struct ms_hidden *found;   /* hidden pointers */
	struct ms_collector collector;
	struct ms_ranges hidden; /* words that are no references; tidy */
	struct ms_veil veil;     /* where there are any: what the blocks are read from */
	struct ms_why why;
	uint64_t since; /* when the present phase began */
};

static void end_phase(struct scan *s, enum ms_phase phase)
{
	uint64_t now = ms_now_ns();

	s->report->scan.phase_ns[phase] += now - s->since;
	s->since = now;
	if (s->options->phase_ended)
		s->options->phase_ended(s->options->ctx, phase);
}

static enum ms_status no_memory(struct scan *s)
{
	enum ms_status st = ms_fail(s->err, MS_E_NOMEM, "no memory for the graph of blocks");

	ms_advise(s->err, "free some memory on this machine, or raise the cgroup's limit");
	return st;
}

static enum ms_status decode(struct scan *s)
{
	enum ms_status st;

	ms_blocks_init(&s->blocks, s->src, s->arena);
	s->decoding = (struct ms_decoding){ .src = s->src,
		                            .regions = &s->regions,
		                            .arena = s->arena,
		                            .workers = s->options->workers,
		                            .decoders = s->options->decoders,
		                            .ended = s->options->ended,
		                            .blocks = &s->blocks,
		                            .heaps = &s->report->heaps,
		                            .evidence = &s->report->evidence,
		                            .warnings = &s->report->warnings,
		                            .origins = &s->origins };
	st = ms_decode(&s->decoding, s->options->annotators, s->err);
	s->report->anchors = s->decoding.anchors;
	s->report->sampling = s->origins.sampling;
	return st == MS_E_NOMEM ? no_memory(s) : st;
}

static enum ms_status find_roots(struct scan *s)
{
	s->libc = ms_libc_find(s->src, s->options->libcs ? s->options->libcs : ms_libcs);
	if (!ms_ranges_tidy(s->arena, &s->decoding.owned) ||
	    !ms_ranges_tidy(s->arena, &s->decoding.own_words) ||
	    ms_roots_find(&s->decoding, &s->libc, &s->roots) || ms_blocks_sort(&s->blocks) ||
	    ms_blocks_seal(&s->blocks) || ms_stacks_fit(&s->decoding, &s->roots.stacks))
		return no_memory(s);
	s->report->totals.allocations = s->blocks.n;
	s->report->totals.allocation_bytes = s->blocks.bytes;
	return ms_foreign_check(&s->decoding, &s->report->totals, s->err);
}

static enum ms_status prepare_list(struct scan *s)
{
	s->list = (struct ms_leak_list){ .blocks = &s->blocks,
		                         .types = ms_types_new(s->src, &s->regions, s->arena),
		                         .options = s->options,
		                         .arena = s->arena,
		                         .report = s->report,
		                         .finder = { .origins = &s->origins } };
	if (!s->list.types)
		return no_memory(s);
	if (s->options->heap)
		s->list.histogram = ms_histogram_new(s->list.types, s->arena);
	if (s->origins.sampling.on)
		s->list.sites = ms_sites_new(&s->origins, s->arena);
	if ((s->options->heap && !s->list.histogram) || (s->origins.sampling.on && !s->list.sites))
		return no_memory(s);
	s->kinds = (struct ms_kinds_search){ .types = s->list.types,
		                             .blocks = &s->blocks,
		                             .roots = &s->roots,
		                             .workers = s->options->workers };
	s->tails.arena = s->arena;
	if (s->options->strict_containers)
		s->kinds.tails = &s->tails;
	s->list.signer = ms_signer_new(&s->list, &s->regions);
	s->list.regions = &s->regions;
	s->list.collector = &s->collector;
	s->list.makers = ms_makers_new(&s->list, &s->regions);
	if (!s->list.signer || !s->list.makers ||
	    (s->options->suppressions && !ms_suppress_prepare(&s->list)))
		return no_memory(s);
	return MS_OK;
}

/* Whether what every block is will be asked, and not what leaks are alone. */
static bool wants_all_types(const struct scan *s)
{
	return s->options->question.kind || s->options->heap;
}

/*
 * From here on all that follows pointers does so without plain data, what a collector has swept,
 * and the tails of containers.
 */
static enum ms_status hide_words(struct scan *s)
{
	struct ms_extent *extent;

	if (s->kinds.tails)
		ms_tails_warn(&s->tails.sums, ms_abi_is_wide(&s->src->abi), s->arena,
		              &s->report->warnings);
	if (ms_plain_find(&s->blocks, &s->roots, &s->collector, &s->hidden, &s->wide) ||
	    ms_ruby_find(&s->blocks, &s->roots, &s->hidden) ||
	    !ms_ranges_add_all(s->arena, &s->hidden, &s->tails.hidden) ||
	    !ms_ranges_tidy(s->arena, &s->hidden))
		return no_memory(s);
	if (!s->hidden.n)
		return MS_OK;
	ms_veil_open(&s->veil, s->src, &s->hidden);
	s->blocks.src = &s->veil.base;
	ms_vec_for_each (extent, &s->blocks.extents)
		if (extent->host)
			extent->host = ms_source_view(s->blocks.src, extent->range.begin,
			                              (size_t)ms_range_len(extent->range));
	return MS_OK;
}

/*
 * Where the types of all blocks are wanted, ask debug information, too: another process reads
 * it, while kinds are looked for here.
 */
static enum ms_status find_all_types(struct scan *s)
{
	struct ms_typing typing = { .src = s->src,
		                    .regions = &s->regions,
		                    .blocks = &s->blocks,
		                    .types = s->list.types,
		                    .options = s->options,
		                    .arena = s->arena,
		                    .report = s->report };
	enum ms_status st = MS_OK;
	enum ms_status taken;

	if (!wants_all_types(s) && !s->kinds.tails)
		return MS_OK;
	if (wants_all_types(s))
		st = ms_typing_ask(&typing, s->err);
	if (!st && ms_kinds_find(&s->kinds, true))
		st = no_memory(s);
	taken = ms_typing_take(&typing, s->err);
	return st ? st : taken;
}

/* Take every unmarked block; what it is must be known before. */
static enum ms_status take_leaks(struct scan *s, enum ms_reason reason)
{
	const bool known = wants_all_types(s) || s->kinds.tails;

	if (!known && !s->options->keep_lost && ms_kinds_find(&s->kinds, false))
		return no_memory(s);
	return ms_leaks_take(&s->list, reason, s->err);
}

/* Where blocks cannot be looked at in place, keep what they point to. */
static enum ms_status gather(struct scan *s)
{
	struct ms_edge_options options = { .unaligned = s->options->unaligned,
		                           .mangling = s->libc.mangling };

	if (!ms_edges_wanted(&s->blocks))
		return MS_OK;
	s->followed = &s->edges;
	s->list.edges = s->followed;
	if (ms_edges_gather(&s->blocks, &options, s->options->workers, &s->edges, s->err))
		return no_memory(s);
	return MS_OK;
}

/* What is the same for every walk. */
static struct ms_walk_options walk_options(const struct scan *s)
{
	return (struct ms_walk_options){ .unaligned = s->options->unaligned,
		                         .edges = s->followed,
		                         .workers = s->options->workers };
}

/* Follow from the roots; what pointers into the middle lead to is noted, and not followed. */
static enum ms_status mark_by_begins(struct scan *s, struct ms_marks *inner)
{
	struct ms_walk_options options = walk_options(s);
	struct ms_walk *walk;

	options.starts_only = true;
	options.inner = inner;
	options.wide = s->wide.n ? &s->wide : NULL;
	options.mangling = s->libc.mangling;
	walk = ms_walk_new(&s->blocks, &options, s->arena);
	if (!walk)
		return no_memory(s);
	ms_roots_walk(&s->roots, walk);
	return ms_walk_finish(walk, s->err);
}

struct inner_walk {
	const struct ms_blocks *blocks;
	const struct ms_marks *inner;
	struct ms_walk *walk;
};

static void walk_noted(void *ctx, struct ms_block block)
{
	const struct inner_walk *w = ctx;
	const struct ms_extent *extent = &w->blocks->extents.at[block.extent];
	const size_t cell =
		(size_t)(ms_blocks_cell(w->blocks, extent, block.granule) - w->blocks->cells.at);

	if (w->inner->at[cell] & ms_granule_bit(block.granule))
		ms_walk_block(w->walk, block);
}

/* Follow what was noted, and count what only that leads to. */
static enum ms_status mark_inner(struct scan *s, const struct ms_marks *inner)
{
	struct ms_walk_options options = walk_options(s);
	struct inner_walk w = { .blocks = &s->blocks, .inner = inner };
	struct ms_walk_count count;
	enum ms_status st;

	options.count_bytes = true;
	options.mangling = s->libc.mangling;
	w.walk = ms_walk_new(&s->blocks, &options, s->arena);
	if (!w.walk)
		return no_memory(s);
	ms_blocks_visit_unmarked(&s->blocks, walk_noted, &w);
	st = ms_walk_finish(w.walk, s->err);
	count = ms_walk_count(w.walk);
	s->report->totals.interior_allocations = count.blocks;
	s->report->totals.interior_bytes = count.bytes;
	return st;
}

static enum ms_status mark_once(struct scan *s)
{
	struct ms_marks inner = { 0 };
	enum ms_status st;

	if (!ms_marks_none(&s->blocks, &inner))
		return no_memory(s);
	st = mark_by_begins(s, &inner);
	if (!st && s->options->possible && !ms_marks_save(&s->blocks, &s->by_begins))
		return no_memory(s);
	return st ? st : mark_inner(s, &inner);
}

static bool is_flood(const struct scan *s)
{
	const uint64_t n = s->report->totals.interior_allocations;

	return n >= FLOOD && n >= s->blocks.n / 4;
}

/* Pointers into the middle that follow a rule count as pointers to begins. */
static enum ms_status mark_from_all(struct scan *s)
{
	enum ms_status st = mark_once(s);
	struct ms_bias bias;

	if (st || !is_flood(s))
		return st;
	if (ms_bias_find(&s->blocks, &s->wide, &bias))
		return no_memory(s);
	if (!s->blocks.bias)
		return MS_OK;
	ms_evidence_add(
		s->arena, &s->report->evidence, &s->report->heaps,
		"of %" PRIu64 " blocks that are pointed to, but not at the begin, %" PRIu64
		" are so at a few places behind it: such pointers count as those to the begin",
		bias.n, bias.n_front);
	ms_blocks_unmark(&s->blocks);
	return mark_once(s);
}

/* Follow from every mapping that was not reached, and list it. */
static enum ms_status mark_from_mappings(struct scan *s)
{
	struct ms_walk_options options = walk_options(s);
	struct ms_walk *walk = ms_walk_new(&s->blocks, &options, s->arena);

	if (!walk)
		return no_memory(s);
	for (uint32_t i = 0; i < s->blocks.extents.n; i++) {
		const struct ms_extent *extent = &s->blocks.extents.at[i];
		struct ms_lost_mapping *lost;

		if (extent->kind != MS_EXTENT_MAPPING ||
		    ms_blocks_cell(&s->blocks, extent, 0)->marks)
			continue;
		lost = ms_vec_push(s->arena, &s->report->mappings);
		if (!lost)
			return no_memory(s);
		lost->range = extent->range;
		(void)strncpy(lost->name, s->src->mappings.at[extent->mapping].name,
		              sizeof(lost->name) - 1);
	}
	for (uint32_t i = 0; i < s->blocks.extents.n; i++)
		if (s->blocks.extents.at[i].kind == MS_EXTENT_MAPPING)
			ms_walk_block(walk, (struct ms_block){ i, 0 });
	return ms_walk_finish(walk, s->err);
}

/* List the blocks whose marks are in @more and not in @less; restores the marks of @more. */
static enum ms_status take_possible(struct scan *s, const struct ms_marks *less,
                                    const struct ms_marks *more, enum ms_reason reason)
{
	const uint64_t *marks = more->at;
	const size_t n = s->blocks.cells.n;
	enum ms_status st;

	assert(!n || (less->at && marks));
	for (size_t i = 0; i < n; i++)
		s->blocks.cells.at[i].marks = ~(marks[i] & ~less->at[i]);
	st = take_leaks(s, reason);
	ms_marks_restore(&s->blocks, more);
	return st;
}

static void note_kept(struct scan *s, uint64_t allocations, uint64_t bytes, const char *why)
{
	if (allocations && !s->options->question.kind)
		ms_note_add(s->arena, &s->report->warnings,
		            "%llu bytes in %llu allocation%s are possible leaks, not leaks: %s%s",
		            (unsigned long long)bytes, (unsigned long long)allocations,
		            ms_plural(allocations), why,
		            s->options->possible ? "" : " (memscan --possible lists them)");
}

/* Follow the hidden pointers of the forms for @reason, and say what they keep. */
static enum ms_status mark_hidden(struct scan *s, enum ms_reason reason, const char *why)
{
	struct ms_hidden_kept kept = { 0 };

	if (ms_hidden_mark(s->found, reason, &kept, s->err))
		return no_memory(s);
	note_kept(s, kept.allocations, kept.bytes, why);
	return MS_OK;
}

/* Of these steps the first looks for all of them. */
static enum ms_status mark_unaligned(struct scan *s)
{
	const struct ms_ranges *const roots[] = { &s->roots.ranges, &s->roots.stacks.live };
	struct ms_hidden_options options = { .roots = roots,
		                             .n_roots = sizeof(roots) / sizeof(roots[0]),
		                             .workers = s->options->workers };
	bool limited;

	if (ms_hidden_find(&s->blocks, &options, &s->found, &limited, s->err))
		return no_memory(s);
	if (limited)
		ms_note_add(s->arena, &s->report->warnings,
		            "the process is large: not all of it was searched for hidden "
		            "pointers, and what only these hold is among the leaks");
	return mark_hidden(s, MS_REASON_UNALIGNED,
	                   "only what looks like an unaligned pointer holds them");
}

static enum ms_status mark_tagged(struct scan *s)
{
	return mark_hidden(s, MS_REASON_TAGGED,
	                   "only what looks like a pointer with a number beside it, or one that is "
	                   "shifted, holds them");
}

static enum ms_status mark_outside(struct scan *s)
{
	return mark_hidden(s, MS_REASON_OUTSIDE,
	                   "only what looks like an address just in front of them, or behind "
	                   "them, holds them");
}

/* Follow self-relative pointers, and say what is kept by them. */
static enum ms_status mark_relative(struct scan *s)
{
	struct ms_relative_options options = { .workers = s->options->workers,
		                               .unaligned = s->options->unaligned };
	struct ms_relative_kept kept = { 0 };

	if (ms_relative_mark(&s->blocks, &options, &kept, s->err))
		return no_memory(s);
	if (kept.limited)
		ms_note_add(s->arena, &s->report->warnings,
		            "the heap is large: not all of it was searched for self-relative "
		            "pointers, and what only these hold is among the leaks");
	note_kept(s, kept.allocations, kept.bytes,
	          "only what looks like self-relative pointers holds them");
	return MS_OK;
}

struct large_walk {
	const struct ms_blocks *blocks;
	struct ms_walk *walk;
	uint64_t least_bytes;
};

static uint64_t size_of(const struct ms_blocks *blocks, struct ms_block block)
{
	return ms_block_size(blocks, &blocks->extents.at[block.extent], block.granule);
}

static void walk_large(void *ctx, struct ms_block block)
{
	const struct large_walk *large = ctx;

	if (size_of(large->blocks, block) >= large->least_bytes)
		ms_walk_block(large->walk, block);
}

/* Follow every block that may be a signal stack of which only the kernel knows. */
static enum ms_status mark_signal_stacks(struct scan *s)
{
	struct ms_walk_options options = walk_options(s);
	struct large_walk large = { .blocks = &s->blocks,
		                    .least_bytes = s->src->unknown_stack_bytes };

	if (!large.least_bytes)
		return MS_OK;
	large.walk = ms_walk_new(&s->blocks, &options, s->arena);
	if (!large.walk)
		return no_memory(s);
	ms_blocks_visit_unmarked(&s->blocks, walk_large, &large);
	return ms_walk_finish(large.walk, s->err);
}

struct count {
	const struct ms_blocks *blocks;
	uint64_t allocations;
	uint64_t bytes;
};

static void add_block(void *ctx, struct ms_block block)
{
	struct count *count = ctx;

	count->allocations++;
	count->bytes += size_of(count->blocks, block);
}

static struct count count_unmarked(const struct scan *s)
{
	struct count n = { .blocks = &s->blocks };

	ms_blocks_visit_unmarked(&s->blocks, add_block, &n);
	return n;
}

/* Say what was marked of the blocks that were @unmarked before; in/out. */
static void note_left(struct scan *s, struct count *unmarked, const char *why)
{
	struct count left = count_unmarked(s);

	note_kept(s, unmarked->allocations - left.allocations, unmarked->bytes - left.bytes, why);
	*unmarked = left;
}

/* Follow from what may be in use of stacks, and say what it keeps. */
static enum ms_status mark_doubtful_stacks(struct scan *s)
{
	struct ms_walk_options options = walk_options(s);
	struct count unmarked;
	struct ms_walk *walk;
	const struct ms_range *r;
	enum ms_status st;

	if (!s->roots.stacks.doubtful.n)
		return MS_OK;
	options.mangling = s->libc.mangling;
	unmarked = count_unmarked(s);
	walk = ms_walk_new(&s->blocks, &options, s->arena);
	if (!walk)
		return no_memory(s);
	ms_vec_for_each (r, &s->roots.stacks.doubtful)
		ms_walk_range(walk, *r);
	st = ms_walk_finish(walk, s->err);
	note_left(s, &unmarked, "only parts of stacks hold them that may not be in use");
	return st;
}

/* Follow from what the collector of a runtime would free, and say what it keeps. */
static enum ms_status mark_collected(struct scan *s)
{
	struct ms_walk_options like = walk_options(s);
	struct ms_walk_count kept;

	if (ms_collector_mark(&s->collector, &s->blocks, &like, &kept, s->err))
		return no_memory(s);
	note_kept(s, kept.blocks, kept.bytes,
	          "nothing but CPython's collector has them, and frees them when it runs");
	return MS_OK;
}

/* Each request may hold a block. */
static enum ms_status mark_requested(struct scan *s)
{
	struct ms_walk_options like = walk_options(s);
	const uint64_t most = s->src->n_requests;
	struct count unmarked;

	if (!most)
		return MS_OK;
	unmarked = count_unmarked(s);
	if (ms_requested_mark(&s->blocks, &like, most, s->err))
		return no_memory(s);
	note_left(s, &unmarked, "requests of io_uring that are in flight may hold them");
	if (unmarked.allocations && !s->options->question.kind)
		ms_note_add(s->arena, &s->report->warnings,
		            "io_uring has requests in flight (%llu): as many of the leaks may be "
		            "held by these, with what they lead to",
		            (unsigned long long)most);
	return MS_OK;
}

/* Mark every block, and say why. */
static void mark_all(struct scan *s, const char *why)
{
	struct count kept = count_unmarked(s);
	struct ms_cell *cell;

	ms_vec_for_each (cell, &s->blocks.cells)
		cell->marks |= cell->starts;
	note_kept(s, kept.allocations, kept.bytes, why);
}

/*
 * A file system in a process gives the kernel an address for each open file, as its handle, and
 * often one for each file that the kernel knows. How many these are cannot be asked.
 */
static enum ms_status mark_served(struct scan *s)
{
	if (s->src->serves_files)
		mark_all(s, "the process serves a file system, and the kernel may have their "
		            "addresses as handles");
	return MS_OK;
}

/* Any block may be held by memory that could not be read. */
static enum ms_status mark_unseen(struct scan *s)
{
	if (s->src->unseen.n)
		mark_all(s, "memory that could not be read may hold pointers to them");
	return MS_OK;
}

/* With --possible: list what this step marked and the one before, whose marks are @less, did not.
 */
static enum ms_status end_step(struct scan *s, const struct ms_marks *less, struct ms_marks *more,
                               enum ms_reason reason)
{
	if (!ms_marks_save(&s->blocks, more))
		return no_memory(s);
	return take_possible(s, less, more, reason);
}

static enum ms_status mark(struct scan *s)
{
	static const struct {
		enum ms_status (*mark)(struct scan *s);
		enum ms_reason reason; /* for what this step alone marks */
	} steps[] = {
		{ mark_from_all, MS_REASON_INTERIOR },
		{ mark_from_mappings, MS_REASON_MAPPING },
		{ mark_doubtful_stacks, MS_REASON_STACK },
		{ mark_collected, MS_REASON_GC },
		{ mark_unaligned, MS_REASON_UNALIGNED },
		{ mark_tagged, MS_REASON_TAGGED },
		{ mark_outside, MS_REASON_OUTSIDE },
		{ mark_relative, MS_REASON_RELATIVE },
		{ mark_signal_stacks, MS_REASON_SIGNAL_STACK },
		{ mark_requested, MS_REASON_REQUESTS },
		{ mark_served, MS_REASON_FUSE },
		{ mark_unseen, MS_REASON_UNSEEN },
	};
	struct ms_marks marks[2] = { { 0 }, { 0 } };
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !st; i++) {
		st = steps[i].mark(s);
		if (!st && s->options->question.kind)
			ms_why_judge(&s->why, steps[i].reason);
		if (!st && s->options->possible)
			st = end_step(s, i ? &marks[i % 2] : &s->by_begins, &marks[(i + 1) % 2],
			              steps[i].reason);
	}
	return st;
}

/* Of two scans the first has lost blocks to confirm, and the report is the second's. */
static enum ms_status count_live(struct scan *s)
{
	if (!s->list.histogram || s->report->lost.n)
		return MS_OK;
	s->report->heap = true;
	s->report->live_limit = s->options->limit;
	return ms_histogram_write(s->list.histogram, &s->blocks, s->report) ? MS_OK : no_memory(s);
}

/* Without it nothing leads to any block, and to name all of them may take minutes. */
static enum ms_status check_source(struct scan *s)
{
	if (ms_source_is_whole(s->src))
		return MS_OK;
	return ms_fail(s->err, MS_E_DIED, "what is read was taken away meanwhile");
}

static enum ms_status list_leaks(struct scan *s)
{
	enum ms_status st = gather(s);

	if (!st)
		st = mark(s);
	if (!st)
		st = check_source(s);
	if (!st)
		ms_foreign_check_lost(&s->decoding, &s->report->mappings, &s->report->totals);
	end_phase(s, MS_PHASE_MARK);
	if (!st)
		st = take_leaks(s, MS_REASON_NONE);
	/* What a leak has in it is shown as it is. */
	s->blocks.src = s->src;
	if (!st)
		st = ms_leaks_finish(&s->list, s->err);
	if (!st)
		st = count_live(s);
	/* The first of two scans has suppressed nothing. */
	if (!st && s->options->suppressions && !s->report->lost.n)
		ms_suppress_warn(&s->list);
	return st;
}

/* What no root leads to may be a possible leak, which the steps of marking say. */
static enum ms_status answer(struct scan *s)
{
	enum ms_status st;

	s->why = (struct ms_why){ .question = &s->options->question,
		                  .decoding = &s->decoding,
		                  .roots = &s->roots,
		                  .like = { .unaligned = s->options->unaligned,
		                            .mangling = s->libc.mangling,
		                            .workers = s->options->workers },
		                  .types = s->list.types,
		                  .report = s->report };
	if (s->options->question.kind == MS_ASKED_RETAINED)
		st = ms_retained_answer(&s->why, s->err);
	else
		st = ms_why_answer(&s->why, s->err);
	if (!st && ms_why_is_open(&s->why))
		st = gather(s);
	if (!st && ms_why_is_open(&s->why))
		st = mark(s);
	end_phase(s, MS_PHASE_MARK);
	return st;
}

static void warn(struct scan *s)
{
	uint64_t unproved = 0;
	const struct ms_range *r;

	ms_vec_for_each (r, &s->decoding.unproved)
		unproved += ms_range_len(*r);
	if (unproved)
		ms_note_add(
			s->arena, &s->report->warnings,
			"%zu heap range%s, %llu bytes, could not be verified: leaks in them are "
			"not reported, and all that they contain counts as roots",
			s->decoding.unproved.n, ms_plural(s->decoding.unproved.n),
			(unsigned long long)unproved);
}

enum ms_status ms_scan(struct ms_source *src, const struct ms_scan_options *options,
                       struct ms_arena *arena, struct ms_report *report, struct ms_error *err)
{
	struct scan s = { .src = src,
		          .options = options,
		          .arena = arena,
		          .report = report,
		          .err = err,
		          .since = ms_now_ns() };
	enum ms_status st = ms_classify(src, arena, &s.regions, err);

	report->possible = options->possible;
	end_phase(&s, MS_PHASE_CLASSIFY);
	if (!st)
		st = decode(&s);
	end_phase(&s, MS_PHASE_DECODE);
	if (!st)
		st = find_roots(&s);
	end_phase(&s, MS_PHASE_ROOT);
	if (!st)
		st = prepare_list(&s);
	if (!st)
		st = find_all_types(&s);
	if (!st)
		st = hide_words(&s);
	if (!st)
		st = options->question.kind ? answer(&s) : list_leaks(&s);
	end_phase(&s, MS_PHASE_FOLD);
	if (!st)
		warn(&s);
	return st;
}
