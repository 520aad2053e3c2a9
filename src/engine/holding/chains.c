/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/chains.h"

#include <assert.h>
#include <string.h>

enum { NOTHING, A_ROOT, A_BLOCK }; /* of holders; blocks from A_BLOCK on */

#define ROOT UINT32_MAX /* in place of a block's number */

static bool has(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static void set(uint64_t *bits, uint32_t i)
{
	bits[i / 64] |= UINT64_C(1) << i % 64;
}

static size_t bytes_of_bits(const struct ms_chains *c)
{
	return (c->rows->n / 64 + 1) * sizeof(uint64_t);
}

static uint32_t number_of(const struct ms_chains *c, struct ms_block block)
{
	return ms_block_number(c->rows->blocks, block);
}

static bool same_block(struct ms_block a, struct ms_block b)
{
	return a.extent == b.extent && a.granule == b.granule;
}

static bool is_aside(const struct ms_chains *c, const struct ms_pointer *pointer)
{
	return ms_range_has(c->aside, pointer->at) && same_block(pointer->to, c->aside_block);
}

/* ---- what roots lead to ---- */

/* Hand over all pointers of @root. */
static void look_at_root(struct ms_pointers *p, const struct ms_root *root)
{
	if (root->range.end > root->range.begin)
		ms_pointers_range(p, ROOT, root->range);
	else
		ms_pointers_word(p, ROOT, root->value);
	ms_pointers_finish(p);
}

/*
 * A stack in a heap block keeps the block, but only its live part is read, as a root: what
 * else is in the block leads nowhere. False when the stack that begins at @at is in none.
 */
static bool claim(struct ms_chains *c, ms_addr at, uint32_t *ret)
{
	struct ms_block block;

	if (!ms_pointers_hit(c->pointers, at, &block))
		return false;
	*ret = number_of(c, block);
	return true;
}

/* ---- the walk ---- */

struct walking {
	struct ms_chains *chains;
	size_t n; /* in the queue */
};

static void reach(struct walking *w, uint32_t number, uint32_t holder)
{
	struct ms_chains *c = w->chains;

	if (c->holders[number] != NOTHING)
		return;
	c->holders[number] = holder;
	c->queue[w->n++] = number;
}

static void reach_from_root(void *ctx, const struct ms_pointer *pointer)
{
	struct walking *w = ctx;

	if (!is_aside(w->chains, pointer))
		reach(w, number_of(w->chains, pointer->to), A_ROOT);
}

static void walk_root(void *ctx, const struct ms_root *root)
{
	const struct walking *w = ctx;

	look_at_root(w->chains->pointers, root);
}

static void walk(struct ms_chains *c)
{
	struct walking w = { .chains = c };
	const struct ms_range *r;
	uint32_t number;

	ms_vec_for_each (r, &c->roots->stacks.live)
		if (claim(c, r->begin, &number)) {
			c->holders[number] = A_ROOT;
			set(c->claimed, number);
		}
	c->pointers->found = reach_from_root;
	c->pointers->ctx = &w;
	ms_roots_visit(c->roots, walk_root, &w);
	for (size_t i = 0; i < w.n; i++) {
		uint32_t from = c->queue[i];
		size_t n;
		const uint32_t *row = ms_rows_of(c->rows, from, &n);

		for (size_t k = 0; k < n; k++)
			reach(&w, row[k], from + A_BLOCK);
	}
}

enum ms_status ms_chains_walk(const struct ms_rows *rows, const struct ms_roots *roots,
                              struct ms_arena *arena, struct ms_chains *ret, struct ms_error *err)
{
	struct ms_chains c = { .rows = rows, .roots = roots, .arena = arena };
	size_t n = rows->n;

	c.pointers = ms_pointers_new(rows->blocks, &rows->like, arena);
	c.holders = ms_arena_alloc(arena, n * sizeof(*c.holders));
	c.queue = ms_arena_alloc(arena, n * sizeof(*c.queue));
	c.claimed = ms_arena_alloc(arena, bytes_of_bits(&c));
	c.met = ms_arena_alloc(arena, bytes_of_bits(&c));
	c.members = ms_arena_alloc(arena, bytes_of_bits(&c));
	if (!c.pointers || !c.holders || !c.queue || !c.claimed || !c.met || !c.members ||
	    n > UINT32_MAX - A_BLOCK)
		return ms_fail(err, MS_E_NOMEM, "no memory for what holds each block");
	walk(&c);
	*ret = c;
	return MS_OK;
}

void ms_chains_set_aside(struct ms_chains *chains, struct ms_range range, struct ms_block block)
{
	chains->aside = range;
	chains->aside_block = block;
	memset(chains->holders, 0, chains->rows->n * sizeof(*chains->holders));
	memset(chains->claimed, 0, bytes_of_bits(chains));
	walk(chains);
}

bool ms_chains_held(const struct ms_chains *chains, struct ms_block block)
{
	return chains->holders[number_of(chains, block)] != NOTHING;
}

/* ---- one chain ---- */

/* Pointers to one block. */
struct search {
	struct ms_chains *chains;
	struct ms_block wanted;
	uint64_t n;
	ms_addr first; /* where the first of them stands */
	struct ms_root_name root;
};

static void find_pointer(void *ctx, const struct ms_pointer *pointer)
{
	struct search *s = ctx;

	if (!same_block(pointer->to, s->wanted) || is_aside(s->chains, pointer))
		return;
	if (!s->n++)
		s->first = pointer->at;
}

static void find_root(void *ctx, const struct ms_root *root)
{
	struct search *s = ctx;

	if (s->n)
		return;
	look_at_root(s->chains->pointers, root);
	if (s->n)
		s->root = ms_root_name(s->chains->roots, root, s->first);
}

static void search_for(struct search *s, struct ms_chains *c, struct ms_block block)
{
	*s = (struct search){ .chains = c, .wanted = block };
	c->pointers->found = find_pointer;
	c->pointers->ctx = s;
}

/* The pointers in @from to @to. */
static void find_between(struct search *s, struct ms_chains *c, struct ms_block from,
                         struct ms_block to)
{
	search_for(s, c, to);
	ms_pointers_block(c->pointers, 0, from);
	ms_pointers_finish(c->pointers);
}

/* Name the root that holds @block, which the walk has come to from a root. */
static struct ms_root_name name_root(struct ms_chains *c, struct ms_block block)
{
	uint32_t wanted = number_of(c, block);
	const struct ms_range *r;
	struct search s;
	uint32_t number;

	ms_vec_for_each (r, &c->roots->stacks.live) {
		struct ms_root root = { .range = *r, .kind = MS_ROOT_STACK };

		if (claim(c, r->begin, &number) && number == wanted)
			return ms_root_name(c->roots, &root, r->begin);
	}
	search_for(&s, c, block);
	ms_roots_visit(c->roots, find_root, &s);
	assert(s.n);
	return s.root;
}

static ms_addr begin_of(const struct ms_chains *c, struct ms_block block)
{
	return ms_block_begin(&c->rows->blocks->extents.at[block.extent], block.granule);
}

enum ms_status ms_chains_find(struct ms_chains *chains, struct ms_block block, struct ms_chain *ret,
                              struct ms_error *err)
{
	struct ms_chain chain = { .steps = { 0 } };
	struct search s;
	uint32_t at = number_of(chains, block);
	size_t n = chains->holders[at] != NOTHING;

	for (uint32_t i = at; chains->holders[i] >= A_BLOCK; n++)
		i = chains->holders[i] - A_BLOCK;
	if (n && !ms_vec_reserve(chains->arena, &chain.steps, n))
		return ms_fail(err, MS_E_NOMEM, "no memory for what holds a block");
	chain.steps.n = n;
	for (size_t i = n; i > 0; i--) {
		struct ms_chain_step *step = &chain.steps.at[i - 1];

		*step = (struct ms_chain_step){ ms_block_numbered(chains->rows->blocks, at), 0 };
		if (i < n) {
			find_between(&s, chains, step->block, step[1].block);
			step->offset = s.first - begin_of(chains, step->block);
		}
		at = chains->holders[at] - A_BLOCK;
	}
	if (n)
		chain.root = name_root(chains, chain.steps.at[0].block);
	*ret = chain;
	return MS_OK;
}

bool ms_chains_find_aside(struct ms_chains *chains, struct ms_chain *ret)
{
	const struct ms_range aside = chains->aside;
	struct search s;

	search_for(&s, chains, chains->aside_block);
	chains->aside = (struct ms_range){ 0, 0 };
	ms_roots_visit(chains->roots, find_root, &s);
	chains->aside = aside;
	if (!s.n || !ms_vec_reserve(chains->arena, &ret->steps, 1))
		return false;
	ret->root = s.root;
	ret->steps.at[0] = (struct ms_chain_step){ chains->aside_block, 0 };
	ret->steps.n = 1;
	return true;
}

bool ms_chains_between(struct ms_chains *chains, struct ms_block from, struct ms_block to,
                       uint64_t *ret_offset)
{
	struct search s;

	find_between(&s, chains, from, to);
	if (s.n)
		*ret_offset = s.first - begin_of(chains, from);
	return s.n;
}

struct visiting {
	struct ms_chains *chains;
	const struct ms_root *root;
	ms_held_fn *visit;
	void *ctx;
};

static void visit_pointer(void *ctx, const struct ms_pointer *pointer)
{
	const struct visiting *v = ctx;

	if (!is_aside(v->chains, pointer))
		v->visit(v->ctx, v->root, pointer);
}

static void visit_root(void *ctx, const struct ms_root *root)
{
	struct visiting *v = ctx;

	v->root = root;
	look_at_root(v->chains->pointers, root);
}

void ms_chains_roots(struct ms_chains *chains, ms_held_fn *visit, void *ctx)
{
	struct visiting v = { .chains = chains, .visit = visit, .ctx = ctx };

	chains->pointers->found = visit_pointer;
	chains->pointers->ctx = &v;
	ms_roots_visit(chains->roots, visit_root, &v);
}

/* ---- whether there is another ---- */

/*
 * One walk, in stages. In each, the chain has been followed up to @last, and all that is met
 * without the chain's own next pointer is followed. If that comes to a block further down the
 * chain, there is a second way to it. If it does not, all ways lead through that pointer, and
 * the next stage begins behind it.
 */
struct stage {
	struct ms_chains *chains;
	uint32_t last;
	uint32_t next; /* in the chain */
	uint64_t n;    /* the roots' words that lead there */
	size_t begin;  /* of the queue that waits */
	size_t end;
	bool more;
};

static void meet(struct stage *s, uint32_t from, uint32_t to)
{
	struct ms_chains *c = s->chains;

	if (has(c->met, to))
		return;
	if (has(c->members, to)) {
		s->more |= from != s->last || to != s->next;
		return;
	}
	set(c->met, to);
	if (!has(c->claimed, to))
		c->queue[s->end++] = to;
}

static void meet_from_root(struct stage *s, uint32_t to)
{
	if (to == s->next)
		s->more |= s->n++ > 0;
	else
		meet(s, ROOT, to);
}

static void meet_pointer(void *ctx, const struct ms_pointer *pointer)
{
	struct stage *s = ctx;

	if (!is_aside(s->chains, pointer))
		meet_from_root(s, number_of(s->chains, pointer->to));
}

static void meet_root(void *ctx, const struct ms_root *root)
{
	const struct stage *s = ctx;

	if (!s->more)
		look_at_root(s->chains->pointers, root);
}

static void begin_at_roots(struct stage *s)
{
	struct ms_chains *c = s->chains;
	const struct ms_range *r;
	uint32_t number;

	ms_vec_for_each (r, &c->roots->stacks.live)
		if (claim(c, r->begin, &number))
			meet_from_root(s, number);
	c->pointers->found = meet_pointer;
	c->pointers->ctx = s;
	ms_roots_visit(c->roots, meet_root, s);
}

static void follow(struct stage *s)
{
	const struct ms_chains *c = s->chains;

	for (; s->begin < s->end && !s->more; s->begin++) {
		uint32_t from = c->queue[s->begin];
		size_t n;
		const uint32_t *row = ms_rows_of(c->rows, from, &n);

		for (size_t k = 0; k < n; k++)
			meet(s, from, row[k]);
	}
}

bool ms_chains_more(struct ms_chains *chains, const struct ms_chain *chain)
{
	const struct ms_chain_step *step = chain->steps.at;
	const struct ms_chain_step *last;
	struct stage s = { .chains = chains, .last = ROOT };
	struct search between;

	if (!chain->steps.n)
		return false;
	last = step + chain->steps.n - 1;
	memset(chains->met, 0, bytes_of_bits(chains));
	memset(chains->members, 0, bytes_of_bits(chains));
	for (const struct ms_chain_step *i = step; i <= last; i++)
		set(chains->members, number_of(chains, i->block));
	s.next = number_of(chains, step->block);
	begin_at_roots(&s);
	for (follow(&s); step < last && !s.more; step++) {
		find_between(&between, chains, step->block, step[1].block);
		s.more = between.n > 1;
		s.last = s.next;
		s.next = number_of(chains, step[1].block);
		set(chains->met, s.last);
		chains->queue[s.end++] = s.last;
		follow(&s);
	}
	return s.more;
}
