/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/tcmalloc/tcmalloc.h"
#include "base/search.h"
#include "base/sort.h"

/*
 * What a thread has in its hands inside tcmalloc. Small blocks are then linked from a register
 * or a stack, as all lists are. But where a large block is given back, tcmalloc goes on with
 * its span alone, and until it holds the page heap's lock nothing else shows that the block
 * is no longer the program's: it would be reported as a leak. So what a thread that may be inside
 * has the span of is handed over as memory.
 */

enum { NEAR_WORDS = 64 }; /* of the stack of a thread that waits for the lock */

struct large {
	ms_addr at; /* its struct Span */
	size_t index;
};

struct larges MS_VEC(struct large);

static bool before(const void *a, const void *b)
{
	return ((const struct large *)a)->at < ((const struct large *)b)->at;
}

static bool find_large(struct ms_tcmalloc *tc, const struct ms_tc_copy *copy, struct larges *ret)
{
	for (size_t i = 0; i < copy->spans.n; i++) {
		const struct ms_tc_span *span = &copy->spans.at[i];
		struct large *slot;

		if (span->class || span->location != MS_TC_IN_USE)
			continue;
		slot = ms_vec_push(tc->d->arena, ret);
		if (!slot)
			return false;
		*slot = (struct large){ span->at, i };
	}
	return ms_sort(tc->d->arena, ret->at, ret->n, sizeof(*ret->at), before);
}

/* The large block whose span is at @at, or NULL. */
static const struct large *large_at(const struct larges *all, ms_addr at)
{
	size_t i = ms_lower_bound(0, all->n, k, all->at[k].at < at);

	return i < all->n && all->at[i].at == at ? &all->at[i] : NULL;
}

static void hold(struct ms_tc_copy *copy, const struct larges *all, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct large *large = large_at(all, words[i]);

		if (large)
			copy->spans.at[large->index].held = true;
	}
}

static bool is_its_code(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy, ms_addr addr)
{
	const struct ms_region *region = ms_region_of(tc->d->regions, addr);

	return region && region->kind == MS_REGION_GLOBALS &&
	       region->module == copy->region->module &&
	       (ms_region_mapping(tc->d->src, region)->prot & MS_PROT_EXEC);
}

static void look_at(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, const struct larges *all,
                    const struct ms_thread *t)
{
	uint64_t stack[NEAR_WORDS];
	size_t n = ms_source_words(tc->d->src, t->sp, stack, NEAR_WORDS);
	bool inside = is_its_code(tc, copy, t->pc);

	for (size_t i = 0; i < n && !inside; i++)
		inside = is_its_code(tc, copy, stack[i]);
	if (!inside)
		return;
	hold(copy, all, t->words, t->n_words);
	hold(copy, all, stack, n);
}

enum ms_status ms_tc_hold_spans(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	struct larges all = { 0 };
	const struct ms_thread *t;

	if (!find_large(tc, copy, &all))
		return MS_E_NOMEM;
	ms_vec_for_each (t, &tc->d->src->threads)
		look_at(tc, copy, &all, t);
	return MS_OK;
}
