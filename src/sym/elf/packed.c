/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/elf/packed.h"

#include <gelf.h>
#include <stdint.h>
#include <string.h>

/* Of the memory that a process has which reads files (cli/worker.c). */
static const uint64_t most_bytes = UINT64_C(768) << 20;

/* As sections were compressed before ELF had a word for it. */
static const char old_magic[] = "ZLIB";

enum { OLD_HEADER = 12 };

static uint64_t old_size(Elf_Scn *section)
{
	const Elf_Data *data = elf_rawdata(section, NULL);
	const unsigned char *at = data ? data->d_buf : NULL;
	uint64_t size = 0;

	if (!at || data->d_size < OLD_HEADER || memcmp(at, old_magic, strlen(old_magic)) != 0)
		return 0;
	for (size_t i = strlen(old_magic); i < OLD_HEADER; i++)
		size = size << 8 | at[i];
	return size;
}

static uint64_t unpacked_size(Elf *elf, Elf_Scn *section, size_t names)
{
	GElf_Shdr header;
	GElf_Chdr packed;
	const char *name;

	if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
		return 0;
	if (header.sh_flags & SHF_COMPRESSED)
		return gelf_getchdr(section, &packed) ? packed.ch_size : 0;
	name = elf_strptr(elf, names, header.sh_name);
	return name && strncmp(name, ".zdebug", 7) == 0 ? old_size(section) : 0;
}

bool ms_packed_fits(Elf *elf)
{
	Elf_Scn *section = NULL;
	uint64_t left = most_bytes;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return true;
	while ((section = elf_nextscn(elf, section))) {
		uint64_t size = unpacked_size(elf, section, names);

		if (size > left)
			return false;
		left -= size;
	}
	return true;
}
