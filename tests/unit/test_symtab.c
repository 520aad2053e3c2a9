/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/inject/library/embedded.h"
#include "target/inject/library/symtab.h"

enum { SECTIONS = 3, SYMBOLS = 8 };

static const char names[] = "\0malloc\0free\0twice\0hidden\0data\0chosen";

/* A file with a table of symbols. */
static struct file {
	Elf64_Ehdr head;
	Elf64_Shdr sections[SECTIONS];
	Elf64_Sym symbols[SYMBOLS];
	char names[sizeof(names)];
} file;

static struct ms_arena arena;
static struct ms_symtab table;

static Elf64_Sym symbol(unsigned name, unsigned bind, unsigned type, uint64_t at)
{
	return (Elf64_Sym){ .st_name = name,
		            .st_info = (unsigned char)ELF64_ST_INFO(bind, type),
		            .st_shndx = 1,
		            .st_value = at,
		            .st_size = 16 };
}

static void draw(void)
{
	memset(&file, 0, sizeof(file));
	memcpy(file.head.e_ident, ELFMAG, SELFMAG);
	file.head.e_ident[EI_CLASS] = ELFCLASS64;
	file.head.e_ident[EI_DATA] = ELFDATA2LSB;
	file.head.e_machine = EM_X86_64;
	file.head.e_shoff = offsetof(struct file, sections);
	file.head.e_shnum = SECTIONS;
	file.head.e_shentsize = sizeof(file.sections[0]);
	file.sections[1].sh_type = SHT_SYMTAB;
	file.sections[1].sh_offset = offsetof(struct file, symbols);
	file.sections[1].sh_size = sizeof(file.symbols);
	file.sections[1].sh_link = 2;
	file.sections[2].sh_offset = offsetof(struct file, names);
	file.sections[2].sh_size = sizeof(names);
	file.symbols[1] = symbol(1, STB_LOCAL, STT_FUNC, 0x1000);
	file.symbols[2] = symbol(1, STB_WEAK, STT_FUNC, 0x2000);
	file.symbols[3] = symbol(13, STB_LOCAL, STT_FUNC, 0x3000);
	file.symbols[4] = symbol(13, STB_LOCAL, STT_FUNC, 0x4000);
	file.symbols[5] = symbol(19, STB_LOCAL, STT_FUNC, 0x5000);
	file.symbols[6] = symbol(26, STB_GLOBAL, STT_OBJECT, 0x6000);
	file.symbols[7] = symbol(31, STB_GLOBAL, STT_GNU_IFUNC, 0x7000);
	memcpy(file.names, names, sizeof(names));
}

static void read_it(void)
{
	int fd = memfd_create("symtab", MFD_CLOEXEC);

	cr_assert_eq(write(fd, &file, sizeof(file)), sizeof(file));
	ms_symtab_read(fd, &arena, &table);
	ms_symtab_sort(&table, &arena);
	(void)close(fd);
}

static void setup(void)
{
	ms_arena_init(&arena);
	draw();
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(symtab, .init = setup, .fini = teardown);

Test(symtab, finds_the_function_that_others_can_call_or_the_only_one)
{
	struct ms_range found = { 0, 0 };

	read_it();
	cr_assert_eq(table.n, SYMBOLS);
	cr_expect(ms_symtab_find(&table, "malloc", &found));
	cr_expect(found.begin == 0x2000 && found.end == 0x2010);
	cr_expect(ms_symtab_find(&table, "hidden", &found) && found.begin == 0x5000);
	cr_expect_not(ms_symtab_find(&table, "twice", &found), "nobody can say which");
	cr_expect_not(ms_symtab_find(&table, "data", &found));
	cr_expect_not(ms_symtab_find(&table, "free", &found));
}

Test(symtab, that_makes_no_sense_is_none)
{
	file.names[sizeof(names) - 1] = 'x';
	read_it();
	cr_expect_eq(table.n, 0, "names without an end");
	draw();
	file.sections[1].sh_size = UINT64_MAX;
	read_it();
	cr_expect_eq(table.n, 0, "longer than the file");
	draw();
	file.sections[1].sh_link = SECTIONS;
	read_it();
	cr_expect_eq(table.n, 0, "names in no section");
	draw();
	file.head.e_machine = EM_386;
	read_it();
	cr_expect_eq(table.n, 0, "another machine's");
	draw();
	file.symbols[2].st_name = sizeof(names);
	read_it();
	struct ms_range found;

	cr_expect(ms_symtab_find(&table, "malloc", &found) && found.begin == 0x1000,
	          "a name behind the end");
}

Test(symtab, distinguishes_what_is_chosen_when_the_program_starts)
{
	struct ms_range found;

	read_it();
	cr_expect(ms_symtab_is_chosen(&table, "chosen"));
	cr_expect_not(ms_symtab_find(&table, "chosen", &found), "its address is the chooser's");
	cr_expect_not(ms_symtab_is_chosen(&table, "malloc"));
	file.symbols[7].st_shndx = SHN_UNDEF;
	read_it();
	cr_expect_not(ms_symtab_is_chosen(&table, "chosen"), "a library's");
}

Test(symtab, distinguishes_what_others_may_replace)
{
	read_it();
	cr_expect_not(ms_symtab_is_strong(&table, "malloc"), "weak or local");
	file.symbols[2] = symbol(1, STB_GLOBAL, STT_FUNC, 0x2000);
	read_it();
	cr_expect(ms_symtab_is_strong(&table, "malloc"));
	cr_expect_not(ms_symtab_is_strong(&table, "data"), "no function");
}

Test(symtab, finds_the_function_around_an_address)
{
	struct ms_range found;

	read_it();
	cr_expect(ms_symtab_around(&table, 0x200f, &found));
	cr_expect(found.begin == 0x2000 && found.end == 0x2010);
	cr_expect_not(ms_symtab_around(&table, 0x2010, &found));
	cr_expect_not(ms_symtab_around(&table, 0x6008, &found), "data");
	file.symbols[2].st_size = UINT64_MAX;
	read_it();
	cr_expect_not(ms_symtab_around(&table, 0x200f, &found), "beyond the last address");
}

Test(symtab, knows_other_names_of_a_function)
{
	read_it();
	cr_expect(ms_symtab_has_at(&table, 0x5000, "hid"));
	cr_expect_not(ms_symtab_has_at(&table, 0x5001, "hid"));
	cr_expect_not(ms_symtab_has_at(&table, 0x6000, "da"), "data");
}

Test(symtab, that_is_too_large_is_not_read)
{
	file.sections[1].sh_size = (MS_SYMTAB_MOST + UINT64_C(1)) * sizeof(Elf64_Sym);
	read_it();
	cr_expect_eq(table.n, 0);
	cr_expect(table.too_large);
}

/* All of 2^18 functions have one name, of a megabyte: nobody measures it for each. */
Test(symtab, long_names_cost_no_more_than_short_ones, .timeout = 20)
{
	enum { N = 1 << 18, NAME = 1 << 20 };
	Elf64_Sym *symbols = calloc(N, sizeof(*symbols));
	char *name = calloc(1, NAME + 2);
	struct ms_malloc_library library = { .prefix = "" };
	struct ms_error err;
	bool found = true;
	FILE *out = tmpfile();

	cr_assert(symbols && name && out);
	memset(name + 1, 'x', NAME);
	for (size_t i = 0; i < N; i++)
		symbols[i] = symbol(1, STB_GLOBAL, STT_FUNC, 0x1000 + i);
	file.sections[1].sh_offset = sizeof(file);
	file.sections[1].sh_size = N * sizeof(*symbols);
	file.sections[2].sh_offset = sizeof(file) + N * sizeof(*symbols);
	file.sections[2].sh_size = NAME + 2;
	cr_assert(fwrite(&file, sizeof(file), 1, out) == 1 &&
	          fwrite(symbols, sizeof(*symbols), N, out) == N &&
	          fwrite(name, NAME + 2, 1, out) == 1 && !fflush(out));
	ms_symtab_read(fileno(out), &arena, &library.symbols);
	cr_assert_eq(library.symbols.n, N);
	cr_expect_eq(ms_embedded_find(1, &arena, &library, &found, &err), MS_OK);
	cr_expect_not(found);
	(void)fclose(out);
	free(symbols);
	free(name);
}
