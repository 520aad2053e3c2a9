/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_AGENT_H
#define MS_ALLOC_AGENT_H

/*
 * Reading what an agent of memscan's, in the target since `memscan attach`, keeps of the
 * blocks that it sampled (engine/agent.h). The table is the target's to forge, as all of
 * its memory: what contradicts itself or the allocator's blocks is left out.
 *
 *	find.c      the table, its mapping and the agent's code
 *	samples.c   from slots and records to live blocks and kept stacks
 *	modules.c   libraries that were unloaded
 *	stacks.c    a number for each stack, no two alike
 *	agent.c     the annotator
 */

#include "base/map.h"
#include "engine/agent.h"
#include "engine/decoder.h"
#include "engine/unwind/unwind.h"

/* A slot of the table: a block's address first, by which they are sorted. */
struct ms_agent_entry {
	ms_addr block;
	uint32_t record;
};

/* What the table says of itself. */
struct ms_agent_facts {
	char magic[sizeof(MS_AGENT_MAGIC)];
	uint64_t interval;
	uint64_t n_dropped;
	uint32_t n_used;
	uint32_t n_modules;
	uint64_t whole;
};

struct ms_agent_reading {
	struct ms_decoding *d;
	ms_addr at;          /* of the data; 0: there is none */
	bool ended;          /* the agent was taken out; what it knows is of the past */
	const char *problem; /* why it is not believed, or NULL */
	struct ms_agent_facts facts;
	struct ms_agent_record *record;               /* a copy of the one that is looked at */
	struct MS_VEC(struct ms_agent_entry) entries; /* by block */
	struct ms_former_tables tables;               /* of libraries that were unloaded */
	struct ms_unwinder *unwinder;
	struct ms_map stacks; /* of a hash: the first stack with it, from 1 on */
	struct ms_map kept; /* of a hash of a record's registers and stack: the answer, plus one */
	uint64_t n_stackless;
	uint64_t n_unwound; /* before the limit of work was reached */
};

/*
 * Find it: sets r->at, or leaves 0; r->ended, r->facts, r->problem. Hand over its memory,
 * which is no root and no block. False without memory.
 */
ms_must_check bool ms_agent_find(struct ms_agent_reading *r);

/* List its entries. False without memory; r->problem is set where they make no sense. */
ms_must_check bool ms_agent_read_entries(struct ms_agent_reading *r);

/* Read which libraries were unloaded, into d->origins and r->tables. False without memory. */
ms_must_check bool ms_agent_read_modules(struct ms_agent_reading *r);

/*
 * Whether @entry is of a live block, and its record of that entry; then r->record is it.
 */
bool ms_agent_read_record(struct ms_agent_reading *r, const struct ms_agent_entry *entry);

/*
 * Unwind the stack of r->record.
 *
 * @ret: its place in d->origins->stacks plus one, or 0: not a call is known
 *
 * False without memory.
 */
ms_must_check bool ms_agent_take_stack(struct ms_agent_reading *r, uint32_t *ret);

#endif
