/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/suppress.h"

#include <assert.h>
#include <string.h>

#include "engine/graph/walk.h"

/* What is found out of a type, or a stack, once for all its blocks. */
enum { NOT_ASKED = 0, NONE = 1, FIRST = 2 /* and on: the index of a suppression */ };

struct suppressing {
	struct ms_leak_list *list;
	struct ms_walk *walk;
	struct MS_VEC(size_t) by_type; /* of a type's number: one of the above */
	struct ms_report *asked;       /* the question about stacks */
	struct ms_origin_teller teller;
	bool any;
	bool out_of_memory;
};

bool ms_suppress_prepare(struct ms_leak_list *list)
{
	const struct ms_suppression *s;

	ms_vec_for_each (s, list->options->suppressions) {
		struct ms_suppressed *entry = ms_vec_push(list->arena, &list->report->suppressed);

		if (!entry)
			return false;
		(void)strncpy(entry->pattern, s->pattern, sizeof(entry->pattern) - 1);
	}
	return true;
}

static size_t suppression_of(struct suppressing *s, uint32_t number)
{
	const struct ms_suppressions *all = s->list->options->suppressions;
	const struct ms_type *type = ms_types_at(s->list->types, number);
	const char *names[] = { type->name, type->module };
	size_t found;

	if (number >= s->by_type.n) {
		if (!ms_vec_reserve(s->list->arena, &s->by_type, (size_t)number + 1)) {
			s->out_of_memory = true;
			return all->n;
		}
		s->by_type.n = (size_t)number + 1;
	}
	if (s->by_type.at[number] == NOT_ASKED) {
		found = ms_suppressions_find(all, names, sizeof(names) / sizeof(names[0]));
		s->by_type.at[number] = found == all->n ? NONE : FIRST + found;
	}
	return s->by_type.at[number] == NONE ? all->n : s->by_type.at[number] - FIRST;
}

/* The suppression that the block's type matches, or all of their number. */
static size_t by_type(struct suppressing *s, ms_addr begin, uint64_t size)
{
	uint32_t type = ms_types_of_block(s->list->types, begin, size);

	/* Suppressions are for the makers of blocks: classes, and modules. */
	if (type == MS_TYPE_UNKNOWN || !ms_type_is_own(ms_types_at(s->list->types, type)))
		return s->list->options->suppressions->n;
	return suppression_of(s, type);
}

/* The same, of the calls that allocated it. */
static size_t by_stack(struct suppressing *s, ms_addr begin)
{
	size_t none = s->list->options->suppressions->n;
	uint32_t stack;

	if (!s->list->verdicts)
		return none;
	stack = ms_origin_find(&s->list->finder, begin);
	if (stack == MS_STACK_NONE || s->list->verdicts[stack] < FIRST)
		return none;
	return s->list->verdicts[stack] - FIRST;
}

static void look_at(struct suppressing *s, uint32_t extent_index, uint64_t granule)
{
	struct ms_leak_list *list = s->list;
	const struct ms_extent *extent = &list->blocks->extents.at[extent_index];
	uint64_t size = ms_block_size(list->blocks, extent, granule);
	ms_addr begin = ms_block_begin(extent, granule);
	size_t found = by_type(s, begin, size);
	size_t also = by_stack(s, begin);
	struct ms_suppressed *entry;

	if (also < found)
		found = also;
	if (found == list->options->suppressions->n)
		return;
	entry = &list->report->suppressed.at[found];
	entry->allocations++;
	entry->bytes += size;
	ms_walk_block(s->walk, (struct ms_block){ extent_index, granule });
	s->any = true;
}

static void look_at_all(struct suppressing *s, const uint64_t *unmarked,
                        void (*look)(struct suppressing *s, uint32_t extent, uint64_t granule))
{
	const struct ms_blocks *blocks = s->list->blocks;

	for (uint32_t i = 0; i < blocks->extents.n; i++) {
		const struct ms_extent *extent = &blocks->extents.at[i];

		for (size_t k = 0; extent->kind == MS_EXTENT_HEAP && k < extent->n_cells; k++)
			for (uint64_t left = unmarked[extent->cell0 + k]; left; left &= left - 1)
				look(s, i, k * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left));
	}
}

/* ---- stacks: what calls are named is asked outside, for all of them at once ---- */

/* Put the block's stack into the question, if it was never asked about. */
static void ask_about(struct suppressing *s, uint32_t extent_index, uint64_t granule)
{
	struct ms_leak_list *list = s->list;
	const struct ms_extent *extent = &list->blocks->extents.at[extent_index];
	uint32_t stack = ms_origin_find(&list->finder, ms_block_begin(extent, granule));

	if (stack == MS_STACK_NONE || list->verdicts[stack] != NOT_ASKED)
		return;
	if (!ms_origin_tell(&s->teller, stack))
		s->out_of_memory = true;
}

/* Keep the answers: @verdicts are by the stacks' numbers in the question. */
static void learn(struct suppressing *s, const uint32_t *verdicts)
{
	size_t n = s->list->options->suppressions->n;

	assert(s->teller.numbers); /* something was asked */
	for (size_t i = 0; i < s->list->finder.origins->stacks.n; i++) {
		uint32_t number = s->teller.numbers[i];

		if (!number)
			continue;
		s->list->verdicts[i] = NONE;
		if (verdicts[number - 1] && verdicts[number - 1] <= n)
			s->list->verdicts[i] = FIRST + verdicts[number - 1] - 1;
	}
}

static void ask(struct suppressing *s)
{
	const struct ms_scan_options *options = s->list->options;
	struct ms_error err = { 0 };
	uint32_t *verdicts;

	if (!s->asked->stacks.n)
		return;
	verdicts = ms_arena_alloc(s->list->arena, s->asked->stacks.n * sizeof(*verdicts));
	if (!verdicts || !ms_origin_tell_code(&s->teller)) {
		s->out_of_memory = true;
		return;
	}
	if (options->judge(options->judge_ctx, s->asked, verdicts, &err)) {
		learn(s, verdicts);
		return;
	}
	s->list->no_judge = true;
	ms_note_add(s->list->arena, &s->list->report->warnings,
	            "leaks were not suppressed by the functions that allocated them: %s", err.text);
}

static void judge(struct suppressing *s, const uint64_t *unmarked)
{
	struct ms_leak_list *list = s->list;
	const struct ms_origins *origins = list->finder.origins;

	if (!list->options->judge || list->no_judge || !origins || !origins->blocks.n)
		return;
	if (!list->verdicts)
		list->verdicts =
			ms_arena_alloc(list->arena, origins->stacks.n * sizeof(*list->verdicts));
	s->asked = ms_arena_alloc(list->arena, sizeof(*s->asked));
	s->teller = (struct ms_origin_teller){ .origins = origins,
		                               .src = list->blocks->src,
		                               .arena = list->arena,
		                               .report = s->asked };
	if (!list->verdicts || !s->asked) {
		s->out_of_memory = true;
		return;
	}
	look_at_all(s, unmarked, ask_about);
	if (!s->out_of_memory)
		ask(s);
}

enum ms_status ms_suppress(struct ms_leak_list *list, uint64_t *unmarked, struct ms_error *err)
{
	struct ms_walk_options options = { .unaligned = list->options->unaligned,
		                           .edges = list->edges,
		                           .workers = list->options->workers };
	struct ms_totals *totals = &list->report->totals;
	struct suppressing s = { .list = list,
		                 .walk = ms_walk_new(list->blocks, &options, list->arena) };
	enum ms_status st;

	if (!s.walk)
		return ms_fail(err, MS_E_NOMEM, "no memory for suppressing leaks");
	judge(&s, unmarked);
	look_at_all(&s, unmarked, look_at);
	if (s.out_of_memory)
		return ms_fail(err, MS_E_NOMEM, "no memory for suppressing leaks");
	if (!s.any)
		return MS_OK;
	st = ms_walk_finish(s.walk, err);
	if (!st)
		ms_leaks_strike(list, unmarked, &totals->suppressed_allocations,
		                &totals->suppressed_bytes);
	return st;
}

void ms_suppress_warn(const struct ms_leak_list *list)
{
	const struct ms_suppressions *all = list->options->suppressions;

	for (size_t i = 0; i < all->n; i++)
		if (!list->report->suppressed.at[i].allocations)
			ms_note_add(list->arena, &list->report->warnings,
			            "%s:%zu: the suppression leak:%.60s matched nothing",
			            all->at[i].file, all->at[i].line, all->at[i].pattern);
}
