/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf/notes.h"

#include <elf.h>
#include <string.h>

#include "base/range.h"

/* The id that a note of @left bytes holds. Its name is "GNU" and the NUL behind it. */
static uint8_t take(const uint8_t *at, uint64_t left, const Elf64_Nhdr *note,
                    uint8_t ret[MS_BUILD_ID_BYTES])
{
	static const char gnu[] = ELF_NOTE_GNU;

	at += sizeof(*note);
	if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != sizeof(gnu) || !note->n_descsz ||
	    note->n_descsz > MS_BUILD_ID_BYTES ||
	    left < sizeof(*note) + sizeof(gnu) + note->n_descsz ||
	    memcmp(at, gnu, sizeof(gnu)) != 0)
		return 0;
	memcpy(ret, at + sizeof(gnu), note->n_descsz);
	return (uint8_t)note->n_descsz;
}

uint8_t ms_notes_build_id(const uint8_t *bytes, uint64_t left, uint64_t align,
                          uint8_t ret[MS_BUILD_ID_BYTES])
{
	align = align == 8 ? 8 : 4;
	while (left > sizeof(Elf64_Nhdr)) {
		uint8_t len;
		Elf64_Nhdr note;
		uint64_t next;

		memcpy(&note, bytes, sizeof(note));
		/* Of two 32-bit numbers: no sum of these overflows. */
		next = ms_align_up(sizeof(note) + ms_align_up(note.n_namesz, 4), align);
		next = ms_align_up(next + note.n_descsz, align);
		if (next > left)
			return 0;
		len = take(bytes, left, &note, ret);
		if (len)
			return len;
		bytes += next;
		left -= next;
	}
	return 0;
}
