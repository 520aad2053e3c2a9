/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables are read from the process's memory, not from files: those may be
 * deleted, replaced or in another mount namespace, and the vdso has none.
 */
#include <assert.h>

#include "engine/modules.h"
#include "target/code/image.h"
#include "target/stacks/stacks.h"

/*
 * How eh_frame_hdr begins, as every linker writes it: pointers of 32 bits, relative to
 * where they stand (the first) or to the header (the table). Other encodings are not
 * searchable by halves.
 * Source: Linux Standard Base Core 5.0, 10.6.2; encodings DW_EH_PE_* in 10.5.1.
 */
struct frame_header {
	uint8_t version;
	uint8_t frame_encoding;
	uint8_t count_encoding;
	uint8_t table_encoding;
	int32_t frame;
	uint32_t count;
};

enum {
	VERSION = 1,
	ENCODED_UDATA4 = 0x03,
	ENCODED_PCREL_SDATA4 = 0x1b,
	ENCODED_DATAREL_SDATA4 = 0x3b
};

static_assert(sizeof(struct frame_header) == 12, "eh_frame_hdr layout");

/* The image that has the code in @map: at the mapping's own begin, or its file's. */
static bool open_image(const struct ms_stacks *stacks, const struct ms_mapping *map,
                       struct ms_image *ret)
{
	return ms_image_open(stacks->mem, map->range.begin, ret) ||
	       ms_image_open(stacks->mem, ms_module_first(&stacks->maps, map)->range.begin, ret);
}

bool ms_unwind_table_find(const struct ms_stacks *stacks, const struct ms_mapping *map,
                          struct ms_unwind_table *ret)
{
	struct frame_header header;
	struct ms_image image;

	*ret = (struct ms_unwind_table){ .looked = true };
	if (!open_image(stacks, map, &image) || !image.frame_header ||
	    !ms_image_read(&image, image.frame_header, &header, sizeof(header)))
		return false;
	if (header.version != VERSION || header.frame_encoding != ENCODED_PCREL_SDATA4 ||
	    header.count_encoding != ENCODED_UDATA4 ||
	    header.table_encoding != ENCODED_DATAREL_SDATA4 || !header.count)
		return false;
	ret->header = image.frame_header;
	ret->entries = image.frame_header + sizeof(header);
	ret->n = header.count;
	return true;
}
