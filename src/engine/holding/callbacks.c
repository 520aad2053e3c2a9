/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/why.h"

#include <string.h>

#include "base/elf/object.h"
#include "base/elf/rows.h"

/*
 * A block that has the address of a function is, as a rule, what this function will be called
 * with: a watcher, a timer, a job. So the function says what the block is for, where no type
 * does.
 *
 * Only an address at which a function begins counts, by the table over the frames of its file
 * (base/elf/rows.h): numbers and return addresses that are left in memory lie elsewhere.
 */

enum { WORDS = 16 }; /* of a block that are looked at */

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
	       object.frame_header && ms_row_begin(from, object.frame_header, addr) == addr;
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
