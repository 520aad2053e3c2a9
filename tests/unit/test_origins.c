/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/origins/build_id.h"
#include "engine/origins/origins.h"
#include "fake.h"
#include "module.h"

enum {
	PAGE = 4096,
	RX = MS_PROT_READ | MS_PROT_EXEC,
	RW = MS_PROT_READ | MS_PROT_WRITE,
	ELF = 0x400000,
	NOTES = 0x800, /* from the header on */
	N = 100,
	STEP = 48,
};

/* ---- looking blocks up ---- */

static struct ms_arena arena;
static struct ms_origins origins;

/* Every third block has no origin; stack i has i % 5 frames. */
static void fill(void)
{
	for (uint32_t i = 0; i < N; i++) {
		struct ms_stack *stack = ms_vec_push(&arena, &origins.stacks);
		struct ms_origin *origin;

		*stack = (struct ms_stack){ 0, i % 5, 0 };
		if (i % 3 == 2)
			continue;
		origin = ms_vec_push(&arena, &origins.blocks);
		*origin = (struct ms_origin){ .begin = ELF + (ms_addr)i * STEP, .stack = i };
	}
}

static uint32_t wanted(uint32_t i)
{
	return i < N && i % 3 != 2 && i % 5 ? i : MS_STACK_NONE;
}

Test(origins, are_found_in_any_order)
{
	static const uint32_t strides[] = { 1, 2, 7, 99, 57, 31 };
	struct ms_origin_finder finder = { .origins = &origins };

	fill();
	for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++)
		for (uint32_t k = 0, i = 0; k < 3 * N; k++, i = (i + strides[s]) % (N + 3)) {
			ms_addr begin = ELF + (ms_addr)i * STEP;

			cr_assert_eq(ms_origin_find(&finder, begin), wanted(i), "%u", i);
			cr_assert_eq(ms_origin_find(&finder, begin + 8), MS_STACK_NONE, "%u", i);
		}
	cr_assert_eq(ms_origin_find(&finder, 0), MS_STACK_NONE);
	cr_assert_eq(ms_origin_find(&finder, UINT64_MAX), MS_STACK_NONE);
	ms_arena_deinit(&arena);
}

Test(origins, nobody_kept_are_not_found)
{
	struct ms_origin_finder none = { 0 };
	struct ms_origin_finder empty = { .origins = &origins };

	cr_assert_eq(ms_origin_find(&none, ELF), MS_STACK_NONE);
	cr_assert_eq(ms_origin_find(&empty, ELF), MS_STACK_NONE);
}

Test(origins, of_a_stack_that_is_none_are_not_found)
{
	struct ms_origin_finder finder = { .origins = &origins };

	fill();
	origins.blocks.at[1].stack = UINT32_MAX - 1;
	cr_assert_eq(ms_origin_find(&finder, ELF + STEP), MS_STACK_NONE);
	ms_arena_deinit(&arena);
}

/* ---- the code of stacks that are told ---- */

static struct ms_fake fake;
static struct ms_report report;

/* Map what a process has; the names of its files are one letter. */
static void map_process(void)
{
	ms_fake_init(&fake);
	memset(&report, 0, sizeof(report));
	memset(&origins, 0, sizeof(origins));
	ms_fake_map(&fake, 0x100000, PAGE, MS_PROT_READ, "/a");
	ms_fake_map(&fake, 0x101000, PAGE, RX, "/a");
	ms_fake_map(&fake, 0x102000, PAGE, RW, ""); /* its bss */
	ms_fake_map(&fake, 0x103000, PAGE, RW, "/a");
	ms_fake_map(&fake, 0x200000, PAGE, RX, ""); /* compiled on the way */
	ms_fake_map(&fake, 0x300000, PAGE, RX, "/b (deleted)");
	ms_fake_map(&fake, 0x301000, PAGE, RW, "/b (deleted)");
	ms_fake_map(&fake, 0x302000, PAGE, RX, "/c");
	/* Other runs of files that are loaded twice. */
	ms_fake_map(&fake, 0x303000, PAGE, RX, "/c");
	fake.base.mappings.at[8].offset = 0;
	fake.base.mappings.at[7].offset = PAGE;
	ms_fake_map(&fake, 0x400000, PAGE, RX, "/a");
	fake.base.mappings.at[9].offset = 0;
	ms_fake_map(&fake, 0x500000, PAGE, RX, "[vdso]");
}

/* Tell a stack of the @n addresses. */
static uint32_t tell(const ms_addr *pcs, uint32_t n)
{
	struct ms_origin_teller teller = { &origins, &fake.base, &fake.arena, &report, NULL };
	struct ms_stack *stack = ms_vec_push(&fake.arena, &origins.stacks);
	uint32_t number;

	*stack = (struct ms_stack){ (uint32_t)origins.pcs.n, n, 0 };
	for (uint32_t i = 0; i < n; i++)
		*(ms_addr *)ms_vec_push(&fake.arena, &origins.pcs) = pcs[i];
	number = ms_origin_tell(&teller, (uint32_t)origins.stacks.n - 1);
	cr_assert(ms_origin_tell_code(&teller));
	return number;
}

/* The code that was listed: "/a 100000+0, ..." */
static const char *listed(void)
{
	static char text[512];
	const struct ms_code *code;
	size_t used = 0;

	text[0] = '\0';
	ms_vec_for_each (code, &report.code)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %x+%x",
		                         used ? ", " : "", code->name, (int)code->range.begin,
		                         (int)code->offset);
	return text;
}

struct code_case {
	char title[64];
	unsigned int pcs[4]; /* up to a 0 */
	char listed[200];
};

static struct code_case code_cases[] = {
	{ "all of a file", { 0x101010 }, "/a 100000+0, /a 101000+1000, /a 103000+1000" },
	{ "by its last mapping", { 0x103000 }, "/a 100000+0, /a 101000+1000, /a 103000+1000" },
	{ "two addresses in one",
	  { 0x101010, 0x101020 },
	  "/a 100000+0, /a 101000+1000, /a 103000+1000" },
	{ "no file", { 0x200fff }, " 200000+0" },
	{ "a deleted one", { 0x300000 }, "/b (deleted) 300000+0, /b (deleted) 301000+1000" },
	{ "the kernel's", { 0x500001 }, "[vdso] 500000+0" },
	{ "another run of a file", { 0x400010 }, "/a 400000+0" },
	{ "several, by address",
	  { 0x500001, 0x302010, 0x200010 },
	  " 200000+0, /c 302000+1000, [vdso] 500000+0" },
	{ "the run behind it", { 0x303010 }, "/c 303000+0" },
	{ "nothing is there", { 0x600000, 0x1000 }, "" },
	{ "in a hole of a file", { 0x102010 }, " 102000+0" },
};

ParameterizedTestParameters(origins, list_the_code_of_their_addresses)
{
	return cr_make_param_array(struct code_case, code_cases,
	                           sizeof(code_cases) / sizeof(code_cases[0]));
}

ParameterizedTest(struct code_case *c, origins, list_the_code_of_their_addresses)
{
	ms_addr pcs[4];
	uint32_t n = 0;

	map_process();
	for (; n < 4 && c->pcs[n]; n++)
		pcs[n] = c->pcs[n];
	cr_assert_eq(tell(pcs, n), 1);
	cr_expect_str_eq(listed(), c->listed, "%s: %s", c->title, listed());
	ms_fake_deinit(&fake);
}

Test(origins, of_endless_stacks_are_cut)
{
	static ms_addr pcs[MS_STACK_FRAMES + 1];

	map_process();
	cr_assert_eq(tell(pcs, MS_STACK_FRAMES + 1), 1);
	cr_assert_eq(report.stacks.at[0].n, MS_STACK_FRAMES);
	cr_assert_eq(report.pcs.n, MS_STACK_FRAMES);
	ms_fake_deinit(&fake);
}

/* ---- build-ids ---- */

static Elf64_Phdr *segments;
static unsigned char *notes;

static void put_note(size_t at, uint32_t type, const char *name, size_t len)
{
	Elf64_Nhdr note = { (uint32_t)strlen(name) + 1, (uint32_t)len, type };

	memcpy(notes + at, &note, sizeof(note));
	strcpy((char *)notes + at + sizeof(note), name);
	for (size_t i = 0; i < len; i++)
		notes[at + sizeof(note) + 4 * ((strlen(name) + 4) / 4) + i] =
			(unsigned char)(0xa0 + i);
}

/* A library that was linked to begin at 0x10000, with a build-id of 20 bytes. */
static void map_library(void)
{
	unsigned char *page;

	ms_fake_init(&fake);
	page = ms_fake_map(&fake, ELF, PAGE, MS_PROT_READ, "/lib/l.so");
	segments = elf_write(page, 2);
	notes = page + NOTES;
	segments[0] = elf_load(0x10000, PAGE, PF_R);
	segments[1] = (Elf64_Phdr){ .p_type = PT_NOTE,
		                    .p_offset = NOTES,
		                    .p_vaddr = 0x10000 + NOTES,
		                    .p_memsz = 0x100,
		                    .p_align = 4 };
	put_note(0, NT_GNU_ABI_TAG, "GNU", 16);
	put_note(32, NT_GNU_BUILD_ID, "GNU", 20);
}

static unsigned int read_id(void)
{
	struct ms_loaded image;

	ms_loaded_read(&fake.base, ELF, &image);
	for (uint8_t i = 0; i < image.build_id_len; i++)
		cr_assert_eq(image.build_id[i], 0xa0 + i);
	return image.build_id_len;
}

Test(build_id, is_found_behind_other_notes)
{
	map_library();
	cr_assert_eq(read_id(), 20);
	ms_fake_deinit(&fake);
}

Test(build_id, is_that_of_every_mapping_of_the_file)
{
	const ms_addr pc = ELF + PAGE + 16;

	memset(&report, 0, sizeof(report));
	map_library();
	ms_fake_map(&fake, ELF + PAGE, PAGE, RX, "/lib/l.so");
	(void)tell(&pc, 1);
	cr_assert_eq(report.code.n, 2);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(report.code.at[i].build_id_len, 20);
		cr_assert_eq(report.code.at[i].build_id[19], 0xa0 + 19);
		cr_assert(report.code.at[i].has_bias);
		cr_assert_eq(report.code.at[i].bias, ELF - 0x10000);
		cr_assert_eq(report.code.at[i].prot, fake.base.mappings.at[i].prot);
		cr_assert_eq(report.code.at[i].inode, fake.base.mappings.at[i].inode);
	}
	ms_fake_deinit(&fake);
}

Test(build_id, is_read_once_for_all_mappings_of_a_file)
{
	enum { MANY = 10 };
	const ms_addr pc = ELF + PAGE + 16;

	memset(&report, 0, sizeof(report));
	map_library();
	for (size_t i = 0; i < MANY; i++)
		ms_fake_map(&fake, ELF + PAGE + i * PAGE, PAGE, RX, "/lib/l.so");
	(void)tell(&pc, 1);
	cr_assert_eq(report.code.n, MANY + 1);
	cr_assert_leq(fake.reads, 3);
	ms_fake_deinit(&fake);
}

Test(build_id, is_aligned_to_eight_where_the_segment_is)
{
	map_library();
	segments[1].p_align = 8;
	memset(notes, 0, 0x100);
	put_note(0, NT_GNU_PROPERTY_TYPE_0, "GNU", 12); /* padded to 16 */
	put_note(32, NT_GNU_BUILD_ID, "GNU", 16);
	cr_assert_eq(read_id(), 16);
	ms_fake_deinit(&fake);
}

Test(build_id, is_not_looked_for_in_what_no_loader_has_loaded)
{
	map_library();
	segments[0].p_type = PT_NULL;
	cr_assert_eq(read_id(), 0);
	ms_fake_deinit(&fake);
}

/* What a lying file may say: a number of @size bytes at @at, of the header's page. */
static struct {
	const char *title;
	size_t at;
	size_t size;
	uint64_t value;
} lies[] = {
	{ "no ELF", 0, 1, 'x' },
	{ "of 32 bits", EI_CLASS, 1, ELFCLASS32 },
	{ "segments of another size", offsetof(Elf64_Ehdr, e_phentsize), 2, 8 },
	{ "too many segments", offsetof(Elf64_Ehdr, e_phnum), 2, 129 },
	{ "no segments", offsetof(Elf64_Ehdr, e_phnum), 2, 0 },
	{ "segments nowhere", offsetof(Elf64_Ehdr, e_phoff), 8, UINT64_MAX - 8 },
	{ "notes nowhere", 64 + 56 + offsetof(Elf64_Phdr, p_vaddr), 8, UINT64_MAX - 8 },
	{ "no room for notes", 64 + 56 + offsetof(Elf64_Phdr, p_memsz), 8, 11 },
	{ "the note ends behind its segment", 64 + 56 + offsetof(Elf64_Phdr, p_memsz), 8, 67 },
	{ "an endless name", NOTES, 4, UINT32_MAX },
	{ "an endless note", NOTES + 4, 4, UINT32_MAX },
	{ "an id of no bytes", NOTES + 32 + 4, 4, 0 },
	{ "a long id", NOTES + 32 + 4, 4, MS_BUILD_ID_BYTES + 1 },
	{ "another's note", NOTES + 32 + 12, 1, 'X' },
	{ "a name of another length", NOTES + 32, 4, 3 },
	{ "another type", NOTES + 32 + 8, 4, NT_GNU_HWCAP },
};

Test(build_id, is_not_taken_from_a_file_that_lies)
{
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		map_library();
		memcpy(ms_fake_at(&fake, ELF + lies[i].at), &lies[i].value, lies[i].size);
		cr_expect_eq(read_id(), 0, "%s", lies[i].title);
		ms_fake_deinit(&fake);
	}
}

Test(build_id, ends_among_endless_notes)
{
	enum { MANY = 256, READS = 4 };

	map_library();
	ms_fake_map(&fake, ELF + PAGE, (size_t)MANY * PAGE, MS_PROT_READ, "");
	memset(notes, 0, PAGE - NOTES);
	segments[1].p_memsz = UINT64_MAX;
	cr_assert_eq(read_id(), 0);
	cr_assert_lt(fake.reads, READS);
	ms_fake_deinit(&fake);
}
