/* SPDX-License-Identifier: Apache-2.0 */
#include "classes.h"

#include <assert.h>
#include <string.h>

#include "module.h"

enum { META_INFO = CLASSES_TABLES + 0x20, META_NAME = CLASSES_TABLES + 0x40 };

static const char meta[] = "N10__cxxabiv120__si_class_type_infoE";

void classes_map(struct ms_fake *fake, ms_addr base, const char *path)
{
	Elf64_Phdr *phdr = elf_write(ms_fake_map(fake, base, CLASSES_PAGE, MS_PROT_READ, path), 2);

	phdr[0] = elf_load(0, 3 * CLASSES_PAGE, PF_R | PF_X);
	phdr[1] = elf_load(3 * CLASSES_PAGE, CLASSES_PAGE, PF_R | PF_W);
	ms_fake_map(fake, base + CLASSES_PAGE, CLASSES_PAGE, MS_PROT_READ | MS_PROT_EXEC, path);
	ms_fake_map(fake, base + CLASSES_TABLES, CLASSES_PAGE, MS_PROT_READ, path);
	ms_fake_map(fake, base + 3 * CLASSES_PAGE, CLASSES_PAGE, MS_PROT_READ | MS_PROT_WRITE,
	            path);
	/* The class of type_infos is one of its own objects. */
	ms_fake_put(fake, base + CLASSES_TABLES + 8, base + META_INFO);
	ms_fake_put(fake, base + META_INFO, base + CLASSES_TABLES + 16);
	ms_fake_put(fake, base + META_INFO + 8, base + META_NAME);
	memcpy(ms_fake_at(fake, base + META_NAME), meta, sizeof(meta));
}

void classes_add(struct ms_fake *fake, ms_addr base, unsigned int i, const char *name)
{
	ms_addr at = classes_vtable(base, i);

	assert(i < CLASSES_MOST && strlen(name) < CLASSES_EACH - CLASSES_NAME - 16);
	ms_fake_put(fake, at - 16, 0);
	ms_fake_put(fake, at - 8, at + CLASSES_INFO);
	ms_fake_put(fake, at, base + CLASSES_PAGE + 0x10);
	ms_fake_put(fake, at + 8, base + CLASSES_PAGE + 0x20);
	ms_fake_put(fake, at + CLASSES_INFO, base + CLASSES_TABLES + 16);
	ms_fake_put(fake, at + CLASSES_INFO + 8, at + CLASSES_NAME);
	strcpy(ms_fake_at(fake, at + CLASSES_NAME), name);
}

void classes_frames(struct ms_fake *fake, ms_addr base, uint32_t table, uint32_t first,
                    uint32_t bytes, uint32_t n)
{
	Elf64_Phdr *phdr = elf_write(ms_fake_at(fake, base), 3);
	uint32_t head[3] = { 0x3b031b01, 0, n };

	phdr[0] = elf_load(0, 3 * CLASSES_PAGE, PF_R | PF_X);
	phdr[1] = elf_load(3 * CLASSES_PAGE, CLASSES_PAGE, PF_R | PF_W);
	phdr[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_vaddr = table };
	memcpy(ms_fake_at(fake, base + table), head, sizeof(head));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t begin = first + i * bytes - table;

		memcpy(ms_fake_at(fake, base + table + sizeof(head) + (ms_addr)i * 8), &begin,
		       sizeof(begin));
	}
}
