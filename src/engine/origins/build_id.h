/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_BUILD_ID_H
#define MS_ENGINE_BUILD_ID_H

#include "engine/report.h"
#include "engine/source.h"

/* What an ELF file that is mapped says of itself. */
struct ms_loaded {
	uint64_t bias; /* what the loader added to the addresses in the file */
	bool has_bias;
	uint8_t build_id_len; /* 0: there is none, or a longer one than fits */
	uint8_t build_id[MS_BUILD_ID_BYTES];
};

/* Read it from memory, its header at @header; where the bytes make no sense nothing is set. */
void ms_loaded_read(struct ms_source *src, ms_addr header, struct ms_loaded *ret);

#endif
