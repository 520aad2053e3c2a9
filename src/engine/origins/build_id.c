/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/origins/build_id.h"

#include <elf.h>
#include <string.h>

/* Of no file more is looked at; the linkers write a dozen segments, and some 100 bytes of notes. */
enum { MAX_PHDRS = 128, MAX_NOTE_BYTES = 4096 };

static bool read_all(struct ms_source *src, ms_addr addr, void *ret, size_t len)
{
	return ms_source_read(src, addr, ret, len) == len;
}

static bool read_header(struct ms_source *src, ms_addr at, Elf64_Ehdr *ret)
{
	return read_all(src, at, ret, sizeof(*ret)) && !memcmp(ret->e_ident, ELFMAG, SELFMAG) &&
	       ret->e_ident[EI_CLASS] == ELFCLASS64 && ret->e_phentsize == sizeof(Elf64_Phdr) &&
	       ret->e_phnum <= MAX_PHDRS;
}

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

/* Look through the notes of one segment. */
static uint8_t search_notes(struct ms_source *src, ms_addr at, const Elf64_Phdr *segment,
                            uint8_t ret[MS_BUILD_ID_BYTES])
{
	uint64_t align = segment->p_align == 8 ? 8 : 4;
	uint8_t notes[MAX_NOTE_BYTES];
	uint64_t left =
		ms_source_read(src, at, notes,
	                       segment->p_memsz < sizeof(notes) ? segment->p_memsz : sizeof(notes));

	for (const uint8_t *from = notes; left > sizeof(Elf64_Nhdr);) {
		uint8_t len;
		Elf64_Nhdr note;
		uint64_t next;

		memcpy(&note, from, sizeof(note));
		/* Of two 32-bit numbers: no sum of these overflows. */
		next = ms_align_up(sizeof(note) + ms_align_up(note.n_namesz, 4), align);
		next = ms_align_up(next + note.n_descsz, align);
		if (next > left)
			return 0;
		len = take(from, left, &note, ret);
		if (len)
			return len;
		from += next;
		left -= next;
	}
	return 0;
}

void ms_loaded_read(struct ms_source *src, ms_addr header, struct ms_loaded *ret)
{
	Elf64_Phdr segments[MAX_PHDRS];
	Elf64_Ehdr ehdr;

	memset(ret, 0, sizeof(*ret));
	if (!read_header(src, header, &ehdr) ||
	    !read_all(src, header + ehdr.e_phoff, segments, ehdr.e_phnum * sizeof(segments[0])))
		return;
	for (size_t i = 0; i < ehdr.e_phnum && !ret->has_bias; i++) {
		/* The segment that has the header says what is added to all addresses. */
		if (segments[i].p_type != PT_LOAD)
			continue;
		ret->bias = header - (segments[i].p_vaddr - segments[i].p_offset);
		ret->has_bias = true;
	}
	for (size_t i = 0; i < ehdr.e_phnum && !ret->build_id_len; i++) {
		const Elf64_Phdr *segment = &segments[i];

		if (segment->p_type == PT_NOTE)
			ret->build_id_len =
				search_notes(src,
			                     ret->has_bias ? ret->bias + segment->p_vaddr
			                                   : header + segment->p_offset,
			                     segment, ret->build_id);
	}
}
