/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/names/fields/fields.h"
#include "graph.h"

/*
 * A heap as text (graph.h), and a book as text: "type size: field@offset …", where a field is
 * what it holds: t an object, *t a pointer, **t a pointer to pointers, [n] behind it for
 * several, [] for as many as there are. Types are single letters; "type+:" has an end of any
 * length, "type<size:" is what one of that size begins with. Then variables of the root,
 * "=field@offset".
 */
static struct graph g;
static struct ms_book book;
static struct ms_regions regions;
static struct ms_codes code;
static struct ms_types *types;
static struct ms_report report;

static void setup(void)
{
	memset(&g, 0, sizeof(g));
	memset(&book, 0, sizeof(book));
	memset(&regions, 0, sizeof(regions));
	memset(&code, 0, sizeof(code));
	memset(&report, 0, sizeof(report));
}

static void teardown(void)
{
	graph_erase(&g);
}

TestSuite(typing, .init = setup, .fini = teardown);

static struct ms_book_field field_of(const char *text)
{
	struct ms_book_field field = { .n = 1 };
	const char *at = strchr(text, '@');
	const char *n = strchr(text, '[');

	for (; *text == '*'; text++)
		field.what++;
	field.type = (uint32_t)(*text - 'a');
	if (n)
		field.n = n[1] == ']' ? MS_BOOK_REST : (uint32_t)atoi(n + 1);
	field.at = at ? (uint32_t)atoi(at + 1) : 0;
	return field;
}

static void put_type(const char *head)
{
	struct ms_book_type *type = ms_vec_push(&g.fake.arena, &book.types);
	const char *longer = strchr(head, '<');
	char *letter;

	*type = (struct ms_book_type){ .name = (uint32_t)book.text.n,
		                       .size = (uint32_t)atoi(head + 1),
		                       .longer = longer ? (uint32_t)atoi(longer + 1) : 0,
		                       .flags = strchr(head, '+') ? MS_BOOK_GROWS : 0,
		                       .first = (uint32_t)book.fields.n };
	letter = ms_vec_push(&g.fake.arena, &book.text);
	*letter = head[0];
	(void)ms_vec_push(&g.fake.arena, &book.text);
}

static void put_token(const char *token)
{
	struct ms_book_field field = field_of(token + (*token == '='));

	if (*token == '=') {
		struct ms_book_variable *variable = ms_vec_push(&g.fake.arena, &book.variables);

		*variable = (struct ms_book_variable){
			.at = field.at, .type = field.type, .n = field.n, .what = field.what
		};
	} else if (strchr(token, ':')) {
		put_type(token);
	} else {
		struct ms_book_field *slot = ms_vec_push(&g.fake.arena, &book.fields);

		*slot = field;
		book.types.at[book.types.n - 1].n++;
	}
}

/* The root is the data of a module: its variables' addresses count from there. */
static void put_module(void)
{
	struct ms_code *module = ms_vec_push(&g.fake.arena, &code);
	struct ms_region *region;

	*module = (struct ms_code){ .range = { GRAPH_ROOT, GRAPH_ROOT + GRAPH_PAGE },
		                    .bias = GRAPH_ROOT,
		                    .has_bias = 1 };
	(void)strncpy(module->name, "/usr/bin/drawn", sizeof(module->name) - 1);
	for (uint32_t i = 0; i < g.fake.base.mappings.n; i++) {
		region = ms_vec_push(&g.fake.arena, &regions);
		*region =
			(struct ms_region){ .range = g.fake.base.mappings.at[i].range,
			                    .mapping = i,
			                    .kind = i == 1 ? MS_REGION_GLOBALS : MS_REGION_MEMORY };
	}
}

static void draw(const char *heap, const char *told)
{
	char copy[400];
	char *rest = copy;
	char *token;

	setup();
	graph_draw(&g, heap);
	put_module();
	(void)strncpy(copy, told, sizeof(copy) - 1);
	copy[sizeof(copy) - 1] = '\0';
	while ((token = strsep(&rest, " ")) != NULL)
		put_token(token);
	types = ms_types_new(&g.fake.base, &regions, &g.fake.arena);
}

static void type_all(void)
{
	const struct ms_scan_options options = { .limit = 1 };
	const struct ms_typing typing = { .src = &g.fake.base,
		                          .regions = &regions,
		                          .blocks = &g.blocks,
		                          .types = types,
		                          .options = &options,
		                          .arena = &g.fake.arena,
		                          .report = &report };

	cr_assert(ms_book_check(&book, code.n));
	cr_assert_eq(ms_typed_by_fields(&typing, &book, &code, &g.err), MS_OK);
}

/* "A:a B:b[]": the blocks that have a type. */
static const char *told(void)
{
	static char text[200];
	size_t len = 0;

	text[0] = '\0';
	for (char c = 'A'; c <= 'Z'; c++) {
		uint64_t size = ms_blocks_usable(&g.blocks, graph_addr(c));
		uint32_t number = size ? ms_types_of_block(types, graph_addr(c), size) : 0;
		const struct ms_type *type = number ? ms_types_at(types, number) : NULL;

		if (!type)
			continue;
		cr_assert_eq(type->how, MS_HOW_DEBUG);
		cr_assert_str_eq(type->module, "/usr/bin/drawn");
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%c:%s", len ? " " : "",
		                        c, type->name);
	}
	return text;
}

struct row {
	const char *what;
	const char *heap;
	const char *book;
	const char *told;
};

/* Blocks have two words, or as many as the picture says. */
static const struct row rows[] = {
	{ "a pointer types what it points to", "r>A", "a16: =*a", "A:a" },
	{ "a field does so, too", "r>A A>B", "a16: *b@0 b16: =*a", "A:a B:b" },
	{ "a list is followed to its end", "r>A A>B B>C C>D", "a16: *a@0 =*a", "A:a B:a C:a D:a" },
	{ "a cycle ends", "r>A A>B B>A", "a16: *b@0 b16: *a@0 =*a", "A:a B:b" },
	{ "the variable is an object", "r>A r>B", "a16: *b@0 *c@8 b16: c16: =a", "A:b B:c" },
	{ "the variable is an array", "r>A r>B r>C", "a16: =*a[2]", "A:a B:a" },
	{ "an object in an object", "r>A A>B A>C", "a16: b@8 b8: *c@0 c16: =*a", "A:a C:c" },
	{ "an array in an object", "r>A A>B A>C A>D", "a24: *b@8[2] b16: =*a", "A:a C:b D:b" },
	{ "objects in a row in an object", "r>A A>B A>C A>D A>E", "a32: b@0[2] b16: *c@8 c16: =*a",
	  "A:a C:c E:c" },
	{ "objects to the block's end", "r>A A>B A>C A>D A>E", "a+8: b@8[] b8: *c@0 c16: =*a",
	  "A:a C:c D:c E:c" },
	{ "a block that is too small has another type", "r>A A>B", "a24: *b@0 b16: =*a", "" },
	{ "one of the size that malloc made of it has the type", "r>A:3", "a16: =*a", "A:a" },
	{ "one that is much larger is not named, but followed", "r>A A:8 A>B", "a24: *b@0 b16: =*a",
	  "B:b" },
	{ "one that may be longer is not named", "r>A A:5 A>B", "a32:<40 *b@0 b16: =*a", "B:b" },
	{ "one that is too short for the longer one is", "r>A A:4 A>B", "a32:<40 *b@0 b16: =*a",
	  "A:a B:b" },
	{ "several objects in a row", "r>A A:8 A>B A>B A>B A>B A>B A>B A>C A>D",
	  "a16: *b@8 b16: =*a", "A:a[] B:b D:b" },
	{ "pointers in a row", "r>A A:5 A>B A>C A>D", "a16: =**a", "A:a *[] B:a C:a D:a" },
	{ "several of what others begin with are not", "r>A A:8 A>B A>B A>B A>B A>B A>B A>C A>D",
	  "a16:<32 *b@8 b16: =*a", "B:b" },
	{ "a pointer into the middle types nothing", "r>A+8", "a16: =*a", "" },
	{ "of two types the first counts", "r>A r>A", "a16: b16: =*a@0 =*b@8", "A:a" },
	{ "of two types the larger counts", "r>A A:3 r>A A>B A>C",
	  "a16: *c@0 b24: *d@8 c16: d16: =*a@0 =*b@8", "A:b C:d" },
	{ "an object is more likely than several", "r>A A:8 r>A A>B A>B A>B A>B A>B A>B A>C A>D",
	  "a16: *c@8 b64: *c@56 c16: =*a@0 =*b@8", "A:b D:c" },
	{ "that it is one may come to light later", "r>A A:8 A>B A>B A>B A>B B>A",
	  "a16: *b@8 b16: *c@0 c64: =*a", "A:c B:b" },
	{ "without a pointer behind the first it is no row", "r>A A:8 A>B", "a16: *b@0 b16: =*a",
	  "B:b" },
	{ "with something else in its place neither", "r>A A:8 A>B A>B A>B A>B+9000000",
	  "a16: *b@8 b16: =*a", "B:b" },
	{ "an object that contains itself ends", "r>A A>B", "a16: a@0 *b@0 b16: =*a", "A:a B:b" },
	{ "two that contain each other end", "r>A A>B", "a16: b@0[9] b8: a@0[] *c@0 c16: =*a",
	  "A:a B:c" },
	{ "no variable, no type", "r>A", "a16:", "" },
};

Test(typing, gives_types_as_fields_say)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];

		for (int no_view = 0; no_view < 2; no_view++) {
			g.mode = GRAPH_VIEW;
			draw(row->heap, row->book);
			g.fake.no_view = no_view;
			type_all();
			cr_expect_str_eq(told(), row->told, "%s: %s", row->what, told());
			if (i + 1 < sizeof(rows) / sizeof(rows[0]) || !no_view)
				graph_erase(&g);
		}
	}
}
