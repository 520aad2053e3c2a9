/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/sort.h"
#include "report/heapdump/view.h"

/* A frame of a dump, and by what it is found to be the same as another. */
struct frame {
	const char *library; /* NULL: by the address alone */
	uint64_t key;
	uint32_t dump;
	uint32_t index;
};

struct frames MS_VEC(struct frame);

static const struct ms_heapdump_mapping *find_mapping(const struct ms_heapdump *dump, ms_addr pc)
{
	return ms_range_find(&dump->mappings, pc);
}

static uint64_t file_offset(const struct ms_heapdump_mapping *mapping, ms_addr pc)
{
	return pc - mapping->range.begin + mapping->offset;
}

static int compare_names(const char *a, const char *b)
{
	if (a == b)
		return 0;
	if (!a || !b)
		return a ? 1 : -1;
	return strcmp(a, b);
}

static int compare(const struct frame *a, const struct frame *b)
{
	int names = compare_names(a->library, b->library);

	if (names)
		return names;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return 0;
}

static bool frame_before(const void *a, const void *b)
{
	return compare(a, b) < 0;
}

static enum ms_status no_memory(struct ms_error *err)
{
	(void)ms_fail(err, MS_E_NOMEM, "no memory for the frames of the dump");
	ms_advise(err, "it needs several times the dump's own size");
	return MS_E_NOMEM;
}

static bool list_frames(const struct ms_heapdump_view *view, struct ms_arena *arena,
                        struct frames *ret)
{
	size_t n = 0;

	for (size_t d = 0; d < view->n_dumps; d++)
		n += view->dumps[d]->pcs.n;
	if (n >= MS_AMOUNT_NONE || !ms_vec_reserve(arena, ret, n))
		return false;
	for (uint32_t d = 0; d < view->n_dumps; d++) {
		const struct ms_heapdump *dump = view->dumps[d];

		for (uint32_t i = 0; i < dump->pcs.n; i++) {
			ms_addr pc = dump->pcs.at[i];
			const struct ms_heapdump_mapping *mapping =
				view->n_dumps > 1 ? find_mapping(dump, pc) : NULL;
			bool moves = mapping && mapping->inode;
			struct frame *frame = ms_vec_push(arena, ret);

			if (!frame)
				return false;
			*frame = (struct frame){
				.library = moves ? mapping->name : NULL,
				.key = moves ? file_offset(mapping, pc) : pc,
				.dump = d,
				.index = i,
			};
		}
	}
	return ms_sort(arena, ret->at, ret->n, sizeof(*ret->at), frame_before);
}

static bool add_place(struct ms_heapdump_view *view, struct ms_arena *arena,
                      const struct frame *frame)
{
	const struct ms_heapdump *dump = view->dumps[frame->dump];
	struct ms_heapdump_place *place = ms_vec_push(arena, &view->places);

	if (!place)
		return false;
	place->pc = dump->pcs.at[frame->index];
	place->mapping = find_mapping(dump, place->pc);
	if (place->mapping)
		place->offset = file_offset(place->mapping, place->pc);
	return true;
}

static void add_infos(struct ms_heapdump_view *view, size_t d)
{
	const struct ms_heapdump *dump = view->dumps[d];
	const struct ms_heapdump_record *record;

	ms_vec_for_each (record, &dump->records) {
		if (record->info == SIZE_MAX)
			continue;
		for (size_t i = 0; i < record->n_frames; i++) {
			uint32_t index = view->indices[d].at[record->first + i];

			if (!view->places.at[index].info)
				view->places.at[index].info = &dump->infos.at[record->info + i];
		}
	}
}

enum ms_status ms_heapdump_list_places(struct ms_heapdump_view *view, struct ms_arena *arena,
                                       struct ms_error *err)
{
	struct frames frames = { 0 };

	if (!list_frames(view, arena, &frames))
		return no_memory(err);
	for (size_t d = 0; d < view->n_dumps; d++) {
		view->indices[d].n = view->dumps[d]->pcs.n;
		if (!ms_vec_reserve(arena, &view->indices[d], view->indices[d].n))
			return no_memory(err);
	}
	for (size_t i = 0; i < frames.n; i++) {
		const struct frame *frame = &frames.at[i];

		/* Equal ones keep their order, so that the newer dump's comes first. */
		if ((i == 0 || compare(frame - 1, frame) != 0) && !add_place(view, arena, frame))
			return no_memory(err);
		view->indices[frame->dump].at[frame->index] = (uint32_t)view->places.n - 1;
	}
	for (size_t d = 0; d < view->n_dumps; d++)
		add_infos(view, d);
	return MS_OK;
}

const char *ms_heapdump_library(const struct ms_heapdump_place *place)
{
	if (place->member)
		return place->member;
	if (place->mapping)
		return place->mapping->name[0] ? place->mapping->name : "<anonymous>";
	return place->info && place->info->library[0] ? place->info->library : "???";
}
