/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/answer.h"

#include "engine/retained/holders.h"

struct answering {
	struct ms_why *why;
	struct ms_arena *work; /* for what is given back at the end */
	struct ms_arena *rows; /* for the rows, which are given back sooner */
	struct ms_flow flow;
	struct ms_dominators d;
	struct ms_weights w;
	struct ms_holders holders;
	struct ms_pointers *pointers;
	struct ms_ranking roots, shared, blocks, classes;
};

static enum ms_status no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for the answer");
}

/* ---- the heaviest ---- */

/* A block that a chain of the one above it goes on with is no entry by itself. */
static bool is_entry(const struct ms_weights *w, uint32_t i)
{
	uint32_t above = w->d->idom[i];

	if (w->class[i] == MS_CLASS_NONE)
		return false;
	return ms_weights_kind(w, above) != MS_FLOW_BLOCK || ms_weights_next(w, above) != i;
}

static void add_weight(struct ms_weight *to, uint64_t count, uint64_t bytes)
{
	to->count += count;
	to->bytes += bytes;
}

static void rank_roots(struct answering *a)
{
	struct ms_retained_facts *facts = &a->why->report->retained.facts;

	for (uint32_t i = 0; i < a->flow.words.n; i++) {
		const struct ms_holder *holder = &a->holders.at[i];

		if (!ms_holders_is(&a->holders, i))
			continue;
		add_weight(&facts->by_root, holder->count, holder->bytes);
		ms_ranking_add(&a->roots, i, holder->bytes);
	}
	facts->n_roots = a->roots.seen;
}

static void rank_blocks(struct answering *a)
{
	struct ms_retained_facts *facts = &a->why->report->retained.facts;
	const struct ms_weights *w = &a->w;

	for (uint32_t i = 2; i <= a->d.n; i++) {
		if (ms_weights_kind(w, i) != MS_FLOW_BLOCK)
			continue;
		if (is_entry(w, i))
			ms_ranking_add(&a->blocks, i, w->bytes[i]);
		if (!ms_holders_share(&a->holders, i) || !w->bytes[i])
			continue;
		add_weight(&facts->shared, w->count[i], w->bytes[i]);
		ms_ranking_add(&a->shared, i, w->bytes[i]);
	}
	facts->n_shared = a->shared.seen;
}

static void rank_classes(struct answering *a)
{
	for (uint32_t i = MS_CLASS_OTHERS; i < a->w.classes.n; i++)
		if (a->w.classes.at[i].count)
			ms_ranking_add(&a->classes, i, a->w.classes.at[i].retained_bytes);
	a->why->report->retained.facts.n_types = a->classes.seen;
}

static bool init_rankings(struct answering *a)
{
	uint32_t most = a->why->question->limit < MS_RETAINED_ENTRIES
	                        ? (uint32_t)a->why->question->limit
	                        : MS_RETAINED_ENTRIES;

	return ms_ranking_init(&a->roots, most, a->work) &&
	       ms_ranking_init(&a->shared, most, a->work) &&
	       ms_ranking_init(&a->blocks, most, a->work) &&
	       ms_ranking_init(&a->classes, most, a->work);
}

static uint64_t less(uint64_t n, uint64_t part)
{
	return n > part ? n - part : 0;
}

static void rank(struct answering *a)
{
	const struct ms_totals *totals = &a->why->report->totals;
	struct ms_retained_facts *facts = &a->why->report->retained.facts;

	facts->reachable = (struct ms_weight){ a->w.count[1], a->w.bytes[1] };
	facts->unreachable =
		(struct ms_weight){ less(totals->allocations, facts->reachable.count),
		                    less(totals->allocation_bytes, facts->reachable.bytes) };
	rank_roots(a);
	rank_blocks(a);
	ms_classes_weigh(&a->w);
	rank_classes(a);
	ms_ranking_finish(&a->roots);
	ms_ranking_finish(&a->shared);
	ms_ranking_finish(&a->blocks);
	ms_ranking_finish(&a->classes);
}

/* ---- chains ---- */

struct search {
	struct ms_block wanted;
	ms_addr at;
	bool found;
};

static void find_pointer(void *ctx, const struct ms_pointer *pointer)
{
	struct search *s = ctx;

	if (s->found || pointer->to.extent != s->wanted.extent ||
	    pointer->to.granule != s->wanted.granule)
		return;
	s->at = pointer->at;
	s->found = true;
}

static struct ms_block block_of(const struct answering *a, uint32_t i)
{
	return ms_block_numbered(a->flow.rows.blocks, a->d.node[i]);
}

static bool write_step(struct answering *a, uint32_t i, uint32_t next, uint64_t omitted)
{
	struct ms_retained_step *step =
		ms_vec_push(a->why->decoding->arena, &a->why->report->retained.steps);
	struct search s = { .found = false };

	if (!step)
		return false;
	step->block = ms_subject_step(a->why, block_of(a, i));
	step->block.omitted = omitted;
	step->retained = (struct ms_weight){ a->w.count[i], a->w.bytes[i] };
	if (!next)
		return true;
	s.wanted = block_of(a, next);
	a->pointers->found = find_pointer;
	a->pointers->ctx = &s;
	ms_pointers_block(a->pointers, 0, block_of(a, i));
	ms_pointers_finish(a->pointers);
	step->direct = s.found;
	step->block.offset = s.found ? s.at - step->block.address : 0;
	return true;
}

/* From @i on; of a long chain the middle is left out. */
static bool write_chain(struct answering *a, uint32_t i, struct ms_retained_chain *ret)
{
	uint64_t omitted;
	uint64_t k = 0;

	for (uint32_t at = i; at; at = ms_weights_next(&a->w, at))
		ret->length++;
	omitted = less(ret->length, MS_RETAINED_STEPS);
	ret->first = (uint32_t)a->why->report->retained.steps.n;
	for (uint32_t next; i; i = next, k++) {
		bool left_out = k >= MS_RETAINED_STEPS / 2 && k < MS_RETAINED_STEPS / 2 + omitted;
		bool behind = omitted && k == MS_RETAINED_STEPS / 2 + omitted;

		next = ms_weights_next(&a->w, i);
		if (left_out)
			continue;
		if (!write_step(a, i, next, behind ? omitted : 0))
			return false;
		ret->n++;
	}
	return true;
}

/* ---- lists ---- */

static bool write_root(struct answering *a, uint32_t i)
{
	struct ms_why *why = a->why;
	const struct ms_holder *holder = &a->holders.at[i];
	const struct ms_flow_word *word = &a->flow.words.at[i];
	struct ms_retained_root *slot =
		ms_vec_push(why->decoding->arena, &why->report->retained.roots);
	struct ms_root_name name;

	if (!slot)
		return false;
	name = ms_root_name(why->roots, &a->flow.roots.at[word->root], word->at);
	slot->spot = ms_subject_spot(why, &name);
	slot->words = holder->words;
	slot->retained = (struct ms_weight){ holder->count, holder->bytes };
	return write_chain(a, holder->heaviest, &slot->below);
}

static bool write_shared(struct answering *a, uint32_t i)
{
	struct ms_retained_block *slot =
		ms_vec_push(a->why->decoding->arena, &a->why->report->retained.shared);

	if (!slot)
		return false;
	(void)ms_dominators_leading_to(&a->d, i, &slot->places);
	return write_chain(a, i, &slot->chain);
}

static bool write_block(struct answering *a, uint32_t i)
{
	struct ms_retained_block *slot =
		ms_vec_push(a->why->decoding->arena, &a->why->report->retained.blocks);

	return slot && write_chain(a, i, &slot->chain);
}

static bool write_type(struct answering *a, uint32_t i)
{
	const struct ms_class *class = &a->w.classes.at[i];
	struct ms_why *why = a->why;
	struct ms_retained_type *slot =
		ms_vec_push(why->decoding->arena, &why->report->retained.types);

	if (!slot)
		return false;
	*slot = (struct ms_retained_type){
		.type = ms_types_report(why->types, class->type, why->report),
		.size = class->size,
		.own = { class->count, class->bytes },
		.retained = { class->retained_count, class->retained_bytes }
	};
	return true;
}

static bool write_all(struct answering *a, const struct ms_ranking *r,
                      bool (*write)(struct answering *a, uint32_t what))
{
	for (uint32_t i = 0; i < r->n; i++)
		if (!write(a, r->at[i].what))
			return false;
	return true;
}

static enum ms_status write_answer(struct answering *a, struct ms_error *err)
{
	struct ms_why *why = a->why;

	a->pointers = ms_pointers_new(a->flow.rows.blocks, &why->like, a->work);
	if (!a->pointers || !ms_peek_init(&why->peek, why->decoding->src, a->work) ||
	    !write_all(a, &a->roots, write_root) || !write_all(a, &a->shared, write_shared) ||
	    !write_all(a, &a->blocks, write_block) || !write_all(a, &a->classes, write_type))
		return no_memory(err);
	return MS_OK;
}

static enum ms_status find_holders(struct answering *a, struct ms_error *err)
{
	struct ms_why *why = a->why;
	enum ms_status st =
		ms_rows_gather(why->decoding->blocks, &why->like, a->rows, &why->rows, err);

	st = st ? st : ms_flow_gather(why, a->work, &a->flow, err);
	st = st ? st : ms_dominators_find(&a->flow, a->rows, a->work, &a->d, err);
	if (!st && !ms_weights_find(&a->flow, &a->d, why->types, a->work, &a->w))
		st = no_memory(err);
	return st ? st : ms_holders_find(&a->w, a->work, &a->holders, err);
}

enum ms_status ms_retained_answer(struct ms_why *why, struct ms_error *err)
{
	struct ms_arena work = { 0 };
	struct ms_arena rows = { 0 };
	struct answering a = { .why = why, .work = &work, .rows = &rows };
	enum ms_status st = find_holders(&a, err);

	if (!st && !init_rankings(&a))
		st = no_memory(err);
	if (!st) {
		rank(&a);
		st = write_answer(&a, err);
	}
	ms_arena_deinit(&work);
	ms_arena_deinit(&rows);
	why->rows = (struct ms_rows){ 0 };
	return st ? st : ms_why_list_files(why, err);
}
