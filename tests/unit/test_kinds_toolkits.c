/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of what programs with windows have. */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"
#include "module.h"

static struct drawn_kinds d;

static void setup_fonts(void)
{
	drawn_kinds_init(&d, "/usr/lib/libfontconfig.so.1");
}

static void setup_qt(void)
{
	drawn_kinds_init(&d, "/usr/lib/libQt5Core.so+libQt5Gui.so");
}

static void setup_glib(void)
{
	drawn_kinds_init(&d, "/usr/lib/libglib-2.0.so+libstdc++.so");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_fontconfig, .init = setup_fonts, .fini = teardown);
TestSuite(kinds_glib, .init = setup_glib, .fini = teardown);
TestSuite(kinds_qt, .init = setup_qt, .fini = teardown);

/* A holder in the module's data, and what its dynamic section leads to. */
#define HOLDER  (DK_DATA + 0x100)
#define DYNAMIC (DK_DATA + 0x200)
#define SYMBOLS (DK_DATA + 0x300)
#define NAMES   (DK_DATA + 0x400)
#define HASH    (DK_DATA + 0x500)

#define assert_name(block, wanted)                                      \
	cr_assert_str_eq(drawn_kinds_name(&d, (block)), (wanted), "%s", \
	                 drawn_kinds_name(&d, (block)))

/* The words at @at, of which there are @n, all matter to what @block is. */
static void assert_each_word_counts(ms_addr at, size_t n, ms_addr block)
{
	cr_assert_neq(drawn_kinds_name(&d, block)[0], '\0');
	cr_assert_eq(drawn_kinds_idle_word(&d, at, n, block), n, "word %zu",
	             drawn_kinds_idle_word(&d, at, n, block));
}

/* ---- fontconfig ---- */

enum { PAGE_BYTES = 8176, EXPR_BYTES = 24 };

/* A page with a string, a number and a sum of both, which is the third. */
static ms_addr draw_page(ms_addr *ret_string)
{
	ms_addr page = drawn_kinds_block(&d, PAGE_BYTES);

	*ret_string = drawn_kinds_block(&d, 3);
	strcpy(ms_fake_at(&d.fake, *ret_string), "ja");
	dk_put(&d, page, 0, page + 16 + 3 * EXPR_BYTES, 2, *ret_string, 0, 0, 7, 0, 31, page + 16,
	       page + 16 + EXPR_BYTES);
	return page;
}

Test(kinds_fontconfig, a_page_has_expressions_up_to_the_next_one)
{
	ms_addr string;
	ms_addr page = draw_page(&string);

	drawn_kinds_find(&d);
	assert_name(page, "FcExprPage");
	assert_name(string, "text");
	assert_each_word_counts(page, 3, page);
	/* The next would stand between two, or none does. */
	ms_fake_put(&d.fake, page + 8, page + 16 + 8);
	drawn_kinds_find(&d);
	assert_name(page, "");
	ms_fake_put(&d.fake, page + 8, page + 16);
	drawn_kinds_find(&d);
	assert_name(page, "");
}

Test(kinds_fontconfig, a_rule_is_known_by_the_expression_of_its_test)
{
	ms_addr string;
	ms_addr page = draw_page(&string);
	ms_addr test = drawn_kinds_block(&d, 24);
	ms_addr rule = drawn_kinds_block(&d, 24);

	dk_put(&d, test, UINT64_C(3) << 32, UINT64_C(22) << 32 | 5, page + 16 + EXPR_BYTES);
	dk_put(&d, rule, 0, 1, test);
	drawn_kinds_find(&d);
	assert_name(rule, "FcRule");
	assert_name(test, "FcTest");
	assert_each_word_counts(rule, 3, rule);
	assert_each_word_counts(test, 1, test);
	assert_each_word_counts(test + 16, 1, test);
	/* There is no expression behind the last, nor in the middle of one. */
	ms_fake_put(&d.fake, test + 16, page + 16 + 3 * EXPR_BYTES);
	drawn_kinds_find(&d);
	assert_name(test, "");
	ms_fake_put(&d.fake, test + 16, page + 16 + 8);
	drawn_kinds_find(&d);
	assert_name(rule, "");
}

Test(kinds_fontconfig, a_rule_may_lead_to_an_edit)
{
	ms_addr string;
	ms_addr page = draw_page(&string);
	ms_addr edit = drawn_kinds_block(&d, 24);
	ms_addr last = drawn_kinds_block(&d, 24);
	ms_addr rule = drawn_kinds_block(&d, 24);

	dk_put(&d, edit, UINT64_C(12) << 32 | 5, page + 16, 1);
	dk_put(&d, last, 0, 2, edit);
	dk_put(&d, rule, last, UINT64_C(0x5555) << 32 | 2, edit);
	drawn_kinds_find(&d);
	assert_name(rule, "FcRule");
	assert_name(edit, "FcEdit");
	assert_each_word_counts(rule, 3, rule);
	assert_each_word_counts(edit + 8, 2, edit);
	/* It is of an object, and no operator is so high. */
	ms_fake_put(&d.fake, edit, UINT64_C(12) << 32);
	drawn_kinds_find(&d);
	assert_name(edit, "");
	ms_fake_put(&d.fake, edit, UINT64_C(64) << 32 | 5);
	drawn_kinds_find(&d);
	assert_name(edit, "");
}

Test(kinds_fontconfig, a_list_begins_with_one_of_its_functions)
{
	ms_addr list = drawn_kinds_block(&d, 16);
	ms_addr first = drawn_kinds_block(&d, 16);
	ms_addr last = drawn_kinds_block(&d, 16);
	ms_addr data = drawn_kinds_block(&d, 200);

	dk_put(&d, list, DK_CODE, first);
	dk_put(&d, first, last, data);
	dk_put(&d, last, 0, data);
	drawn_kinds_find(&d);
	assert_name(list, "FcPtrList");
	assert_name(first, "entry of FcPtrList");
	assert_name(last, "entry of FcPtrList");
	assert_each_word_counts(list, 2, list);
	assert_each_word_counts(first, 2, list);
	assert_each_word_counts(last, 2, last);
}

Test(kinds_fontconfig, a_set_of_rules_has_three_lists)
{
	ms_addr set = drawn_kinds_block(&d, 64);
	ms_addr list[3];

	for (int i = 0; i < 3; i++) {
		list[i] = drawn_kinds_block(&d, 16);
		dk_put(&d, list[i], DK_CODE, 0);
	}
	dk_put(&d, set, 1, drawn_kinds_block(&d, 20), 0, 0, 1, list[0], list[1], list[2]);
	drawn_kinds_find(&d);
	assert_name(set, "FcRuleSet");
	assert_name(list[1], "FcPtrList");
	assert_each_word_counts(set + 8, 7, set);
}

Test(kinds_fontconfig, a_pattern_has_elements_with_values)
{
	ms_addr pattern = drawn_kinds_block(&d, 32);
	ms_addr array = drawn_kinds_block(&d, 4 * 16);
	ms_addr first = drawn_kinds_block(&d, 32);
	ms_addr next = drawn_kinds_block(&d, 32);

	dk_put(&d, pattern, UINT64_C(4) << 32 | 1, array - pattern, 1);
	dk_put(&d, array, 7, first);
	dk_put(&d, first, next, 3, DK_CONSTANTS, 0);
	dk_put(&d, next, 0, 1, 4, 1);
	drawn_kinds_find(&d);
	assert_name(pattern, "FcPattern");
	assert_name(array, "elements of FcPattern");
	assert_name(first, "FcValueList");
	assert_name(next, "FcValueList");
	assert_each_word_counts(pattern, 2, pattern);
	assert_each_word_counts(array + 8, 1, first);
	assert_each_word_counts(first, 2, next);
}

/* ---- objects of Qt ---- */

/* An object, and the private part of it. */
struct object {
	ms_addr object, private;
};

static struct object draw_object(void)
{
	struct object o = { drawn_kinds_block(&d, 40), drawn_kinds_block(&d, 100) };

	dk_put(&d, o.object, DK_CONSTANTS, o.private);
	dk_put(&d, o.private, DK_CONSTANTS, o.object);
	return o;
}

/* What has connections, of which one leads from an object to another's slot. */
struct connected {
	struct object from, to;
	ms_addr connection, slot, arguments, of_sender, of_receiver, vector;
};

#define SLOT_BIT      (UINT64_C(1) << 62)
#define ARGUMENTS_BIT (UINT64_C(1) << 63)

static void draw_connected(struct connected *c)
{
	c->from = draw_object();
	c->to = draw_object();
	c->connection = drawn_kinds_block(&d, 88);
	c->slot = drawn_kinds_block(&d, 40);
	c->arguments = drawn_kinds_block(&d, 12);
	c->of_sender = drawn_kinds_block(&d, 40);
	c->of_receiver = drawn_kinds_block(&d, 40);
	c->vector = drawn_kinds_block(&d, 16 + 9 * 16);
	dk_put(&d, c->connection, 0, c->of_receiver + 16, 0, 0, c->from.object, c->to.object, 0,
	       c->slot, c->arguments, 2, SLOT_BIT | ARGUMENTS_BIT);
	dk_put(&d, c->slot, 1, DK_CODE);
	dk_put(&d, c->of_sender, UINT64_C(1) << 32 | 5, c->vector, 0, 0, 0);
	dk_put(&d, c->of_receiver, UINT64_C(1) << 32 | 5, 0, c->connection, 0, 0);
	dk_put(&d, c->vector, 0, 8, 0, 0, c->connection, c->connection);
}

Test(kinds_qt, a_connection_is_known_by_its_objects)
{
	struct connected c;

	draw_connected(&c);
	drawn_kinds_find(&d);
	assert_name(c.connection, "QObjectPrivate::Connection");
	assert_name(c.slot, "QtPrivate::QSlotObjectBase");
	assert_name(c.arguments, "argument types of QObjectPrivate::Connection");
	assert_each_word_counts(c.connection + 8, 1, c.connection);
	assert_each_word_counts(c.connection + 32, 2, c.connection);
	assert_each_word_counts(c.connection + 56, 1, c.slot);
	assert_each_word_counts(c.connection + 64, 1, c.arguments);
	assert_each_word_counts(c.to.object, 2, c.connection);
	assert_each_word_counts(c.to.private, 2, c.connection);
	assert_each_word_counts(c.from.private, 2, c.connection);
	assert_each_word_counts(c.slot + 8, 1, c.slot);
	/* Nothing has counted it, or it leads to no slot and has no types. */
	ms_fake_put(&d.fake, c.connection + 72, 0);
	drawn_kinds_find(&d);
	assert_name(c.connection, "");
	dk_put(&d, c.connection + 72, 2, 0);
	drawn_kinds_find(&d);
	assert_name(c.slot, "");
	assert_name(c.arguments, "");
}

Test(kinds_qt, what_has_connections_leads_to_them)
{
	struct connected c;

	draw_connected(&c);
	drawn_kinds_find(&d);
	assert_name(c.of_sender, "QObjectPrivate::ConnectionData");
	assert_name(c.of_receiver, "QObjectPrivate::ConnectionData");
	assert_name(c.vector, "QObjectPrivate::SignalVector");
	assert_each_word_counts(c.of_sender + 8, 1, c.of_sender);
	assert_each_word_counts(c.of_receiver + 16, 1, c.of_receiver);
	assert_each_word_counts(c.vector, 18 + 2, c.of_sender);
	assert_each_word_counts(c.connection + 8, 1, c.of_receiver);
}

Test(kinds_qt, vectors_that_were_too_small_are_orphaned)
{
	ms_addr older = drawn_kinds_block(&d, 16 + 9 * 16);
	ms_addr oldest = drawn_kinds_block(&d, 16 + 9 * 16);
	struct connected c;

	draw_connected(&c);
	ms_fake_put(&d.fake, c.of_sender + 32, older | 1);
	dk_put(&d, older, oldest | 1, 8);
	dk_put(&d, oldest, 0, 8);
	drawn_kinds_find(&d);
	assert_name(older, "QObjectPrivate::SignalVector");
	assert_name(oldest, "QObjectPrivate::SignalVector");
	assert_each_word_counts(c.of_sender + 32, 1, older);
	assert_each_word_counts(older, 1, oldest);
	assert_each_word_counts(oldest + 8, 1, oldest);
	/* One that is not whole is none. */
	ms_fake_put(&d.fake, oldest + 16, c.connection);
	drawn_kinds_find(&d);
	assert_name(older, "QObjectPrivate::SignalVector");
	assert_name(oldest, "");
}

Test(kinds_qt, what_an_object_has_rarely_is_data_of_containers)
{
	struct object o = draw_object();
	ms_addr extra = drawn_kinds_block(&d, 48);
	ms_addr name = drawn_kinds_block(&d, 50);

	dk_put(&d, extra, DK_CONSTANTS, DK_CONSTANTS, DK_CONSTANTS, DK_CONSTANTS, DK_CONSTANTS,
	       name);
	ms_fake_put(&d.fake, o.private + 48, extra);
	drawn_kinds_find(&d);
	assert_name(extra, "QObjectPrivate::ExtraData");
	assert_each_word_counts(extra + 40, 1, extra);
	assert_each_word_counts(o.private, 2, extra);
	assert_each_word_counts(o.object, 2, extra);
	ms_fake_put(&d.fake, extra + 8, 0);
	drawn_kinds_find(&d);
	assert_name(extra, "");
}

/* ---- images of Qt ---- */

Test(kinds_qt, an_image_has_as_many_bytes_as_its_lines)
{
	ms_addr image = drawn_kinds_block(&d, 144);
	ms_addr pixels = drawn_kinds_block(&d, 30 * 400);

	dk_put(&d, image, UINT64_C(100) << 32 | 1, UINT64_C(32) << 32 | 30, 30 * 400, 0,
	       DK_CONSTANTS, pixels, 5, 400);
	ms_fake_put(&d.fake, image + 96, 1);
	drawn_kinds_find(&d);
	assert_name(image, "QImageData");
	assert_name(pixels, "pixels of QImage");
	assert_each_word_counts(image, 3, image);
	assert_each_word_counts(image + 48, 2, image);
	assert_each_word_counts(image + 40, 1, pixels);
	/* Its pixels are another's. */
	ms_fake_put(&d.fake, image + 96, 0);
	drawn_kinds_find(&d);
	assert_name(pixels, "");
}

/* ---- GLib ---- */

Test(kinds_glib, an_array_has_elements_of_a_length_in_a_power_of_two)
{
	ms_addr elements = drawn_kinds_block(&d, 256);

	dk_put(&d, HOLDER, elements, UINT64_C(21) << 32 | 20, UINT64_C(1) << 32 | 12, 1, 0);
	drawn_kinds_find(&d);
	assert_name(elements, "elements of GArray");
	assert_each_word_counts(HOLDER, 3, elements);
	assert_each_word_counts(HOLDER + 32, 1, elements);
	/* As before 2.76, with a function. */
	dk_put(&d, HOLDER + 8, UINT64_C(256) << 32 | 20, 12, 1, DK_CODE);
	drawn_kinds_find(&d);
	assert_name(elements, "elements of GArray");
	/* More than there is room for; and with no references. */
	ms_fake_put(&d.fake, HOLDER + 8, UINT64_C(256) << 32 | 22);
	drawn_kinds_find(&d);
	assert_name(elements, "");
	dk_put(&d, HOLDER + 8, UINT64_C(256) << 32 | 20, 12, 0);
	drawn_kinds_find(&d);
	assert_name(elements, "");
}

/* A block that begins where pages of that length do. */
static ms_addr draw_page_of_slices(uint64_t bytes)
{
	(void)drawn_kinds_block(&d, 40);
	while (d.next % bytes)
		(void)drawn_kinds_block(&d, 16);
	return drawn_kinds_block(&d, bytes - 16);
}

Test(kinds_glib, a_page_of_slices_is_in_a_ring_of_them)
{
	ms_addr page = draw_page_of_slices(512);
	ms_addr end = page + 512 - 48;

	dk_put(&d, end, page + 32, 3, end, end);
	drawn_kinds_find(&d);
	assert_name(page, "page of GSlice");
	assert_each_word_counts(end, 1, page);
	assert_each_word_counts(end + 16, 2, page);
	/* More than it has room for, or nothing at all. */
	ms_fake_put(&d.fake, end + 8, 33);
	drawn_kinds_find(&d);
	assert_name(page, "");
	dk_put(&d, end, 0, 0);
	drawn_kinds_find(&d);
	assert_name(page, "");
}

/* ---- std::function ---- */

Test(kinds_glib, a_closure_is_known_by_its_functions)
{
	ms_addr closure = drawn_kinds_block(&d, 40);

	dk_put(&d, HOLDER, closure, 0, DK_CODE, DK_CODE + 32);
	drawn_kinds_find(&d);
	assert_name(closure, "closure of std::function");
	cr_assert_eq(drawn_kinds_type(&d, closure)->sure, MS_SURE_LIKELY);
	assert_each_word_counts(HOLDER, 1, closure);
	assert_each_word_counts(HOLDER + 16, 2, closure);
	ms_fake_put(&d.fake, HOLDER + 24, DK_CODE);
	drawn_kinds_find(&d);
	assert_name(closure, "");
}

/* The module wants a function of that name from others. */
static void draw_import(const char *name)
{
	Elf64_Phdr *phdr = elf_write(ms_fake_at(&d.fake, DK_LIBRARY), 3);
	Elf64_Sym symbol = { .st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) };

	phdr[0] = elf_load(0, DK_DATA - DK_LIBRARY, PF_R | PF_X);
	phdr[1] = elf_load(DK_DATA - DK_LIBRARY, CLASSES_PAGE, PF_R | PF_W);
	phdr[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
		                .p_vaddr = DYNAMIC - DK_LIBRARY,
		                .p_memsz = 80 };
	dk_put(&d, DYNAMIC, DT_SYMTAB, SYMBOLS, DT_STRTAB, NAMES, DT_HASH, HASH, DT_NULL, 0);
	dk_put(&d, HASH, UINT64_C(2) << 32 | 1, 0);
	memcpy(ms_fake_at(&d.fake, SYMBOLS + sizeof(symbol)), &symbol, sizeof(symbol));
	strcpy(ms_fake_at(&d.fake, NAMES + 1), name);
}

Test(kinds_glib, return_addresses_are_no_functions_of_a_closure)
{
	ms_addr closure = drawn_kinds_block(&d, 40);

	classes_frames(&d.fake, DK_LIBRARY, CLASSES_TABLES + 0xc00, CLASSES_PAGE + 0x100, 32, 4);
	for (ms_addr i = 0; i < 32; i++) {
		dk_put(&d, HOLDER, closure, 0, DK_CODE + i, DK_CODE + 32);
		drawn_kinds_find(&d);
		assert_name(closure, i ? "" : "closure of std::function");
		dk_put(&d, HOLDER, closure, 0, DK_CODE, DK_CODE + 32 + i);
		drawn_kinds_find(&d);
		assert_name(closure, i ? "" : "closure of std::function");
	}
}

Test(kinds_glib, a_closure_is_of_a_module_that_allocates_as_cxx_does)
{
	ms_addr closure = drawn_kinds_block(&d, 40);

	dk_put(&d, HOLDER, closure, 0, DK_CODE, DK_CODE + 32);
	draw_import("malloc");
	drawn_kinds_find(&d);
	assert_name(closure, "");
	draw_import("_Znwm");
	drawn_kinds_find(&d);
	assert_name(closure, "closure of std::function");
}
