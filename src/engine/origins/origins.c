/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/origins/origins.h"

#include "base/search.h"

/* The first entry from @low on that does not begin before @begin. */
static size_t search(const struct ms_origins *origins, size_t low, size_t high, ms_addr begin)
{
	return ms_lower_bound(low, high, i, origins->blocks.at[i].begin < begin);
}

/* In growing steps from where we are: the next one is near as a rule. */
static size_t seek(const struct ms_origins *origins, size_t at, ms_addr begin)
{
	size_t n = origins->blocks.n;
	size_t step = 1;

	if (at >= n || origins->blocks.at[at].begin > begin)
		return search(origins, 0, at < n ? at : n, begin);
	while (at + step < n && origins->blocks.at[at + step].begin < begin) {
		at += step;
		step *= 2;
	}
	return search(origins, at, at + step < n ? at + step : n, begin);
}

const struct ms_origin *ms_origin_at(struct ms_origin_finder *finder, ms_addr begin)
{
	const struct ms_origins *origins = finder->origins;
	const struct ms_origin *found;

	if (!origins || !origins->blocks.n)
		return NULL;
	finder->at = seek(origins, finder->at, begin);
	if (finder->at == origins->blocks.n)
		return NULL;
	found = &origins->blocks.at[finder->at];
	if (found->begin != begin || found->stack >= origins->stacks.n ||
	    !origins->stacks.at[found->stack].n)
		return NULL;
	return found;
}

uint32_t ms_origin_find(struct ms_origin_finder *finder, ms_addr begin)
{
	const struct ms_origin *origin = ms_origin_at(finder, begin);

	return origin ? origin->stack : MS_STACK_NONE;
}

bool ms_origin_is_older(const struct ms_report *report, uint64_t size)
{
	/* exp(-14) is less; a block has hardly twice the bytes that were asked for. */
	const uint64_t intervals = 28;
	const struct ms_sampling *sampling = &report->sampling;

	/* Of several allocators the agent knows one. */
	return sampling->on && sampling->whole && report->heaps.n == 1 &&
	       size / intervals >= sampling->interval;
}

static bool append(const struct ms_origin_teller *teller, const struct ms_stack *stack)
{
	struct ms_report *report = teller->report;
	const ms_addr *pcs = teller->origins->pcs.at + stack->first;
	uint32_t n = stack->n < MS_STACK_FRAMES ? stack->n : MS_STACK_FRAMES;
	struct ms_stack *slot;

	if (report->pcs.n + n > UINT32_MAX ||
	    !ms_vec_reserve(teller->arena, &report->pcs, report->pcs.n + n))
		return false;
	slot = ms_vec_push(teller->arena, &report->stacks);
	if (!slot)
		return false;
	*slot = (struct ms_stack){ (uint32_t)report->pcs.n, n, stack->cut || n < stack->n };
	for (uint32_t i = 0; i < n; i++)
		report->pcs.at[report->pcs.n++] = pcs[i];
	return true;
}

uint32_t ms_origin_tell(struct ms_origin_teller *teller, uint32_t stack)
{
	if (stack == MS_STACK_NONE)
		return 0;
	if (!teller->numbers)
		teller->numbers = ms_arena_alloc(teller->arena, teller->origins->stacks.n *
		                                                        sizeof(*teller->numbers));
	if (!teller->numbers)
		return 0;
	if (!teller->numbers[stack] && append(teller, &teller->origins->stacks.at[stack]))
		teller->numbers[stack] = (uint32_t)teller->report->stacks.n;
	return teller->numbers[stack];
}
