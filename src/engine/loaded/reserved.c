/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/reserved.h"

#include <string.h>

enum {
	LEAST_BYTES = 1 << 17, /* on both sides: guard pages of stacks are less */
	SEARCHED = 1 << 16,    /* of each module's data */
	PIECE = 4096,
	MARK_ALIGN = 16,
};

static const char mark[] = "\xff Go buildinf:";

static bool has_mark(struct ms_source *src, struct ms_range data)
{
	uint8_t bytes[PIECE];

	if (ms_range_len(data) > SEARCHED)
		data.end = data.begin + SEARCHED;
	for (; data.begin < data.end; data.begin += PIECE) {
		size_t got = ms_source_read(src, data.begin, bytes, PIECE);

		for (size_t i = 0; i + sizeof(mark) - 1 <= got; i += MARK_ALIGN)
			if (!memcmp(bytes + i, mark, sizeof(mark) - 1))
				return true;
	}
	return false;
}

static bool is_go_here(struct ms_source *src, const struct ms_regions *regions)
{
	struct ms_data data;

	for (size_t i = 0; ms_next_data(src, regions, &i, &data);)
		if (has_mark(src, data.range))
			return true;
	return false;
}

static bool is_out_of_use(const struct ms_mapping *mapping)
{
	return !mapping->prot && !mapping->file && !mapping->shared &&
	       ms_range_len(mapping->range) >= LEAST_BYTES;
}

/* Whether the mapping of @region lies in the midst of what is out of use. */
static bool is_amidst(const struct ms_source *src, const struct ms_region *region)
{
	const struct ms_mapping *mapping = ms_region_mapping(src, region);

	return region->kind == MS_REGION_MEMORY && !mapping->file && region->mapping &&
	       region->mapping + 1 < src->mappings.n &&
	       mapping[-1].range.end == mapping->range.begin && is_out_of_use(&mapping[-1]) &&
	       mapping[1].range.begin == mapping->range.end && is_out_of_use(&mapping[1]);
}

bool ms_reserved_find(struct ms_source *src, const struct ms_regions *regions,
                      struct ms_arena *arena, struct ms_ranges *ret)
{
	const struct ms_region *region;

	ms_vec_for_each (region, regions)
		if (is_amidst(src, region) &&
		    !ms_ranges_add(arena, ret, region->range.begin, region->range.end))
			return false;
	if (ret->n && !is_go_here(src, regions))
		ret->n = 0;
	return true;
}
