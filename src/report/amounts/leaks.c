/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Places are the addresses of all stacks, each once, and behind them one for each label,
 * where leaks without a stack stand. A label is what a type is called; equal ones are one.
 *
 * Of an attached process the leaks under a stack are samples: there stands what they are
 * estimated to stand for, and not their own bytes. The blocks that were not sampled are the same
 * leaks, without a stack: what is estimated is taken from these, as far as it goes, so that all
 * together remain what was found. What a leak references is no sample, and remains with it. By
 * type nothing has to be estimated.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/sort.h"
#include "report/amounts/amounts.h"
#include "report/frames.h"

static_assert(MS_STACK_FRAMES + 1 <= MS_AMOUNT_MOST_KEYS, "a way has room");

enum { POSSIBLE, CERTAIN };

static const char *const groups[] = { [POSSIBLE] = "POSSIBLE LEAKS", [CERTAIN] = "LEAKS" };
static const char *const live_groups[] = { "LIVE" };

/* Own bytes and blocks of leaks. */
struct share {
	uint64_t bytes;
	uint64_t count;
};

/* Of one group. */
struct shares {
	struct share excess;    /* that is estimated beyond the samples themselves */
	struct share unsampled; /* of blocks that may have been made since attach */
};

struct filler {
	struct shares shares[2]; /* of leaks, by group; zeros by type */
	const struct ms_report *report;
	struct ms_arena *arena;
	struct ms_amounts *amounts;
	uint32_t *place_of; /* each of the report's pcs */
	uint32_t *label_of; /* each of its types, from 1 on; [0]: of none */
	size_t first_label; /* its place */
};

/* ---- labels ---- */

struct label {
	const char *text;
	size_t type;
};

static bool label_before(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->text, ((const struct label *)b)->text) < 0;
}

/* NULL without memory. */
static const char *label_text(const struct filler *f, size_t type)
{
	static const char unknown[] = "unknown type";
	const struct ms_type *of = type ? &f->report->types.at[type - 1] : NULL;
	const char *module = of ? ms_file_name(of->module) : "";
	size_t len = sizeof(unknown) + sizeof(" of ") + strlen(module);
	char *text;

	if (of && of->name[0])
		return of->name;
	if (!module[0])
		return unknown;
	text = ms_arena_alloc(f->arena, len);
	if (text)
		(void)snprintf(text, len, "%s of %s", unknown, module);
	return text;
}

static bool list_labels(struct filler *f)
{
	struct ms_strings *names = &f->amounts->names;
	size_t n = f->report->types.n + 1;
	struct label *labels = ms_arena_alloc(f->arena, n * sizeof(*labels));

	f->label_of = ms_arena_alloc(f->arena, n * sizeof(*f->label_of));
	if (!labels || !f->label_of || !ms_vec_reserve(f->arena, names, n))
		return false;
	for (size_t i = 0; i < n; i++) {
		labels[i] = (struct label){ label_text(f, i), i };
		if (!labels[i].text)
			return false;
	}
	if (!ms_sort(f->arena, labels, n, sizeof(*labels), label_before))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || label_before(&labels[i - 1], &labels[i]))
			names->at[names->n++] = labels[i].text;
		f->label_of[labels[i].type] = (uint32_t)names->n - 1;
	}
	return true;
}

/* ---- places ---- */

struct address {
	ms_addr pc;
	size_t index;
};

static bool address_before(const void *a, const void *b)
{
	return ((const struct address *)a)->pc < ((const struct address *)b)->pc;
}

/* The functions at pcs.at[@pc]; none when not even one has a name or a file. */
static bool list_functions(const struct filler *f, size_t pc, struct ms_functions *ret)
{
	size_t n = ms_frames_at(f->report, pc);
	struct ms_named_frame frame;
	bool known = n > 1;

	ret->at = ms_arena_alloc(f->arena, n * sizeof(*ret->at));
	if (!ret->at)
		return false;
	for (size_t i = 0; i < n; i++) {
		ms_frame_tell(f->report, pc, i, &frame);
		known |= frame.symbol.function || frame.symbol.file;
		ret->at[i] = (struct ms_function){ .name = frame.symbol.function,
			                           .file = frame.symbol.file,
			                           .line = frame.symbol.line };
	}
	ret->n = known ? n : 0;
	return true;
}

static bool add_place(struct filler *f, size_t pc)
{
	struct ms_place *place = ms_vec_push(f->arena, &f->amounts->places);
	struct ms_named_frame frame;

	if (!place)
		return false;
	ms_frame_tell(f->report, pc, 0, &frame);
	place->pc = frame.pc;
	place->library = frame.symbol.module;
	place->offset = frame.symbol.rel_pc;
	place->mapped = place->library && place->library[0];
	if (place->library && !place->library[0])
		place->library = "<anonymous>";
	return list_functions(f, pc, &place->functions);
}

static bool list_places(struct filler *f)
{
	struct ms_places *places = &f->amounts->places;
	size_t n = f->report->pcs.n;
	struct address *sorted = ms_arena_alloc(f->arena, (n + 1) * sizeof(*sorted));
	const char *const *name;

	f->place_of = ms_arena_alloc(f->arena, (n + 1) * sizeof(*f->place_of));
	if (!sorted || !f->place_of || n >= MS_AMOUNT_NONE)
		return false;
	for (size_t i = 0; i < n; i++)
		sorted[i] = (struct address){ f->report->pcs.at[i], i };
	if (!ms_sort(f->arena, sorted, n, sizeof(*sorted), address_before))
		return false;
	for (size_t i = 0; i < n; i++) {
		if ((i == 0 || sorted[i - 1].pc != sorted[i].pc) && !add_place(f, sorted[i].index))
			return false;
		f->place_of[sorted[i].index] = (uint32_t)places->n - 1;
	}
	f->first_label = places->n;
	ms_vec_for_each (name, &f->amounts->names) {
		struct ms_place *place = ms_vec_push(f->arena, places);

		if (!place)
			return false;
		place->own = *name;
	}
	return true;
}

/* ---- amounts ---- */

/* Outermost first. */
static bool add_stack(struct filler *f, uint32_t number)
{
	const struct ms_stack *stack = &f->report->stacks.at[number - 1];
	struct ms_keys *keys = &f->amounts->keys;

	if (!ms_vec_reserve(f->arena, keys, keys->n + stack->n))
		return false;
	for (uint32_t i = stack->n; i-- > 0;)
		keys->at[keys->n++] = f->place_of[stack->first + i];
	return true;
}

static bool add_key(struct filler *f, uint64_t key)
{
	uint64_t *slot = ms_vec_push(f->arena, &f->amounts->keys);

	if (slot)
		*slot = key;
	return slot;
}

static unsigned int group_of(const struct ms_leak *leak)
{
	return leak->kind == MS_LEAK_POSSIBLE ? POSSIBLE : CERTAIN;
}

static bool add_way(struct filler *f, const struct ms_leak *leak)
{
	uint32_t label = f->label_of[leak->type];

	if (!add_key(f, group_of(leak)))
		return false;
	if (f->amounts->second == MS_LEVEL_NAME)
		return add_key(f, label);
	return leak->stack ? add_stack(f, leak->stack) : add_key(f, f->first_label + label);
}

static struct share own_of(const struct ms_leak *leak)
{
	return (struct share){ leak->size + leak->similar_size, 1 + leak->similar_count };
}

static bool is_scaled(const struct ms_leak *leak)
{
	return leak->stack && leak->sampled.samples;
}

static uint64_t beyond(uint64_t estimate, uint64_t own)
{
	return estimate > own ? estimate - own : 0;
}

static void sum_shares(struct filler *f)
{
	const struct ms_leak *leak;

	if (f->amounts->second == MS_LEVEL_NAME)
		return;
	ms_vec_for_each (leak, &f->report->leaks) {
		struct shares *shares = &f->shares[group_of(leak)];
		struct share own = own_of(leak);

		if (is_scaled(leak)) {
			shares->excess.bytes += beyond(leak->sampled.bytes, own.bytes);
			shares->excess.count += beyond(leak->sampled.count, own.count);
		} else if (!leak->stack && !leak->older) {
			shares->unsampled.bytes += own.bytes;
			shares->unsampled.count += own.count;
		}
	}
}

/* What is left of @own, a part of @unsampled, when @excess is taken from that in proportion. */
static uint64_t left_of(uint64_t own, uint64_t unsampled, uint64_t excess)
{
	double part;

	if (excess >= unsampled)
		return excess ? 0 : own;
	part = (double)own / (double)unsampled * (double)excess;
	return part < (double)own ? own - (uint64_t)part : 0;
}

/* Own bytes and blocks as they are shown. */
static struct share shown(const struct filler *f, const struct ms_leak *leak)
{
	const struct shares *shares = &f->shares[group_of(leak)];
	struct share own = own_of(leak);

	if (f->amounts->second == MS_LEVEL_NAME)
		return own;
	if (is_scaled(leak))
		return (struct share){ own.bytes + beyond(leak->sampled.bytes, own.bytes),
			               own.count + beyond(leak->sampled.count, own.count) };
	if (leak->stack || leak->older)
		return own;
	return (struct share){
		left_of(own.bytes, shares->unsampled.bytes, shares->excess.bytes),
		left_of(own.count, shares->unsampled.count, shares->excess.count),
	};
}

static bool add_leak(struct filler *f, const struct ms_leak *leak)
{
	size_t first = f->amounts->keys.n;
	struct share own = shown(f, leak);
	struct ms_amount *amount = ms_vec_push(f->arena, &f->amounts->list);

	if (!amount || !add_way(f, leak))
		return false;
	*amount = (struct ms_amount){
		.first = first,
		.n = (uint32_t)(f->amounts->keys.n - first),
		.bytes = own.bytes + leak->referenced_size + leak->similar_referenced_size,
		.count = own.count + leak->referenced_count + leak->similar_referenced_count,
	};
	return true;
}

static bool add_site(struct filler *f, const struct ms_site *site)
{
	size_t first = f->amounts->keys.n;
	struct ms_amount *amount = ms_vec_push(f->arena, &f->amounts->list);

	if (!amount || !add_key(f, 0) || !add_stack(f, site->stack))
		return false;
	*amount = (struct ms_amount){ .first = first,
		                      .n = (uint32_t)(f->amounts->keys.n - first),
		                      .bytes = site->live.bytes,
		                      .count = site->live.count };
	return true;
}

static bool fill_sites(struct filler *f)
{
	const struct ms_site *site;

	if (!list_labels(f) || !list_places(f))
		return false;
	ms_vec_for_each (site, &f->report->sites)
		if (!add_site(f, site))
			return false;
	return true;
}

static bool fill(struct filler *f)
{
	const struct ms_leak *leak;

	if (!list_labels(f) || !list_places(f))
		return false;
	sum_shares(f);
	ms_vec_for_each (leak, &f->report->leaks)
		if (!add_leak(f, leak))
			return false;
	return true;
}

static enum ms_status no_memory(struct ms_error *err)
{
	(void)ms_fail(err, MS_E_NOMEM, "no memory for the stacks of the leaks");
	ms_advise(err, "list fewer leaks: --limit N");
	return MS_E_NOMEM;
}

enum ms_status ms_amounts_of_sites(const struct ms_report *report, struct ms_arena *arena,
                                   struct ms_amounts *ret, struct ms_error *err)
{
	struct ms_amounts amounts = { .groups = live_groups, .second = MS_LEVEL_PLACE };
	struct filler f = { .report = report, .arena = arena, .amounts = &amounts };

	if (!fill_sites(&f))
		return no_memory(err);
	*ret = amounts;
	return MS_OK;
}

enum ms_status ms_amounts_of_leaks(const struct ms_report *report, enum ms_amounts_by by,
                                   struct ms_arena *arena, struct ms_amounts *ret,
                                   struct ms_error *err)
{
	struct ms_amounts amounts = {
		.groups = groups,
		.second = by == MS_AMOUNTS_BY_TYPE ? MS_LEVEL_NAME : MS_LEVEL_PLACE,
	};
	struct filler f = { .report = report, .arena = arena, .amounts = &amounts };

	if (!fill(&f))
		return no_memory(err);
	*ret = amounts;
	return MS_OK;
}
