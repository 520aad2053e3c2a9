/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "sym/types/types.h"

/* Programs that are compiled here, and what is read of their debug information. */
enum { TEXT_BYTES = 16 * 1024 };

static char folder[] = "/tmp/memscan-types-XXXXXX";
static struct ms_arena arena;
static struct ms_type_reader *reader;
static uint64_t limit_ns = UINT64_C(60000000000);

static void setup(void)
{
	cr_assert_not_null(mkdtemp(folder));
	ms_arena_init(&arena);
}

static void run(const char *command)
{
	char whole[1024];
	int n = snprintf(whole, sizeof(whole), "cd %s && %s", folder, command);

	cr_assert(n > 0 && (size_t)n < sizeof(whole));
	/* NOLINTNEXTLINE(cert-env33-c): the words are ours */
	cr_assert_eq(system(whole), 0, "%s", whole);
}

static void teardown(void)
{
	run("rm -rf \"$PWD\"");
	ms_arena_deinit(&arena);
}

TestSuite(type_reader, .init = setup, .fini = teardown);

static void write_file(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
}

static int find_nothing(void *ctx, const struct ms_file_question *question,
                        struct ms_file_answer *ret)
{
	(void)ctx;
	(void)question;
	(void)ret;
	return -1;
}

/* Read the types of the file @name in the folder. */
static enum ms_types_read read_types(const char *name)
{
	static const struct ms_finder finder = { find_nothing, NULL };
	struct ms_symbol_file *file;
	enum ms_types_read read;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = ms_symbol_file_take(open(path, O_RDONLY | O_CLOEXEC), path, &finder, 0, &arena);
	cr_assert_not_null(file);
	if (!reader)
		reader = ms_type_reader_new(&arena, ms_now_ns() + limit_ns);
	read = ms_type_reader_add(reader, file, 0);
	ms_symbol_file_close(file);
	cr_assert(ms_book_check(ms_type_reader_book(reader), 1));
	return read;
}

static void compile(const char *compiler, const char *source)
{
	bool is_cc = strcmp(compiler, "g++") == 0;
	char command[256];

	write_file(is_cc ? "it.cc" : "it.c", source);
	(void)snprintf(command, sizeof(command), "%s -O1 -g -shared -fPIC -o it.so %s", compiler,
	               is_cc ? "it.cc" : "it.c");
	run(command);
	reader = NULL;
	cr_assert_eq(read_types("it.so"), MS_TYPES_READ);
}

/* ---- what was read, as text ---- */

static char text[TEXT_BYTES];

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text + len, sizeof(text) - len, fmt, ap);
	va_end(ap);
}

static void say_what(const struct ms_book *book, uint32_t what, uint32_t type, uint32_t n)
{
	const char *name = ms_book_name(book, type);

	say("%.*s%s", (int)what, "**", *name ? name : "?");
	if (n == MS_BOOK_REST)
		say("[]");
	else if (n != 1)
		say("[%u]", n);
}

static const struct ms_book_type *type_called(const char *name)
{
	const struct ms_book *book = ms_type_reader_book(reader);

	for (uint32_t i = 0; i < book->types.n; i++)
		if (strcmp(ms_book_name(book, i), name) == 0)
			return &book->types.at[i];
	return NULL;
}

/* "name 24+: 0 *other, 8 thing[2]" of the type of that name; "" when there is none. */
static const char *told(const char *name)
{
	const struct ms_book *book = ms_type_reader_book(reader);
	const struct ms_book_type *type = type_called(name);

	text[0] = '\0';
	if (!type)
		return text;
	say("%s %u%s%s:", name, type->size, type->flags & MS_BOOK_GROWS ? "+" : "",
	    type->flags & MS_BOOK_VIRTUAL ? "v" : "");
	for (uint32_t i = 0; i < type->n; i++) {
		const struct ms_book_field *field = &book->fields.at[type->first + i];

		say("%s%u ", i ? ", " : " ", field->at);
		say_what(book, field->what, field->type, field->n);
	}
	return text;
}

/* The variables, in the order of the file. */
static const char *variables(void)
{
	const struct ms_book *book = ms_type_reader_book(reader);
	const struct ms_book_variable *v;

	text[0] = '\0';
	ms_vec_for_each (v, &book->variables) {
		say("%s%s", *text ? ", " : "", v->local ? "local " : "");
		say_what(book, v->what, v->type, v->n);
	}
	return text;
}

#define assert_told(name, expected) cr_assert_str_eq(told(name), expected, "%s", text)
#define assert_variables(expected)  cr_assert_str_eq(variables(), expected, "%s", text)

/* ---- C ---- */

static const char shapes[] =
	"struct item { struct item *next; int n; };\n"
	"typedef struct { struct item *const volatile first; void *any; char *text; } bag;\n"
	"typedef const bag *bag_ref;\n"
	"struct all {\n"
	"	bag_ref bags[3];\n"
	"	struct item items[2][4], **table, ***deep;\n"
	"	struct item *(*rows)[5];\n"
	"	int (*call)(struct item *);\n"
	"	unsigned few : 3; long number; double *numbers;\n"
	"	struct { struct item *in; } inside;\n"
	"};\n"
	"struct all *const g_all; struct all g_array[2]; int g_number = 1; void *g_any;\n"
	"struct item *g_item = 0; _Thread_local struct item *g_local;\n"
	"struct item *use(void) { static struct item *kept; struct item here = { 0, 1 };\n"
	"	kept = kept ? kept : g_local; { static struct item **inner; if (inner) return *inner; }\n"
	"	return here.n ? kept : g_item; }\n";

Test(type_reader, of_c_knows_what_fields_hold)
{
	compile("cc", shapes);
	assert_told("item", "item 16: 0 *item");
	assert_told("bag", "bag 24: 0 *item");
	assert_told("all", "all 216: 0 *bag[3], 24 item[8], 152 **item, 168 **item, 208 ?");
	assert_told("", " 8: 0 *item");
}

Test(type_reader, of_c_knows_where_variables_are)
{
	const struct ms_book_variable *local;
	const struct ms_book *book;
	size_t n[2] = { 0 };

	/* Addresses are those of the linked file. */
	compile("cc", shapes);
	write_file("main.c", "int main(void) { return 0; }\n");
	run("cc -g -o it it.c main.c");
	reader = NULL;
	cr_assert_eq(read_types("it"), MS_TYPES_READ);
	book = ms_type_reader_book(reader);
	ms_vec_for_each (local, &book->variables)
		n[local->local]++;
	cr_assert_eq(n[0], 5, "%s", variables());
	cr_assert_eq(n[1], 1, "%s", variables());
}

Test(type_reader, of_c_knows_what_has_no_length)
{
	compile("cc", "struct item { struct item *next; };\n"
	              "struct bytes { long n; char at[]; };\n"
	              "struct old { long n; struct item at[1]; };\n"
	              "struct none { long n; struct item at[0]; };\n"
	              "struct middle { struct item one[1]; long n; };\n"
	              "struct bytes *g_bytes; struct old *g_old; struct none *g_none;\n"
	              "struct middle *g_middle;\n");
	assert_told("bytes", "bytes 8+:");
	assert_told("old", "old 16+: 8 item[]");
	assert_told("none", "none 8+: 8 item[]");
	assert_told("middle", "middle 16: 0 item");
}

Test(type_reader, of_c_believes_a_union_whose_members_agree)
{
	compile("cc", "struct a { long n; struct a *next; }; struct b { struct b *next; };\n"
	              "struct use { union { struct a *a; struct b *b; } differs;\n"
	              "	union { struct a *a; long n; } number;\n"
	              "	union { struct a *one; struct a *other; } same; } *g_use;\n");
	cr_assert_not_null(type_called("use"));
	assert_told("use", "use 24: 0 ?, 8 ?, 16 ?");
	/* The three are without names: of the last alone something is known. */
	cr_assert_not_null(type_called("a"));
	cr_assert_eq(ms_type_reader_book(reader)->fields.n, 3 + 1 + 1 + 1);
}

/* What is only declared where it is used is found where it is complete, if there is one such. */
Test(type_reader, of_c_completes_what_is_declared)
{
	write_file("one.c", "struct part; struct whole { struct part *part; } *g_whole;\n");
	write_file("two.c", "struct part { long n; struct part *next; }; struct part g_part;\n");
	write_file("three.c", "struct part { char other[40]; }; struct part g_other;\n"
	                      "int main(void) { return 0; }\n");
	run("cc -g -shared -fPIC -o one.so one.c && cc -g -shared -fPIC -o two.so one.c two.c &&"
	    "cc -g -shared -fPIC -o three.so one.c two.c three.c");
	cr_assert_eq(read_types("one.so"), MS_TYPES_READ);
	assert_told("whole", "whole 8:");
	reader = NULL;
	cr_assert_eq(read_types("two.so"), MS_TYPES_READ);
	assert_told("whole", "whole 8: 0 *part");
	reader = NULL;
	cr_assert_eq(read_types("three.so"), MS_TYPES_READ);
	assert_told("whole", "whole 8:");
}

Test(type_reader, has_each_type_once)
{
	write_file("it.h", "struct item { struct item *next; long n; };\n");
	write_file("one.c", "#include \"it.h\"\nstruct item *g_one;\n");
	write_file("two.c", "#include \"it.h\"\nstruct item *g_two;\n");
	write_file("three.c", "struct item { long n; struct item *next; } *g_three;\n");
	run("cc -g -shared -fPIC -o it.so one.c two.c three.c");
	cr_assert_eq(read_types("it.so"), MS_TYPES_READ);
	cr_assert_eq(ms_type_reader_book(reader)->types.n, 2, "one name, two types");
	assert_variables("*item, *item, *item");
}

Test(type_reader, knows_what_others_begin_with)
{
	compile("cc", "struct link { struct link *next, *prev; };\n"
	              "typedef struct { struct link link; long n; } entry;\n"
	              "struct large { entry entry; char more[100]; };\n"
	              "struct alone { struct link link; };\n"
	              "struct link g_link; entry *g_entry; struct large *g_large;\n"
	              "struct alone *g_alone;\n");
	cr_assert_eq(type_called("link")->longer, 24);
	cr_assert_eq(type_called("entry")->longer, 128);
	cr_assert_eq(type_called("large")->longer, 0);
	cr_assert_eq(type_called("alone")->longer, 0);
}

/* ---- C++ ---- */

Test(type_reader, of_cpp_knows_bases_and_scopes)
{
	compile("g++", "namespace shop { struct Item { Item *next; virtual ~Item(); };\n"
	               "struct Tag { Tag *tag; };\n"
	               "struct Book : Tag, Item { Item &other; static Item *shared; Book(Item &);\n"
	               "	struct Page { Book *book; } *page; };\n"
	               "template <class T> struct Box { T *held; }; }\n"
	               "namespace { struct Own { Own *own; }; }\n"
	               "shop::Book::Book(Item &it) : other(it) {}\n"
	               "shop::Item *shop::Book::shared; shop::Book *g_book;\n"
	               "shop::Box<shop::Book> g_box; static Own *g_own;\n"
	               "shop::Item::~Item() { g_own = 0; } void *use() { return g_own; }\n");
	assert_told("shop::Item", "shop::Item 16v: 8 *shop::Item");
	assert_told(
		"shop::Book",
		"shop::Book 40v: 16 shop::Tag, 0 shop::Item, 24 *shop::Item, 32 *shop::Book::Page");
	assert_told("shop::Book::Page", "shop::Book::Page 8: 0 *shop::Book");
	assert_told("shop::Box<shop::Book>", "shop::Box<shop::Book> 8: 0 *shop::Book");
	assert_told("(anonymous namespace)::Own",
	            "(anonymous namespace)::Own 8: 0 *(anonymous namespace)::Own");
	assert_variables("*shop::Item, *shop::Book, shop::Box<shop::Book>, "
	                 "*(anonymous namespace)::Own");
}

/* Its objects say what they are, so its fields count whatever points to them. */
Test(type_reader, of_cpp_has_classes_that_no_variable_leads_to)
{
	compile("g++", "struct Plain { Plain *next; }; struct Base { virtual ~Base() {} };\n"
	               "struct Derived : Base { Plain *plain; };\n"
	               "Base *make() { return new Derived; }\n");
	assert_told("Derived", "Derived 16v: 0 Base, 8 *Plain");
	assert_told("Plain", "Plain 8: 0 *Plain");
	cr_assert_eq(ms_type_reader_book(reader)->variables.n, 0);
}

/* ---- files ---- */

Test(type_reader, reads_what_was_split_off)
{
	write_file("it.c", shapes);
	run("cc -O1 -g -shared -fPIC -o it.so it.c && objcopy --only-keep-debug it.so it.debug &&"
	    "strip it.so");
	cr_assert_eq(read_types("it.so"), MS_TYPES_NONE);
	cr_assert_eq(ms_type_reader_book(reader)->types.n, 0);
	cr_assert_eq(read_types("it.debug"), MS_TYPES_READ);
	assert_told("item", "item 16: 0 *item");
}

Test(type_reader, says_when_time_was_too_short)
{
	write_file("it.c", shapes);
	run("cc -O1 -g -c -o it.o it.c");
	limit_ns = 0;
	cr_assert_eq(read_types("it.o"), MS_TYPES_TOO_MANY);
	cr_assert_eq(read_types("it.o"), MS_TYPES_TOO_MANY);
}
