/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/callbacks.h"

#include "base/elf/object.h"
#include "base/elf/rows.h"

bool ms_callback_is(struct ms_peek *peek, const struct ms_regions *regions, ms_addr addr,
                    ms_addr *begin)
{
	const struct ms_reader from = ms_peek_reader(peek);
	const struct ms_region *region = ms_region_of(regions, addr);
	struct ms_object object;

	if (!region || region->kind != MS_REGION_GLOBALS ||
	    !(ms_region_mapping(peek->src, region)->prot & MS_PROT_EXEC))
		return false;
	*begin = ms_module_begin(regions, region->module);
	return *begin && ms_object_read(from, *begin, peek->src->abi.page_bytes, &object) &&
	       object.frame_header && ms_row_begin(from, object.frame_header, addr) == addr;
}

ms_addr ms_callback_of(struct ms_peek *peek, const struct ms_regions *regions, ms_addr addr,
                       uint64_t size, ms_addr *begin)
{
	const struct ms_abi *abi = &peek->src->abi;
	uint8_t bytes[MS_CALLBACK_WORDS * sizeof(uint64_t)];
	size_t want = size < sizeof(bytes) ? (size_t)size : sizeof(bytes);
	size_t got = ms_peek_read(peek, addr, bytes, want);

	for (size_t i = 0; i + abi->word_bytes <= got; i += abi->word_bytes) {
		ms_addr at = ms_abi_address(abi, ms_abi_word(abi, bytes + i));

		if (ms_callback_is(peek, regions, at, begin))
			return at;
	}
	return 0;
}
