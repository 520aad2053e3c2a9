/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/loaded/rivals.h"
#include "fake.h"
#include "module.h"

/* A library: a page with its header, constants, and data, each mapped by itself. */
enum {
	R = MS_PROT_READ,
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	BASE = 0x400000,
	OTHER = 0x800000,
	PIECE = 1 << 16, /* as in rivals.c */
	CONSTANTS = 2 * PIECE,
};

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_decoding decoding;

static void draw_library(ms_addr at, const char *path)
{
	Elf64_Phdr *heads;

	(void)ms_fake_map(&fake, at, PAGE, R, path);
	(void)ms_fake_map(&fake, at + PAGE, CONSTANTS, R, path);
	(void)ms_fake_map(&fake, at + PAGE + CONSTANTS, PAGE, RW, path);
	heads = elf_write(ms_fake_at(&fake, at), 2);
	heads[0] = elf_load(0, PAGE + CONSTANTS, PF_R);
	heads[1] = elf_load(PAGE + CONSTANTS, PAGE, PF_R | PF_W);
}

static void classify(void)
{
	struct ms_error err;

	memset(&regions, 0, sizeof(regions));
	cr_assert(!ms_classify(&fake.base, &fake.arena, &regions, &err));
	decoding = (struct ms_decoding){ .src = &fake.base,
		                         .regions = &regions,
		                         .arena = &fake.arena };
}

static uint32_t module_at(ms_addr addr)
{
	return ms_region_of(&regions, addr)->module;
}

struct text_case {
	char title[40];
	char texts[3][64];
	size_t at; /* in the constants, of the first; the others stand far behind it */
	char want[48];
	bool in_data; /* not among constants, but in data */
};

static struct text_case text_cases[] = {
	{ "none", { "hello" }, 0, "", false },
	{ "jemalloc", { "<jemalloc>: x", "5.1.0-0-g" COMMIT }, 0, "jemalloc 5.1.0", false },
	{ "its version first",
	  { "5.1.0-97-g" COMMIT, "<jemalloc>: " },
	  0,
	  "jemalloc 5.1.0",
	  false },
	{ "a commit that is none", { "<jemalloc>: ", "5.1.0-0-g0123" }, 0, "jemalloc", false },
	{ "one too long", { "<jemalloc>: ", "5.1.0-0-g" COMMIT "0" }, 0, "jemalloc", false },
	{ "one without a version", { "<jemalloc>: ", "-0-g" COMMIT }, 0, "jemalloc", false },
	{ "gperftools", { "gperftools 2.19" }, 77, "gperftools 2.19", false },
	{ "without a version", { "gperftools are" }, 0, "gperftools", false },
	{ "a version without end",
	  { "gperftools 1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1" },
	  0,
	  "gperftools 1.1.1.1.1.1.1.1.1.1.1.1",
	  false },
	{ "Google's", { "tcmalloc.per_cpu_caches_active" }, 0, "Google's tcmalloc", false },
	{ "mimalloc", { "mimalloc: error: " }, 0, "mimalloc", false },
	{ "scudo", { "Scudo ERROR: " }, 0, "scudo", false },
	{ "hardened_malloc", { "fatal allocator error: " }, 0, "hardened_malloc", false },
	{ "Chromium", { "partition_alloc/partitions/layout" }, 0, "PartitionAlloc", false },
	{ "across two pieces", { "gperftools 2.19" }, PIECE - 5, "gperftools 2.19", false },
	{ "up to the end", { "gperftools 2.19" }, CONSTANTS - 15, "gperftools 2.19", false },
	{ "a text that the program wrote", { "Scudo ERROR: " }, 0, "", true },
	{ "two", { "Scudo ERROR: ", "<jemalloc>: " }, 0, "jemalloc", false },
};

ParameterizedTestParameters(rivals, are_known_by_their_texts)
{
	return cr_make_param_array(struct text_case, text_cases,
	                           sizeof(text_cases) / sizeof(text_cases[0]));
}

ParameterizedTest(struct text_case *c, rivals, are_known_by_their_texts)
{
	ms_addr at = BASE + PAGE + (c->in_data ? (size_t)CONSTANTS : c->at);
	char name[MS_RIVAL_TEXT];

	ms_fake_init(&fake);
	draw_library(BASE, "/lib/liba.so");
	draw_library(OTHER, "/lib/libb.so");
	for (size_t i = 0; i < 3 && c->texts[i][0]; i++, at += PIECE)
		memcpy(ms_fake_at(&fake, at), c->texts[i], strlen(c->texts[i]));
	classify();
	ms_rival_in(&decoding, module_at(BASE), name);
	cr_expect_str_eq(name, c->want, "%s: %s", c->title, name);
	ms_rival_in(&decoding, module_at(OTHER), name);
	cr_expect_str_empty(name, "another library has none");
	ms_fake_deinit(&fake);
}

static void find(bool own)
{
	uint32_t module;

	classify();
	module = module_at(BASE);
	ms_rival_find(&decoding, &module, own);
}

Test(rivals, are_known_by_the_names_of_their_files)
{
	ms_fake_init(&fake);
	draw_library(BASE, "/usr/lib/libjemalloc.so.2");
	draw_library(OTHER, "/opt/libscudo.so");
	strcpy(ms_fake_at(&fake, BASE + PAGE), "<jemalloc>: ");
	find(false);
	cr_expect_str_eq(decoding.rival.name, "libjemalloc.so.2");
	cr_expect_str_eq(decoding.rival.what, "jemalloc");
	cr_expect_not(decoding.rival.serves);
	find(true);
	cr_expect_str_eq(decoding.rival.name, "libscudo.so", "the first one is decoded");
	cr_expect_str_empty(decoding.rival.what);
	ms_fake_deinit(&fake);
}

Test(rivals, are_known_by_the_names_of_their_memory)
{
	static const char *const names[][2] = { { "[anon:scudo:primary]", "scudo" },
		                                { "[anon:partition_alloc]", "PartitionAlloc" },
		                                { "[anon:stack]", "" },
		                                { "/tmp/[anon:scudo:x]", "" } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ms_fake_init(&fake);
		draw_library(BASE, "/lib/libc.so.6");
		(void)ms_fake_map(&fake, OTHER, PAGE, RW, names[i][0]);
		find(true);
		cr_expect_str_eq(decoding.rival.name, names[i][1]);
		ms_fake_deinit(&fake);
	}
}
