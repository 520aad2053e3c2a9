/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/callbacks.h"

#include "base/elf/object.h"
#include "base/elf/rows.h"

enum { WORDS = 16 }; /* of a block that are looked at */

/* Whether a function of a program or library begins at @addr; where its file does is @ret. */
static bool is_function(struct ms_peek *peek, const struct ms_regions *regions, ms_addr addr,
                        ms_addr *ret)
{
	const struct ms_reader from = ms_peek_reader(peek);
	const struct ms_region *region = ms_region_of(regions, addr);
	struct ms_object object;

	if (!region || region->kind != MS_REGION_GLOBALS ||
	    !(ms_region_mapping(peek->src, region)->prot & MS_PROT_EXEC))
		return false;
	*ret = ms_module_begin(regions, region->module);
	return *ret && ms_object_read(from, *ret, peek->src->abi.page_bytes, &object) &&
	       object.frame_header && ms_row_begin(from, object.frame_header, addr) == addr;
}

ms_addr ms_callback_of(struct ms_peek *peek, const struct ms_regions *regions, ms_addr addr,
                       uint64_t size, ms_addr *begin)
{
	const struct ms_abi *abi = &peek->src->abi;
	uint8_t bytes[WORDS * sizeof(uint64_t)];
	size_t want = size < sizeof(bytes) ? (size_t)size : sizeof(bytes);
	size_t got = ms_peek_read(peek, addr, bytes, want);

	for (size_t i = 0; i + abi->word_bytes <= got; i += abi->word_bytes) {
		ms_addr at = ms_abi_address(abi, ms_abi_word(abi, bytes + i));

		if (is_function(peek, regions, at, begin))
			return at;
	}
	return 0;
}
