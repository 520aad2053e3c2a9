/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "classes.h"
#include "engine/lost/signature.h"

enum { PAGE = 4096, RW = MS_PROT_READ | MS_PROT_WRITE, BLOCK = 0x800, MOST_WORDS = 100 };

/* A process: two libraries, the second of which other names can have, and a heap. */
struct layout {
	ms_addr heap;
	ms_addr shop;
	ms_addr other;
	const char *path; /* of the other */
};

static const struct layout here = { 0x10000, 0x100000, 0x200000, "/usr/lib/libother.so" };

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_blocks blocks;
static struct ms_origins origins;
static struct ms_leak_list list;
static const struct layout *at;

/* Number i of the process's modules, in address order. */
static void map_module(unsigned int i)
{
	bool shop_first = at->shop < at->other;

	if ((i == 0) == shop_first)
		classes_map(&fake, at->shop, "/usr/lib/libshop.so.1");
	else
		classes_map(&fake, at->other, at->path);
}

static void set_up(const struct layout *layout)
{
	struct ms_error err;

	at = layout;
	memset(&regions, 0, sizeof(regions));
	memset(&origins, 0, sizeof(origins));
	ms_fake_init(&fake);
	if (at->heap < at->shop)
		ms_fake_map(&fake, at->heap, 4 * PAGE, RW, "[heap]");
	map_module(0);
	map_module(1);
	if (at->heap > at->shop)
		ms_fake_map(&fake, at->heap, 4 * PAGE, RW, "[heap]");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	list = (struct ms_leak_list){ .blocks = &blocks,
		                      .types = ms_types_new(&fake.base, &regions, &fake.arena),
		                      .arena = &fake.arena,
		                      .finder = { .origins = &origins } };
}

/* The word of a letter: what it points to, or a number that is no pointer. */
static uint64_t word_of(char letter, ms_addr block)
{
	switch (letter) {
	case 'c':
		return at->shop + CLASSES_PAGE + 0x40;
	case 'C':
		return at->other + CLASSES_PAGE + 0x40;
	case 'k':
		return at->shop + CLASSES_TABLES + 0x800;
	case 'j': /* the same, elsewhere */
		return at->shop + CLASSES_TABLES + 0x908;
	case 'K':
		return at->other + CLASSES_TABLES + 0x800;
	case 'd':
		return at->other + 3 * CLASSES_PAGE + 8;
	case 'm': /* another block */
		return at->heap + 3 * PAGE;
	case 's': /* the block itself */
		return block + 16;
	case '7':
		return 0x7777;
	case 't':
		return 0x2074786574206f6e; /* no text */
	default:
		return 0;
	}
}

/* The signature of a block of @size bytes that begins with @words, the rest zeros. */
static uint64_t sign_sized(const char *words, uint64_t size, uint32_t stack)
{
	struct ms_entry entry = { .address = at->heap + BLOCK, .size = size, .stack = stack };
	struct ms_signer *signer = ms_signer_new(&list, &regions);

	memset(ms_fake_at(&fake, entry.address), 0, PAGE);
	for (size_t i = 0; words[i]; i++)
		ms_fake_put(&fake, entry.address + 8 * i, word_of(words[i], entry.address));
	return ms_signature(signer, &entry);
}

static uint64_t sign(const char *words)
{
	return sign_sized(words, 8 * strlen(words), MS_STACK_NONE);
}

struct shape_case {
	char title[64];
	char one[MOST_WORDS];
	char other[MOST_WORDS];
	bool same;
};

static struct shape_case shape_cases[] = {
	{ "values do not count", "0000", "7t7t", true },
	{ "sizes do", "0000", "00000", false },
	{ "a short string and a long one", "s7tt", "m7tt", true },
	{ "a pointer or none", "7m00", "7000", false },
	{ "at another place", "7m00", "70m0", false },
	{ "one more", "7m00", "7mm0", false },
	{ "a module's data is memory like any", "7d00", "7m00", true },
	{ "a name is not", "7k00", "7m00", false },
	{ "a name, another name", "7k00", "7j00", true },
	{ "of another module", "7k00", "7K00", false },
	{ "code and a name", "7c00", "7k00", false },
	{ "code of another module", "7c00", "7C00", false },
	{ "at another place", "7k00", "70k0", false },
	{ "memory behind the eighth word", "m00000000", "m0000000m", true },
	{ "the eighth", "m00000000", "m000000m0", false },
	{ "a module behind it", "m00000000", "m0000000k", false },
	{ "at another place there", "m0000000k00", "m000000000j", true },
	{ "code there", "m0000000k", "m0000000c", false },
	{ "in another order", "m0000000kcC", "m0000000Ckc", true },
	{ "the same twice", "m0000000kc0", "m0000000kkc", true },
	{ "the last of 64 words",
	  "0000000000000000000000000000000000000000000000000000000000000000",
	  "000000000000000000000000000000000000000000000000000000000000000k", false },
	{ "words behind", "00000000000000000000000000000000000000000000000000000000000000000000",
	  "000000000000000000000000000000000000000000000000000000000000000000kc", true },
};

ParameterizedTestParameters(signature, of_shapes)
{
	return cr_make_param_array(struct shape_case, shape_cases,
	                           sizeof(shape_cases) / sizeof(shape_cases[0]));
}

ParameterizedTest(struct shape_case *c, signature, of_shapes)
{
	for (int view = 0; view < 2; view++) {
		set_up(&here);
		fake.no_view = !view;
		cr_expect_eq(sign(c->one) == sign(c->other), c->same, "%s", c->title);
		ms_fake_deinit(&fake);
	}
}

/* Whatever the loader and the kernel did, and wherever the libraries are on that host. */
Test(signature, is_the_same_in_another_layout)
{
	static const struct layout others[] = {
		{ 0x7f0000000000, 0x555500000000, 0x7e0000000000, "/usr/lib/libother.so" },
		{ 0x7f0000000000, 0x555500000000, 0x444400000000, "/opt/my own/libother.so" },
		{ 0x10000, 0x200000, 0x100000, "/usr/lib/libother.so (deleted)" },
	};
	static const char words[] = "cKm7sdC0000000k";
	uint64_t first;

	set_up(&here);
	first = sign(words);
	ms_fake_deinit(&fake);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		set_up(&others[i]);
		cr_expect_eq(sign(words), first, "%zu", i);
		ms_fake_deinit(&fake);
	}
}

Test(signature, is_another_with_a_library_of_another_name)
{
	static const struct layout other = { 0x10000, 0x100000, 0x200000, "/usr/lib/libmore.so" };
	uint64_t first;

	set_up(&here);
	first = sign("7K00");
	ms_fake_deinit(&fake);
	set_up(&other);
	cr_assert_neq(sign("7K00"), first);
	ms_fake_deinit(&fake);
}

/* ---- types ---- */

/* As an object of class @i of that library, and 3 words more. */
static uint64_t sign_object(ms_addr base, unsigned int i, const char *words, uint64_t size)
{
	struct ms_entry entry = { .address = at->heap + BLOCK,
		                  .size = size,
		                  .stack = MS_STACK_NONE };

	(void)sign(words);
	ms_fake_put(&fake, entry.address, classes_vtable(base, i));
	return ms_signature(ms_signer_new(&list, &regions), &entry);
}

Test(signature, of_a_type_is_its_name_and_module)
{
	uint64_t session;

	set_up(&here);
	classes_add(&fake, at->shop, 0, "7Session");
	classes_add(&fake, at->shop, 1, "4User");
	classes_add(&fake, at->other, 2, "7Session");
	session = sign_object(at->shop, 0, "0m70", 32);
	cr_expect_eq(session, sign_object(at->shop, 0, "0kcm", 32), "its shape does not count");
	cr_expect_eq(session, sign_object(at->shop, 0, "0m70", 48), "nor its size");
	cr_expect_neq(session, sign_object(at->shop, 1, "0m70", 32), "another type");
	cr_expect_neq(session, sign_object(at->other, 2, "0m70", 32), "another module");
	ms_fake_deinit(&fake);
}

/* A table of functions is no name. */
Test(signature, of_a_module_alone_has_the_shape)
{
	uint64_t first;

	set_up(&here);
	ms_fake_put(&fake, word_of('k', 0), word_of('c', 0));
	ms_fake_put(&fake, word_of('k', 0) + 8, word_of('c', 0));
	first = sign("k700");
	cr_expect_neq(first, sign("k7m0"));
	cr_expect_eq(first, sign("j700"));
	ms_fake_deinit(&fake);
}

/* Reports are compared with those of an older memscan. */
Test(signature, stays_as_it_is)
{
	set_up(&here);
	cr_assert_eq(sign("ck7m00000C"), UINT64_C(0x7544e2c5d651ec75), "%lx", sign("ck7m00000C"));
	classes_add(&fake, at->shop, 0, "7Session");
	cr_assert_eq(sign_object(at->shop, 0, "0000", 32), UINT64_C(0xe079acf3cbf279ef), "%lx",
	             sign_object(at->shop, 0, "0000", 32));
	ms_fake_deinit(&fake);
}

/* ---- stacks ---- */

/* Add a stack, a letter for the place of each call. */
static uint32_t add_stack(const char *calls)
{
	struct ms_stack *stack = ms_vec_push(&fake.arena, &origins.stacks);

	cr_assert_not_null(stack);
	*stack = (struct ms_stack){ (uint32_t)origins.pcs.n, (uint32_t)strlen(calls), 0 };
	for (; *calls; calls++)
		*(ms_addr *)ms_vec_push(&fake.arena, &origins.pcs) = word_of(*calls, 0);
	return (uint32_t)origins.stacks.n - 1;
}

Test(signature, of_a_stack_is_its_modules_in_order)
{
	static const struct {
		const char *one, *other;
		bool same;
	} cases[] = {
		{ "cC", "cC", true }, { "cC", "ccCCC", true }, { "cC", "Cc", false },
		{ "cC", "c", false }, { "cC", "cCc", false },  { "c0C", "cC", false },
		{ "cm", "c0", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t one, other;

		set_up(&here);
		one = add_stack(cases[i].one);
		other = add_stack(cases[i].other);
		cr_expect_eq(sign_sized("7m", 16, one) == sign_sized("7m", 16, other),
		             cases[i].same, "%s %s", cases[i].one, cases[i].other);
		cr_expect_neq(sign_sized("7m", 16, one), sign_sized("m7", 16, one));
		cr_expect_neq(sign_sized("7m", 16, one), sign_sized("7m", 24, one));
		cr_expect_neq(sign_sized("7m", 16, one), sign_sized("7m", 16, MS_STACK_NONE));
		ms_fake_deinit(&fake);
	}
}

/* ---- what is odd ---- */

Test(signature, of_bytes_that_cannot_be_read_is_one)
{
	struct ms_entry entry = { .size = 40, .stack = MS_STACK_NONE };
	struct ms_signer *signer;

	set_up(&here);
	signer = ms_signer_new(&list, &regions);
	entry.address = at->heap + 4 * PAGE - 16;
	cr_assert_neq(ms_signature(signer, &entry), 0);
	entry.address = 0x5000;
	cr_assert_neq(ms_signature(signer, &entry), 0);
	entry.size = 0;
	cr_assert_neq(ms_signature(signer, &entry), 0);
	ms_fake_deinit(&fake);
}
