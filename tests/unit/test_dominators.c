/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine/retained/dominators.h"
#include "engine/retained/ranking.h"

/* Dominators of random graphs, against what is not reached any more without a node. */

enum { BLOCKS = 24, WORDS = 8, CLUSTERS = 4, NODES = BLOCKS + WORDS + CLUSTERS + 1, GRAPHS = 3000 };

struct drawn {
	struct ms_arena arena;
	struct ms_arena rows;
	struct ms_flow flow;
	uint64_t claimed;
	uint32_t cluster_first[CLUSTERS + 1];
	uint32_t numbers[WORDS + CLUSTERS];
};

static uint64_t random_state;

static uint32_t any(uint32_t below)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % below;
}

static void draw_rows(struct drawn *d, uint32_t pointers)
{
	struct ms_rows *rows = &d->flow.rows;

	rows->n = BLOCKS;
	cr_assert(ms_offsets_init(&rows->first, BLOCKS + 1, &d->rows) &&
	          ms_vec_reserve(&d->rows, &rows->to, 1));
	for (uint32_t i = 0; i < BLOCKS; i++) {
		for (uint32_t n = any(pointers + 1); n; n--)
			*ms_vec_push(&d->rows, &rows->to) = any(BLOCKS);
		cr_assert(ms_offset_set(&rows->first, i + 1, rows->to.n));
	}
}

static void draw(struct drawn *d, uint64_t seed)
{
	*d = (struct drawn){ .claimed = 0 };
	random_state = seed * 77 + 1;
	draw_rows(d, 1 + any(3));
	if (seed % 3 == 0)
		d->claimed = UINT64_C(1) << any(BLOCKS);
	d->flow.claimed = &d->claimed;
	for (uint32_t i = 0; i < WORDS; i++)
		*ms_vec_push(&d->arena, &d->flow.words) =
			(struct ms_flow_word){ .to = any(BLOCKS), .cluster = i / 2 };
	for (uint32_t i = 0; i <= CLUSTERS; i++)
		d->cluster_first[i] = 2 * i;
	for (uint32_t i = 0; i < WORDS + CLUSTERS; i++)
		d->numbers[i] = BLOCKS + i;
	d->flow.cluster_first = d->cluster_first;
	d->flow.n_clusters = CLUSTERS;
	d->flow.n_strong = seed % 2 ? CLUSTERS : any(CLUSTERS);
	d->flow.numbers = d->numbers;
}

static void erase(struct drawn *d)
{
	ms_arena_deinit(&d->rows);
	ms_arena_deinit(&d->arena);
}

static bool held[NODES]; /* by strong clusters */

static bool is_weak_cluster(const struct ms_flow *flow, uint32_t node)
{
	return ms_flow_kind_of(flow, node) == MS_FLOW_CLUSTER &&
	       node - BLOCKS - WORDS >= flow->n_strong;
}

/* What is reached when @without is not there; again and again over all pointers that count. */
static void reach(const struct ms_flow *flow, uint32_t without, bool *reached)
{
	bool more = true;

	memset(reached, 0, NODES * sizeof(*reached));
	reached[ms_flow_top(flow)] = without != ms_flow_top(flow);
	while (more) {
		more = false;
		for (uint32_t i = 0; i < NODES; i++) {
			uint32_t n;
			const uint32_t *row = ms_flow_row(flow, i, &n);

			for (uint32_t k = 0; reached[i] && k < n; k++) {
				bool counts = row[k] != without &&
				              (held[i] || !held[row[k]] || i == NODES - 1);

				more |= counts && !reached[row[k]];
				reached[row[k]] |= counts;
			}
		}
	}
}

/* What strong clusters reach. */
static void hold(const struct ms_flow *flow, bool *ret)
{
	bool more = true;

	ret[ms_flow_top(flow)] = true;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < NODES; i++) {
			uint32_t n;
			const uint32_t *row = ms_flow_row(flow, i, &n);

			for (uint32_t k = 0; ret[i] && k < n; k++) {
				more |= !ret[row[k]] && !is_weak_cluster(flow, row[k]);
				ret[row[k]] |= !is_weak_cluster(flow, row[k]);
			}
		}
	}
}

/* @ret[a][b]: @a dominates @b. */
static void dominate_plainly(const struct ms_flow *flow, bool ret[NODES][NODES])
{
	bool all[NODES];
	bool left[NODES];

	memset(held, 0, sizeof(held));
	hold(flow, held);
	reach(flow, UINT32_MAX, all);
	for (uint32_t a = 0; a < NODES; a++) {
		reach(flow, a, left);
		for (uint32_t b = 0; b < NODES; b++)
			ret[a][b] = all[a] && all[b] && !left[b];
	}
}

static void dominate(const struct ms_dominators *d, bool ret[NODES][NODES])
{
	memset(ret, 0, NODES * NODES * sizeof(bool));
	for (uint32_t i = 1; i <= d->n; i++)
		for (uint32_t above = i; above; above = d->idom[above])
			ret[d->node[above]][d->node[i]] = true;
}

Test(dominators, are_those_without_which_a_node_is_not_reached)
{
	static bool wanted[NODES][NODES];
	static bool found[NODES][NODES];
	uint64_t blocks_by_blocks = 0;

	for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
		struct ms_dominators d;
		struct ms_error err;
		struct drawn drawn;

		draw(&drawn, seed);
		dominate_plainly(&drawn.flow, wanted);
		cr_assert(!ms_dominators_find(&drawn.flow, &drawn.rows, &drawn.arena, &d, &err));
		dominate(&d, found);
		cr_assert_arr_eq(found, wanted, sizeof(found), "graph %u", (unsigned)seed);
		for (uint32_t a = 0; a < BLOCKS; a++)
			for (uint32_t b = 0; b < BLOCKS; b++)
				blocks_by_blocks += a != b && found[a][b];
		erase(&drawn);
	}
	cr_expect_gt(blocks_by_blocks, GRAPHS, "%u", (unsigned)blocks_by_blocks);
}

/* How many pointers of what was reached lead to node @i; the last of them is from @ret. */
static uint32_t count_plainly(const struct ms_flow *flow, const struct ms_dominators *d, uint32_t i,
                              uint32_t *ret)
{
	uint32_t seen = 0;

	for (uint32_t from = 1; from <= d->n; from++) {
		uint32_t n;
		const uint32_t *row = ms_flow_row(flow, d->node[from], &n);

		for (uint32_t k = 0; k < n; k++)
			if (row[k] == d->node[i]) {
				seen++;
				*ret = from;
			}
	}
	return seen;
}

Test(dominators, have_what_leads_to_each_node)
{
	uint32_t several = 0;
	uint32_t none = 0;

	for (uint64_t seed = 5; seed < 100; seed += 2) {
		struct ms_dominators d;
		struct ms_error err;
		struct drawn drawn;

		draw(&drawn, seed);
		cr_assert(!ms_dominators_find(&drawn.flow, NULL, &drawn.arena, &d, &err));
		for (uint32_t i = 1; i <= d.n; i++) {
			uint32_t from = 0;
			uint32_t seen = count_plainly(&drawn.flow, &d, i, &from);
			uint64_t told;

			(void)ms_dominators_leading_to(&d, i, &told);
			cr_assert(told == seen || (!told && seen <= 1 && d.idom[i] == from),
			          "node %u of %u", d.node[i], (unsigned)seed);
			several += told > 1;
			none += seen && !told;
		}
		erase(&drawn);
	}
	cr_expect(several && none);
}

/* A list of a million, doubly linked: nothing recurses, and each dominates what follows. */
Test(dominators, of_a_long_list)
{
	enum { LONG = 1000000 };
	static struct drawn d;
	struct ms_dominators found;
	struct ms_error err;
	struct ms_rows *rows;

	draw(&d, 1);
	rows = &d.flow.rows;
	rows->n = LONG;
	cr_assert(ms_offsets_init(&rows->first, LONG + 1, &d.rows));
	rows->to.n = 0;
	d.flow.claimed = ms_arena_alloc(&d.arena, LONG / 8 + 8);
	for (uint32_t i = 0; i < LONG; i++) {
		if (i)
			*ms_vec_push(&d.rows, &rows->to) = i - 1;
		if (i + 1 < LONG)
			*ms_vec_push(&d.rows, &rows->to) = i + 1;
		cr_assert(ms_offset_set(&rows->first, i + 1, rows->to.n));
	}
	for (uint32_t i = 0; i < WORDS; i++)
		d.flow.words.at[i].to = 0;
	for (uint32_t i = 0; i < WORDS + CLUSTERS; i++)
		d.numbers[i] = LONG + i;
	cr_assert(!ms_dominators_find(&d.flow, &d.rows, &d.arena, &found, &err));
	cr_assert_eq(found.n, LONG + WORDS + CLUSTERS + 1);
	for (uint32_t i = 2; i <= found.n; i++)
		if (found.node[i] && found.node[i] < LONG)
			cr_assert_eq(found.node[found.idom[i]], found.node[i] - 1);
	erase(&d);
}

Test(ranking, keeps_the_heaviest_in_order)
{
	struct ms_arena arena = { 0 };
	struct ms_ranking r;

	cr_assert(ms_ranking_init(&r, 5, &arena));
	for (uint32_t i = 0; i < 1000; i++)
		ms_ranking_add(&r, i, i * UINT64_C(7919) % 1000 / 2);
	ms_ranking_finish(&r);
	cr_assert_eq(r.n, 5);
	cr_assert_eq(r.seen, 1000);
	for (uint32_t i = 0; i < 5; i++)
		cr_expect_eq(r.at[i].weight, 499 - i / 2);
	for (uint32_t i = 0; i < 4; i += 2)
		cr_expect_lt(r.at[i].what, r.at[i + 1].what);
	cr_assert(ms_ranking_init(&r, 0, &arena));
	ms_ranking_add(&r, 1, 1);
	ms_ranking_finish(&r);
	cr_expect_eq(r.n, 0);
	ms_arena_deinit(&arena);
}
