/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/holders.h"

#include <assert.h>

enum {
	LITTLE = 8, /* what is less than this part of a whole does not make one of it */
	TABLE = 16, /* words from which on a cluster may be a table */
};

static bool is_little(uint64_t part, uint64_t whole)
{
	return part < whole / LITTLE;
}

static bool is_below_cluster(const struct ms_weights *w, uint32_t i)
{
	return ms_weights_kind(w, w->d->idom[i]) == MS_FLOW_CLUSTER;
}

/* The word that has that number among the dominators. */
static uint32_t word_of(const struct ms_weights *w, uint32_t i)
{
	return w->d->node[i] - w->flow->rows.n;
}

/* ---- groups ---- */

static uint32_t find_group(const struct ms_holders *h, uint32_t i)
{
	while (h->groups[i] != i) {
		h->groups[i] = h->groups[h->groups[i]];
		i = h->groups[i];
	}
	return i;
}

/* The first word of a group stands for it. */
static bool goes_before(const struct ms_weights *w, uint32_t a, uint32_t b)
{
	bool is_word = ms_weights_kind(w, a) == MS_FLOW_WORD;

	if (is_word && ms_weights_kind(w, b) == MS_FLOW_WORD)
		return w->d->node[a] < w->d->node[b];
	return is_word;
}

static void join(const struct ms_holders *h, uint32_t a, uint32_t b)
{
	a = find_group(h, a);
	b = find_group(h, b);
	if (goes_before(h->w, a, b))
		h->groups[b] = a;
	else
		h->groups[a] = b;
}

static void find_tops(const struct ms_holders *h)
{
	const struct ms_dominators *d = h->w->d;

	h->tops[1] = h->groups[1] = 1;
	for (uint32_t i = 2; i <= d->n; i++) {
		enum ms_flow_kind above = ms_weights_kind(h->w, d->idom[i]);
		bool is_top = above == MS_FLOW_TOP || above == MS_FLOW_CLUSTER;

		h->groups[i] = i;
		h->tops[i] = is_top ? i : h->tops[d->idom[i]];
	}
}

/* What leads to a shared block from below the same cluster is of its group. */
static void join_groups(const struct ms_holders *h)
{
	const struct ms_dominators *d = h->w->d;
	const uint32_t *from;
	uint64_t n;

	for (uint32_t i = 2; i <= d->n; i++) {
		if (ms_weights_kind(h->w, i) != MS_FLOW_BLOCK || !is_below_cluster(h->w, i))
			continue;
		for (from = ms_dominators_leading_to(d, i, &n); n; from++, n--)
			join(h, i, h->tops[*from]);
	}
}

static void keep_heavier(const struct ms_weights *w, struct ms_holder *holder, uint32_t i)
{
	if (i && (!holder->heaviest || w->bytes[i] > w->bytes[holder->heaviest]))
		holder->heaviest = i;
}

static void add_to_group(const struct ms_holders *h, uint32_t i)
{
	const struct ms_weights *w = h->w;
	uint32_t first = find_group(h, i);
	struct ms_holder *group;

	assert(ms_weights_kind(w, first) == MS_FLOW_WORD);
	group = &h->at[word_of(w, first)];
	group->bytes += w->bytes[i];
	group->count += w->count[i];
	if (ms_weights_kind(w, i) != MS_FLOW_WORD) {
		keep_heavier(w, group, i);
		return;
	}
	h->at[word_of(w, i)].group = word_of(w, first);
	h->at[word_of(w, i)].number = i;
	group->own_bytes += w->bytes[i];
	group->words++;
	keep_heavier(w, group, w->heaviest[i]);
}

/* ---- which form is right ---- */

static void choose_for_group(struct ms_holder *group)
{
	uint64_t shared = group->bytes - group->own_bytes;

	group->form = group->words > 1 && !is_little(shared, group->bytes) ? MS_HOLDER_GROUP
	                                                                   : MS_HOLDER_WORD;
}

/* The words of the cluster are @first to @end. */
static bool is_table(const struct ms_holders *h, uint32_t first, uint32_t end)
{
	uint64_t whole = 0;
	uint64_t most = 0;

	for (uint32_t i = first; i < end; i++) {
		if (h->at[i].group != i)
			continue;
		whole += h->at[i].bytes;
		most = h->at[i].bytes > most ? h->at[i].bytes : most;
	}
	return end - first >= TABLE && is_little(most, whole);
}

/* Of groups that share nothing: all there is below the cluster. */
static void make_one(const struct ms_holders *h, uint32_t first, uint32_t end)
{
	struct ms_holder *whole = &h->at[first];

	whole->form = MS_HOLDER_CLUSTER;
	for (uint32_t i = first + 1; i < end; i++) {
		struct ms_holder *other = &h->at[i];

		if (other->group == i) {
			whole->bytes += other->bytes;
			whole->count += other->count;
			keep_heavier(h->w, whole, other->heaviest);
		}
		other->form = MS_HOLDER_CLUSTER;
	}
	whole->words = end - first;
}

static void make_words(const struct ms_holders *h, uint32_t first, uint32_t end)
{
	const struct ms_weights *w = h->w;

	for (uint32_t i = first; i < end; i++) {
		struct ms_holder *word = &h->at[i];

		word->form = h->at[word->group].form;
		if (word->form != MS_HOLDER_WORD)
			continue;
		word->bytes = w->bytes[word->number];
		word->count = w->count[word->number];
		word->words = 1;
		word->heaviest = w->heaviest[word->number];
	}
}

static void choose(const struct ms_holders *h)
{
	const struct ms_flow *flow = h->w->flow;

	for (uint32_t i = 0; i < flow->words.n; i++)
		if (h->at[i].group == i)
			choose_for_group(&h->at[i]);
	for (uint32_t i = 0; i < flow->n_clusters; i++) {
		uint32_t first = flow->cluster_first[i];
		uint32_t end = flow->cluster_first[i + 1];

		if (is_table(h, first, end))
			make_one(h, first, end);
		else
			make_words(h, first, end);
	}
}

/* ---- all of it ---- */

enum ms_status ms_holders_find(const struct ms_weights *w, struct ms_arena *arena,
                               struct ms_holders *ret, struct ms_error *err)
{
	struct ms_holders h = { .w = w, .tops = w->spare[0], .groups = w->spare[1] };

	h.at = ms_arena_alloc(arena, (w->flow->words.n + 1) * sizeof(*h.at));
	if (!h.at)
		return ms_fail(err, MS_E_NOMEM, "no memory for what each root retains");
	find_tops(&h);
	join_groups(&h);
	for (uint32_t i = 2; i <= w->d->n; i++)
		if (is_below_cluster(w, i))
			add_to_group(&h, i);
	choose(&h);
	*ret = h;
	return MS_OK;
}

bool ms_holders_is(const struct ms_holders *holders, uint32_t i)
{
	const struct ms_flow *flow = holders->w->flow;
	const struct ms_holder *holder = &holders->at[i];

	switch ((enum ms_holder_form)holder->form) {
	case MS_HOLDER_WORD:
		break;
	case MS_HOLDER_GROUP:
		if (holder->group != i)
			return false;
		break;
	case MS_HOLDER_CLUSTER:
		if (flow->cluster_first[flow->words.at[i].cluster] != i)
			return false;
		break;
	}
	return holder->bytes > 0;
}

bool ms_holders_share(const struct ms_holders *holders, uint32_t i)
{
	const struct ms_weights *w = holders->w;

	if (i == 1 || ms_weights_kind(w, i) != MS_FLOW_BLOCK)
		return false;
	if (!is_below_cluster(w, i))
		return ms_weights_kind(w, w->d->idom[i]) == MS_FLOW_TOP;
	return holders->at[word_of(w, find_group(holders, i))].form == MS_HOLDER_WORD;
}
