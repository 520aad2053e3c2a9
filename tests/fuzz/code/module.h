/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_MODULE_H
#define MS_TESTS_FUZZ_MODULE_H

/*
 * A small shared object with all that is read of one, at BASE, and the same bytes as its
 * file.
 */

#include <elf.h>
#include <string.h>

#include "fuzz.h"

enum { BASE = 0x10000, CODE = 0x1000, CODE_BYTES = 0x100, TLS_BYTES = 0x40, TLS_FAR = 0x60 };

/* DWARF's encodings of pointers, and how the tables that linkers write begin. */
enum { FRAME_HEADER = 0x3b031b01 };

struct drawn_entry {
	uint32_t len;
	uint32_t cie; /* from here back to it; 0: it is one itself */
	int32_t pc;   /* from here on */
	uint32_t bytes;
	uint8_t rest[8];
};

struct drawn_module {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[5];
	Elf64_Dyn dynamic[10];
	Elf64_Sym symbols[4];
	struct {
		uint32_t n_buckets, first, n_bloom, shift;
		uint64_t bloom;
		uint32_t bucket, chain[3];
	} gnu_hash;
	struct {
		uint32_t n_buckets, n_chain, bucket, chain[4];
	} hash;
	Elf64_Rela relocation;
	uint64_t relocated;
	struct {
		uint64_t version, map;
	} debug;
	struct {
		uint64_t bias, name, dynamic, next;
	} link;
	struct {
		uint32_t encodings;
		int32_t frames;
		uint32_t n;
		int32_t table[2][2];
	} header;
	struct {
		uint32_t len, cie;
		uint8_t version, augmentation[3], code_align, data_align, ra, n, encoding;
		uint8_t instructions[7];
	} cie;
	struct drawn_entry entries[2];
	uint32_t end;
	Elf64_Shdr sections[4];
	char strings[48];
};

static const char drawn_strings[] = "\0malloc\0malloc_info\0free\0.eh_frame\0";

static inline uint32_t drawn_hash(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (uint8_t)*name++;
	return hash;
}

static inline void draw_heads(struct drawn_module *m)
{
	const uint64_t all = sizeof(*m);

	m->ehdr = (Elf64_Ehdr){ .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
		                             ELFDATA2LSB },
		                .e_phoff = offsetof(struct drawn_module, phdr),
		                .e_phnum = 5,
		                .e_phentsize = sizeof(m->phdr[0]),
		                .e_shoff = offsetof(struct drawn_module, sections),
		                .e_shnum = 4,
		                .e_shentsize = sizeof(m->sections[0]),
		                .e_shstrndx = 2 };
	m->phdr[0] =
		(Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = all, .p_memsz = all };
	m->phdr[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
		                   .p_flags = PF_R | PF_X,
		                   .p_offset = CODE,
		                   .p_vaddr = CODE,
		                   .p_filesz = CODE_BYTES,
		                   .p_memsz = CODE_BYTES };
	m->phdr[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
		                   .p_vaddr = offsetof(struct drawn_module, dynamic),
		                   .p_memsz = sizeof(m->dynamic) };
	m->phdr[3] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
		                   .p_vaddr = offsetof(struct drawn_module, header) };
	m->phdr[4] = (Elf64_Phdr){ .p_type = PT_TLS, .p_memsz = TLS_BYTES, .p_align = 16 };
}

static inline void draw_symbols(struct drawn_module *m)
{
	static const char *const names[] = { "", "malloc", "malloc_info", "free" };

	memcpy(m->strings, drawn_strings, sizeof(drawn_strings));
	m->gnu_hash.n_buckets = m->gnu_hash.first = m->gnu_hash.n_bloom = m->gnu_hash.bucket = 1;
	m->hash.n_buckets = m->hash.bucket = 1;
	m->hash.n_chain = 4;
	for (uint32_t i = 1; i < 4; i++) {
		const char *at = memmem(m->strings + 1, sizeof(m->strings) - 1, names[i],
		                        strlen(names[i]) + 1);

		m->symbols[i] = (Elf64_Sym){ .st_name = (uint32_t)(at - m->strings),
			                     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			                     .st_shndx = 1,
			                     .st_value = CODE + i * 0x20,
			                     .st_size = 0x20 };
		m->gnu_hash.chain[i - 1] = (drawn_hash(names[i]) & ~1u) | (i == 3);
		m->hash.chain[i] = (i + 1) % 4;
	}
	m->sections[1] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
		                       .sh_offset = offsetof(struct drawn_module, symbols),
		                       .sh_size = sizeof(m->symbols),
		                       .sh_link = 2 };
	m->sections[2] = (Elf64_Shdr){ .sh_offset = offsetof(struct drawn_module, strings),
		                       .sh_size = sizeof(m->strings) };
}

static inline void draw_dynamic(struct drawn_module *m)
{
	const Elf64_Dyn dynamic[] = {
		{ DT_STRTAB, { offsetof(struct drawn_module, strings) } },
		{ DT_STRSZ, { sizeof(m->strings) } },
		{ DT_SYMTAB, { offsetof(struct drawn_module, symbols) } },
		{ DT_GNU_HASH, { offsetof(struct drawn_module, gnu_hash) } },
		{ DT_HASH, { offsetof(struct drawn_module, hash) } },
		{ DT_RELA, { offsetof(struct drawn_module, relocation) } },
		{ DT_RELASZ, { sizeof(m->relocation) } },
		{ DT_SONAME, { 1 } },
		{ DT_DEBUG, { BASE + offsetof(struct drawn_module, debug) } },
	};

	memcpy(m->dynamic, dynamic, sizeof(dynamic));
	m->debug.version = 1;
	m->debug.map = BASE + offsetof(struct drawn_module, link);
	m->link.bias = BASE;
	m->link.dynamic = BASE + m->phdr[2].p_vaddr;
	m->relocation = (Elf64_Rela){ offsetof(struct drawn_module, relocated),
		                      ELF64_R_INFO(0, R_X86_64_TPOFF64), 0 };
	m->relocated = -(uint64_t)TLS_FAR;
}

/* Two functions: of one the frame is by the stack pointer, of the other by the frame pointer. */
static inline void draw_frames(struct drawn_module *m)
{
	static const uint8_t instructions[] = { 0x0c, 7, 8, 0x90, 1, 0, 0 };
	static const uint8_t bodies[2][8] = { { 0, 0x41, 0x0e, 16, 0x44, 0x0e, 8, 0 },
		                              { 0, 0x41, 0x0e, 16, 0x86, 2, 0x0d, 6 } };
	const int32_t header = offsetof(struct drawn_module, header);
	const int32_t cie = offsetof(struct drawn_module, cie);
	const int32_t entries = offsetof(struct drawn_module, entries);

	m->header.encodings = FRAME_HEADER;
	m->header.frames = cie - header - 4;
	m->header.n = 2;
	m->cie.len = sizeof(m->cie) - sizeof(m->cie.len);
	m->cie.version = m->cie.code_align = m->cie.n = 1;
	memcpy(m->cie.augmentation, "zR", 3);
	m->cie.data_align = 0x78; /* -8 */
	m->cie.ra = 16;
	m->cie.encoding = 0x1b;
	memcpy(m->cie.instructions, instructions, sizeof(instructions));
	for (int32_t i = 0; i < 2; i++) {
		const int32_t entry = entries + i * (int32_t)sizeof(m->entries[0]);
		const int32_t code = CODE + i * 0x20;

		m->header.table[i][0] = code - header;
		m->header.table[i][1] = entry - header;
		m->entries[i] = (struct drawn_entry){
			.len = sizeof(m->entries[i]) - sizeof(m->entries[i].len),
			.cie = (uint32_t)(entry + 4 - cie),
			.pc = code - (entry + 8),
			.bytes = 0x20,
		};
		memcpy(m->entries[i].rest, bodies[i], sizeof(bodies[i]));
	}
	m->sections[3] =
		(Elf64_Shdr){ .sh_name = 25,
		              .sh_addr = offsetof(struct drawn_module, cie),
		              .sh_size = offsetof(struct drawn_module, end) + sizeof(m->end) -
		                         offsetof(struct drawn_module, cie) };
}

static inline void draw_module(struct drawn_module *m)
{
	memset(m, 0, sizeof(*m));
	draw_heads(m);
	draw_symbols(m);
	draw_dynamic(m);
	draw_frames(m);
}

/* Whether it is as drawn, and so must be read as such. */
static inline bool is_drawn(const void *bytes, size_t len)
{
	static struct drawn_module m;

	if (!m.ehdr.e_phnum)
		draw_module(&m);
	return len >= sizeof(m) && !memcmp(bytes, &m, sizeof(m));
}

#endif
