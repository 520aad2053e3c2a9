/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/flow.h"

#include "base/sort.h"

enum { NEIGHBOURS = 3 }; /* words from one to the next in a cluster */

/* Clusters of a thread: its stack, its TLS. */
enum { OF_STACK, OF_TLS, A_THREAD };

/* A thread, and where it is in the source's list. */
struct numbered {
	int32_t tid;
	uint32_t index;
};

struct gathering {
	struct ms_why *why;
	struct ms_pointers *pointers;
	struct ms_arena *arena;   /* what is kept */
	struct ms_arena *passing; /* what is not */
	struct ms_flow flow;
	uint64_t *claimed;
	struct ms_flow_words words; /* as they are met */
	uint64_t tls_bytes;         /* below a thread pointer, or above */
	struct numbered *by_tid;    /* all threads */
	const struct ms_root *root;
	bool listed; /* in flow.roots */
	uint32_t n_clusters;
	struct ms_stack_part part; /* of a stack, that was met last */
	const struct ms_thread *thread;
	uint32_t ended; /* a cluster of this part, whose thread ended */
	ms_addr last;   /* word of data that was met */
	bool ok;        /* false: no memory */
};

/* ---- clusters ---- */

static uint32_t kernel_cluster(const struct gathering *g)
{
	return A_THREAD * (uint32_t)g->why->roots->src->threads.n;
}

static uint32_t thread_cluster(const struct gathering *g, const struct ms_thread *thread,
                               uint32_t which)
{
	return A_THREAD * (uint32_t)(thread - g->why->roots->src->threads.at) + which;
}

static bool thread_before(const void *a, const void *b)
{
	return ((const struct numbered *)a)->tid < ((const struct numbered *)b)->tid;
}

/* There may be thousands, each of which is looked for. */
static bool sort_threads(struct gathering *g)
{
	const struct ms_threads *threads = &g->why->roots->src->threads;

	g->by_tid = ms_arena_alloc(g->passing, (threads->n + 1) * sizeof(*g->by_tid));
	for (size_t i = 0; g->by_tid && i < threads->n; i++)
		g->by_tid[i] = (struct numbered){ threads->at[i].tid, (uint32_t)i };
	return g->by_tid &&
	       ms_sort(g->passing, g->by_tid, threads->n, sizeof(*g->by_tid), thread_before);
}

/* NULL when it ended. */
static const struct ms_thread *thread_of(const struct gathering *g, int32_t tid)
{
	const struct ms_threads *threads = &g->why->roots->src->threads;
	size_t i = ms_lower_bound(0, threads->n, k, g->by_tid[k].tid < tid);

	return i < threads->n && g->by_tid[i].tid == tid ? &threads->at[g->by_tid[i].index] : NULL;
}

/* Stacks side by side are one range: which part is it? */
static void find_part(struct gathering *g, ms_addr at)
{
	const struct ms_stack_part *part;

	if (ms_range_has(g->part.range, at))
		return;
	g->part = (struct ms_stack_part){ .range = { at, at + 1 } };
	part = ms_stacks_part(&g->why->roots->stacks, at);
	if (part)
		g->part = *part;
	g->thread = thread_of(g, g->part.tid);
	if (!g->thread)
		g->ended = g->n_clusters++;
}

static uint32_t stack_cluster(struct gathering *g, ms_addr at)
{
	ms_addr from; /* where TLS begins, if it is on that stack */
	bool tls;

	find_part(g, at);
	if (!g->thread)
		return g->ended;
	from = g->thread->tp - (g->why->roots->src->abi.tls_above ? 0 : g->tls_bytes);
	tls = ms_range_has(g->part.range, g->thread->tp) && at >= from;
	return thread_cluster(g, g->thread, tls ? OF_TLS : OF_STACK);
}

static uint32_t word_cluster(struct gathering *g)
{
	const struct ms_stack_word *owner = &g->why->roots->stacks.word_owners.at[g->root->index];
	const struct ms_thread *thread = thread_of(g, owner->tid);

	return thread ? thread_cluster(g, thread, owner->tls ? OF_TLS : OF_STACK) : g->n_clusters++;
}

static uint32_t data_cluster(struct gathering *g, ms_addr at)
{
	bool goes_on = g->listed &&
	               at - g->last <= (uint64_t)NEIGHBOURS * g->why->roots->src->abi.word_bytes;

	g->last = at;
	return goes_on ? g->n_clusters - 1 : g->n_clusters++;
}

static uint32_t cluster_of(struct gathering *g, ms_addr at)
{
	switch (g->root->kind) {
	case MS_ROOT_STACK:
		return stack_cluster(g, at);
	case MS_ROOT_TLS:
		return word_cluster(g);
	case MS_ROOT_REGISTER:
		return thread_cluster(g, g->root->thread, OF_STACK);
	case MS_ROOT_KERNEL:
	case MS_ROOT_TRANSIT:
		return kernel_cluster(g);
	case MS_ROOT_GLOBALS:
	case MS_ROOT_BREAK:
	case MS_ROOT_UNPROVED:
	case MS_ROOT_KINDS:
		break;
	}
	return data_cluster(g, at);
}

/* ---- words ---- */

static void add_word(struct gathering *g, ms_addr at, uint32_t to)
{
	uint32_t cluster = cluster_of(g, at);
	struct ms_flow_word *word = ms_vec_push(g->passing, &g->words);
	struct ms_root *root = g->listed ? g->flow.roots.at : NULL;

	if (!g->listed)
		root = ms_vec_push(g->arena, &g->flow.roots);
	g->ok &= word && root;
	if (!word || !root)
		return;
	if (!g->listed)
		*root = *g->root;
	g->listed = true;
	*word = (struct ms_flow_word){ at, to, (uint32_t)g->flow.roots.n - 1, cluster };
}

static void add_pointer(void *ctx, const struct ms_pointer *pointer)
{
	struct gathering *g = ctx;

	if (g->ok)
		add_word(g, pointer->at, ms_block_number(g->why->rows.blocks, pointer->to));
}

static void begin_root(struct gathering *g, const struct ms_root *root)
{
	g->root = root;
	g->listed = false;
	g->part.range = (struct ms_range){ 0, 0 };
}

static void visit_root(void *ctx, const struct ms_root *root)
{
	struct gathering *g = ctx;

	begin_root(g, root);
	if (root->range.end > root->range.begin)
		ms_pointers_range(g->pointers, 0, root->range);
	else
		ms_pointers_word(g->pointers, 0, root->value);
	ms_pointers_finish(g->pointers);
}

/* A stack in a block keeps the block, but only its live part is read, as a root (chains.c). */
static void claim_stacks(struct gathering *g)
{
	const struct ms_range *r;
	struct ms_block block;

	ms_vec_for_each (r, &g->why->roots->stacks.live) {
		struct ms_root root = { .range = *r, .kind = MS_ROOT_STACK };
		uint32_t number;

		if (!ms_pointers_hit(g->pointers, r->begin, &block))
			continue;
		number = ms_block_number(g->why->rows.blocks, block);
		g->claimed[number / 64] |= UINT64_C(1) << number % 64;
		begin_root(g, &root);
		add_word(g, r->begin, number);
	}
}

/* ---- in order ---- */

/* The clusters of stacks are every other one of those of threads. */
static void number_clusters(const struct gathering *g, uint32_t *numbers, uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_clusters; i++)
		if (i >= kernel_cluster(g) || i % A_THREAD != OF_STACK)
			numbers[n++] = node + i;
	for (uint32_t i = OF_STACK; i < kernel_cluster(g); i += A_THREAD)
		numbers[n++] = node + i;
}

static bool sort_words(struct gathering *g)
{
	struct ms_flow *flow = &g->flow;
	size_t n = g->words.n;
	uint32_t *first = ms_arena_alloc(g->arena, ((size_t)g->n_clusters + 2) * sizeof(*first));
	uint32_t *numbers = ms_arena_alloc(g->arena, (n + g->n_clusters + 1) * sizeof(*numbers));
	const struct ms_flow_word *word;

	if (!first || !numbers || !ms_vec_reserve(g->arena, &flow->words, n + 1))
		return false;
	/* One ahead, so that filling moves each to its own begin. */
	ms_vec_for_each (word, &g->words)
		first[word->cluster + 2]++;
	for (uint32_t i = 1; i <= g->n_clusters; i++)
		first[i + 1] += first[i];
	ms_vec_for_each (word, &g->words)
		flow->words.at[first[word->cluster + 1]++] = *word;
	for (size_t i = 0; i < n; i++)
		numbers[i] = flow->rows.n + (uint32_t)i;
	number_clusters(g, numbers + n, flow->rows.n + (uint32_t)n);
	flow->words.n = n;
	flow->cluster_first = first;
	flow->n_clusters = g->n_clusters;
	flow->n_strong = g->n_clusters - kernel_cluster(g) / A_THREAD;
	flow->numbers = numbers;
	return true;
}

enum ms_status ms_flow_gather(struct ms_why *why, struct ms_arena *arena, struct ms_flow *ret,
                              struct ms_error *err)
{
	struct ms_arena passing = { 0 };
	struct gathering g = { .why = why,
		               .arena = arena,
		               .passing = &passing,
		               .flow = { .rows = why->rows },
		               .tls_bytes = ms_subject_tls_bytes(why),
		               .ok = true };
	uint64_t nodes;

	g.n_clusters = kernel_cluster(&g) + 1;
	g.pointers = ms_pointers_new(why->rows.blocks, &why->like, &passing);
	g.claimed = ms_arena_alloc(arena, (why->rows.n / 64 + 1) * sizeof(*g.claimed));
	g.flow.claimed = g.claimed;
	g.ok = g.pointers && g.claimed && sort_threads(&g);
	if (g.ok) {
		g.pointers->found = add_pointer;
		g.pointers->ctx = &g;
		claim_stacks(&g);
		ms_roots_visit(why->roots, visit_root, &g);
	}
	nodes = (uint64_t)why->rows.n + g.words.n + g.n_clusters;
	g.ok = g.ok && nodes < UINT32_MAX - 2;
	g.ok = g.ok && sort_words(&g);
	ms_arena_deinit(&passing);
	if (!g.ok)
		return ms_fail(err, MS_E_NOMEM, "no memory for the words that hold blocks");
	*ret = g.flow;
	return MS_OK;
}
