/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/links.h"

#include "base/elf/class.h"
#include "base/elf/object.h"

enum { MAX_LINKS = 1 << 14 };

/* Words of struct r_debug of <link.h>, the first of which is half of one of 64 bits. */
enum { DEBUG_VERSION, DEBUG_MAP, DEBUG_WORDS };

/* And of struct link_map. */
enum { LINK_BIAS, LINK_NAME, LINK_DYNAMIC, LINK_NEXT, LINK_WORDS };

/* The first entry of the loader's list, when the object at @begin is the program; or 0. */
static ms_addr first_of(struct ms_reader from, ms_addr begin, uint32_t page)
{
	struct ms_object object;
	uint64_t debug[DEBUG_WORDS];
	uint64_t link[LINK_WORDS];
	uint8_t word;
	ms_addr at;

	if (!ms_object_read(from, begin, page, &object) || !object.dynamic)
		return 0;
	at = ms_dynamic_read(from, &object).debug;
	word = object.word_bytes;
	if (!at || !ms_elf_read_words(from, at, word, debug, DEBUG_WORDS) ||
	    (int32_t)debug[DEBUG_VERSION] < 1 ||
	    !ms_elf_read_words(from, debug[DEBUG_MAP], word, link, LINK_WORDS) ||
	    link[LINK_DYNAMIC] != object.dynamic)
		return 0;
	return debug[DEBUG_MAP];
}

bool ms_links_read(struct ms_peek *peek, const struct ms_regions *regions, struct ms_arena *arena,
                   struct ms_links *ret)
{
	const struct ms_reader from = ms_peek_reader(peek);
	const struct ms_region *region;
	const uint8_t word = peek->src->abi.word_bytes;
	uint64_t words[LINK_WORDS];
	ms_addr at = 0;

	ms_vec_for_each (region, regions) {
		const struct ms_mapping *m = ms_region_mapping(peek->src, region);

		if (region->kind == MS_REGION_GLOBALS && m->file && !m->offset)
			at = first_of(from, region->range.begin, peek->src->abi.page_bytes);
		if (at)
			break;
	}
	while (at && ret->n < MAX_LINKS && ms_elf_read_words(from, at, word, words, LINK_WORDS)) {
		struct ms_link *link = ms_vec_push(arena, ret);

		if (!link)
			return false;
		*link = (struct ms_link){ .bias = words[LINK_BIAS],
			                  .dynamic = words[LINK_DYNAMIC] };
		at = words[LINK_NEXT];
	}
	return true;
}
