/* SPDX-License-Identifier: Apache-2.0 */

/* Library by library, so that one file at a time is open. */
#include "cli/heapdump/naming.h"

#include <string.h>

#include "base/sort.h"
#include "cli/tell.h"

struct naming {
	struct ms_heapdump_view *view;
	const struct ms_symbol_folder *folders;
	size_t n_folders;
	struct ms_arena *arena;
	struct ms_functions found; /* of one place */
};

static bool place_before(const void *a, const void *b)
{
	const struct ms_heapdump_place *x = *(struct ms_heapdump_place *const *)a;
	const struct ms_heapdump_place *y = *(struct ms_heapdump_place *const *)b;

	return x->mapping->name != y->mapping->name &&
	       strcmp(x->mapping->name, y->mapping->name) < 0;
}

static bool same_library(const struct ms_heapdump_place *a, const struct ms_heapdump_place *b)
{
	return a->mapping->name == b->mapping->name ||
	       strcmp(a->mapping->name, b->mapping->name) == 0;
}

/* A vector is a mapping of its own, which for each place would be too many. */
static bool keep(struct naming *naming, struct ms_heapdump_place *place)
{
	size_t len = naming->found.n * sizeof(*naming->found.at);

	if (!len)
		return true;
	place->functions.at = ms_arena_alloc(naming->arena, len);
	if (!place->functions.at)
		return false;
	memcpy(place->functions.at, naming->found.at, len);
	place->functions.n = naming->found.n;
	return true;
}

/* Name @n places of one library. */
static bool name_library(struct naming *naming, struct ms_heapdump_place **places, size_t n)
{
	const struct ms_heapdump_mapping *mapping = places[0]->mapping;
	const struct ms_mapped_file mapped = { mapping->name, mapping->inode };
	struct ms_symbol_file *file;
	bool fits = false;
	bool ok = true;

	file = ms_symbol_file_open(naming->folders, naming->n_folders, &mapped, naming->arena);
	if (!file) {
		const char **unnamed = ms_vec_push(naming->arena, &naming->view->unnamed);

		if (unnamed)
			*unnamed = mapping->name;
		return unnamed;
	}
	for (size_t i = 0; i < n && ok; i++) {
		fits |= ms_symbol_file_name(file, places[i]->offset, &naming->found);
		ok = keep(naming, places[i]);
	}
	ms_symbol_file_close(file);
	if (!fits)
		ms_tell("warning: %s has no code where the dump has some: it is another file",
		        mapping->name);
	return ok;
}

static bool name_all(struct naming *naming)
{
	struct ms_heapdump_places *places = &naming->view->places;
	struct ms_heapdump_place **sorted =
		ms_arena_alloc(naming->arena, (places->n + 1) * sizeof(struct ms_heapdump_place *));
	struct ms_heapdump_place *place;
	size_t n = 0;

	if (!sorted)
		return false;
	ms_vec_for_each (place, places)
		if (place->mapping && place->mapping->name[0])
			sorted[n++] = place;
	if (!ms_sort(naming->arena, sorted, n, sizeof(struct ms_heapdump_place *), place_before))
		return false;
	for (size_t begin = 0, end; begin < n; begin = end) {
		for (end = begin + 1; end < n && same_library(sorted[begin], sorted[end]);)
			end++;
		if (!name_library(naming, sorted + begin, end - begin))
			return false;
	}
	return true;
}

enum ms_status ms_heapdump_name(struct ms_heapdump_view *view,
                                const struct ms_symbol_folder *folders, size_t n,
                                struct ms_arena *arena, struct ms_error *err)
{
	struct naming naming = { .view = view, .folders = folders, .n_folders = n, .arena = arena };

	return name_all(&naming) ? MS_OK : ms_fail(err, MS_E_NOMEM, "no memory for names");
}
