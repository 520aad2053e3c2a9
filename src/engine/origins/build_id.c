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

/* Its name is "GNU" and the NUL behind it. */
static uint8_t take(struct ms_source *src, ms_addr at, const Elf64_Nhdr *note,
                    uint8_t ret[MS_BUILD_ID_BYTES])
{
	static const char gnu[] = ELF_NOTE_GNU;
	char name[sizeof(gnu)];

	if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != sizeof(name) || !note->n_descsz ||
	    note->n_descsz > MS_BUILD_ID_BYTES || !read_all(src, at, name, sizeof(name)) ||
	    memcmp(name, gnu, sizeof(name)) != 0 ||
	    !read_all(src, at + sizeof(name), ret, note->n_descsz))
		return 0;
	return (uint8_t)note->n_descsz;
}

/* Look through the notes of one segment. */
static uint8_t search_notes(struct ms_source *src, ms_addr at, const Elf64_Phdr *segment,
                            uint8_t ret[MS_BUILD_ID_BYTES])
{
	uint64_t align = segment->p_align == 8 ? 8 : 4;
	uint64_t left = segment->p_memsz < MAX_NOTE_BYTES ? segment->p_memsz : MAX_NOTE_BYTES;

	while (left > sizeof(Elf64_Nhdr)) {
		uint8_t len;
		Elf64_Nhdr note;
		uint64_t next;

		if (!read_all(src, at, &note, sizeof(note)))
			return 0;
		/* Of two 32-bit numbers: no sum of these overflows. */
		next = ms_align_up(sizeof(note) + ms_align_up(note.n_namesz, 4), align);
		next = ms_align_up(next + note.n_descsz, align);
		if (next > left)
			return 0;
		len = take(src, at + sizeof(note), &note, ret);
		if (len)
			return len;
		at += next;
		left -= next;
	}
	return 0;
}

uint8_t ms_build_id_read(struct ms_source *src, ms_addr header, uint8_t ret[MS_BUILD_ID_BYTES])
{
	uint64_t bias = 0;
	bool has_bias = false;
	Elf64_Ehdr ehdr;
	uint8_t len = 0;

	if (!read_header(src, header, &ehdr))
		return 0;
	for (size_t i = 0; i < ehdr.e_phnum && !len; i++) {
		Elf64_Phdr phdr;

		if (!read_all(src, header + ehdr.e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr)))
			return 0;
		/* The segment that has the header says what is added to all addresses. */
		if (phdr.p_type == PT_LOAD && !has_bias) {
			bias = header - (phdr.p_vaddr - phdr.p_offset);
			has_bias = true;
		}
		if (phdr.p_type == PT_NOTE)
			len = search_notes(src,
			                   has_bias ? bias + phdr.p_vaddr : header + phdr.p_offset,
			                   &phdr, ret);
	}
	return len;
}
