/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <elf.h>
#include <string.h>

#include "classes.h"
#include "engine/lost/maker.h"
#include "module.h"

/* Which module has most likely made a block, in a process of a few libraries and a heap. */

enum { PAGE = 4096, RW = MS_PROT_READ | MS_PROT_WRITE, BLOCK = 0x800, MOST_WORDS = 80 };

enum module { LOW, SHOP, OTHER, LIBC, UNNAMED, MODULES };

static const struct {
	ms_addr base;
	const char *path;
} modules[MODULES] = {
	[LOW] = { 0x400000, "/usr/bin/fixed" },
	[SHOP] = { 0x7f0000100000, "/usr/lib/libshop.so.1" },
	[OTHER] = { 0x7f0000200000, "/usr/lib/libother.so" },
	[LIBC] = { 0x7f0000300000, "/lib/x86_64-linux-gnu/libc.so.6" },
	[UNNAMED] = { 0x7f0000400000, "[vdso]" },
};

static const ms_addr heap = 0x7e0000000000;

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_blocks blocks;
static struct ms_report report;
static struct ms_leak_list list;
static struct ms_makers *makers;
static struct ms_aimer *aimer;

/* Zero-filled data behind the others, without a name of its own. */
static void map_bss(ms_addr base)
{
	Elf64_Phdr *phdr = (Elf64_Phdr *)(void *)ms_fake_at(&fake, base + sizeof(Elf64_Ehdr));

	phdr[1].p_memsz += PAGE;
	ms_fake_map(&fake, base + (ms_addr)4 * PAGE, PAGE, RW, "");
}

static void init(void)
{
	struct ms_error err;

	memset(&regions, 0, sizeof(regions));
	memset(&report, 0, sizeof(report));
	ms_fake_init(&fake);
	classes_map(&fake, modules[LOW].base, modules[LOW].path);
	ms_fake_map(&fake, heap, 4 * PAGE, RW, "");
	for (size_t i = SHOP; i < UNNAMED; i++)
		classes_map(&fake, modules[i].base, modules[i].path);
	map_bss(modules[LIBC].base);
	ms_fake_map(&fake, modules[UNNAMED].base, 4 * PAGE, MS_PROT_READ | MS_PROT_EXEC, "[vdso]");
	for (size_t i = LOW; i < UNNAMED; i++) {
		ms_addr table = modules[i].base + CLASSES_TABLES + 0x800;

		classes_add(&fake, modules[i].base, 0, "4Cart");
		ms_fake_put(&fake, table, modules[i].base + PAGE);
		ms_fake_put(&fake, table + 8, modules[i].base + PAGE + 0x40);
	}
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	list = (struct ms_leak_list){ .blocks = &blocks,
		                      .types = ms_types_new(&fake.base, &regions, &fake.arena),
		                      .arena = &fake.arena,
		                      .report = &report };
	makers = ms_makers_new(&list, &regions);
	aimer = ms_aimer_new(&blocks, &regions, &fake.arena);
	cr_assert(makers && aimer);
}

static void deinit(void)
{
	ms_fake_deinit(&fake);
}

TestSuite(maker, .init = init, .fini = deinit);

/* Small letters are the shop's, capital ones the other's; in front of one, a digit: a module's. */
static uint64_t word_of(char letter, ms_addr base)
{
	switch (letter) {
	case 'c':
		return base + PAGE + 0x80;
	case 'k':
		return base + CLASSES_TABLES + 0x908;
	case 't':
		return base + CLASSES_TABLES + 0x800;
	case 'v':
		return classes_vtable(base, 0);
	case 'd':
		return base + (ms_addr)3 * PAGE + 8;
	case 'm':
		return heap + (ms_addr)3 * PAGE;
	default:
		return 0x7777;
	}
}

/* Write the words of @letters, and return how many these are. */
static size_t write_words(const char *letters)
{
	size_t n = 0;

	for (; *letters; letters++) {
		enum module module = *letters >= 'A' && *letters <= 'Z' ? OTHER : SHOP;

		if (*letters >= '0' && *letters < '0' + MODULES)
			module = (enum module)(*letters++ - '0');
		ms_fake_put(&fake, heap + BLOCK + 8 * n++,
		            word_of((char)(*letters | 0x20), modules[module].base));
	}
	return n;
}

static struct ms_leak maker_of(const char *letters)
{
	const struct ms_aimed block = { heap + BLOCK, 8 * write_words(letters), 1, NULL };
	struct ms_leak ret = { 0 };
	struct ms_aims aims;

	ms_aims_find(aimer, &block, &aims);
	ms_maker_of(makers, &aims, &ret);
	return ret;
}

struct maker_case {
	char title[64];
	char words[2 * MOST_WORDS];
	char path[64]; /* "": nothing is said */
	uint32_t tables, code, constants;
};

static struct maker_case cases[] = {
	{ "nothing points anywhere", "----", "", 0, 0, 0 },
	{ "memory is nobody's", "mmdd", "", 0, 0, 0 },
	{ "a callback", "-c--", "/usr/lib/libshop.so.1", 0, 1, 0 },
	{ "a name", "-k--", "/usr/lib/libshop.so.1", 0, 0, 1 },
	{ "several of each", "m-cckmk", "/usr/lib/libshop.so.1", 0, 2, 2 },
	{ "a table", "t---", "/usr/lib/libshop.so.1", 1, 0, 0 },
	{ "a table elsewhere", "--t-", "/usr/lib/libshop.so.1", 1, 0, 0 },
	{ "two modules", "-cC-", "", 0, 0, 0 },
	{ "names of two modules", "-kK-", "", 0, 0, 0 },
	{ "many against one", "-cckkK", "", 0, 0, 0 },
	{ "a table at the begin, a callback of another", "t-C-", "/usr/lib/libshop.so.1", 1, 0, 0 },
	{ "a table elsewhere, a callback of another", "-tC-", "", 0, 0, 0 },
	{ "a class is not made by its library", "v---", "", 0, 0, 0 },
	{ "an object with more of it", "v-k-", "/usr/lib/libshop.so.1", 1, 0, 1 },
	{ "an object with a callback of another", "v-C-", "", 0, 0, 0 },
	{ "an object and a table of another", "v-T-", "", 0, 0, 0 },
	{ "libc's free", "-3c--", "", 0, 0, 0 },
	{ "libc's table", "3t--", "", 0, 0, 0 },
	{ "libc's free and a callback", "-3cc-", "/usr/lib/libshop.so.1", 0, 1, 0 },
	{ "the kernel's code", "-4c--", "", 0, 0, 0 },
	{ "one low number", "-0c--", "", 0, 0, 0 },
	{ "two of them", "-0c0k-", "/usr/bin/fixed", 0, 1, 1 },
	{ "the last of 64 words",
	  "---------------------------------------------------------------c",
	  "/usr/lib/libshop.so.1", 0, 1, 0 },
	{ "one behind them", "----------------------------------------------------------------c",
	  "", 0, 0, 0 },
};

ParameterizedTestParameters(maker, of_words)
{
	return cr_make_param_array(struct maker_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct maker_case *c, maker, of_words, .init = init, .fini = deinit)
{
	for (int no_view = 0; no_view < 2; no_view++) {
		struct ms_leak leak;
		struct ms_maker maker;

		fake.no_view = no_view;
		leak = maker_of(c->words);
		maker = leak.maker;
		cr_assert_eq(maker.module, c->path[0] != 0, "%s: %u", c->title, maker.module);
		cr_expect_not(leak.unproved, "%s", c->title);
		cr_expect_eq(maker.tables, c->tables, "%s: %u", c->title, maker.tables);
		cr_expect_eq(maker.code, c->code, "%s: %u", c->title, maker.code);
		cr_expect_eq(maker.constants, c->constants, "%s: %u", c->title, maker.constants);
		if (maker.module)
			cr_expect_str_eq(report.modules.at[0].path, c->path, "%s", c->title);
	}
}

/* The shop is linked with others, and takes @name from them. */
static void import(const char *name)
{
	const ms_addr at = CLASSES_TABLES + 0xa00;
	Elf64_Phdr *phdr = (Elf64_Phdr *)(void *)ms_fake_at(&fake, modules[SHOP].base);
	const Elf64_Sym symbol = { .st_name = 1 };
	const Elf64_Dyn dynamic[] = {
		{ DT_NEEDED, { 1 } },
		{ DT_HASH, { modules[SHOP].base + at + 0x100 } },
		{ DT_SYMTAB, { modules[SHOP].base + at + 0x140 } },
		{ DT_STRTAB, { modules[SHOP].base + at + 0x1c0 } },
		{ DT_NULL, { 0 } },
	};
	const uint32_t hash[] = { 1, 2, 0, 0, 0 };

	phdr = elf_write(phdr, 3);
	phdr[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = at, .p_memsz = sizeof(dynamic) };
	memcpy(ms_fake_at(&fake, modules[SHOP].base + at), dynamic, sizeof(dynamic));
	memcpy(ms_fake_at(&fake, modules[SHOP].base + at + 0x100), hash, sizeof(hash));
	memcpy(ms_fake_at(&fake, modules[SHOP].base + at + 0x140 + sizeof(symbol)), &symbol,
	       sizeof(symbol));
	strcpy(ms_fake_at(&fake, modules[SHOP].base + at + 0x1c1), name);
}

Test(maker, that_never_allocates_is_none)
{
	static const struct {
		const char *name;
		bool unproved;
	} imports[] = {
		{ "malloc", false },
		{ "_Znwm", false },
		{ "free", true },
		{ "mallocs", true },
	};

	for (size_t i = 0; i < sizeof(imports) / sizeof(imports[0]); i++) {
		struct ms_leak leak;

		import(imports[i].name);
		makers = ms_makers_new(&list, &regions);
		leak = maker_of("-c-k");
		cr_assert(leak.maker.module, "%s", imports[i].name);
		cr_expect_eq(leak.unproved, imports[i].unproved, "%s", imports[i].name);
		cr_expect_eq(leak.maker.code, 1);
		cr_expect_eq(leak.maker.constants, 1);
	}
}

/* By the standing of each word: its owner's, shared by all members, or this block's alone. */
Test(maker, is_whom_the_owners_words_point_to)
{
	static const struct {
		const char *title, *words, *standings, *path;
		uint32_t unproved, code;
	} told[] = {
		{ "all the owner's", "cc--", "oo", "/usr/lib/libshop.so.1", 0, 2 },
		{ "one of them", "cc--", "os", "/usr/lib/libshop.so.1", 0, 1 },
		{ "beside another's residual words", "cC--", "os", "/usr/lib/libshop.so.1", 0, 1 },
		{ "beside words of this block", "cC--", "o.", "/usr/lib/libshop.so.1", 0, 1 },
		{ "none", "cc--", "ss", "/usr/lib/libshop.so.1", 1, 2 },
		{ "none, of two modules", "cC--", "ss", "", 0, 0 },
		{ "this block's alone", "cc--", "..", "", 0, 0 },
	};

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		const struct ms_aimed block = { heap + BLOCK, 8 * write_words(told[i].words), 1,
			                        NULL };
		struct ms_leak leak = { 0 };
		struct ms_aims aims;

		ms_aims_find(aimer, &block, &aims);
		cr_assert_eq(aims.n, strlen(told[i].standings));
		for (size_t k = 0; k < aims.n; k++)
			aims.at[k].standing =
				(uint8_t)(strchr(".so", told[i].standings[k]) - ".so");
		ms_maker_of(makers, &aims, &leak);
		cr_assert_eq(leak.maker.module != 0, told[i].path[0] != 0, "%s", told[i].title);
		cr_expect_eq(leak.unproved, told[i].unproved, "%s", told[i].title);
		cr_expect_eq(leak.maker.code, told[i].code, "%s", told[i].title);
		if (leak.maker.module)
			cr_expect_str_eq(report.modules.at[leak.maker.module - 1].path,
			                 told[i].path);
	}
}

Test(maker, each_module_is_listed_once)
{
	cr_expect_eq(maker_of("-c--").maker.module, 1);
	cr_expect_eq(maker_of("-C--").maker.module, 2);
	cr_expect_eq(maker_of("-k--").maker.module, 1);
	cr_assert_eq(report.modules.n, 2);
	cr_expect_str_eq(report.modules.at[1].path, modules[OTHER].path);
}
