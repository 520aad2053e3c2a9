/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_OUTCOME_H
#define MS_TESTS_FUZZ_OUTCOME_H

/*
 * What a scan came to, and how its report agrees with itself and with the blocks that the
 * decoders told.
 */

#include <string.h>

#include "engine/decoder.h"
#include "engine/scan.h"
#include "fuzz.h"

struct told {
	ms_addr begin;
	uint64_t usable;
	uint64_t size; /* as asked for */
	bool reached;
};

struct told_blocks MS_VEC(struct told);

struct outcome {
	enum ms_status status;
	struct ms_arena arena;
	struct ms_report report;
	struct told_blocks blocks; /* by address */
	struct ms_ranges unproved;
	const struct ms_decoding *decoding; /* while the scan runs */
};

/* The block that has the byte at @addr, or NULL. */
static inline struct told *told_at(const struct outcome *out, ms_addr addr)
{
	size_t low = 0;
	size_t high = out->blocks.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (out->blocks.at[middle].begin <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || addr - out->blocks.at[low - 1].begin >= out->blocks.at[low - 1].usable)
		return NULL;
	return &out->blocks.at[low - 1];
}

/* Blocks in order, without overlap, none in memory that is not proved; the sums are theirs. */
static inline void check_told(const struct outcome *out)
{
	const struct ms_totals *totals = &out->report.totals;
	const struct ms_heap *heap;
	const struct ms_range *r;
	const struct told *block;
	uint64_t allocations = 0;
	uint64_t bytes = 0;
	ms_addr end = 0;

	ms_vec_for_each (block, &out->blocks) {
		require(block->begin >= end, "blocks are in order, without overlap");
		require(block->size && block->size <= block->usable, "a block has its bytes");
		end = block->begin + block->usable;
		bytes += block->size;
		ms_vec_for_each (r, &out->unproved)
			require(block->begin >= r->end || end <= r->begin,
			        "no block is in a range that is not proved");
	}
	require(totals->allocations == out->blocks.n && totals->allocation_bytes == bytes,
	        "the sums are those of the blocks");
	ms_vec_for_each (heap, &out->report.heaps) {
		allocations += heap->allocations;
		bytes -= heap->allocation_bytes;
		require(heap->verified == (heap->doubt == MS_DOUBT_NONE), "a doubt has a reason");
	}
	require(allocations == totals->allocations && !bytes, "the sums are those of the heaps");
}

static inline void check_totals(const struct outcome *out, const struct ms_scan_options *options)
{
	const struct ms_totals *t = &out->report.totals;

	require(t->direct_allocations + t->indirect_allocations == t->leaked_allocations &&
	                t->direct_bytes + t->indirect_bytes == t->leaked_bytes,
	        "leaks are direct or indirect");
	require(t->leaked_allocations + t->possible_allocations <= t->allocations &&
	                t->leaked_bytes + t->possible_bytes <= t->allocation_bytes,
	        "no more is lost than there is");
	require(!t->leaked_bytes == !t->leaked_allocations, "a leak has bytes");
	require(options->possible || !t->possible_allocations, "possible leaks were not asked for");
	require(out->report.leaks.n <= options->limit, "the list has its limit");
	require(t->leaks >= t->small_leaks + out->report.leaks.n, "entries are counted");
	require(t->leaks == t->small_leaks + out->report.leaks.n ||
	                out->report.leaks.n == options->limit,
	        "only the limit cuts entries off");
}

/* What a leak is by itself. */
static inline void check_leak(const struct outcome *out, const struct ms_scan_options *options,
                              const struct ms_leak *leak)
{
	const struct told *block = told_at(out, leak->address);
	uint64_t contents = leak->size < MS_CONTENTS ? leak->size : (uint64_t)MS_CONTENTS;

	require(block && block->begin == leak->address && block->size == leak->size,
	        "a leak is a block");
	require(leak->total_size == leak->size + leak->referenced_size + leak->similar_size +
	                                    leak->similar_referenced_size,
	        "a leak's total is the sum of its parts");
	require(leak->total_size >= options->min_size, "no small leak is listed");
	require((leak->kind == MS_LEAK_POSSIBLE) == (leak->reason != MS_REASON_NONE),
	        "a possible leak has its reason");
	require(leak->contents_len == (options->contents ? contents : 0),
	        "contents are those asked for");
	require(leak->stack <= out->report.stacks.n && leak->type <= out->report.types.n,
	        "a leak's stack and type are told");
	require(!options->no_fold || leak->total_size == leak->size, "nothing is folded");
	require(!options->no_merge || !leak->similar_count, "nothing is merged");
	require(strlen(leak->signature) == 16, "a leak has a signature");
}

/* In order, each block once, and nothing in memory that is not proved. */
static inline void check_leaks(const struct outcome *out, const struct ms_scan_options *options)
{
	const struct ms_leaks *leaks = &out->report.leaks;

	for (size_t i = 0; i < leaks->n; i++) {
		const struct ms_leak *leak = &leaks->at[i];
		const struct ms_leak *before = i ? leak - 1 : NULL;

		check_leak(out, options, leak);
		require(leak->id == i + 1, "leaks are numbered");
		require(!before || before->total_size > leak->total_size ||
		                (before->total_size == leak->total_size &&
		                 before->address < leak->address),
		        "leaks are sorted, each once");
	}
}

/* Where nothing is left out, every lost block counts in exactly one entry. */
static inline void check_entries(const struct outcome *out, const struct ms_scan_options *options)
{
	const struct ms_totals *t = &out->report.totals;
	uint64_t count[2] = { t->leaked_allocations, t->possible_allocations };
	uint64_t bytes[2] = { t->leaked_bytes, t->possible_bytes };
	const struct ms_leak *leak;

	if (options->limit != UINT64_MAX || options->min_size)
		return;
	ms_vec_for_each (leak, &out->report.leaks) {
		bool possible = leak->kind == MS_LEAK_POSSIBLE;

		count[possible] -= 1 + leak->referenced_count + leak->similar_count +
		                   leak->similar_referenced_count;
		bytes[possible] -= leak->total_size;
	}
	require(!count[0] && !bytes[0], "the entries are all that is leaked");
	require(!count[1] && !bytes[1], "the entries are all that is possibly leaked");
}

/* All that holds of a report by itself. */
static inline void check_report(const struct outcome *out, const struct ms_scan_options *options)
{
	check_told(out);
	check_totals(out, options);
	check_leaks(out, options);
	check_entries(out, options);
}

#endif
