/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "classes.h"
#include "engine/names/types.h"
#include "module.h"

/* A heap, and a library with class 0, "shop::Item", and a table of functions behind. */
enum { HEAP = 0x10000, LIBRARY = 0x100000, OTHER = 0x200000, PAGE = 4096 };

#define VTABLE     ((ms_addr)LIBRARY + CLASSES_FIRST + 16)
#define OPERATIONS (VTABLE + 3 * (ms_addr)CLASSES_EACH)
#define CODE       (LIBRARY + PAGE)
#define DATA       (LIBRARY + 3 * PAGE)
#define META_INFO  (LIBRARY + CLASSES_TABLES + 0x20)

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_types *types;

static void setup(void)
{
	ms_fake_init(&fake);
	memset(&regions, 0, sizeof(regions));
	ms_fake_map(&fake, HEAP, 4 * PAGE, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	classes_map(&fake, LIBRARY, "/usr/lib/libshop.so.1");
	classes_add(&fake, LIBRARY, 0, "N4shop4ItemE");
	ms_fake_put(&fake, OPERATIONS, CODE);
	ms_fake_put(&fake, OPERATIONS + 8, CODE + 0x100);
	classes_map(&fake, OTHER, "/usr/lib/libother.so");
	classes_add(&fake, OTHER, 0, "5Other");
}

static void teardown(void)
{
	ms_fake_deinit(&fake);
}

TestSuite(types, .init = setup, .fini = teardown);

static void classify(void)
{
	struct ms_error err;

	regions.n = 0;
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	types = ms_types_new(&fake.base, &regions, &fake.arena);
	cr_assert_not_null(types);
}

/* The type of a block that begins with @word; NULL for none. */
static const struct ms_type *type_of(uint64_t word)
{
	uint32_t number;

	classify();
	ms_fake_put(&fake, HEAP + 64, word);
	number = ms_types_of_block(types, HEAP + 64, 32);
	return number ? ms_types_at(types, number) : NULL;
}

#define assert_untold(word) cr_assert_null(type_of(word), "told %s", type_of(word)->name)

Test(types, tells_a_class_by_its_virtual_table)
{
	for (int no_view = 0; no_view < 2; no_view++) {
		const struct ms_type *type;

		fake.no_view = no_view;
		type = type_of(VTABLE);
		cr_assert_not_null(type);
		cr_assert_str_eq(type->name, "shop::Item");
		cr_assert_str_eq(type->module, "/usr/lib/libshop.so.1");
		cr_assert_eq(type->how, MS_HOW_VTABLE);
	}
}

/* As the compiler marks types that are told apart by their name's address. */
Test(types, passes_over_the_star_before_a_name)
{
	classes_add(&fake, LIBRARY, 0, "*N12_GLOBAL__N_14ItemE");
	cr_assert_str_eq(type_of(VTABLE)->name, "(anonymous namespace)::Item");
}

Test(types, leaves_mangled_what_it_cannot_demangle)
{
	classes_add(&fake, LIBRARY, 0, "3BoxIDv4_fE");
	cr_assert_str_eq(type_of(VTABLE)->name, "3BoxIDv4_fE");
}

Test(types, cuts_names_that_are_too_long)
{
	char *name = ms_fake_at(&fake, LIBRARY + CLASSES_TABLES + 0x800);

	memset(name, 'x', 600);
	memcpy(name, "595", 3);
	ms_fake_put(&fake, VTABLE + CLASSES_INFO + 8, LIBRARY + CLASSES_TABLES + 0x800);
	cr_assert_eq(strlen(type_of(VTABLE)->name), MS_TYPE_TEXT - 1);
	memset(name, 'x', 0x800);
	memcpy(name, "2000", 4);
	cr_assert_eq(type_of(VTABLE)->how, MS_HOW_FUNCTIONS, "no name, but functions");
}

/* A program has a copy of a library's table and type_info, but not of its name. */
Test(types, names_the_module_that_has_the_name)
{
	memcpy(ms_fake_at(&fake, DATA), ms_fake_at(&fake, classes_vtable(OTHER, 0) - 16), 64);
	cr_assert_str_eq(type_of(DATA + 16)->name, "Other");
	cr_assert_str_eq(type_of(DATA + 16)->module, "/usr/lib/libother.so");
}

/* All is right but the place. */
Test(types, wants_a_virtual_table_where_words_are)
{
	memcpy(ms_fake_at(&fake, DATA + 4), ms_fake_at(&fake, VTABLE - 16), 64);
	assert_untold(DATA + 20);
	memcpy(ms_fake_at(&fake, DATA + 8), ms_fake_at(&fake, VTABLE - 16), 64);
	cr_assert_not_null(type_of(DATA + 24));
}

Test(types, tells_the_module_of_a_table_of_functions)
{
	const struct ms_type *type = type_of(OPERATIONS);

	cr_assert_not_null(type);
	cr_assert_str_eq(type->name, "");
	cr_assert_str_eq(type->module, "/usr/lib/libshop.so.1");
	cr_assert_eq(type->how, MS_HOW_FUNCTIONS);
}

Test(types, tells_nothing_of_other_words)
{
	static const uint64_t words[] = {
		0,
		1,
		UINT64_MAX,
		UINT64_MAX - 7,
		8,
		16,
		HEAP + 64,
		LIBRARY,
		CODE,               /* a function: whose it is, is not known */
		CODE + 8,           /* in code */
		DATA,               /* zeros */
		LIBRARY + PAGE - 8, /* reads on into code */
		LIBRARY - 8,
		DATA + PAGE - 8, /* ends with the module */
		DATA + PAGE,
	};

	assert_untold(VTABLE + 1);
	assert_untold(VTABLE - 8);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		cr_expect_null(type_of(words[i]), "told %#lx", (unsigned long)words[i]);
}

/* One word of the class written over; the functions remain, unless the table is moved. */
Test(types, believes_no_class_whose_parts_do_not_fit)
{
	static const struct {
		const char *title;
		int at; /* from the address point */
		uint64_t value;
	} cases[] = {
		{ "the table of another subobject", -16, (uint64_t)-8 },
		{ "no type_info", -8, 0 },
		{ "a type_info in the heap", -8, HEAP },
		{ "a type_info at an odd address", -8, 0x102114 },
		{ "a type_info that is nowhere", -8, 0x7000 },
		{ "a type_info at the end of the module", -8, DATA + PAGE - 8 },
		{ "a type_info of no class", CLASSES_INFO, 0 },
		{ "a type_info of itself", CLASSES_INFO, VTABLE },
		{ "a type_info in the heap's table", CLASSES_INFO, HEAP + 16 },
		{ "no name", CLASSES_INFO + 8, 0 },
		{ "a name in the heap", CLASSES_INFO + 8, HEAP },
		{ "an empty name", CLASSES_INFO + 8, DATA },
		{ "a name that is none", CLASSES_NAME, 0x21202041 },
		{ "a name of nothing but a star", CLASSES_NAME, '*' },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ms_type *type;

		classes_add(&fake, LIBRARY, 0, "4Item");
		ms_fake_put(&fake, VTABLE + (uint64_t)(int64_t)cases[i].at, cases[i].value);
		type = type_of(VTABLE);
		cr_assert(type && type->how == MS_HOW_FUNCTIONS && !type->name[0], "%s: %s",
		          cases[i].title, type ? type->name : "nothing");
	}
}

Test(types, wants_a_class_of_type_infos_by_its_own_name)
{
	strcpy(ms_fake_at(&fake, LIBRARY + CLASSES_TABLES + 0x40), "N10__cxxabiv14FakeE");
	cr_assert_eq(type_of(VTABLE)->how, MS_HOW_FUNCTIONS);
	ms_fake_put(&fake, META_INFO + 8, HEAP);
	cr_assert_eq(type_of(VTABLE)->how, MS_HOW_FUNCTIONS);
}

Test(types, wants_a_name_that_ends)
{
	memset(ms_fake_at(&fake, DATA + PAGE - 16), 'x', 16);
	ms_fake_put(&fake, VTABLE + CLASSES_INFO + 8, DATA + PAGE - 16);
	cr_assert_eq(type_of(VTABLE)->how, MS_HOW_FUNCTIONS);
}

Test(types, wants_two_functions_of_one_module_in_a_table_that_nobody_writes)
{
	ms_fake_put(&fake, OPERATIONS + 8, OTHER + PAGE);
	assert_untold(OPERATIONS);
	ms_fake_put(&fake, OPERATIONS + 8, 0);
	assert_untold(OPERATIONS);
	ms_fake_put(&fake, OPERATIONS + 8, DATA);
	assert_untold(OPERATIONS);
	ms_fake_put(&fake, DATA, CODE);
	ms_fake_put(&fake, DATA + 8, CODE);
	assert_untold(DATA);
}

Test(types, wants_a_whole_word_of_the_block)
{
	classify();
	ms_fake_put(&fake, HEAP + 64, VTABLE);
	cr_assert_eq(ms_types_of_block(types, HEAP + 64, 7), MS_TYPE_UNKNOWN);
	cr_assert_neq(ms_types_of_block(types, HEAP + 64, 8), MS_TYPE_UNKNOWN);
	cr_assert_eq(ms_types_of_block(types, HEAP + 4 * PAGE - 4, 32), MS_TYPE_UNKNOWN);
}

Test(types, gives_one_number_to_one_class_and_reads_it_once)
{
	size_t reads;
	uint32_t number;

	fake.no_view = true;
	classify();
	for (ms_addr at = HEAP; at < HEAP + PAGE; at += 32)
		ms_fake_put(&fake, at, VTABLE);
	number = ms_types_of_block(types, HEAP, 32);
	reads = fake.reads;
	for (ms_addr at = HEAP; at < HEAP + PAGE; at += 32)
		cr_assert_eq(ms_types_of_block(types, at, 32), number);
	cr_assert_eq(fake.reads, reads, "%zu more", fake.reads - reads);
}

/* Words of all kinds, more than the table of words first has room for. */
Test(types, remembers_many_words)
{
	enum { N = 1500 };
	size_t known[2] = { 0, 0 };
	uint32_t number;

	classify();
	ms_fake_put(&fake, HEAP, VTABLE);
	number = ms_types_of_block(types, HEAP, 32);
	for (int again = 0; again < 2; again++)
		for (unsigned int i = 0; i < N; i++) {
			ms_fake_put(&fake, HEAP, LIBRARY + 8 * i);
			known[again] += ms_types_of_block(types, HEAP, 32) != MS_TYPE_UNKNOWN;
		}
	cr_assert_eq(known[0], 3, "the class, the operations, and the class of type_infos");
	cr_assert_eq(known[1], known[0]);
	ms_fake_put(&fake, HEAP, VTABLE);
	cr_assert_eq(ms_types_of_block(types, HEAP, 32), number);
}

/* A table of functions begins at each word of a library: a program that means ill. */
Test(types, are_not_more_than_the_report_has_room_for)
{
	enum { N = MS_TYPES_MOST + 100, LEN = 8 * N / PAGE * PAGE + PAGE };
	Elf64_Phdr *phdr = (Elf64_Phdr *)ms_fake_at(&fake, OTHER + sizeof(Elf64_Ehdr));
	ms_addr tables = OTHER + 4 * PAGE;
	size_t told = 0;

	phdr[1].p_memsz += LEN;
	ms_fake_map(&fake, tables, LEN, MS_PROT_READ, "/usr/lib/libother.so");
	for (ms_addr at = tables; at < tables + LEN; at += 8)
		ms_fake_put(&fake, at, OTHER + PAGE);
	classify();
	for (unsigned int i = 0; i < N; i++) {
		ms_fake_put(&fake, HEAP, tables + 8 * i);
		told += ms_types_of_block(types, HEAP, 32) != MS_TYPE_UNKNOWN;
	}
	cr_assert_eq(told, MS_TYPES_MOST);
}

Test(types, go_to_the_report_when_a_leak_has_them)
{
	struct ms_report report = { 0 };
	uint32_t first;
	uint32_t second;

	classify();
	ms_fake_put(&fake, HEAP, VTABLE);
	ms_fake_put(&fake, HEAP + 32, OPERATIONS);
	first = ms_types_of_block(types, HEAP, 32);
	second = ms_types_of_block(types, HEAP + 32, 32);
	cr_assert_eq(ms_types_report(types, MS_TYPE_UNKNOWN, &report), MS_TYPE_UNKNOWN);
	cr_assert_eq(ms_types_report(types, second, &report), 1);
	cr_assert_eq(ms_types_report(types, first, &report), 2);
	cr_assert_eq(ms_types_report(types, second, &report), 1);
	cr_assert_eq(report.types.n, 2);
	cr_assert_str_eq(report.types.at[1].name, "shop::Item");
}

/* ---- of several answers ---- */

/* A number for a type of that name; MS_TYPE_UNKNOWN for none. */
static uint32_t known_as(const char *name, enum ms_how how)
{
	struct ms_type type = { .how = (uint8_t)how };

	if (!name)
		return MS_TYPE_UNKNOWN;
	strcpy(type.name, name);
	return ms_types_add(types, &type);
}

static void put_one_block(struct ms_blocks *blocks)
{
	uint32_t extent;

	ms_blocks_init(blocks, &fake.base, &fake.arena);
	cr_assert_eq(ms_blocks_open(blocks, (struct ms_range){ HEAP, HEAP + PAGE }, 4, &extent),
	             MS_OK);
	cr_assert_eq(ms_blocks_put(blocks, extent, HEAP + 64, 32), MS_OK);
	cr_assert_eq(ms_blocks_sort(blocks), MS_OK);
	cr_assert_eq(ms_blocks_seal(blocks), MS_OK);
}

Test(types, believes_a_blocks_own_words_then_debug_information_then_what_holds_it)
{
	static const struct {
		uint64_t word;
		const char *kept; /* of the kinds */
		enum ms_how how;
		const char *debugged;
		const char *expected;
	} cases[] = {
		{ VTABLE, NULL, 0, "struct base", "shop::Item" },
		{ VTABLE, "buffer", MS_HOW_CONTAINER, "struct base", "shop::Item" },
		{ 0, "FILE", MS_HOW_OBJECT, "struct base", "FILE" },
		{ 0, "buffer", MS_HOW_CONTAINER, "struct base", "struct base" },
		{ 0, "text", MS_HOW_TEXT, "struct base", "struct base" },
		{ 0, "text", MS_HOW_TEXT, NULL, "text" },
		{ OPERATIONS, NULL, 0, "struct base", "struct base" },
		{ OPERATIONS, NULL, 0, NULL, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_blocks blocks;
		uint32_t kept;
		uint32_t debugged;
		uint32_t number;

		classify();
		put_one_block(&blocks);
		ms_fake_put(&fake, HEAP + 64, cases[i].word);
		kept = known_as(cases[i].kept, cases[i].how);
		debugged = known_as(cases[i].debugged, MS_HOW_DEBUG);
		ms_types_keep(types, &blocks, &kept, false);
		ms_types_keep_debug(types, &blocks, &debugged);
		number = ms_types_of_block(types, HEAP + 64, 32);
		cr_assert(number, "case %zu", i);
		cr_expect_str_eq(ms_types_at(types, number)->name, cases[i].expected, "case %zu",
		                 i);
	}
}

Test(types, asks_no_first_word_again_when_all_were_asked)
{
	uint32_t kept = MS_TYPE_UNKNOWN;
	struct ms_blocks blocks;

	classify();
	put_one_block(&blocks);
	ms_fake_put(&fake, HEAP + 64, VTABLE);
	ms_types_keep(types, &blocks, &kept, false);
	cr_expect_neq(ms_types_of_block(types, HEAP + 64, 32), MS_TYPE_UNKNOWN);
	ms_types_keep(types, &blocks, &kept, true);
	cr_expect_eq(ms_types_of_block(types, HEAP + 64, 32), MS_TYPE_UNKNOWN);
}

/* Of all blocks what is kept is one list, and debug information is put into it. */
Test(types, keeps_debug_information_among_the_rest_when_all_were_asked)
{
	static const struct {
		const char *kept;
		enum ms_how how;
		const char *expected;
	} cases[] = {
		{ "FILE", MS_HOW_OBJECT, "FILE" },
		{ "buffer", MS_HOW_CONTAINER, "struct base" },
		{ NULL, 0, "struct base" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_blocks blocks;
		uint32_t kept;
		uint32_t debugged;
		uint32_t number;

		classify();
		put_one_block(&blocks);
		kept = known_as(cases[i].kept, cases[i].how);
		debugged = known_as("struct base", MS_HOW_DEBUG);
		ms_types_keep(types, &blocks, &kept, true);
		ms_types_keep_debug(types, &blocks, &debugged);
		debugged = MS_TYPE_UNKNOWN;
		number = ms_types_of_block(types, HEAP + 64, 32);
		cr_assert(number, "case %zu", i);
		cr_expect_str_eq(ms_types_at(types, number)->name, cases[i].expected, "case %zu",
		                 i);
	}
}
