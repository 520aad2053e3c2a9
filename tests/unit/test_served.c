/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/loaded/links.h"
#include "engine/loaded/served.h"
#include "fake.h"
#include "module.h"

/*
 * A process of modules, each of a page of tables and one of data, in the order of the
 * loader's list. The picture has a word for each: its name, and a letter for what it is.
 *
 *	D defines malloc             I imports dlsym
 *	O is the decoded allocator   3 has the address of the malloc of module 3
 *	R its tables have addresses as in its file
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	BASE = 0x400000,
	STEP = 0x10000,
	DYNAMIC = 0x200, /* in the tables' page */
	SYMBOLS = 0x400,
	STRINGS = 0x600,
	HASH = 0x700,
	MALLOC = 0x900, /* where it defines it */
	MAP = PAGE,     /* in its data: its entry of the list */
	DEBUG_AT = PAGE + 0x100,
	KEPT = PAGE + 0x208, /* a function's address */
	NAMES = 64,
};

static const char strings[] = "\0malloc\0dlsym\0calloc";

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_decoding decoding;
static struct ms_peek peek;
static unsigned int n_modules;
static unsigned int own_index;

static ms_addr module(unsigned int i)
{
	return BASE + (ms_addr)i * STEP;
}

static void put(ms_addr addr, const void *bytes, size_t len)
{
	memcpy(ms_fake_at(&fake, addr), bytes, len);
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* One symbol that is imported or none in its place; then malloc, if it is defined. */
static void draw_symbols(ms_addr at, bool defines, bool imports)
{
	Elf64_Sym symbols[3] = { { 0 } };
	uint32_t table[] = { 1, 2, 1, 0, 0, 0, defines ? 2 : 0, hash_of("malloc") | 1 };

	symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	symbols[1].st_name = imports ? 8 : 14;
	symbols[2].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	symbols[2].st_name = 1;
	symbols[2].st_shndx = 1;
	symbols[2].st_value = MALLOC;
	put(at + SYMBOLS, symbols, sizeof(symbols));
	put(at + STRINGS, strings, sizeof(strings));
	put(at + HASH, table, sizeof(table));
}

static void draw_dynamic(unsigned int i, bool relative)
{
	ms_addr at = module(i);
	ms_addr bias = relative ? 0 : at;
	Elf64_Dyn entries[] = {
		{ DT_STRTAB, { bias + STRINGS } },
		{ DT_SYMTAB, { bias + SYMBOLS } },
		{ DT_GNU_HASH, { bias + HASH } },
		{ DT_DEBUG, { i ? 0 : at + DEBUG_AT } },
		{ DT_NULL, { 0 } },
	};
	uint64_t map[] = { at, 0, at + DYNAMIC, i + 1 < n_modules ? module(i + 1) + MAP : 0, 0 };
	uint64_t debug[] = { 1, at + MAP };
	Elf64_Phdr *phdr = elf_write(ms_fake_at(&fake, at), 3);

	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, PAGE, PF_R | PF_W);
	phdr[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC };
	put(at + DYNAMIC, entries, sizeof(entries));
	put(at + MAP, map, sizeof(map));
	put(at + DEBUG_AT, debug, sizeof(debug));
}

static void draw(const char *picture)
{
	static char names[NAMES][32];
	static char kinds[NAMES][8];
	int used;

	ms_fake_init(&fake);
	n_modules = 0;
	for (; sscanf(picture, "%31[^:]:%7s%n", names[n_modules], kinds[n_modules], &used) == 2;
	     picture += used + (picture[used] == ' '))
		n_modules++;
	for (unsigned int i = 0; i < n_modules; i++) {
		char path[48];

		snprintf(path, sizeof(path), "/lib/%s", names[i]);
		ms_fake_map(&fake, module(i), PAGE, MS_PROT_READ, path);
		ms_fake_map(&fake, module(i) + PAGE, PAGE, RW, path);
	}
	for (unsigned int i = 0; i < n_modules; i++) {
		draw_symbols(module(i), strchr(kinds[i], 'D'), strchr(kinds[i], 'I'));
		draw_dynamic(i, strchr(kinds[i], 'R'));
		if (strchr(kinds[i], 'O'))
			own_index = i;
		for (const char *c = kinds[i]; *c; c++)
			if (*c >= '0' && *c <= '9')
				ms_fake_put(&fake, module(i) + KEPT,
				            module((unsigned int)(*c - '0')) + MALLOC);
	}
}

static void search(void)
{
	struct ms_error err;
	uint32_t own;

	memset(&regions, 0, sizeof(regions));
	cr_assert(!ms_classify(&fake.base, &fake.arena, &regions, &err));
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	own = ms_region_of(&regions, module(own_index) + PAGE)->module;
	decoding = (struct ms_decoding){ .src = &fake.base,
		                         .regions = &regions,
		                         .arena = &fake.arena };
	cr_assert(!ms_served_by(&decoding, &peek, &own, 1));
}

struct served_case {
	char title[56];
	char picture[64];
	char rival[24];
	bool may_pass_on;
	bool loaded; /* it does not answer malloc */
};

static struct served_case served_cases[] = {
	{ "the C library's own", "p:0 libc.so:DO", "", false, false },
	{ "a library's", "p:0 a.so:D libc.so:DO", "a.so", false, false },
	{ "a library's that is loaded later", "p:0 libc.so:DO a.so:D", "", false, false },
	{ "the program's own", "p:D libc.so:DO", "p", false, false },
	{ "a library's that passes calls on", "p:0 a.so:D2 libc.so:DO", "", false, false },
	{ "through two", "p:0 a.so:D2 b.so:D3 libc.so:DO", "", false, false },
	{ "passed on to a third that does not", "p:0 a.so:D2 b.so:D libc.so:DO", "b.so", false,
	  false },
	{ "that keeps its own address only", "p:0 a.so:D1 libc.so:DO", "a.so", false, false },
	{ "that could pass them on, later", "p:0 a.so:DI libc.so:DO", "a.so", true, false },
	{ "an allocator by its name", "p:0 libjemalloc.so.2:DI2 libc.so:DO", "libjemalloc.so.2",
	  false, false },
	{ "of tables as in the file", "p:0 a.so:DR libc.so:DO", "a.so", false, false },
	{ "an allocator that answers nobody", "p:0 libc.so:DO libscudo.so:D", "libscudo.so", false,
	  true },
	{ "the decoded one, by its name", "p:0 libjemalloc.so:DO libc.so:D", "", false, false },
	{ "nobody's", "p:0 a.so:I libc.so:O", "", false, false },
};

ParameterizedTestParameters(served, names_whose_malloc_it_is)
{
	return cr_make_param_array(struct served_case, served_cases,
	                           sizeof(served_cases) / sizeof(served_cases[0]));
}

ParameterizedTest(struct served_case *c, served, names_whose_malloc_it_is)
{
	draw(c->picture);
	for (int view = 0; view <= 1; view++) {
		fake.no_view = !view;
		search();
		cr_expect_str_eq(decoding.rival.name, c->rival, "%s: %s", c->title,
		                 decoding.rival.name);
		cr_expect_eq(decoding.rival.serves, c->rival[0] && !c->loaded, "%s", c->title);
		cr_expect_eq(decoding.rival.may_pass_on, c->may_pass_on, "%s", c->title);
		cr_expect_eq(decoding.rival.bytes, decoding.rival.serves ? 2 * PAGE : 0, "%s",
		             c->title);
	}
	ms_fake_deinit(&fake);
}

/* What the process's memory says may be anything. */
struct lie {
	char title[48];
	ms_addr at;
	uint64_t value;
	char rival[8];
};

static struct lie lies[] = {
	{ "a list that comes back", BASE + STEP + MAP + 24, BASE + MAP, "a.so" },
	{ "a list that comes back before the end", BASE + MAP + 24, BASE + MAP, "" },
	{ "a list that leads nowhere", BASE + STEP + MAP + 24, 0x99, "a.so" },
	{ "no list", BASE + DEBUG_AT + 8, 0x99, "" },
	{ "another's list", BASE + DEBUG_AT + 8, BASE + STEP + MAP, "" },
	{ "no buckets", BASE + STEP + HASH, UINT64_C(2) << 32, "" },
	{ "buckets without end", BASE + STEP + HASH, UINT64_C(2) << 32 | UINT32_MAX, "" },
	{ "a bloom filter without end", BASE + STEP + HASH + 8, UINT32_MAX, "" },
	{ "imports without end", BASE + STEP + HASH, UINT64_C(0xffffffff) << 32 | 1, "" },
	{ "a chain without end", BASE + STEP + HASH + 24, UINT64_C(2) << 32 | 2, "" },
	{ "a name out of memory", BASE + STEP + SYMBOLS + 48, UINT32_MAX, "" },
	{ "symbols out of memory", BASE + STEP + DYNAMIC + 24, UINT64_MAX - 8, "" },
	{ "program headers out of memory", BASE + 0x20, UINT64_MAX - 8, "" },
};

ParameterizedTestParameters(served, believes_no_lie_for_ever)
{
	return cr_make_param_array(struct lie, lies, sizeof(lies) / sizeof(lies[0]));
}

ParameterizedTest(struct lie *lie, served, believes_no_lie_for_ever)
{
	draw("p:0 a.so:DI libc.so:DO");
	ms_fake_put(&fake, lie->at, lie->value);
	search();
	cr_expect_str_eq(decoding.rival.name, lie->rival, "%s: %s", lie->title,
	                 decoding.rival.name);
	ms_fake_deinit(&fake);
}

/* More than are kept; those that are kept lead to nobody. */
Test(served, stops_after_so_many_definitions)
{
	char picture[512] = "p:0";

	for (int i = 0; i < 20; i++)
		snprintf(picture + strlen(picture), sizeof(picture) - strlen(picture), " %c.so:D",
		         'a' + i);
	strcat(picture, " libc.so:DO");
	draw(picture);
	search();
	cr_expect_str_eq(decoding.rival.name, "a.so");
	ms_fake_deinit(&fake);
}
