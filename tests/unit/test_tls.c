/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "engine/loaded/tls.h"
#include "fake.h"
#include "module.h"

/* Where a program or library at BASE has its thread-local storage, told from its memory. */

enum { BASE = 0x400000, DYNAMIC = 0x200, RELA = 0x400, WORDS = 0x2000, MAX_RELA = 200 };

enum { TPOFF = R_X86_64_TPOFF64, RELATIVE = R_X86_64_RELATIVE };

static struct ms_fake fake;
static struct ms_peek peek;

static struct object {
	uint64_t bytes;
	uint64_t align;
	uint64_t image;
	bool dynamic;
	bool shared;
	bool interpreted; /* by ld.so, as programs name it */
	bool needs;
	ms_addr bias; /* in the dynamic section's addresses */
	size_t n_rela;
	uint64_t rela_bytes; /* 0: as n_rela says */
	bool above;
	struct relocation {
		uint64_t type;
		uint64_t symbol;
		int64_t addend;
		int64_t word;
	} rela[MAX_RELA];
} object;

static void draw_dynamic(char *page)
{
	Elf64_Dyn dynamic[] = {
		{ .d_tag = DT_STRTAB, .d_un.d_ptr = object.bias + 0x100 },
		{ .d_tag = DT_RELA, .d_un.d_ptr = object.bias + RELA },
		{ .d_tag = DT_RELASZ,
		  .d_un.d_val = object.rela_bytes ? object.rela_bytes
		                                  : object.n_rela * sizeof(Elf64_Rela) },
		{ .d_tag = object.shared ? DT_SONAME : DT_DEBUG },
		{ .d_tag = object.needs ? DT_NEEDED : DT_DEBUG },
		{ .d_tag = DT_NULL },
	};

	memcpy(page + DYNAMIC, dynamic, sizeof(dynamic));
}

static void draw(void)
{
	Elf64_Phdr *phdr;
	char *page;

	ms_fake_init(&fake);
	fake.base.abi.tls_above = object.above;
	page = ms_fake_map(&fake, BASE, 0x4000, MS_PROT_READ, "/lib/libc.so.6");
	phdr = elf_write(page, 4);
	phdr[0] = elf_load(0, 0x4000, PF_R);
	phdr[1] = (Elf64_Phdr){ .p_type = PT_TLS,
		                .p_vaddr = object.image,
		                .p_memsz = object.bytes,
		                .p_align = object.align };
	phdr[2] =
		(Elf64_Phdr){ .p_type = object.dynamic ? PT_DYNAMIC : PT_NOTE, .p_vaddr = DYNAMIC };
	phdr[3] = (Elf64_Phdr){ .p_type = object.interpreted ? PT_INTERP : PT_NOTE };
	draw_dynamic(page);
	for (size_t i = 0; i < object.n_rela; i++) {
		Elf64_Rela rela = { WORDS + i * 8,
			            ELF64_R_INFO(object.rela[i].symbol, object.rela[i].type),
			            object.rela[i].addend };

		memcpy(page + RELA + i * sizeof(rela), &rela, sizeof(rela));
		memcpy(page + WORDS + i * 8, &object.rela[i].word, 8);
	}
}

/* Expect the storage to be [tp - @far, tp - @near); @far 0: it is not known. */
static void expect(const char *what, int64_t far, int64_t near)
{
	struct ms_tls tls = { 0, 0 };

	draw();
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	cr_expect_eq(ms_tls_find(&peek, BASE, &tls), far != 0, "%s", what);
	cr_expect_eq(tls.far, far, "%s: far is 0x%lx", what, tls.far);
	cr_expect_eq(tls.near, near, "%s: near is 0x%lx", what, tls.near);
	ms_fake_deinit(&fake);
}

Test(tls, of_a_static_program_is_the_nearest)
{
	object = (struct object){ .bytes = 0x70, .align = 8 };
	expect("full words", 0x70, 0);
	object.bytes = 0x71;
	expect("odd", 0x78, 0);
	object.align = 0x40;
	expect("aligned", 0x80, 0);
	object.image = 0x408;
	expect("placed as in the file", 0xc0, 0);
	object = (struct object){ .bytes = 3, .align = 0 };
	expect("no alignment", 3, 0);
	object = (struct object){ .bytes = 200 << 10, .align = 32, .dynamic = true };
	object.n_rela = 1;
	object.rela[0].type = RELATIVE;
	expect("one that can be placed anywhere", 200 << 10, 0);
}

/* Its instructions know the distance, so nothing is relocated. */
Test(tls, of_a_program_that_needs_libraries_is_the_nearest)
{
	object = (struct object){ .bytes = 0x1328, .align = 8, .dynamic = true };
	object.needs = true;
	expect("a library without a name", 0, 0);
	object.interpreted = true;
	expect("a program", 0x1328, 0);
	object.shared = true;
	expect("a library that can be run", 0, 0);
}

Test(tls, of_a_library_is_told_by_its_relocations)
{
	object = (struct object){ .bytes = 0x90, .align = 8, .dynamic = true, .shared = true };
	object.n_rela = 3;
	object.rela[0].type = RELATIVE;
	object.rela[1].type = TPOFF;
	object.rela[1].addend = 0x48;
	object.rela[1].word = -0x48;
	object.rela[2].type = TPOFF;
	object.rela[2].word = -0x90;
	expect("the only one", 0x90, 0);
	object.rela[1].word = 0x48 - 0x100000;
	object.rela[2].word = -0x100000;
	expect("behind much", 0x100000, 0x100000 - 0x90);
	object.bias = BASE;
	expect("placed by the loader", 0x100000, 0x100000 - 0x90);
}

/* On aarch64 storage lies above the thread pointer: distances are negative. */
Test(tls, above_the_thread_pointer_begins_behind_two_words_or_where_relocations_say)
{
	object = (struct object){ .bytes = 0x70, .align = 8, .above = true };
	expect("of a program", -16, -16 - 0x78);
	object.align = 0x40;
	expect("of a program, aligned", -0x40, -0x40 - 0xc0);
	object = (struct object){ .bytes = 0x90, .align = 8, .dynamic = true, .shared = true };
	object.above = true;
	object.n_rela = 3;
	object.rela[0] = (struct relocation){ R_AARCH64_RELATIVE, 0, 0, 7 };
	object.rela[1] = (struct relocation){ R_AARCH64_TLS_TPREL, 0, 0x48, 0x148 };
	object.rela[2] = (struct relocation){ R_AARCH64_TLS_TPREL, 0, 0, 0x100 };
	expect("of a library", -0x100, -0x190);
	object.rela[2].word = 0x108;
	expect("of a library that contradicts itself", 0, 0);
	object.rela[2] = (struct relocation){ R_AARCH64_TLSDESC, 0, 0, BASE };
	expect("beside a descriptor that is not filled in", -0x100, -0x190);
	object.n_rela = 4;
	object.rela[3] = (struct relocation){ R_AARCH64_RELATIVE, 0, 0, 0x100 };
	expect("beside a descriptor that agrees", -0x100, -0x190);
	object.rela[3].word = 0x108;
	expect("beside a descriptor that does not", 0, 0);
	object.n_rela = 3;
	object.rela[1].word = 0x48 - 0x100;
	expect("below", 0, 0);
}

Test(tls, of_a_library_is_told_by_the_last_of_many_relocations)
{
	object = (struct object){ .bytes = 0x90, .align = 8, .dynamic = true, .shared = true };
	object.n_rela = MAX_RELA - 1;
	object.rela[MAX_RELA - 2].type = TPOFF;
	object.rela[MAX_RELA - 2].addend = 8;
	object.rela[MAX_RELA - 2].word = -0x1000;
	expect("behind others", 0x1008, 0x1008 - 0x90);
}

Test(tls, of_a_library_is_not_guessed)
{
	object = (struct object){ .bytes = 0x90, .align = 8, .dynamic = true, .shared = true };
	expect("no relocations", 0, 0);
	object.n_rela = 1;
	object.rela[0].type = TPOFF;
	object.rela[0].word = -0x200;
	expect("good", 0x200, 0x170);
	object.rela[0].symbol = 5;
	expect("only one of another's variable", 0, 0);
	object.rela[0].symbol = 0;
	object.rela[0].word = -0x88;
	expect("nearer than it is large", 0, 0);
	object.rela[0].word = 0;
	expect("not relocated yet", 0, 0);
	object.rela[0].word = INT64_MIN;
	expect("too far", 0, 0);
	object.rela[0].word = -0x200;
	object.n_rela = 2;
	object.rela[1].type = TPOFF;
	object.rela[1].word = -0x208;
	expect("two that contradict each other", 0, 0);
	object.n_rela = 1;
	object.rela_bytes = UINT64_MAX;
	expect("too many", 0, 0);
}

/* ---- of 32 bits ---- */

enum { TPOFF_32 = R_386_TLS_TPOFF, MAX_REL = 4 };

static struct {
	uint32_t bytes, align, image;
	size_t n;
	struct {
		uint32_t type, symbol;
		int32_t word;
	} rel[MAX_REL];
} narrow;

static void draw_narrow(void)
{
	const Elf32_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32 },
		                  .e_phoff = sizeof(head),
		                  .e_phentsize = sizeof(Elf32_Phdr),
		                  .e_phnum = 3 };
	const Elf32_Phdr phdr[] = {
		{ .p_type = PT_LOAD, .p_memsz = 0x4000, .p_flags = PF_R },
		{ .p_type = PT_TLS,
		  .p_vaddr = narrow.image,
		  .p_memsz = narrow.bytes,
		  .p_align = narrow.align },
		{ .p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC },
	};
	const Elf32_Dyn dynamic[] = {
		{ DT_STRTAB, { BASE + 0x100 } },
		{ DT_REL, { BASE + RELA } },
		{ DT_RELSZ, { (uint32_t)(narrow.n * sizeof(Elf32_Rel)) } },
		{ DT_SONAME, { 0 } },
		{ DT_NULL, { 0 } },
	};
	char *page;

	ms_fake_init(&fake);
	fake.base.abi.word_bytes = 4;
	page = ms_fake_map(&fake, BASE, 0x4000, MS_PROT_READ, "/lib/libc.so.6");
	memcpy(page, &head, sizeof(head));
	memcpy(page + sizeof(head), phdr, sizeof(phdr));
	memcpy(page + DYNAMIC, dynamic, sizeof(dynamic));
	for (size_t i = 0; i < narrow.n; i++) {
		Elf32_Rel rel = { (uint32_t)(WORDS + i * 4),
			          ELF32_R_INFO(narrow.rel[i].symbol, narrow.rel[i].type) };

		memcpy(page + RELA + i * sizeof(rel), &rel, sizeof(rel));
		memcpy(page + WORDS + i * 4, &narrow.rel[i].word, 4);
	}
}

static void expect_narrow(const char *what, int64_t far, int64_t near)
{
	struct ms_tls tls = { 0, 0 };

	draw_narrow();
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	cr_expect_eq(ms_tls_find(&peek, BASE, &tls), far != 0, "%s", what);
	cr_expect_eq(tls.far, far, "%s: far is 0x%lx", what, tls.far);
	cr_expect_eq(tls.near, near, "%s: near is 0x%lx", what, tls.near);
	ms_fake_deinit(&fake);
}

/* The storage, 0x54 bytes, begins at 0x1000: words are between that and its end. */
Test(tls, of_a_library_of_32_bits_is_bounded_by_its_relocations)
{
	memset(&narrow, 0, sizeof(narrow));
	narrow.bytes = 0x54;
	narrow.align = 4;
	expect_narrow("no relocations", 0, 0);
	narrow.n = 3;
	narrow.rel[0].type = R_386_RELATIVE;
	narrow.rel[1].type = TPOFF_32;
	narrow.rel[1].word = -0x1000;
	narrow.rel[2].type = TPOFF_32;
	narrow.rel[2].word = 0x50 - 0x1000;
	expect_narrow("its first word and its last", 0x1000, 0x1000 - 0x54);
	narrow.rel[1].word = 0x8 - 0x1000;
	expect_narrow("its third word and its last", 0x1000, 0x1000 - 0x8 - 0x54);
	narrow.rel[2].word = 0x20 - 0x1000;
	expect_narrow("two in the middle", 0x1030, 0x1000 - 0x8 - 0x54);
	narrow.align = 32;
	narrow.image = 8;
	expect_narrow("as it is aligned in the file", 0x1018, 0x1000 - 0x8 - 0x54);
	narrow.align = 4;
	narrow.rel[2].word = -0x54 - 0x1000;
	expect_narrow("further apart than it is large", 0, 0);
	narrow.rel[2].word = 0;
	expect_narrow("not relocated yet", 0, 0);
	narrow.rel[1].symbol = narrow.rel[2].symbol = 3;
	expect_narrow("another's variables", 0, 0);
}

Test(tls, of_what_has_none_is_not_known)
{
	object = (struct object){ .bytes = 0, .align = 8 };
	expect("no bytes", 0, 0);
	object = (struct object){ .bytes = 0x70, .align = 24 };
	expect("no power of two", 0, 0);
	object = (struct object){ .bytes = UINT64_MAX - 5, .align = 8 };
	expect("too large", 0, 0);
	object = (struct object){ .bytes = 0x70, .align = UINT64_C(1) << 63 };
	expect("aligned too far", 0, 0);
	object = (struct object){ .bytes = 0x70, .align = 8 };
	expect("good", 0x70, 0);
	draw();
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	cr_expect_not(ms_tls_find(&peek, BASE + 0x1000, &(struct ms_tls){ 0, 0 }), "no header");
	cr_expect_not(ms_tls_find(&peek, 0, &(struct ms_tls){ 0, 0 }), "no memory");
	ms_fake_deinit(&fake);
}
