/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LEAKS_H
#define MS_ENGINE_LEAKS_H

/*
 * From marks to the report's list: count the unmarked blocks, fold them, choose
 * and sort the entries.
 *
 * Entries whose blocks come from the same calls are one, that of the lowest address; the
 * others are "similar" to it. Not so when every block is to be listed.
 */

#include "engine/blocks.h"
#include "engine/graph/edges.h"
#include "engine/names/types.h"
#include "engine/origins/origins.h"
#include "engine/report.h"
#include "engine/scan.h"

/* What an entry of the list needs until the list is cut to its limit. */
struct ms_entry {
	ms_addr address;
	uint64_t size;
	uint64_t referenced_count;
	uint64_t referenced_size;
	uint64_t similar_count; /* of the same stack, and merged into this one */
	uint64_t similar_size;
	uint64_t similar_referenced_count;
	uint64_t similar_referenced_size;
	uint32_t stack; /* an index in the origins' stacks, or MS_STACK_NONE */
	uint8_t kind;   /* enum ms_leak_kind */
	uint8_t reason; /* enum ms_reason */
};

struct ms_entries MS_VEC(struct ms_entry);

struct ms_leak_list {
	struct ms_blocks *blocks;
	const struct ms_edges *edges; /* NULL: blocks are read */
	struct ms_types *types;
	const struct ms_scan_options *options;
	struct ms_arena *arena;
	struct ms_report *report;       /* its totals and leaks are filled */
	struct ms_origin_finder finder; /* its origins: NULL when none were kept */
	struct ms_entries entries;
	size_t *merged;     /* of each reason and stack: the entry that has it, from 1 on, or 0 */
	uint32_t *verdicts; /* of each stack (suppress.c) */
	bool no_judge;      /* it failed */
};

/*
 * Take every unmarked heap block for a leak of @reason: MS_REASON_NONE for
 * certain ones, else possible ones; but not those that are suppressed, or not confirmed.
 * Marks them all. The first of two scans only keeps them (confirm.h).
 */
ms_must_check enum ms_status ms_leaks_take(struct ms_leak_list *list, enum ms_reason reason,
                                           struct ms_error *err);

/*
 * Take the blocks that were marked since out of @unmarked, and add them to the sums.
 *
 * @unmarked: in/out; of each cell, the blocks that were not marked
 */
void ms_leaks_strike(const struct ms_leak_list *list, uint64_t *unmarked, uint64_t *allocations,
                     uint64_t *bytes);

/*
 * Sort the entries, leave out the small ones, cut them to the limit, and write them to the
 * report, with their stacks.
 */
ms_must_check enum ms_status ms_leaks_finish(struct ms_leak_list *list, struct ms_error *err);

#endif
