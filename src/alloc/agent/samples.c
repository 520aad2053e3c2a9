/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "alloc/agent/agent.h"
#include "base/sort.h"

enum { AT_ONCE = 512, SLOT_BYTES = sizeof(uint64_t) };

static bool by_block(const void *a, const void *b)
{
	return ((const struct ms_agent_entry *)a)->block <
	       ((const struct ms_agent_entry *)b)->block;
}

static bool add(struct ms_agent_reading *r, uint64_t slot)
{
	struct ms_agent_entry entry = { ms_agent_block_of(slot), ms_agent_record_of(slot) };
	struct ms_agent_entry *kept;

	if (!entry.block || entry.record >= r->facts.n_used)
		return true;
	kept = ms_vec_push(r->d->arena, &r->entries);
	if (kept)
		*kept = entry;
	return kept;
}

/* A block has one entry. */
static void leave_out_doubles(struct ms_agent_reading *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->entries.n; i++)
		if (!n || r->entries.at[n - 1].block != r->entries.at[i].block)
			r->entries.at[n++] = r->entries.at[i];
	r->entries.n = n;
}

bool ms_agent_read_entries(struct ms_agent_reading *r)
{
	ms_addr at = r->at + offsetof(struct ms_agent_data, slots);
	uint64_t slots[AT_ONCE];

	static_assert(MS_AGENT_SLOTS % AT_ONCE == 0, "all are read");
	for (size_t i = 0; i < MS_AGENT_SLOTS; i += AT_ONCE) {
		if (ms_source_read(r->d->src, at + i * SLOT_BYTES, slots, sizeof(slots)) !=
		    sizeof(slots)) {
			r->problem = "its entries could not be read";
			return true;
		}
		for (size_t k = 0; k < AT_ONCE; k++)
			if (slots[k] && !add(r, slots[k]))
				return false;
	}
	if (!ms_sort(r->d->arena, r->entries.at, r->entries.n, sizeof(*r->entries.at), by_block))
		return false;
	leave_out_doubles(r);
	return true;
}

bool ms_agent_read_record(struct ms_agent_reading *r, const struct ms_agent_entry *entry)
{
	ms_addr at = r->at + offsetof(struct ms_agent_data, records) +
	             entry->record * (uint64_t)MS_AGENT_RECORD_BYTES;
	uint64_t usable = ms_blocks_usable(r->d->blocks, entry->block);

	return usable &&
	       ms_source_read(r->d->src, at, r->record, sizeof(*r->record)) == sizeof(*r->record) &&
	       r->record->block == entry->block && r->record->size <= usable &&
	       r->record->n_stack <= MS_AGENT_STACK;
}
