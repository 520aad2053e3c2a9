/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_BUILD_ID_H
#define MS_ENGINE_BUILD_ID_H

#include "engine/report.h"
#include "engine/source.h"

/*
 * The build-id of the ELF file whose header is at @header, from its notes in memory.
 *
 * Returns its length in bytes; 0 when there is none, when it is longer than
 * MS_BUILD_ID_BYTES, or when the bytes make no sense.
 */
uint8_t ms_build_id_read(struct ms_source *src, ms_addr header, uint8_t ret[MS_BUILD_ID_BYTES]);

#endif
