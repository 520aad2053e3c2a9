/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_ELF_FRAMES_H
#define MS_BASE_ELF_FRAMES_H

/*
 * How eh_frame_hdr begins, as every linker writes it: pointers of 32 bits, relative to
 * where they stand (the first) or to the header (the table). Other encodings are not
 * searchable by halves.
 * Source: Linux Standard Base Core 5.0, 10.6.2; encodings DW_EH_PE_* in 10.5.1.
 */

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct ms_frame_header {
	uint8_t version;
	uint8_t frame_encoding;
	uint8_t count_encoding;
	uint8_t table_encoding;
	int32_t frame;
	uint32_t count;
};

static_assert(sizeof(struct ms_frame_header) == 12, "eh_frame_hdr layout");

enum {
	MS_FRAME_VERSION = 1,
	MS_FRAME_UDATA4 = 0x03,
	MS_FRAME_PCREL_SDATA4 = 0x1b,
	MS_FRAME_DATAREL_SDATA4 = 0x3b,
};

/* Whether a sorted table is behind it, as above; else its count may be elsewhere, too. */
static inline bool ms_frame_is_searchable(const struct ms_frame_header *header)
{
	return header->version == MS_FRAME_VERSION &&
	       header->frame_encoding == MS_FRAME_PCREL_SDATA4 &&
	       header->count_encoding == MS_FRAME_UDATA4 &&
	       header->table_encoding == MS_FRAME_DATAREL_SDATA4;
}

#endif
