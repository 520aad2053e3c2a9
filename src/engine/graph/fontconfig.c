/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/fontconfig.h"

/* Where fields stand; both end in a word, and begin with whole numbers of four bytes. */
enum { NUM = 0, SIZE = 4, ELTS_OFFSET = 8, OBJECT = 0, INT = 4 };

enum { SPARE = 32 }; /* malloc gives so much more than it is asked for, at most */

/* Whether a used element stands at @addr: its values are a block. */
static bool is_element(struct ms_lookup *lookup, ms_addr addr)
{
	struct ms_source *src = lookup->blocks->src;
	const struct ms_abi *abi = &src->abi;
	uint8_t element[2 * MS_WORD_MAX];
	const size_t len = (size_t)2 * abi->word_bytes;
	struct ms_block values;

	return ms_source_read(src, addr, element, len) == len &&
	       ms_abi_number(abi, element + OBJECT, INT) && /* from 1 on */
	       ms_lookup_begin(lookup, ms_abi_word(abi, element + abi->word_bytes), &values);
}

bool ms_fontconfig_array(struct ms_lookup *lookup, ms_addr begin, const uint8_t *bytes,
                         struct ms_block *ret)
{
	const struct ms_abi *abi = &lookup->blocks->src->abi;
	const uint64_t num = ms_abi_number(abi, bytes + NUM, INT);
	const uint64_t room = ms_abi_number(abi, bytes + SIZE, INT);
	const uint64_t array = ms_abi_word(abi, bytes + ELTS_OFFSET);
	const uint64_t element_bytes = (uint64_t)2 * abi->word_bytes;
	uint64_t size;

	if (!num || num > room || !array || !ms_lookup_begin(lookup, begin + array, ret))
		return false;
	size = ms_block_size(lookup->blocks, &lookup->blocks->extents.at[ret->extent],
	                     ret->granule);
	if (size < room * element_bytes || size - room * element_bytes > SPARE)
		return false;
	return is_element(lookup, begin + array) &&
	       is_element(lookup, begin + array + (num - 1) * element_bytes);
}
