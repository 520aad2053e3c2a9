/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/origins/build_id.h"

#include <string.h>

#include "base/elf/notes.h"
#include "base/elf/object.h"

/* Of no segment more is looked at; linkers write some 100 bytes of notes. */
enum { MAX_NOTE_BYTES = 4096 };

/* Look through the notes of one segment. */
static uint8_t search_notes(struct ms_source *src, const struct ms_elf_notes *notes,
                            uint8_t ret[MS_BUILD_ID_BYTES])
{
	uint8_t bytes[MAX_NOTE_BYTES];
	uint64_t left = ms_source_read(src, notes->at, bytes,
	                               notes->bytes < sizeof(bytes) ? notes->bytes : sizeof(bytes));

	return ms_notes_build_id(bytes, left, notes->align, ret);
}

void ms_loaded_read(struct ms_source *src, ms_addr header, struct ms_loaded *ret)
{
	struct ms_object object;

	memset(ret, 0, sizeof(*ret));
	if (!ms_object_read(ms_source_reader(src), header, src->abi.page_bytes, &object))
		return;
	ret->bias = object.bias;
	ret->has_bias = true;
	for (size_t i = 0; i < object.n_notes && !ret->build_id_len; i++)
		ret->build_id_len = search_notes(src, &object.notes[i], ret->build_id);
}
