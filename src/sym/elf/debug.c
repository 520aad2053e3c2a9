/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/elf/debug.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sym/elf/packed.h"

enum { CRC_PIECE = 64 * 1024 };

/* What is looked for: by build-id, or by checksum where there is none. */
struct wanted {
	struct ms_debug *debug;
	const unsigned char *id;
	size_t id_len; /* 0: the file has none */
	uint32_t crc;
	const char *link; /* a name, or, of what is common, a path; NULL: none */
	bool common;
};

/* ---- is it the one? ---- */

static bool has_symbols(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header))
			return false;
		name = elf_strptr(elf, names, header.sh_name);
		if (header.sh_type == SHT_SYMTAB ||
		    (header.sh_type != SHT_NOBITS && name &&
		     (strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0 ||
		      strcmp(name, ".debug_str") == 0)))
			return true;
	}
	return false;
}

static bool has_id(Elf *elf, const unsigned char *id, size_t len)
{
	const void *found;

	return dwelf_elf_gnu_build_id(elf, &found) == (ssize_t)len && memcmp(found, id, len) == 0;
}

/* The checksum of .gnu_debuglink: CRC-32 as zip files have it. */
static uint32_t checksum(int fd)
{
	uint32_t table[256];
	uint32_t crc = ~UINT32_C(0);
	unsigned char bytes[CRC_PIECE];
	off_t at = 0;
	ssize_t n;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? UINT32_C(0xedb88320) : 0);
	}
	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
		at += n;
	}
	return ~crc;
}

static bool fits(const struct wanted *w, int fd)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	bool ok = elf && elf_kind(elf) == ELF_K_ELF && has_symbols(elf) &&
	          (w->id_len ? has_id(elf, w->id, w->id_len) : checksum(fd) == w->crc);

	w->debug->too_large = ok && !ms_packed_fits(elf);
	ok = ok && !w->debug->too_large;
	if (elf)
		(void)elf_end(elf);
	return ok;
}

/* ---- asking ---- */

/* The first file of @kind that is the one wanted. */
static int look_for(const struct wanted *w, enum ms_file_kind kind)
{
	struct ms_debug *debug = w->debug;
	struct ms_file_question question = { .kind = kind, .code = debug->code };
	struct ms_file_answer answer;
	int fd;

	if (w->id_len <= MS_FILE_ID) {
		question.id_len = (uint32_t)w->id_len;
		memcpy(question.id, w->id, w->id_len);
	}
	if (w->link && strlen(w->link) < MS_FILE_NAME)
		memcpy(question.name, w->link, strlen(w->link));
	for (;; question.place = answer.place + 1) {
		fd = debug->finder->find(debug->finder->ctx, &question, &answer);
		if (fd < 0)
			return -1;
		if (fits(w, fd)) {
			debug->found =
				ms_arena_strndup(debug->arena, answer.path, sizeof(answer.path));
			return fd;
		}
		debug->refused = ms_arena_strndup(debug->arena, answer.path, sizeof(answer.path));
		(void)close(fd);
	}
}

/* ---- what is asked for ---- */

/*
 * What several files' debug information has in common can be in a further file (dwz),
 * for which libdwfl asks in the same way, once it has the first.
 */
static bool ask_for_common(Dwfl_Module *mod, struct wanted *w)
{
	static const char folder[] = "/usr/lib/debug/";
	Dwarf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &bias);
	const void *id;
	ssize_t len = dwarf ? dwelf_dwarf_gnu_debugaltlink(dwarf, &w->link, &id) : 0;

	if (len <= 0)
		return false;
	w->id = id;
	w->id_len = (size_t)len;
	w->common = true;
	/* Relative ones are meant from the debug information's own place. */
	w->link = strncmp(w->link, folder, strlen(folder)) == 0 ? w->link + strlen(folder) : NULL;
	return true;
}

static bool ask(Dwfl_Module *mod, const char *link, struct wanted *w)
{
	GElf_Addr bias;
	GElf_Addr vaddr;
	Elf *elf = dwfl_module_getelf(mod, &bias);
	GElf_Word crc = 0;
	const char *own_link = elf ? dwelf_elf_gnu_debuglink(elf, &crc) : NULL;
	int len;

	if (link && link != own_link)
		return ask_for_common(mod, w);
	len = dwfl_module_build_id(mod, &w->id, &vaddr);
	w->id_len = len > 0 ? (size_t)len : 0;
	w->link = own_link;
	w->crc = crc;
	/* A name that is a path leads anywhere. */
	if (w->link && (!*w->link || strchr(w->link, '/')))
		w->link = NULL;
	return w->id_len || w->link;
}

int ms_debug_find(struct ms_debug *debug, Dwfl_Module *mod, const char *link, char **ret_name)
{
	struct wanted w = { .debug = debug };
	int fd;

	*ret_name = NULL;
	if (!ask(mod, link, &w))
		return -1;
	fd = look_for(&w, w.common ? MS_FILE_COMMON : MS_FILE_DEBUG);
	if (fd < 0 && w.id_len)
		fd = look_for(&w, MS_FILE_SERVER);
	if (fd >= 0)
		*ret_name = debug->found ? strdup(debug->found) : NULL;
	return fd;
}
