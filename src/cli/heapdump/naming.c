/* SPDX-License-Identifier: Apache-2.0 */

/* Library by library, so that one file at a time is open. */
#include "cli/heapdump/naming.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sort.h"
#include "cli/tell.h"
#include "sym/zip.h"

struct naming {
	struct ms_heapdump_view *view;
	const struct ms_symbol_folders *folders;
	struct ms_arena *arena;
	struct ms_functions found; /* of one place */
};

static const struct ms_heapdump_place *place_at(const void *entry)
{
	return *(struct ms_heapdump_place *const *)entry;
}

static bool place_before(const void *a, const void *b)
{
	const char *x = ms_heapdump_library(place_at(a));
	const char *y = ms_heapdump_library(place_at(b));

	return x != y && strcmp(x, y) < 0;
}

static bool same_library(const struct ms_heapdump_place *a, const struct ms_heapdump_place *b)
{
	const char *x = ms_heapdump_library(a);
	const char *y = ms_heapdump_library(b);

	return x == y || strcmp(x, y) == 0;
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
	const char *library = ms_heapdump_library(places[0]);
	/* A library in a package is looked for as if it were unpacked. */
	const struct ms_mapped_file mapped = {
		.path = places[0]->member ? strchr(library, '!') + 1 : library,
		.inode = places[0]->member ? 0 : mapping->inode,
	};
	struct ms_symbol_file *file;
	bool fits = false;
	bool ok = true;

	file = ms_symbol_file_open(naming->folders, &mapped, naming->arena);
	if (!file) {
		const char **unnamed = ms_vec_push(naming->arena, &naming->view->unnamed);

		if (unnamed)
			*unnamed = library;
		return unnamed;
	}
	for (size_t i = 0; i < n && ok; i++) {
		fits |= ms_symbol_file_name(file, places[i]->offset, &naming->found);
		ok = keep(naming, places[i]);
	}
	ms_symbol_file_close(file);
	if (!fits)
		ms_tell("warning: %s is not the file of the dump: it has no code where the dump has some",
		        library);
	return ok;
}

struct sorted {
	struct ms_heapdump_place **at;
	size_t n;
};

static bool sort_places(struct naming *naming, struct sorted *ret)
{
	return ms_sort(naming->arena, ret->at, ret->n, sizeof(struct ms_heapdump_place *),
	               place_before);
}

/* All places of named mappings, by library. */
static bool list_places(struct naming *naming, struct sorted *ret)
{
	struct ms_heapdump_places *places = &naming->view->places;
	struct ms_heapdump_place *place;

	ret->at =
		ms_arena_alloc(naming->arena, (places->n + 1) * sizeof(struct ms_heapdump_place *));
	if (!ret->at)
		return false;
	ms_vec_for_each (place, places)
		if (place->mapping && place->mapping->name[0])
			ret->at[ret->n++] = place;
	return sort_places(naming, ret);
}

/* Do something with the places of each library in turn. */
static bool for_each_library(struct naming *naming, const struct sorted *sorted,
                             bool (*act)(struct naming *naming, struct ms_heapdump_place **places,
                                         size_t n))
{
	for (size_t begin = 0, end; begin < sorted->n; begin = end) {
		for (end = begin + 1;
		     end < sorted->n && same_library(sorted->at[begin], sorted->at[end]);)
			end++;
		if (!act(naming, sorted->at + begin, end - begin))
			return false;
	}
	return true;
}

static bool enter_member(struct naming *naming, struct ms_heapdump_place *place,
                         const struct ms_zip_member *member)
{
	size_t len = strlen(place->mapping->name) + strlen(member->name) + 3;
	char *name = ms_arena_alloc(naming->arena, len);

	if (!name)
		return false;
	(void)snprintf(name, len, "%s!/%s", place->mapping->name, member->name);
	place->member = name;
	place->offset -= member->range.begin;
	return true;
}

/* Where @places are in a package, go on from where the library is stored in it. */
static bool enter_package(struct naming *naming, struct ms_heapdump_place **places, size_t n)
{
	const struct ms_heapdump_mapping *mapping = places[0]->mapping;
	const struct ms_mapped_file mapped = { mapping->name, mapping->inode };
	struct ms_zip_members members = { 0 };
	size_t len = strlen(mapping->name);
	bool ok = true;
	int fd;

	if (len < 4 || strcmp(mapping->name + len - 4, ".apk") != 0 || strchr(mapping->name, '!'))
		return true;
	fd = ms_symbol_folders_open(naming->folders, &mapped);
	if (fd < 0)
		return true;
	if (!ms_zip_list(fd, naming->arena, &members)) {
		ms_tell("warning: %s is not a zip file, or is damaged", mapping->name);
		members.n = 0;
	}
	(void)close(fd);
	for (size_t i = 0; i < n && ok; i++) {
		const struct ms_zip_member *member = ms_range_find(&members, places[i]->offset);

		ok = !member || enter_member(naming, places[i], member);
	}
	return ok;
}

static bool name_all(struct naming *naming)
{
	struct sorted sorted = { 0 };

	return list_places(naming, &sorted) && for_each_library(naming, &sorted, enter_package) &&
	       sort_places(naming, &sorted) && for_each_library(naming, &sorted, name_library);
}

enum ms_status ms_heapdump_name(struct ms_heapdump_view *view,
                                const struct ms_symbol_folders *folders, struct ms_arena *arena,
                                struct ms_error *err)
{
	struct naming naming = { .view = view, .folders = folders, .arena = arena };

	return name_all(&naming) ? MS_OK : ms_fail(err, MS_E_NOMEM, "no memory for names");
}
