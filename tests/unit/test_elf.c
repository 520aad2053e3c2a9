/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/files.h"

/* A file with a segment of code, and one symbol table. */
enum { CODE_AT = 0x1000, CODE_ADDRESS = 0x401000, CODE_BYTES = 0x1000, SYMBOLS = 6 };

struct drawn {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
	Elf64_Shdr shdr[3];
	Elf64_Sym sym[SYMBOLS];
	char strings[64];
};

static struct drawn drawn;
static struct ms_arena arena;
static char path[64];

static void add_symbol(size_t i, uint64_t address, uint64_t size, unsigned type, const char *name)
{
	size_t at = drawn.shdr[2].sh_size;

	drawn.sym[i] = (Elf64_Sym){ .st_name = (Elf64_Word)at,
		                    .st_info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, type),
		                    .st_shndx = 1,
		                    .st_value = address,
		                    .st_size = size };
	memcpy(drawn.strings + at, name, strlen(name) + 1);
	drawn.shdr[2].sh_size += strlen(name) + 1;
}

static void draw(void)
{
	drawn = (struct drawn){ .ehdr = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
		                                       ELFCLASS64, ELFDATA2LSB },
		                          .e_phoff = offsetof(struct drawn, phdr),
		                          .e_phnum = 2,
		                          .e_shoff = offsetof(struct drawn, shdr),
		                          .e_shnum = 3 } };
	drawn.phdr[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x8000 };
	drawn.phdr[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
		                      .p_flags = PF_R | PF_X,
		                      .p_offset = CODE_AT,
		                      .p_vaddr = CODE_ADDRESS,
		                      .p_filesz = CODE_BYTES };
	drawn.shdr[1] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
		                      .sh_offset = offsetof(struct drawn, sym),
		                      .sh_size = sizeof(drawn.sym),
		                      .sh_link = 2 };
	drawn.shdr[2] = (Elf64_Shdr){ .sh_offset = offsetof(struct drawn, strings), .sh_size = 1 };
	add_symbol(1, CODE_ADDRESS + 0x20, 0x10, STT_FUNC, "second@@V_1");
	add_symbol(2, CODE_ADDRESS, 0x20, STT_FUNC, "first");
	add_symbol(3, CODE_ADDRESS, 0x20, STT_FUNC, "alias");
	add_symbol(4, CODE_ADDRESS + 0x40, 0x10, STT_OBJECT, "data");
	add_symbol(5, CODE_ADDRESS + 0x80, 0, STT_FUNC, "empty");
}

static void save(size_t begin, const void *bytes, size_t len)
{
	FILE *file = fopen(path, "w");

	cr_assert(file);
	cr_assert_eq(fseek(file, (long)begin, SEEK_SET), 0);
	cr_assert_eq(fwrite(bytes, 1, len, file), len);
	cr_assert_eq(fclose(file), 0);
}

static void setup(void)
{
	int fd;

	draw();
	strcpy(path, "/tmp/test_elf.XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
	save(0, &drawn, sizeof(drawn));
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
	unlink(path);
}

TestSuite(elf, .init = setup, .fini = teardown);

static uint64_t inode_of(const char *name)
{
	struct stat st;

	cr_assert_eq(stat(name, &st), 0);
	return st.st_ino;
}

/* "NAME+OFFSET at PC", "? at PC", or "-" when there is no image. */
static const char *place(uint64_t begin, uint64_t at)
{
	static char text[200];
	struct ms_elf_files files = { .arena = &arena };
	struct ms_elf_mapped mapped = { .path = path, .inode = inode_of(path), .begin = begin };
	struct ms_elf_file *file = ms_elf_files_open(&files, &mapped);
	struct ms_elf_place found;

	if (!file || !ms_elf_find(&files, file, at, &found))
		return "-";
	if (found.name_len)
		snprintf(text, sizeof(text), "%.*s+%zx at %zx", (int)found.name_len, found.name,
		         (size_t)found.offset, (size_t)found.pc);
	else
		snprintf(text, sizeof(text), "? at %zx", (size_t)found.pc);
	return text;
}

static const struct {
	uint64_t at;
	char text[40];
} places[] = {
	{ CODE_AT, "first+0 at 401000" },
	{ CODE_AT + 0x1f, "first+1f at 40101f" },
	{ CODE_AT + 0x20, "second+0 at 401020" },
	{ CODE_AT + 0x2f, "second+f at 40102f" },
	{ CODE_AT + 0x30, "? at 401030" },
	{ CODE_AT + 0x40, "? at 401040" }, /* no function */
	{ CODE_AT + 0x80, "? at 401080" },
	{ CODE_AT + CODE_BYTES, "? at 2000" }, /* of no segment of code */
	{ 0, "? at 0" },
};

Test(elf, a_function_has_what_lies_in_it)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		cr_assert_str_eq(place(0, places[i].at), places[i].text);
}

/* By its address: data may begin behind what the file has of its segment. */
Test(elf, variables_have_names_where_they_are_wanted)
{
	struct ms_elf_files files = { .arena = &arena, .variables = true };
	struct ms_elf_mapped mapped = { .path = path, .inode = inode_of(path) };
	struct ms_elf_file *file = ms_elf_files_open(&files, &mapped);
	struct ms_elf_place found;

	cr_assert(file);
	cr_assert(ms_elf_find_address(&files, file, CODE_ADDRESS + 0x48, &found));
	cr_assert_eq(found.pc, CODE_ADDRESS + 0x48);
	cr_assert_eq(found.offset, 8);
	cr_assert_eq(found.name_len, 4);
	cr_assert_arr_eq(found.name, "data", 4);
	cr_assert(ms_elf_find_address(&files, file, CODE_ADDRESS + 0x50, &found));
	cr_assert_eq(found.name_len, 0);
	cr_assert(ms_elf_find_address(&files, file, CODE_ADDRESS + 0x21, &found));
	cr_assert_eq(found.name_len, 6);
}

Test(elf, of_functions_inside_of_each_other_the_inner_one_is_told)
{
	drawn.sym[2].st_size = 0x100;
	drawn.sym[3].st_size = 0x100;
	save(0, &drawn, sizeof(drawn));
	cr_assert_str_eq(place(0, CODE_AT + 0x21), "second+1 at 401021");
	cr_assert_str_eq(place(0, CODE_AT + 0x31), "first+31 at 401031");
}

Test(elf, an_image_in_the_middle_of_a_file_is_read)
{
	save(0x3000, &drawn, sizeof(drawn));
	cr_assert_str_eq(place(0x3000, CODE_AT + 1), "first+1 at 401001");
	cr_assert_str_eq(place(0, CODE_AT + 1), "-");
	cr_assert_str_eq(place(UINT64_MAX, CODE_AT + 1), "-");
}

Test(elf, a_stripped_file_has_its_names_for_linking)
{
	drawn.shdr[1].sh_type = SHT_DYNSYM;
	save(0, &drawn, sizeof(drawn));
	cr_assert_str_eq(place(0, CODE_AT + 1), "first+1 at 401001");
}

Test(elf, what_is_no_image_has_no_names)
{
	static const size_t bytes[] = { EI_CLASS, EI_DATA, 0 };

	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		draw();
		drawn.ehdr.e_ident[bytes[i]]++;
		save(0, &drawn, sizeof(drawn));
		cr_assert_str_eq(place(0, CODE_AT), "-");
	}
}

/* Wherever it ends, and whatever one byte of it is. */
Test(elf, a_broken_file_is_no_danger)
{
	for (size_t len = 1; len < sizeof(drawn); len++) {
		save(0, &drawn, len);
		(void)place(0, CODE_AT + 0x25);
	}
	for (size_t i = 0; i < sizeof(drawn) - sizeof(drawn.strings); i++) {
		for (int bits = 0; bits < 3; bits++) {
			static const unsigned char flips[] = { 0xff, 0x80, 0x01 };

			draw();
			((unsigned char *)&drawn)[i] ^= flips[bits];
			save(0, &drawn, sizeof(drawn));
			(void)place(0, CODE_AT + 0x25);
			ms_arena_deinit(&arena);
		}
	}
}

Test(elf, a_file_without_an_end_of_strings_is_no_danger)
{
	memset(drawn.strings, 'x', sizeof(drawn.strings));
	drawn.shdr[2].sh_size = sizeof(drawn.strings);
	save(0, &drawn, sizeof(drawn));
	cr_assert_str_neq(place(0, CODE_AT), "-");
}

Test(elf, another_file_of_the_same_name_is_not_taken)
{
	struct ms_elf_files files = { .arena = &arena };
	struct ms_elf_mapped mapped = { .path = path, .inode = inode_of(path) + 1 };

	cr_assert_null(ms_elf_files_open(&files, &mapped));
	mapped.path = "[vdso]";
	cr_assert_null(ms_elf_files_open(&files, &mapped));
	mapped.path = "/tmp";
	mapped.inode = inode_of("/tmp");
	cr_assert_null(ms_elf_files_open(&files, &mapped));
}

/* As a process does that gives up opening files before it asks. */
Test(elf, what_was_opened_is_read_whatever_became_of_its_name)
{
	struct ms_elf_files files = { .arena = &arena };
	struct ms_elf_mapped mapped = { .path = path, .inode = inode_of(path) };
	struct ms_elf_place found;

	cr_assert(ms_elf_files_open(&files, &mapped));
	files.sealed = true;
	mapped.begin = 1;
	cr_assert_null(ms_elf_files_open(&files, &mapped));
	mapped.begin = 0;
	unlink(path);
	cr_assert(ms_elf_find(&files, ms_elf_files_open(&files, &mapped), CODE_AT, &found));
	cr_assert_eq(found.name_len, strlen("first"));
	cr_assert(ms_elf_find(&files, ms_elf_files_open(&files, &mapped), CODE_AT + 0x20, &found));
	cr_assert_eq(found.offset, 0);
}
