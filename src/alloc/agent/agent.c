/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/agent/agent.h"

#include "alloc/decoders.h"

/*
 * The annotator: what an agent that memscan put into the running target knows of blocks that
 * the decoders have found. Stacks are kept by the agent as bytes, and unwound here.
 */

static bool take(struct ms_agent_reading *r, const struct ms_agent_entry *entry)
{
	struct ms_origins *origins = r->d->origins;
	uint64_t asked = r->record->size;
	struct ms_origin *origin;
	uint32_t stack;

	origins->sampling.live++;
	if (!ms_agent_take_stack(r, &stack))
		return false;
	if (!stack) {
		r->n_stackless++;
		return true;
	}
	origin = ms_vec_push(r->d->arena, &origins->blocks);
	if (!origin)
		return false;
	*origin = (struct ms_origin){ .begin = entry->block,
		                      .stack = stack - 1,
		                      .asked = asked < UINT32_MAX ? (uint32_t)asked : UINT32_MAX };
	origin->asked += !asked;
	return true;
}

static bool take_all(struct ms_agent_reading *r)
{
	const struct ms_agent_entry *entry;

	r->unwinder = ms_unwinder_new(r->d->src, r->d->arena);
	if (!r->unwinder || !ms_agent_read_modules(r))
		return false;
	ms_unwinder_remember(r->unwinder, r->d->origins, &r->tables);
	ms_vec_for_each (entry, &r->entries)
		if (ms_agent_read_record(r, entry) && !take(r, entry))
			return false;
	return true;
}

static void tell(struct ms_agent_reading *r)
{
	const struct ms_sampling *sampling = &r->d->origins->sampling;
	struct ms_decoding *d = r->d;

	ms_evidence_add(
		d->arena, d->evidence, d->heaps,
		"memscan attach: %llu of %llu sampled entries are live blocks, %zu stacks; %llu "
		"samples had no room",
		(unsigned long long)sampling->live, (unsigned long long)sampling->samples,
		d->origins->stacks.n, (unsigned long long)sampling->dropped);
	if (r->n_stackless)
		ms_note_add(d->arena, d->warnings,
		            "memscan attach: %llu kept stacks of allocations are invalid",
		            (unsigned long long)r->n_stackless);
	if (ms_unwinder_over_budget(r->unwinder))
		ms_note_add(
			d->arena, d->warnings,
			"memscan attach: the limit of work for unwinding was reached after %llu of "
			"%llu kept stacks: of the others only the innermost call is known",
			(unsigned long long)r->n_unwound, (unsigned long long)sampling->live);
}

/* False without memory. */
static bool read_all(struct ms_agent_reading *r)
{
	struct ms_origins *origins = r->d->origins;

	if (!ms_agent_find(r))
		return false;
	/* What a preloaded malloc_debug knows is of all blocks, and exact. */
	if (!r->at || r->ended || r->problem || origins->blocks.n)
		return true;
	if (!ms_agent_read_entries(r))
		return false;
	if (r->problem)
		return true;
	origins->sampling = (struct ms_sampling){ .on = 1,
		                                  .interval = r->facts.interval,
		                                  .samples = r->entries.n,
		                                  .dropped = r->facts.n_dropped };
	if (!take_all(r))
		return false;
	origins->sampling.whole = r->facts.whole == 1 && !r->facts.n_dropped && !r->n_stackless;
	tell(r);
	return true;
}

static enum ms_status agent_annotate(struct ms_decoding *d)
{
	struct ms_agent_reading r = { .d = d };

	if (!read_all(&r))
		return MS_E_NOMEM;
	if (r.problem)
		ms_note_add(d->arena, d->warnings,
		            "what memscan attach put into the process, at 0x%llx, is not used: %s; "
		            "stacks are not known",
		            (unsigned long long)r.at, r.problem);
	return MS_OK;
}

const struct ms_annotator ms_agent_annotator = { .name = "agent", .annotate = agent_annotate };
