/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/choice.h"

#include <string.h>

#include "base/sort.h"

/*
 * The candidates are gone through from the lowest on; each is taken or left. A layer
 * holds the partial results, number and pages so far, with which one can come to a
 * candidate. To leave one leads to the next layer, to take it leads to the layer of the
 * first candidate behind its end:
 *
 *	candidates     A ├───────┤
 *	                 B ├──────────┤
 *	                         C ├───────┤
 *	layer 0 ──leave A──▶ 1 ──leave B──▶ 2 ──leave C──▶ 3
 *	   └───────take A──────────────────▲              ▲
 *	                     └────take B──────────────────┘
 *
 * Every set without overlap is one way through the layers. What cannot reach the
 * counters any more is not kept. Then, from the last layer back, the results on a way
 * that ends with what is wanted are marked, and each candidate's two edges say whether
 * some such way takes it, and whether some such way does not.
 */

enum {
	PAGE_BITS = 12,  /* of the smallest pages that there are */
	PAGES_BITS = 40, /* of a partial result; the number stands above */
	MAX_RANGES = 1 << 16,
	MAX_STATES = 1 << 18, /* partial results in all layers */
};

static const uint64_t ONE = UINT64_C(1) << PAGES_BITS;
static const uint64_t MAX_PAGES = UINT64_C(1) << (PAGES_BITS - 1); /* so that two have room */
static const uint32_t NONE = UINT32_MAX;

/* A partial result; its number and pages in one word, which is sorted and compared at once. */
struct state {
	uint64_t sum;
	bool alive; /* leads to what is wanted */
};

struct states MS_VEC(struct state);

/* In front of a candidate; the last one is behind all. */
struct layer {
	size_t first; /* in choosing.states */
	size_t n;
	uint32_t next;   /* layer where this one's candidate leads when it is taken */
	uint32_t takers; /* a candidate that leads here, or NONE */
	uint32_t other;  /* another one that leads where this layer's does, or NONE */
	bool apart;      /* from here on, none overlaps another */
	uint64_t weight; /* of the candidate, as a partial result; 0: it is too large */
	uint64_t number; /* what can come from here on at most */
	uint64_t pages;
};

struct choosing {
	struct ms_arena arena;
	struct layer *layers;
	size_t n; /* candidates */
	struct states states;
	uint64_t want;
};

static uint64_t number_of(uint64_t sum)
{
	return sum / ONE;
}

static uint64_t pages_of(uint64_t sum)
{
	return sum % ONE;
}

/* Whether @sum in front of @l may become what is wanted. */
static bool can_do(const struct choosing *c, const struct layer *l, uint64_t sum)
{
	uint64_t number = number_of(sum) + l->number;
	uint64_t pages = pages_of(sum) + l->pages;

	if (number_of(sum) > number_of(c->want) || pages_of(sum) > pages_of(c->want) ||
	    number < number_of(c->want) || pages < pages_of(c->want))
		return false;
	/* When all that is left must be taken, nothing is left to choose. */
	return !l->apart || number > number_of(c->want) || pages == pages_of(c->want);
}

static enum ms_status keep(struct choosing *c, struct layer *l, uint64_t sum)
{
	struct state *slot;

	if (!can_do(c, l, sum))
		return MS_OK;
	slot = ms_vec_push(&c->arena, &c->states);
	if (!slot)
		return MS_E_NOMEM;
	*slot = (struct state){ sum, false };
	l->n++;
	return MS_OK;
}

static bool sum_before(const void *a, const void *b)
{
	return ((const struct state *)a)->sum < ((const struct state *)b)->sum;
}

/* Sort what has been kept for @l, the last layer so far, and leave one of each. */
static enum ms_status tidy(struct choosing *c, struct layer *l)
{
	struct state *at;
	size_t kept = 0;

	if (!l->n) /* nor may there be memory for any */
		return MS_OK;
	at = c->states.at + l->first;
	if (!ms_sort(&c->arena, at, l->n, sizeof(*at), sum_before))
		return MS_E_NOMEM;
	for (size_t i = 0; i < l->n; i++)
		if (!kept || at[kept - 1].sum != at[i].sum)
			at[kept++] = at[i];
	l->n = kept;
	c->states.n = l->first + kept;
	return MS_OK;
}

static struct state *find(const struct choosing *c, const struct layer *l, uint64_t sum)
{
	struct state *at = l->n ? c->states.at + l->first : NULL;
	size_t low = 0;
	size_t high = l->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (at[middle].sum < sum)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->n && at[low].sum == sum ? &at[low] : NULL;
}

/* Keep what @from has, with @more, for @l. */
static enum ms_status pull(struct choosing *c, struct layer *l, const struct layer *from,
                           uint64_t more)
{
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < from->n && !st; i++)
		st = keep(c, l, c->states.at[from->first + i].sum + more);
	return st;
}

/* Fill layer @i; all before are filled. */
static enum ms_status fill(struct choosing *c, size_t i)
{
	struct layer *l = &c->layers[i];
	enum ms_status st;

	l->first = c->states.n;
	st = i ? pull(c, l, l - 1, 0) : keep(c, l, 0);
	for (uint32_t t = l->takers; t != NONE && !st; t = c->layers[t].other)
		if (c->layers[t].weight)
			st = pull(c, l, &c->layers[t], c->layers[t].weight);
	return st ? st : tidy(c, l);
}

static bool is_alive(const struct choosing *c, size_t layer, uint64_t sum)
{
	const struct state *state = find(c, &c->layers[layer], sum);

	return state && state->alive;
}

/* Mark what leads to the end, and note what these ways do with each candidate. */
static void go_back(struct choosing *c, struct ms_choices *choices)
{
	struct state *end = find(c, &c->layers[c->n], c->want);

	if (end)
		end->alive = true;
	for (size_t i = c->n; i-- > 0;) {
		const struct layer *l = &c->layers[i];
		bool taken = false;
		bool left = false;

		for (size_t s = l->first; s < l->first + l->n; s++) {
			struct state *state = &c->states.at[s];
			bool take = l->weight && is_alive(c, l->next, state->sum + l->weight);
			bool leave = is_alive(c, i + 1, state->sum);

			state->alive = take || leave;
			taken |= take;
			left |= leave;
		}
		choices->at[i].verdict = taken && left ? MS_VERDICT_MAYBE
		                         : taken       ? MS_VERDICT_ALL
		                                       : MS_VERDICT_NONE;
	}
}

/* A candidate is also left by all ways that go past it, because one it overlaps is taken. */
static enum ms_agreement settle(const struct choosing *c, struct ms_choices *choices)
{
	enum ms_agreement ret = MS_AGREE_ONE;
	size_t past = 0; /* the first candidate that no way goes past */

	if (!is_alive(c, 0, 0))
		return MS_AGREE_NONE;
	for (size_t i = 0; i < c->n; i++) {
		struct ms_choice *choice = &choices->at[i];

		if (choice->verdict == MS_VERDICT_ALL && i < past)
			choice->verdict = MS_VERDICT_MAYBE;
		if (choice->verdict != MS_VERDICT_NONE && c->layers[i].next > past)
			past = c->layers[i].next;
		if (choice->verdict == MS_VERDICT_MAYBE)
			ret = MS_AGREE_SEVERAL;
	}
	return ret;
}

/* The first candidate behind the end of @i. */
static size_t next_of(const struct ms_choices *choices, size_t i)
{
	size_t low = i + 1;
	size_t high = choices->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (choices->at[middle].range.begin < choices->at[i].range.end)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void prepare(struct choosing *c, const struct ms_choices *choices)
{
	c->layers[c->n].apart = true;
	c->layers[c->n].takers = NONE;
	for (size_t i = c->n; i-- > 0;) {
		struct layer *l = &c->layers[i];
		uint64_t pages = ms_range_len(choices->at[i].range) >> PAGE_BITS;
		size_t next = next_of(choices, i);

		l->takers = NONE;
		l->next = (uint32_t)next;
		l->other = c->layers[next].takers;
		c->layers[next].takers = (uint32_t)i;
		l->weight = pages < MAX_PAGES ? ONE + pages : 0;
		l->number = larger(1 + c->layers[next].number, l[1].number);
		l->pages = larger(pages_of(l->weight) + c->layers[next].pages, l[1].pages);
		l->apart = l->weight && next == i + 1 && l[1].apart;
	}
}

static void give_all(struct ms_choices *choices, enum ms_verdict verdict)
{
	struct ms_choice *choice;

	ms_vec_for_each (choice, choices)
		choice->verdict = verdict;
}

static enum ms_status choose(struct choosing *c, struct ms_choices *choices, enum ms_agreement *ret)
{
	enum ms_status st = MS_OK;

	c->layers = ms_arena_alloc(&c->arena, (c->n + 1) * sizeof(*c->layers));
	if (!c->layers)
		return MS_E_NOMEM;
	prepare(c, choices);
	for (size_t i = 0; i <= c->n && !st; i++) {
		st = fill(c, i);
		if (c->states.n > MAX_STATES)
			return st;
	}
	if (st)
		return st;
	go_back(c, choices);
	*ret = settle(c, choices);
	return MS_OK;
}

enum ms_status ms_choose(struct ms_choices *choices, uint64_t count, uint64_t bytes,
                         enum ms_agreement *ret)
{
	uint64_t pages = bytes >> PAGE_BITS;
	struct choosing c = { .n = choices->n, .want = count * ONE + pages };
	enum ms_status st = MS_OK;

	give_all(choices, MS_VERDICT_NONE);
	*ret = MS_AGREE_NONE;
	if (count > choices->n || pages >= MAX_PAGES || bytes % (UINT64_C(1) << PAGE_BITS))
		return MS_OK;
	*ret = MS_AGREE_UNKNOWN;
	if (choices->n <= MAX_RANGES)
		st = choose(&c, choices, ret);
	if (*ret == MS_AGREE_UNKNOWN)
		give_all(choices, MS_VERDICT_MAYBE);
	ms_arena_deinit(&c.arena);
	return st;
}
