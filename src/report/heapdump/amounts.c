/* SPDX-License-Identifier: Apache-2.0 */

/* The records of dumps as amounts by stack. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "report/heapdump/formats.h"

static_assert(MS_HEAPDUMP_MOST_FRAMES + 2 <= MS_AMOUNT_MOST_KEYS, "a way has room");

/* By Android's rule, which calls all "zygote" that is no app's child. */
static const char *const groups[] = { "ZYGOTE", "APP" };

static bool fill_places(const struct ms_heapdump_view *view, struct ms_arena *arena,
                        struct ms_places *ret)
{
	const struct ms_heapdump_place *place;

	if (!ms_vec_reserve(arena, ret, view->places.n))
		return false;
	ret->n = 0;
	ms_vec_for_each (place, &view->places)
		ret->at[ret->n++] = (struct ms_place){
			.pc = place->pc,
			.library = ms_heapdump_library(place),
			.offset = place->offset,
			.mapped = place->mapping,
			.own = ms_heapdump_own_name(place),
			.functions = place->functions,
		};
	return true;
}

static bool reserve(const struct ms_heapdump_view *view, struct ms_arena *arena,
                    struct ms_amounts *ret)
{
	const struct ms_heapdump_record *record;
	size_t n_keys = 0;
	size_t n = 0;

	for (size_t d = 0; d < view->n_dumps; d++) {
		n += view->dumps[d]->records.n;
		ms_vec_for_each (record, &view->dumps[d]->records)
			n_keys += record->n_frames + 2;
	}
	ret->list.n = ret->keys.n = 0;
	return ms_vec_reserve(arena, &ret->list, n) && ms_vec_reserve(arena, &ret->keys, n_keys);
}

/* There is room. */
static void add_record(const struct ms_heapdump_view *view, size_t dump,
                       const struct ms_heapdump_record *record, struct ms_amounts *ret)
{
	const uint32_t *places = view->indices[dump].at + record->first;
	size_t first = ret->keys.n;
	size_t n = record->n_frames;

	ret->keys.at[ret->keys.n++] = record->app;
	if (view->by_size)
		ret->keys.at[ret->keys.n++] = record->size;
	for (size_t i = 0; i < n; i++)
		ret->keys.at[ret->keys.n++] = places[view->reversed ? i : n - 1 - i];
	ret->list.at[ret->list.n++] = (struct ms_amount){
		.first = first,
		.n = (uint32_t)(ret->keys.n - first),
		.old = dump > 0,
		.bytes = record->size * record->count,
		.count = record->count,
	};
}

static bool fill_amounts(const struct ms_heapdump_view *view, struct ms_arena *arena,
                         struct ms_amounts *ret)
{
	const struct ms_heapdump_record *record;

	ret->groups = groups;
	ret->second = view->by_size ? MS_LEVEL_SIZE : MS_LEVEL_PLACE;
	ret->reversed = view->reversed;
	ret->differs = view->n_dumps > 1;
	if (!fill_places(view, arena, &ret->places) || !reserve(view, arena, ret))
		return false;
	for (size_t d = 0; d < view->n_dumps; d++)
		ms_vec_for_each (record, &view->dumps[d]->records)
			add_record(view, d, record, ret);
	return true;
}

/* ---- what stands above the tree on a page ---- */

static bool add_line(struct ms_strings *lines, struct ms_arena *arena, const char *parts[4])
{
	const char **slot = ms_vec_push(arena, lines);
	size_t len = 1;
	char *line;

	for (size_t i = 0; i < 4; i++)
		len += strlen(parts[i]);
	line = ms_arena_alloc(arena, len);
	if (!slot || !line)
		return false;
	(void)snprintf(line, len, "%s%s%s%s", parts[0], parts[1], parts[2], parts[3]);
	*slot = line;
	return true;
}

/* The older dump first. */
static bool fill_lines(const struct ms_heapdump_view *view, struct ms_arena *arena,
                       struct ms_strings *ret)
{
	const char *const *library;
	bool ok = true;

	ret->n = 0;
	for (size_t i = view->n_dumps; i-- > 0 && ok;) {
		const struct ms_heapdump *dump = view->dumps[i];
		const char *print = dump->fingerprint;
		char bytes[40];

		(void)snprintf(bytes, sizeof(bytes), ": %" PRIu64 " bytes", dump->bytes);
		ok = add_line(ret, arena,
		              (const char *[]){ view->files[i], bytes, print ? ", build " : "",
		                                print ? print : "" });
	}
	ms_vec_for_each (library, &view->unnamed)
		ok = ok && add_line(ret, arena,
		                    (const char *[]){ *library, " not found for symbol resolution",
		                                      "", "" });
	return ok;
}

enum ms_status ms_heapdump_grow(struct ms_heapdump_view *view, struct ms_arena *arena,
                                struct ms_error *err)
{
	view->tree.amounts = &view->amounts;
	if (fill_amounts(view, arena, &view->amounts) && fill_lines(view, arena, &view->lines) &&
	    ms_amounts_grow(&view->tree, arena, err) == MS_OK)
		return MS_OK;
	(void)ms_fail(err, MS_E_NOMEM, "no memory for the tree of the dump");
	ms_advise(err, "it needs several times the dump's own size");
	return MS_E_NOMEM;
}
