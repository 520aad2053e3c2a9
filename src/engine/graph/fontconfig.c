/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/fontconfig.h"

#include <string.h>

struct pattern {
	uint32_t num;
	uint32_t size;
	uint64_t elts_offset;
	uint32_t ref;
};

struct element {
	uint32_t object; /* from 1 on */
	uint64_t values;
};

enum { SPARE = 32 }; /* malloc gives so much more than it is asked for, at most */

/* Whether a used element stands at @addr: its values are a block. */
static bool is_element(struct ms_lookup *lookup, ms_addr addr)
{
	struct element element;
	struct ms_block values;

	return ms_source_read(lookup->blocks->src, addr, &element, sizeof(element)) ==
	               sizeof(element) &&
	       element.object && ms_lookup_begin(lookup, element.values, &values);
}

bool ms_fontconfig_array(struct ms_lookup *lookup, ms_addr begin, const uint8_t *bytes,
                         struct ms_block *ret)
{
	struct pattern pattern;
	uint64_t bytes_wanted;
	uint64_t size;

	memcpy(&pattern, bytes, sizeof(pattern));
	if (!pattern.num || pattern.num > pattern.size || !pattern.elts_offset ||
	    !ms_lookup_begin(lookup, begin + pattern.elts_offset, ret))
		return false;
	bytes_wanted = (uint64_t)pattern.size * sizeof(struct element);
	size = ms_block_size(lookup->blocks, &lookup->blocks->extents.at[ret->extent],
	                     ret->granule);
	if (size < bytes_wanted || size - bytes_wanted > SPARE)
		return false;
	begin += pattern.elts_offset;
	return is_element(lookup, begin) &&
	       is_element(lookup, begin + (pattern.num - 1) * sizeof(struct element));
}
