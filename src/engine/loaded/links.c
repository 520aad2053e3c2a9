/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/links.h"

#include "base/elf/object.h"

enum { MAX_LINKS = 1 << 14 };

/* As <link.h> has them, with addresses in place of pointers. */
struct debug {
	int32_t version;
	int32_t padding;
	ms_addr map;
};

struct link_map {
	ms_addr bias;
	ms_addr name;
	ms_addr dynamic;
	ms_addr next;
};

/* The first entry of the loader's list, when the object at @begin is the program; or 0. */
static ms_addr first_of(struct ms_reader from, ms_addr begin, uint32_t page)
{
	struct ms_object object;
	struct link_map map;
	struct debug debug;
	ms_addr at;

	if (!ms_object_read(from, begin, page, &object) || !object.dynamic)
		return 0;
	at = ms_dynamic_read(from, object.dynamic, object.bias).debug;
	if (!at || !ms_read_all(from, at, &debug, sizeof(debug)) || debug.version < 1 ||
	    !ms_read_all(from, debug.map, &map, sizeof(map)) || map.dynamic != object.dynamic)
		return 0;
	return debug.map;
}

bool ms_links_read(struct ms_peek *peek, const struct ms_regions *regions, struct ms_arena *arena,
                   struct ms_links *ret)
{
	const struct ms_reader from = ms_peek_reader(peek);
	const struct ms_region *region;
	struct link_map map;
	ms_addr at = 0;

	ms_vec_for_each (region, regions) {
		const struct ms_mapping *m = ms_region_mapping(peek->src, region);

		if (region->kind == MS_REGION_GLOBALS && m->file && !m->offset)
			at = first_of(from, region->range.begin, peek->src->abi.page_bytes);
		if (at)
			break;
	}
	while (at && ret->n < MAX_LINKS && ms_read_all(from, at, &map, sizeof(map))) {
		struct ms_link *link = ms_vec_push(arena, ret);

		if (!link)
			return false;
		*link = (struct ms_link){ .bias = map.bias, .dynamic = map.dynamic };
		at = map.next;
	}
	return true;
}
