/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/why.h"

#include <string.h>

#include "base/elf/frames.h"
#include "base/elf/object.h"

/*
 * A block that has the address of a function is, as a rule, what this function will be called
 * with: a watcher, a timer, a job. So the function says what the block is for, where no type
 * does.
 *
 * Only an address at which a function begins counts, by the table over the frames of its file
 * (base/elf/frames.h): numbers and return addresses that are left in memory lie elsewhere.
 */

enum { WORDS = 16 }; /* of a block that are looked at */

/* Of a table: where a function begins and its frame's description, from the header on. */
struct entry {
	int32_t begin;
	int32_t frame;
};

static bool read_header(struct ms_reader from, ms_addr at, struct ms_frame_header *ret)
{
	return ms_read_all(from, at, ret, sizeof(*ret)) && ret->version == MS_FRAME_VERSION &&
	       ret->count_encoding == MS_FRAME_UDATA4 &&
	       ret->table_encoding == MS_FRAME_DATAREL_SDATA4;
}

/* Whether the table of the frames at @header has a function that begins at @addr. */
static bool has_function(struct ms_reader from, ms_addr header, ms_addr addr)
{
	struct ms_frame_header head;
	struct entry entry;
	uint32_t low = 0;
	uint32_t high;

	if (!header || !read_header(from, header, &head))
		return false;
	high = head.count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		ms_addr at = header + sizeof(head) + (uint64_t)middle * sizeof(entry);

		if (!ms_read_all(from, at, &entry, sizeof(entry)))
			return false;
		at = header + (uint64_t)(int64_t)entry.begin;
		if (at == addr)
			return true;
		if (at < addr)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* Whether a function of a program or library begins at @addr; where its file does is @ret. */
static bool is_function(struct ms_why *why, ms_addr addr, ms_addr *ret)
{
	const struct ms_source *src = why->decoding->src;
	const struct ms_reader from = ms_peek_reader(&why->peek);
	const struct ms_region *region = ms_region_of(why->roots->regions, addr);
	struct ms_object object;

	if (!region || region->kind != MS_REGION_GLOBALS ||
	    !(ms_region_mapping(src, region)->prot & MS_PROT_EXEC))
		return false;
	*ret = ms_module_begin(why->roots->regions, region->module);
	return *ret && ms_object_read(from, *ret, src->abi.page_bytes, &object) &&
	       has_function(from, object.frame_header, addr);
}

static void put_callback(struct ms_why *why, struct ms_answer_step *step, ms_addr at, ms_addr begin)
{
	const struct ms_mapping *mapping = ms_range_find(&why->decoding->src->mappings, begin);

	step->callback = ms_subject_address(why, at);
	step->callback_offset = at - begin;
	if (mapping)
		(void)strncpy(step->name, mapping->name, sizeof(step->name) - 1);
}

void ms_subject_callback(struct ms_why *why, struct ms_answer_step *step)
{
	const struct ms_abi *abi = &why->decoding->src->abi;
	uint8_t bytes[WORDS * sizeof(uint64_t)];
	size_t want = step->size < sizeof(bytes) ? (size_t)step->size : sizeof(bytes);
	size_t got = ms_peek_read(&why->peek, step->address, bytes, want);

	for (size_t i = 0; i + abi->word_bytes <= got; i += abi->word_bytes) {
		ms_addr at = ms_abi_address(abi, ms_abi_word(abi, bytes + i));
		ms_addr begin;

		if (!is_function(why, at, &begin))
			continue;
		put_callback(why, step, at, begin);
		return;
	}
}
