/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "report/heapdump/view.h"

/* A sink that keeps what it is given, up to a number of bytes. */
struct keeper {
	struct ms_sink base;
	size_t most;
	size_t n;
	char text[64 * 1024];
};

static struct ms_arena arena;
static struct ms_heapdump dumps[2];
static struct ms_heapdump_view view;
static struct keeper keeper;
static struct ms_error err;

static bool keep(struct ms_sink *sink, const char *bytes, size_t len)
{
	struct keeper *k = (struct keeper *)sink;

	if (len > k->most - k->n)
		return false;
	memcpy(k->text + k->n, bytes, len);
	k->n += len;
	k->text[k->n] = '\0';
	return true;
}

static void setup(void)
{
	ms_arena_init(&arena);
	memset(&view, 0, sizeof(view));
	view.symbols = "/symbols";
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(heapdump_view, .init = setup, .fini = teardown);

static void add_dump(const char *text)
{
	const struct ms_heapdump_file file = { "a.txt", text, strlen(text) };
	size_t i = view.n_dumps++;

	cr_assert_eq(ms_heapdump_parse(&file, &arena, &dumps[i], &err), MS_OK, "%s", err.text);
	view.dumps[i] = &dumps[i];
	view.files[i] = "a.txt";
}

static void list_places(void)
{
	cr_assert_eq(ms_heapdump_list_places(&view, &arena, &err), MS_OK);
}

static bool write_up_to(const char *format, size_t most)
{
	keeper = (struct keeper){ .base = { keep, false }, .most = most };
	return ms_heapdump_writer_find(format)->write(&view, &keeper.base);
}

static const char *written(const char *format)
{
	cr_assert_eq(ms_heapdump_grow(&view, &arena, &err), MS_OK);
	cr_assert(write_up_to(format, sizeof(keeper.text) - 1));
	return keeper.text;
}

/* Name the place at @pc by @n functions. */
static void name(ms_addr pc, const struct ms_function *functions, size_t n)
{
	struct ms_heapdump_place *place;

	ms_vec_for_each (place, &view.places) {
		if (place->pc != pc)
			continue;
		place->functions.at = ms_arena_alloc(&arena, n * sizeof(*functions));
		memcpy(place->functions.at, functions, n * sizeof(*functions));
		place->functions.n = n;
		return;
	}
	cr_assert_fail("no place at %lx", pc);
}

#define HEAD    "Resolving symbols using directory /symbols...\n\n"
#define COLUMNS HEAD "    BYTES %TOTAL %PARENT    COUNT    ADDR LIBRARY FUNCTION LOCATION\n"
#define CHANGES HEAD "    CHANGE       OLD       NEW    COUNT    ADDR LIBRARY FUNCTION LOCATION\n"

Test(heapdump_view, prints_nothing_of_nothing)
{
	add_dump("Android Native Heap Dump v1.1\nMAPS\nEND\n");
	list_places();
	cr_assert_str_eq(written("text"), COLUMNS "\n");
	cr_assert_str_eq(written("folded"), "");
}

Test(heapdump_view, lists_an_address_once)
{
	add_dump("z 0  sz 1  num 1  bt a b a\nz 1  sz 1  num 1  bt b c\n");
	list_places();
	cr_assert_eq(view.places.n, 3);
	cr_assert_eq(view.indices[0].n, 5);
	cr_assert_eq(view.indices[0].at[0], view.indices[0].at[2]);
	cr_assert_eq(view.indices[0].at[1], view.indices[0].at[3]);
}

/* Equal ones stay as the dump has them; a stack may be the beginning of another. */
Test(heapdump_view, orders_by_size_then_as_the_dump)
{
	add_dump("z 0  sz 1  num 1  bt 3\nz 0  sz 1  num 1  bt 1\nz 0  sz 5  num 1  bt 2\n"
	         "z 0  sz 2  num 1  bt 9 2\n");
	list_places();
	cr_assert_str_eq(written("text"),
	                 COLUMNS "        9 100.00% 100.00%        4 ZYGOTE\n"
	                         "        7  77.78%  77.78%        2   2 ??? ??? ???\n"
	                         "        2  22.22%  28.57%        1     9 ??? ??? ???\n"
	                         "        1  11.11%  11.11%        1   3 ??? ??? ???\n"
	                         "        1  11.11%  11.11%        1   1 ??? ??? ???\n\n");
	cr_assert_str_eq(written("folded"), "0x2 5\n0x2;0x9 2\n0x3 1\n0x1 1\n");
}

Test(heapdump_view, joins_equal_stacks)
{
	add_dump("z 0  sz 1  num 2  bt 1 2\nz 0  sz 9  num 1  bt 3\nz 0  sz 4  num 3  bt 1 2\n");
	list_places();
	cr_assert_str_eq(written("folded"), "0x2;0x1 14\n0x3 9\n");
}

Test(heapdump_view, puts_apps_first)
{
	add_dump("z 0  sz 9  num 1  bt 1\nz 1  sz 1  num 1  bt 1\n");
	list_places();
	cr_assert_str_eq(written("text"),
	                 COLUMNS "        1  10.00% 100.00%        1 APP\n"
	                         "        1  10.00% 100.00%        1   1 ??? ??? ???\n\n"
	                         "        9  90.00% 100.00%        1 ZYGOTE\n"
	                         "        9  90.00% 100.00%        1   1 ??? ??? ???\n\n");
	cr_assert_str_eq(written("folded"), "APP;0x1 1\nZYGOTE;0x1 9\n");
}

Test(heapdump_view, reverses)
{
	add_dump("z 0  sz 1  num 1  bt 1 2 3\n");
	list_places();
	view.reversed = true;
	cr_assert_str_eq(written("folded"), "0x1;0x2;0x3 1\n");
}

Test(heapdump_view, tells_blocks_of_no_size)
{
	add_dump("z 0  sz 0  num 3  bt 1\n");
	list_places();
	cr_assert_str_eq(written("text"),
	                 COLUMNS "        0   0.00%   0.00%        3 ZYGOTE\n"
	                         "        0   0.00%   0.00%        3   1 ??? ??? ???\n\n");
	cr_assert_str_eq(written("folded"), "");
}

Test(heapdump_view, tells_inlined_functions)
{
	static const struct ms_function functions[] = { { "in", NULL, "/src/in.c", 3 },
		                                        { "out", NULL, NULL, 0 } };

	add_dump("z 0  sz 1  num 1  bt 1 2\n");
	list_places();
	name(1, functions, 2);
	cr_assert_not_null(strstr(written("text"), "1 ??? in /src/in.c:3 (inlined by) out ???\n"));
	cr_assert_str_eq(written("folded"), "0x2;out;in 1\n");
	view.reversed = true;
	cr_assert_str_eq(written("folded"), "in;out;0x2 1\n");
}

/* Names are others' choice. */
Test(heapdump_view, makes_names_harmless)
{
	static const struct ms_function evil = { .name = "a;b\n\033[1m<script>&\"'",
		                                 .file = "x",
		                                 .line = 1 };

	add_dump("z 0  sz 1  num 1  bt 1\n");
	list_places();
	name(1, &evil, 1);
	cr_assert_str_eq(written("folded"), "a:b??[1m<script>&\"' 1\n");
	cr_assert_not_null(strstr(written("text"), " a;b??[1m<script>&\"' x:1\n"));
	cr_assert_not_null(strstr(written("html"), "a;b??[1m&#60;script&#62;&#38;&#34;&#39; "));
	cr_assert_not_null(strstr(written("json"), "\"a;b\\n\\u001b[1m<script>&\\\"'\""));
}

Test(heapdump_view, names_by_the_dump_where_no_file_does)
{
	static const struct ms_function better = { .name = "from_file" };

	add_dump("z 0  sz 1  num 1  bt 1 2\n"
	         "  bt_info {\"/lib/a.so\" 1 \"f(int)\" 4} {\"/lib/b.so\" 2 \"g\" 0}\n");
	list_places();
	name(2, &better, 1);
	cr_assert_str_eq(written("folded"), "from_file;f(int) 1\n");
	cr_assert_not_null(strstr(written("text"), "1 /lib/a.so f(int) ???\n"));
}

#define MAPS(begin, end, path) "MAPS\n" begin "-" end " r-xp 00001000 fd:00 5 " path "\nEND\n"

/* The same code at another address; other memory is the same only at the same. */
Test(heapdump_view, compares_places_by_library_and_offset)
{
	add_dump("z 0  sz 8  num 2  bt 2010 99\n" MAPS("2000", "3000", "/a.so"));
	add_dump("z 0  sz 8  num 1  bt 5010 99\n" MAPS("5000", "6000", "/a.so"));
	list_places();
	cr_assert_eq(view.places.n, 2);
	cr_assert_str_eq(written("text"), CHANGES
	                 "        +8         8        16       +1 ZYGOTE\n"
	                 "        +8         8        16       +1   99 ??? ??? ???\n"
	                 "        +8         8        16       +1     2010 /a.so ??? ???\n\n");
	cr_assert_str_eq(written("folded"), "0x99;a.so+0x1010 8 16\n");
}

Test(heapdump_view, compares_other_libraries_as_others)
{
	add_dump("z 0  sz 8  num 1  bt 2010\n" MAPS("2000", "3000", "/a.so"));
	add_dump("z 0  sz 8  num 1  bt 2010\n" MAPS("2000", "3000", "/b.so"));
	list_places();
	cr_assert_eq(view.places.n, 2);
	cr_assert_str_eq(written("folded"), "a.so+0x1010 0 8\nb.so+0x1010 8 0\n");
}

Test(heapdump_view, leaves_out_what_did_not_change)
{
	add_dump("z 0  sz 8  num 1  bt 1 3\nz 0  sz 6  num 1  bt 2 3\nz 0  sz 6  num 1  bt 1 4\n");
	add_dump("z 0  sz 8  num 1  bt 1 3\nz 0  sz 5  num 1  bt 2 3\nz 0  sz 6  num 1  bt 1 4\n");
	list_places();
	cr_assert_str_eq(written("text"),
	                 CHANGES "        +1        19        20       +0 ZYGOTE\n"
	                         "        +1        13        14       +0   3 ??? ??? ???\n"
	                         "        +1         5         6       +0     2 ??? ??? ???\n\n");
}

Test(heapdump_view, tells_what_moved_between_sizes_of_one_sum)
{
	add_dump("z 0  sz 8  num 1  bt 1\n");
	add_dump("z 0  sz 4  num 2  bt 1\n");
	view.by_size = true;
	list_places();
	cr_assert_str_eq(written("text"),
	                 CHANGES "        +0         8         8       -1 ZYGOTE\n"
	                         "        +8         0         8       +1   size 8\n"
	                         "        +8         0         8       +1     1 ??? ??? ???\n"
	                         "        -8         8         0       -2   size 4\n"
	                         "        -8         8         0       -2     1 ??? ??? ???\n\n");
}

Test(heapdump_view, ends_when_the_sink_takes_no_more)
{
	static const char *const formats[] = { "text", "html", "folded", "json" };

	add_dump("z 0  sz 8  num 1  bt 1 2\nz 1  sz 8  num 1  bt 1 2\n");
	list_places();
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t whole = strlen(written(formats[i]));

		for (size_t most = 0; most < whole; most++)
			cr_assert_not(write_up_to(formats[i], most), "%s %zu", formats[i], most);
		cr_assert(write_up_to(formats[i], whole));
	}
}

Test(heapdump_view, has_no_other_formats)
{
	cr_assert_null(ms_heapdump_writer_find("xml"));
	cr_assert_null(ms_heapdump_writer_find(""));
}
