/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/leaks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sort.h"
#include "engine/graph/fold.h"
#include "engine/kinds/python/collector.h"
#include "engine/live/histogram.h"
#include "engine/live/sites.h"
#include "engine/loaded/aims.h"
#include "engine/lost/confirm.h"
#include "engine/lost/maker.h"
#include "engine/lost/signature.h"
#include "engine/lost/suppress.h"
#include "engine/lost/texts.h"

static void count_block(struct ms_totals *totals, enum ms_leak_kind kind, uint64_t size)
{
	switch (kind) {
	case MS_LEAK_DIRECT:
		totals->direct_allocations++;
		totals->direct_bytes += size;
		break;
	case MS_LEAK_INDIRECT:
		totals->indirect_allocations++;
		totals->indirect_bytes += size;
		break;
	case MS_LEAK_POSSIBLE:
		totals->possible_allocations++;
		totals->possible_bytes += size;
		return;
	case MS_LEAK_KINDS:
		return;
	}
	totals->leaked_allocations++;
	totals->leaked_bytes += size;
}

static enum ms_leak_kind kind_of(enum ms_reason reason, bool is_head)
{
	if (reason != MS_REASON_NONE)
		return MS_LEAK_POSSIBLE;
	return is_head ? MS_LEAK_DIRECT : MS_LEAK_INDIRECT;
}

static uint64_t total_size(const struct ms_entry *entry)
{
	return entry->size + entry->referenced_size + entry->similar_size +
	       entry->similar_referenced_size;
}

/* ---- merging: entries have numbers from 1 on ---- */

static bool merges(const struct ms_leak_list *list, const struct ms_entry *entry)
{
	const struct ms_scan_options *options = list->options;

	return !options->no_fold && !options->no_merge &&
	       (!options->stacks_only || entry->stack != MS_STACK_NONE);
}

/* The place of the entry's reason and stack. */
static size_t *same_calls(const struct ms_leak_list *list, const struct ms_entry *entry)
{
	return &list->merged[entry->reason * list->finder.origins->stacks.n + entry->stack];
}

/* The number of the entry that @entry merges into, or 0. */
static size_t find_same(const struct ms_leak_list *list, const struct ms_entry *entry)
{
	if (entry->stack != MS_STACK_NONE)
		return list->merged ? *same_calls(list, entry) : 0;
	return (size_t)ms_map_find(&list->signed_by[entry->reason], entry->signature);
}

/* From now on entries like @entry merge into the one of @number. False without memory. */
static bool keep_same(struct ms_leak_list *list, const struct ms_entry *entry, size_t number)
{
	if (entry->stack == MS_STACK_NONE)
		return ms_map_add(&list->signed_by[entry->reason], list->arena, entry->signature,
		                  number);
	if (!list->merged)
		list->merged =
			ms_arena_alloc(list->arena, list->finder.origins->stacks.n * MS_REASONS *
		                                            sizeof(*list->merged));
	if (list->merged)
		*same_calls(list, entry) = number;
	return list->merged;
}

/* Count what @entry stands for to the share of its stack. False without memory. */
static bool add_share(struct ms_leak_list *list, const struct ms_entry *entry)
{
	const struct ms_origins *origins = list->finder.origins;

	if (!entry->asked)
		return true;
	if (!list->shares)
		list->shares = ms_arena_alloc(list->arena, origins->stacks.n * MS_REASONS *
		                                                   sizeof(*list->shares));
	if (list->shares)
		ms_estimate_add(&list->shares[entry->reason * origins->stacks.n + entry->stack],
		                origins->sampling.interval, entry->asked, entry->size);
	return list->shares;
}

/* What the samples in @entry stand for. */
static struct ms_estimate share_of(const struct ms_leak_list *list, const struct ms_entry *entry)
{
	const struct ms_origins *origins = list->finder.origins;
	struct ms_estimate_sum own = { 0 };

	if (entry->asked && merges(list, entry))
		return ms_estimate(&list->shares[entry->reason * origins->stacks.n + entry->stack]);
	if (entry->asked)
		ms_estimate_add(&own, origins->sampling.interval, entry->asked, entry->size);
	return ms_estimate(&own);
}

/* Count the text of @entry, if it is one, to those of @into. False without memory. */
static bool add_text(struct ms_leak_list *list, struct ms_entry *into, const struct ms_entry *entry)
{
	size_t len = entry->text_len < MS_LIKES_LOOKED ? entry->text_len : MS_LIKES_LOOKED;
	ms_addr at = entry->address + entry->text_at;
	const unsigned char *bytes;

	if (!len)
		return true;
	if (!into->texts)
		into->texts = ms_arena_alloc(list->arena, sizeof(*into->texts));
	if (!into->texts)
		return false;
	bytes = ms_signer_bytes(list->signer, at, len);
	if (bytes)
		ms_text_sums_add(into->texts, at, bytes, len);
	return true;
}

/* The first one is a member, too: its text counts when there is a second. */
static bool add_texts(struct ms_leak_list *list, struct ms_entry *into,
                      const struct ms_entry *entry)
{
	return (into->similar_count || add_text(list, into, into)) && add_text(list, into, entry);
}

/* Keep where @entry is, if that falls into the sample of @into. False without memory. */
static bool add_member(const struct ms_leak_list *list, struct ms_entry *into,
                       const struct ms_entry *entry)
{
	if (!into->members) {
		into->members = ms_arena_alloc(list->arena, sizeof(*into->members));
		if (!into->members)
			return false;
		into->members->every = 1;
	}
	ms_members_add(into->members, entry->address);
	return true;
}

static void merge(struct ms_entry *into, const struct ms_entry *entry)
{
	into->similar_count++;
	into->similar_size += entry->size;
	into->similar_referenced_count += entry->referenced_count;
	into->similar_referenced_size += entry->referenced_size;
	into->older = into->older && entry->older;
	if (entry->signature < into->signature)
		into->signature = entry->signature;
}

static void count_entry(const struct ms_entry *entry, uint64_t *all, uint64_t *possible)
{
	++*all;
	*possible += entry->kind == MS_LEAK_POSSIBLE;
}

/* True when @entry is too small for the list; counts it then. */
static bool is_small(struct ms_leak_list *list, const struct ms_entry *entry)
{
	struct ms_totals *totals = &list->report->totals;

	if (total_size(entry) >= list->options->min_size)
		return false;
	count_entry(entry, &totals->small_leaks, &totals->small_possible);
	return true;
}

static bool push_entry(struct ms_leak_list *list, const struct ms_entry *entry)
{
	struct ms_entry *slot = ms_vec_push(list->arena, &list->entries);

	if (slot)
		*slot = *entry;
	return slot;
}

/* Entries of one reason come in address order, so that the first of its kind is the lowest. */
static bool add_merged(struct ms_leak_list *list, struct ms_entry *entry)
{
	size_t same;

	if (!add_share(list, entry))
		return false;
	entry->signature = ms_signature(list->signer, entry);
	same = find_same(list, entry);
	if (same) {
		struct ms_entry *into = &list->entries.at[same - 1];

		if (!add_texts(list, into, entry) || !add_member(list, into, entry))
			return false;
		merge(into, entry);
		return true;
	}
	count_entry(entry, &list->report->totals.leaks, &list->report->totals.possible);
	return push_entry(list, entry) && keep_same(list, entry, list->entries.n);
}

static bool add_entry(struct ms_leak_list *list, struct ms_entry *entry)
{
	if (merges(list, entry))
		return add_merged(list, entry);
	count_entry(entry, &list->report->totals.leaks, &list->report->totals.possible);
	return is_small(list, entry) || push_entry(list, entry);
}

static void set_origin(struct ms_leak_list *list, struct ms_entry *entry)
{
	const struct ms_origin *origin = ms_origin_at(&list->finder, entry->address);

	if (!origin) {
		entry->older = ms_origin_is_older(list->report, entry->size);
		return;
	}
	entry->stack = origin->stack;
	entry->asked = origin->asked;
}

static bool add_heads(struct ms_leak_list *list, const struct ms_heads *heads,
                      enum ms_reason reason)
{
	const struct ms_head *head;

	ms_vec_for_each (head, heads) {
		const struct ms_extent *extent = &list->blocks->extents.at[head->extent];
		ms_addr begin = ms_block_begin(extent, head->granule);
		uint64_t size = ms_block_size(list->blocks, extent, head->granule);
		struct ms_entry entry = { .address = begin,
			                  .size = size,
			                  .referenced_count = head->count - 1,
			                  .referenced_size = head->bytes - size,
			                  .stack = MS_STACK_NONE,
			                  .kind = (uint8_t)kind_of(reason, true),
			                  .reason = (uint8_t)reason };

		if (head->absorbed)
			continue;
		set_origin(list, &entry);
		if (!add_entry(list, &entry))
			return false;
	}
	return true;
}

/* Possible leaks are none of the histogram's. */
static bool count_live(const struct ms_leak_list *list, const struct ms_entry *entry)
{
	if (list->sites && entry->kind != MS_LEAK_POSSIBLE)
		ms_sites_add_leaked(list->sites, entry->address, entry->size);
	return !list->histogram || entry->kind == MS_LEAK_POSSIBLE ||
	       ms_histogram_add_leaked(list->histogram, entry->address, entry->size);
}

/* Count the blocks that @before says were unmarked, and list each of them under --no-fold. */
static bool take_cell(struct ms_leak_list *list, const struct ms_extent *extent, size_t cell,
                      uint64_t unmarked, enum ms_reason reason)
{
	uint64_t tags = list->blocks->cells.at[extent->cell0 + cell].tags;

	for (uint64_t left = unmarked; left; left &= left - 1) {
		uint64_t bit = left & (~left + 1);
		uint64_t granule = cell * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);
		enum ms_leak_kind kind = kind_of(reason, tags & bit);
		struct ms_entry entry = { .address = ms_block_begin(extent, granule),
			                  .size = ms_block_size(list->blocks, extent, granule),
			                  .stack = MS_STACK_NONE,
			                  .kind = (uint8_t)kind,
			                  .reason = (uint8_t)reason };

		count_block(&list->report->totals, kind, entry.size);
		if (!count_live(list, &entry))
			return false;
		if (!list->options->no_fold)
			continue;
		set_origin(list, &entry);
		if (!add_entry(list, &entry))
			return false;
	}
	return true;
}

/* Each cell's blocks that are not marked; NULL without memory. */
static uint64_t *copy_unmarked(const struct ms_leak_list *list)
{
	uint64_t *copy = ms_arena_alloc(list->arena, list->blocks->cells.n * sizeof(*copy));

	for (size_t i = 0; copy && i < list->blocks->cells.n; i++) {
		const struct ms_cell *cell = &list->blocks->cells.at[i];

		copy[i] = cell->starts & ~cell->marks;
	}
	return copy;
}

static bool take_blocks(struct ms_leak_list *list, const uint64_t *unmarked, enum ms_reason reason)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &list->blocks->extents) {
		if (extent->kind != MS_EXTENT_HEAP)
			continue;
		for (size_t i = 0; i < extent->n_cells; i++)
			if (!take_cell(list, extent, i, unmarked[extent->cell0 + i], reason))
				return false;
	}
	return true;
}

enum ms_status ms_leaks_take(struct ms_leak_list *list, enum ms_reason reason, struct ms_error *err)
{
	uint64_t *unmarked = copy_unmarked(list);
	struct ms_walk_options like = { .unaligned = list->options->unaligned,
		                        .edges = list->edges };
	struct ms_heads heads = { 0 };
	enum ms_status st;

	if (!unmarked)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of leaks");
	if (list->options->keep_lost)
		return ms_lost_list(list, unmarked, reason, err);
	if (list->options->lost) {
		st = ms_confirm(list, unmarked, reason, err);
		if (st)
			return st;
	}
	if (list->options->suppressions) {
		st = ms_suppress(list, unmarked, err);
		if (st)
			return st;
	}
	st = ms_fold(list->blocks, &like, list->arena, &heads, err);
	if (st)
		return st;
	if (!take_blocks(list, unmarked, reason) ||
	    (!list->options->no_fold && !add_heads(list, &heads, reason)))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of leaks");
	return MS_OK;
}

/* Largest first, then by address. */
static bool entry_before(const void *a, const void *b)
{
	const struct ms_entry *x = a;
	const struct ms_entry *y = b;

	if (total_size(x) != total_size(y))
		return total_size(x) > total_size(y);
	return x->address < y->address;
}

/* The function that a leak has, where no words of its own, or of others, say what it is. */
static uint32_t tell_callback(struct ms_leak_list *list, const struct ms_aims *aims)
{
	struct ms_pcs *pcs = &list->report->pcs;
	ms_addr begin;
	ms_addr at = ms_aims_callback(aims, &list->peek, list->regions, &begin);
	uint32_t number = at ? (uint32_t)ms_map_find(&list->callbacks, at) : 0;
	ms_addr *slot;

	if (!at || number)
		return number;
	slot = ms_vec_push(list->arena, pcs);
	if (!slot)
		return 0;
	*slot = at;
	return ms_map_add(&list->callbacks, list->arena, at, pcs->n) ? (uint32_t)pcs->n : 0;
}

static void tell_aims(struct ms_leak_list *list, const struct ms_entry *entry, uint32_t type,
                      struct ms_leak *ret)
{
	bool called =
		type == MS_TYPE_UNKNOWN || ms_types_at(list->types, type)->how == MS_HOW_DEBUG;
	bool made = list->makers && entry->stack == MS_STACK_NONE;
	const struct ms_aimed aimed = { entry->address, entry->size, entry->similar_count + 1,
		                        entry->members };
	struct ms_aims aims;

	if (!called && !made)
		return;
	ms_aims_find(list->aimer, &aimed, &aims);
	if (called)
		ret->callback = tell_callback(list, &aims);
	if (made)
		ms_maker_of(list->makers, &aims, ret);
	/* A stack shows who allocates blocks of that size. */
	if (ret->maker.module && ms_map_find(&list->stacked, entry->size))
		ret->unproved = 1;
}

static void tell_references(const struct ms_leak_list *list, struct ms_leak *leak)
{
	const struct ms_uncollected *object =
		list->collector ? ms_collector_of(list->collector, list->blocks, leak->address)
				: NULL;

	if (!object)
		return;
	leak->references = (uint32_t)object->references;
	leak->references_found = object->found < UINT32_MAX ? (uint32_t)object->found : UINT32_MAX;
}

static bool write_leak(struct ms_leak_list *list, struct ms_entry *entry,
                       struct ms_origin_teller *teller, struct ms_leak *ret)
{
	uint64_t signature = entry->signature;
	uint32_t type;

	if (!signature)
		signature = ms_signature(list->signer, entry);
	*ret = (struct ms_leak){ .id = list->report->leaks.n,
		                 .address = entry->address,
		                 .size = entry->size,
		                 .referenced_count = entry->referenced_count,
		                 .referenced_size = entry->referenced_size,
		                 .similar_count = entry->similar_count,
		                 .similar_size = entry->similar_size,
		                 .similar_referenced_count = entry->similar_referenced_count,
		                 .similar_referenced_size = entry->similar_referenced_size,
		                 .total_size = total_size(entry),
		                 .kind = entry->kind,
		                 .reason = entry->reason,
		                 .older = entry->older,
		                 .sampled = share_of(list, entry),
		                 .stack = ms_origin_tell(teller, entry->stack) };
	type = ms_types_of_block(list->types, entry->address, entry->size);
	ret->type = ms_types_report(list->types, type, list->report);
	ms_types_preview(list->types, type, entry->address, ret->text);
	tell_aims(list, entry, type, ret);
	tell_references(list, ret);
	(void)snprintf(ret->signature, sizeof(ret->signature), "%016" PRIx64, signature);
	if (list->options->contents)
		ret->contents_len = (uint8_t)ms_source_read(
			list->blocks->src, entry->address, ret->contents,
			entry->size < MS_CONTENTS ? (size_t)entry->size : MS_CONTENTS);
	return !entry->texts || ms_text_sums_write(list, entry->texts, ret);
}

static bool write_leaks(struct ms_leak_list *list, struct ms_origin_teller *teller)
{
	struct ms_leaks *leaks = &list->report->leaks;

	for (size_t i = 0; i < list->entries.n; i++) {
		struct ms_entry *entry = &list->entries.at[i];
		struct ms_leak *leak;

		if (is_small(list, entry) || leaks->n == list->options->limit)
			continue;
		leak = ms_vec_push(list->arena, leaks);
		if (!leak || !write_leak(list, entry, teller, leak))
			return false;
	}
	return true;
}

static bool write_sites(const struct ms_leak_list *list, struct ms_origin_teller *teller)
{
	const struct ms_scan_options *options = list->options;

	return !list->sites ||
	       ms_sites_write(list->sites, list->blocks, options->heap || options->sites,
	                      options->limit, teller);
}

/* What entries of one size say of each other; false without memory. */
static bool count_size(struct ms_leak_list *list, const struct ms_entry *entry)
{
	if (entry->plain)
		return ms_aimer_add_plain(list->aimer, entry->size, entry->similar_count + 1);
	return entry->stack == MS_STACK_NONE || ms_map_find(&list->stacked, entry->size) ||
	       ms_map_add(&list->stacked, list->arena, entry->size, 1);
}

enum ms_status ms_leaks_finish(struct ms_leak_list *list, struct ms_error *err)
{
	struct ms_origin_teller teller = { .origins = list->finder.origins,
		                           .src = list->blocks->src,
		                           .arena = list->arena,
		                           .report = list->report };

	list->aimer = ms_aimer_new(list->blocks, list->regions, list->arena);
	if (!list->aimer || !ms_peek_init(&list->peek, list->blocks->src, list->arena))
		return ms_fail(err, MS_E_NOMEM, "no memory for what leaks hold");
	if (!ms_sort(list->arena, list->entries.at, list->entries.n, sizeof(*list->entries.at),
	             entry_before))
		return ms_fail(err, MS_E_NOMEM, "no memory for sorting the leaks");
	for (size_t i = 0; i < list->entries.n; i++)
		if (!count_size(list, &list->entries.at[i]))
			return ms_fail(err, MS_E_NOMEM, "no memory for the leaks");
	if (!write_leaks(list, &teller) || !write_sites(list, &teller) ||
	    !ms_origin_tell_code(&teller))
		return ms_fail(err, MS_E_NOMEM, "no memory for the leaks");
	return MS_OK;
}
