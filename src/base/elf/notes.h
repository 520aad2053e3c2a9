/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_ELF_NOTES_H
#define MS_BASE_ELF_NOTES_H

/* What the notes of an ELF file say of it. */

#include <stdint.h>

enum { MS_BUILD_ID_BYTES = 32 };

/*
 * The build-id that @left bytes of notes hold, in a segment of the alignment @align. Returns its
 * length; 0: there is none.
 */
uint8_t ms_notes_build_id(const uint8_t *bytes, uint64_t left, uint64_t align,
                          uint8_t ret[MS_BUILD_ID_BYTES]);

#endif
