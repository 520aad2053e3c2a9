/* SPDX-License-Identifier: Apache-2.0 */
#include "target/maps.h"
#include "target/transit/look.h"

/* A program that sends more than so many is not understood any better by the rest. */
enum { MOST_WORDS = 1 << 20 };

/* A heap is in no memory that is only reserved, nor in that of a file that nobody may write to. */
static bool may_be_heap(const struct ms_source *src, ms_addr at)
{
	const struct ms_mapping *map = ms_maps_find(&src->mappings, at);

	return map && map->prot && (map->prot & MS_PROT_WRITE || !map->file);
}

static struct ms_range outermost(const struct ms_mappings *maps)
{
	return maps->n ? (struct ms_range){ maps->at[0].range.begin,
		                            maps->at[maps->n - 1].range.end }
	               : (struct ms_range){ 0, 0 };
}

bool ms_transit_add_words(const struct ms_transit_record *record, const uint8_t *bytes,
                          struct ms_source *src, struct ms_arena *arena)
{
	const struct ms_range all = outermost(&src->mappings);
	struct ms_transit_words *words = &src->transit;
	const size_t word_bytes = src->abi.word_bytes;
	uint64_t last = 0;

	for (size_t i = 0; i + word_bytes <= record->len && words->n < MOST_WORDS; i++) {
		const uint64_t value = ms_abi_word(&src->abi, bytes + i);
		const ms_addr at = ms_abi_address(&src->abi, value);
		struct ms_transit_word *word;

		if (value == last || !ms_range_has(all, at) || !may_be_heap(src, at))
			continue;
		word = ms_vec_push(arena, words);
		if (!word)
			return false;
		*word = (struct ms_transit_word){ value, record->number, record->place };
		last = value;
	}
	return true;
}
