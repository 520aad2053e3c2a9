/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOST_LIST_H
#define MS_ENGINE_LOST_LIST_H

/* The list of leaks while it is made, and the blocks that are not in it any more. */

#include "base/map.h"
#include "engine/blocks.h"
#include "engine/graph/edges.h"
#include "engine/loaded/peek.h"
#include "engine/names/types.h"
#include "engine/options.h"
#include "engine/origins/estimate.h"
#include "engine/origins/origins.h"
#include "engine/report.h"

/* What an entry of the list needs until the list is cut to its limit. */
struct ms_entry {
	ms_addr address;
	uint64_t size;
	uint64_t referenced_count;
	uint64_t referenced_size;
	uint64_t similar_count; /* merged into this one (leaks.h) */
	uint64_t similar_size;
	uint64_t similar_referenced_count;
	uint64_t similar_referenced_size;
	struct ms_text_sums *texts; /* of all that merged into it (texts.h); NULL: none is */
	struct ms_members *members; /* likewise; NULL: none did */
	uint64_t signature;         /* 0: not looked at yet */
	uint32_t stack;             /* an index in the origins' stacks, or MS_STACK_NONE */
	uint32_t asked;             /* as the block's origin has it; 0: it is no sample */
	uint8_t kind;               /* enum ms_leak_kind */
	uint8_t reason;             /* enum ms_reason */
	uint8_t text_at;            /* where its text is, set with the signature */
	uint8_t text_len;           /* at most MS_TEXT_MOST; 0: it has none */
	bool older;                 /* made before attach for certain, all that merged into it */
	bool plain; /* no type, no stack, and no pointer to a module; set with the signature */
};

struct ms_entries MS_VEC(struct ms_entry);

struct ms_collector;
struct ms_signer;
struct ms_aimer;
struct ms_members;
struct ms_makers;
struct ms_histogram;
struct ms_sites_sums;
struct ms_text_sums;

struct ms_leak_list {
	struct ms_blocks *blocks;
	const struct ms_edges *edges; /* NULL: blocks are read */
	struct ms_types *types;
	const struct ms_scan_options *options;
	struct ms_arena *arena;
	struct ms_report *report;       /* its totals and leaks are filled */
	struct ms_origin_finder finder; /* its origins: NULL when none were kept */
	struct ms_entries entries;
	struct ms_signer *signer; /* of its entries (signature.h) */
	const struct ms_regions *regions;
	struct ms_peek peek;         /* for their callbacks */
	struct ms_aimer *aimer;      /* likewise, and for their makers (loaded/aims.h) */
	struct ms_map stacked;       /* sizes of entries with a stack */
	struct ms_map callbacks;     /* of addresses of functions: their entries in ms_report.pcs */
	struct ms_makers *makers;    /* of those without a stack (maker.h); or NULL */
	struct ms_sites_sums *sites; /* likewise, by their stacks; or NULL */
	/* Of what a runtime counts references to, its own count, as to be told; or NULL. */
	const struct ms_collector *collector;
	struct ms_histogram *histogram; /* leaks are counted there, too; or NULL */
	struct ms_map
		signed_by[MS_REASONS]; /* of signatures without a stack: the entry, from 1 on */
	size_t *merged; /* of each reason and stack: the entry that has it, from 1 on, or 0 */
	struct ms_estimate_sum *shares; /* the same: what the entry's samples stand for; or NULL */
	uint32_t *verdicts;             /* of each stack (suppress.c) */
	bool no_judge;                  /* it failed */
};

/*
 * Take the blocks that were marked since out of @unmarked, and add them to the sums.
 *
 * @unmarked: in/out; of each cell, the blocks that were not marked
 */
void ms_leaks_strike(const struct ms_leak_list *list, uint64_t *unmarked, uint64_t *allocations,
                     uint64_t *bytes);

#endif
