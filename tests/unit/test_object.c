/* SPDX-License-Identifier: Apache-2.0 */
/* base/elf over one drawn object, whole and forged. */
#include "base/elf/object.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>

#include "module.h"

enum {
	PAGE = 4096,
	BASE = 0x700000,
	LINKED = 0x10000, /* where it was linked to begin */
	BYTES = 0x20000,
	DYNAMIC = 0x400,
	SYMBOLS = 0x600,
	STRINGS = 0x700,
	TABLE = 0x800, /* of hashes */
	CODE = 0x1000,
	N_HEADERS = 5,
};

static const ms_addr BIAS = BASE - LINKED;

static struct {
	_Alignas(8) unsigned char bytes[BYTES];
	unsigned int n_reads;
} memory;

static Elf64_Ehdr *head;
static Elf64_Phdr *segments;
static Elf64_Dyn *entries;
static Elf64_Sym *symbols;
static uint32_t *table;

static size_t read_memory(void *ctx, ms_addr addr, void *buf, size_t len)
{
	uint64_t at = addr - BASE;

	(void)ctx;
	memory.n_reads++;
	if (at >= BYTES)
		return 0;
	len = len < BYTES - at ? len : BYTES - at;
	memcpy(buf, memory.bytes + at, len);
	return len;
}

static const struct ms_reader from = { .read = read_memory };

/* Its functions are "f", "g" and "h"; it wants "w". All have one bucket. */
static void draw_symbols(void)
{
	static const char names[] = "\0w\0f\0g\0h";

	symbols = (void *)(memory.bytes + SYMBOLS);
	memcpy(memory.bytes + STRINGS, names, sizeof(names));
	for (uint32_t i = 1; i < 5; i++)
		symbols[i] = (Elf64_Sym){ .st_name = 2 * i - 1,
			                  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			                  .st_shndx = i > 1,
			                  .st_value = i > 1 ? LINKED + CODE + i * 16 : 0 };
}

/* GNU's table: one bucket from symbol 2 on, one word of bloom filter. */
static void draw_gnu_hash(void)
{
	const uint32_t words[] = { 1,
		                   2,
		                   1,
		                   0,
		                   0,
		                   0,
		                   2,
		                   ('f' + 177573u) & ~1u,
		                   ('g' + 177573u) & ~1u,
		                   ('h' + 177573u) | 1 };

	memcpy(table, words, sizeof(words));
	entries[2] = (Elf64_Dyn){ DT_GNU_HASH, { LINKED + TABLE } };
}

/* The older: one bucket, from symbol 1 on. */
static void draw_hash(void)
{
	const uint32_t words[] = { 1, 5, 1, 0, 2, 3, 4, 0 };

	memset(table, 0, 64);
	memcpy(table, words, sizeof(words));
	entries[2] = (Elf64_Dyn){ DT_HASH, { BASE + TABLE } }; /* placed already */
}

static void draw(void)
{
	memset(&memory, 0, sizeof(memory));
	head = (void *)memory.bytes;
	segments = elf_write(memory.bytes, N_HEADERS);
	segments[0] = elf_load(LINKED, 0x2000, PF_R);
	segments[1] = elf_load(LINKED + 0x3000, 0x1234, PF_R | PF_W);
	segments[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = LINKED + DYNAMIC };
	segments[3] = (Elf64_Phdr){
		.p_type = PT_TLS, .p_vaddr = LINKED + 0x3000, .p_memsz = 0x28, .p_align = 16
	};
	segments[4] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_vaddr = LINKED + 0x300, .p_memsz = 36, .p_align = 4
	};
	entries = (void *)(memory.bytes + DYNAMIC);
	entries[0] = (Elf64_Dyn){ DT_SYMTAB, { LINKED + SYMBOLS } };
	entries[1] = (Elf64_Dyn){ DT_STRTAB, { LINKED + STRINGS } };
	table = (void *)(memory.bytes + TABLE);
	draw_symbols();
	draw_gnu_hash();
}

/* Make of what is drawn an object of 32 bits with the same contents. */
static void narrow(void)
{
	Elf64_Phdr wide_segments[N_HEADERS];
	Elf64_Dyn wide_entries[3];
	Elf64_Sym wide_symbols[5];
	Elf32_Ehdr header = { .e_phoff = sizeof(header),
		              .e_phentsize = sizeof(Elf32_Phdr),
		              .e_phnum = N_HEADERS };

	memcpy(wide_segments, segments, sizeof(wide_segments));
	memcpy(wide_entries, entries, sizeof(wide_entries));
	memcpy(wide_symbols, symbols, sizeof(wide_symbols));
	memcpy(header.e_ident, head->e_ident, sizeof(header.e_ident));
	header.e_ident[EI_CLASS] = ELFCLASS32;
	memset(memory.bytes, 0, DYNAMIC + sizeof(wide_entries));
	memcpy(memory.bytes, &header, sizeof(header));
	for (size_t i = 0; i < N_HEADERS; i++) {
		const Elf64_Phdr *w = &wide_segments[i];
		Elf32_Phdr n = { w->p_type,
			         (uint32_t)w->p_offset,
			         (uint32_t)w->p_vaddr,
			         (uint32_t)w->p_paddr,
			         (uint32_t)w->p_filesz,
			         (uint32_t)w->p_memsz,
			         w->p_flags,
			         (uint32_t)w->p_align };

		memcpy(memory.bytes + sizeof(header) + i * sizeof(n), &n, sizeof(n));
	}
	for (size_t i = 0; i < 3; i++) {
		Elf32_Dyn n = { (int32_t)wide_entries[i].d_tag,
			        { (uint32_t)wide_entries[i].d_un.d_val } };

		memcpy(memory.bytes + DYNAMIC + i * sizeof(n), &n, sizeof(n));
	}
	for (size_t i = 0; i < 5; i++) {
		const Elf64_Sym *w = &wide_symbols[i];
		Elf32_Sym n = { w->st_name, (uint32_t)w->st_value, (uint32_t)w->st_size,
			        w->st_info, w->st_other,           w->st_shndx };

		memcpy(memory.bytes + SYMBOLS + i * sizeof(n), &n, sizeof(n));
	}
}

static bool opens(void)
{
	struct ms_object object;

	return ms_object_read(from, BASE, PAGE, &object);
}

static ms_addr address_of(const char *name)
{
	struct ms_dynamic dynamic = ms_dynamic_read_at(from, BASE + DYNAMIC, BIAS, 8);

	return ms_dynamic_function(from, &dynamic, name);
}

static bool imports(const char *name)
{
	struct ms_dynamic dynamic = ms_dynamic_read_at(from, BASE + DYNAMIC, BIAS, 8);

	return ms_dynamic_imports(from, &dynamic, name);
}

Test(object, is_what_its_program_headers_say)
{
	struct ms_object object;

	draw();
	cr_assert(ms_object_read(from, BASE, PAGE, &object));
	cr_expect_eq(object.bias, BIAS);
	cr_expect_eq(object.span.begin, BASE);
	cr_expect_eq(object.span.end, BASE + 0x4234);
	cr_expect_eq(object.data_end, BASE + 0x4234);
	cr_expect_eq(object.dynamic, BASE + DYNAMIC);
	cr_expect_eq(object.frame_header, 0);
	cr_expect_not(object.has_interpreter);
	cr_expect_eq(object.tls_bytes, 0x28);
	cr_expect_eq(object.tls_align, 16);
	cr_expect_eq(object.tls_image, LINKED + 0x3000);
	cr_assert_eq(object.n_notes, 1);
	cr_expect_eq(object.notes[0].at, BASE + 0x300);
	cr_expect_eq(object.notes[0].bytes, 36);
	segments[3] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_vaddr = LINKED + 0x500 };
	segments[4].p_type = PT_INTERP;
	cr_assert(ms_object_read(from, BASE, PAGE, &object));
	cr_expect_eq(object.frame_header, BASE + 0x500);
	cr_expect(object.has_interpreter);
	cr_expect_eq(object.tls_bytes, 0);
}

Test(object, of_32_bits_is_read_alike)
{
	for (int older = 0; older < 2; older++) {
		struct ms_object wide = { 0 };
		struct ms_object object = { 0 };
		struct ms_dynamic dynamic;

		draw();
		if (older)
			draw_hash();
		else
			memmove(table + 5, table + 6, 16); /* a word of bloom filter is shorter */
		cr_assert(ms_object_read(from, BASE, PAGE, &wide));
		narrow();
		cr_assert(ms_object_read(from, BASE, PAGE, &object));
		cr_expect_eq(object.word_bytes, 4);
		object.word_bytes = 8;
		cr_expect_eq(memcmp(&object, &wide, sizeof(wide)), 0);
		object.word_bytes = 4;
		dynamic = ms_dynamic_read(from, &object);
		cr_expect_eq(ms_dynamic_function(from, &dynamic, "f"), BASE + CODE + 2 * 16);
		cr_expect_eq(ms_dynamic_function(from, &dynamic, "h"), BASE + CODE + 4 * 16);
		cr_expect_eq(ms_dynamic_function(from, &dynamic, "w"), 0);
		cr_expect(ms_dynamic_imports(from, &dynamic, "w"));
		memory.bytes[EI_CLASS] = 3;
		cr_expect_not(opens(), "another class");
	}
}

/* The header need not lie at the begin of what is loaded first. */
Test(object, is_placed_by_the_segment_that_has_the_header)
{
	struct ms_object object;

	draw();
	segments[0].p_offset = 0xe40;
	segments[0].p_vaddr += 0xe40;
	cr_assert(ms_object_read(from, BASE, PAGE, &object));
	cr_expect_eq(object.bias, BIAS);
	segments[0].p_offset += 2 * PAGE;
	segments[0].p_vaddr += 2 * PAGE;
	cr_assert(ms_object_read(from, BASE, PAGE, &object));
	cr_expect_eq(object.bias, BIAS);
}

Test(object, has_no_alignment_that_is_no_power_of_two)
{
	struct ms_object object;

	draw();
	segments[3].p_align = 24;
	cr_assert(ms_object_read(from, BASE, PAGE, &object));
	cr_expect_eq(object.tls_bytes, 0);
	segments[3].p_align = 0;
	cr_assert(ms_object_read(from, BASE, PAGE, &object));
	cr_expect_eq(object.tls_align, 1);
}

/* What is wrong with the drawn object; false when there is no such case. */
static bool forge(int how)
{
	draw();
	switch (how) {
	case 0:
		head->e_ident[EI_MAG0] = 0;
		return true;
	case 1:
		head->e_ident[EI_CLASS] = ELFCLASS32;
		return true;
	case 2:
		head->e_phentsize = 32;
		return true;
	case 3:
		head->e_phnum = 129;
		return true;
	case 4:
		head->e_phnum = 0;
		return true;
	case 5: /* well formed, but farther than headers are looked for */
		memcpy(memory.bytes + 0x10008, segments, N_HEADERS * sizeof(*segments));
		head->e_phoff = 0x10008;
		return true;
	case 6:
		head->e_phoff = UINT64_MAX - 8;
		return true;
	case 7:
		segments[0].p_type = segments[1].p_type = PT_NULL;
		return true;
	case 8:
		segments[0].p_memsz = 0;
		segments[1].p_type = PT_NULL;
		return true;
	case 9:
		segments[1].p_memsz = UINT64_C(1) << 41;
		return true;
	case 10:
		segments[1].p_memsz = UINT64_MAX - LINKED - 0x3000;
		return true;
	}
	return false;
}

Test(object, is_refused_when_its_headers_make_no_sense)
{
	draw();
	head->e_phnum = 128;
	cr_expect(opens());
	for (int how = 0; forge(how); how++)
		cr_expect_not(opens(), "forged in way %d", how);
}

Test(object, is_refused_without_all_of_its_headers)
{
	struct ms_object object;

	draw();
	cr_expect_not(ms_object_read(from, BASE + BYTES - sizeof(*head), PAGE, &object));
	memcpy(memory.bytes + BYTES - PAGE, memory.bytes, sizeof(*head));
	((Elf64_Ehdr *)(void *)(memory.bytes + BYTES - PAGE))->e_phoff = PAGE - 56;
	cr_expect_not(ms_object_read(from, BASE + BYTES - PAGE, PAGE, &object));
}

Test(object, keeps_as_many_notes_as_there_is_room_for)
{
	struct ms_object object;

	draw();
	head->e_phnum = 100;
	for (int i = 5; i < 100; i++)
		segments[i].p_type = PT_NOTE;
	cr_assert(ms_object_read(from, BASE, PAGE, &object));
	cr_expect_eq(object.n_notes, MS_OBJECT_NOTES);
}

Test(dynamic, ends_with_its_last_entry_or_after_as_many_as_there_can_be)
{
	struct ms_dynamic dynamic;

	draw();
	entries[3] = (Elf64_Dyn){ DT_RELASZ, { 48 } };
	entries[5] = (Elf64_Dyn){ DT_NEEDED, { 1 } }; /* behind the last */
	dynamic = ms_dynamic_read_at(from, BASE + DYNAMIC, BIAS, 8);
	cr_expect_eq(dynamic.symbols, BASE + SYMBOLS);
	cr_expect_eq(dynamic.rela_bytes, 48);
	cr_expect_eq(dynamic.hash, 0);
	cr_expect_not(ms_dynamic_is_shared(&dynamic));
	memset(memory.bytes, 1, BYTES);
	entries = (void *)memory.bytes;
	entries[255] = (Elf64_Dyn){ DT_RELASZ, { 8 } };
	entries[256] = (Elf64_Dyn){ DT_RELSZ, { 8 } };
	memory.n_reads = 0;
	dynamic = ms_dynamic_read_at(from, BASE, BIAS, 8);
	cr_expect_eq(dynamic.rela_bytes, 8);
	cr_expect_eq(dynamic.rel_bytes, 0);
	cr_expect_eq(memory.n_reads, 256 / 32);
}

Test(dynamic, is_read_as_far_as_there_is_memory)
{
	static const uint8_t classes[] = { 4, 8 };

	for (size_t i = 0; i < 2; i++) {
		size_t last = BYTES - 3 * (size_t)classes[i];
		struct ms_dynamic dynamic;

		draw();
		memory.bytes[last] = DT_RELASZ;
		memory.bytes[last + classes[i]] = 48;
		dynamic = ms_dynamic_read_at(from, BASE + last, BIAS, classes[i]);
		cr_expect_eq(dynamic.rela_bytes, 48, "%u", classes[i]);
		cr_expect_eq(memory.n_reads, 1);
	}
}

Test(dynamic, of_a_library_has_a_name_or_needs_others)
{
	static const struct {
		Elf64_Sxword tag;
		bool shared;
		bool needs;
	} cases[] = {
		{ DT_RELASZ, false, false },
		{ DT_SONAME, true, false }, /* as musl's */
		{ DT_NEEDED, true, true },
	};

	draw();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_dynamic dynamic;

		entries[3] = (Elf64_Dyn){ cases[i].tag, { 1 } };
		dynamic = ms_dynamic_read_at(from, BASE + DYNAMIC, BIAS, 8);
		cr_expect_eq(ms_dynamic_is_shared(&dynamic), cases[i].shared, "case %zu", i);
		cr_expect_eq(dynamic.needs, cases[i].needs, "case %zu", i);
	}
}

Test(dynamic, finds_functions_by_either_table)
{
	draw();
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(address_of("f"), BASE + CODE + 2 * 16);
		cr_expect_eq(address_of("h"), BASE + CODE + 4 * 16);
		cr_expect_eq(address_of("w"), 0, "it is wanted only");
		cr_expect_eq(address_of("i"), 0);
		cr_expect(imports("w"));
		cr_expect_not(imports("f"));
		cr_expect_not(imports("x"));
		draw_hash();
	}
}

Test(dynamic, finds_only_what_others_may_call)
{
	draw();
	symbols[3].st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
	cr_expect_eq(address_of("g"), 0);
	symbols[3].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	cr_expect_eq(address_of("g"), 0);
	symbols[3].st_info = ELF64_ST_INFO(STB_WEAK, STT_NOTYPE);
	cr_expect_neq(address_of("g"), 0);
	symbols[3].st_shndx = SHN_UNDEF;
	cr_expect_eq(address_of("g"), 0, "a program's own entry for another's function");
	symbols[3].st_shndx = 1;
	symbols[3].st_value = 0;
	cr_expect_eq(address_of("g"), 0);
}

Test(dynamic, ends_a_search_with_the_table)
{
	draw();
	table[8] |= 1; /* the chain ends with "g" */
	cr_expect_neq(address_of("g"), 0);
	cr_expect_eq(address_of("h"), 0);
	table[6] = 0; /* an empty bucket */
	memory.n_reads = 0;
	cr_expect_eq(address_of("f"), 0);
	cr_expect_eq(memory.n_reads, 1 + 2, "nothing is read in front of the chains");
	draw_hash();
	symbols[5] = symbols[2];
	table[2] = 5;
	cr_expect_eq(address_of("f"), 0);
}

Test(dynamic, finds_the_longest_names_of_operators)
{
	static const char name[] = "_ZdaPvSt11align_val_tRKSt9nothrow_t";

	draw();
	draw_hash();
	memcpy(memory.bytes + STRINGS + 16, name, sizeof(name));
	symbols[2].st_name = 16;
	cr_expect_eq(address_of(name), BASE + CODE + 2 * 16);
}

Test(dynamic, has_no_name_that_is_longer_than_is_looked_for)
{
	static const char name[] = "a_name_that_is_longer_than_is_looked_for,_"
				   "which_is_longer_than_C_plus_plus_has";

	draw();
	memcpy(memory.bytes + STRINGS + 16, name, sizeof(name));
	symbols[1].st_name = 16;
	cr_expect_not(imports(name));
}

Test(dynamic, without_tables_has_no_functions)
{
	draw();
	entries[2].d_tag = DT_RPATH;
	cr_expect_eq(address_of("f"), 0);
	cr_expect_not(imports("w"));
	draw();
	entries[0].d_tag = DT_RPATH;
	cr_expect_eq(address_of("f"), 0);
	cr_expect_not(imports("w"));
}

/* Each search ends after a bounded number of reads, and finds nothing. */
static void expect_end(const char *what)
{
	memory.n_reads = 0;
	cr_expect_eq(address_of("none"), 0, "%s", what);
	cr_expect_leq(memory.n_reads, 256 + 4 * 4096, "%s", what);
}

Test(dynamic, hash_tables_that_lead_nowhere_end)
{
	draw();
	table[0] = 0;
	expect_end("no bucket");
	table[0] = UINT32_MAX;
	expect_end("as many as there can be");
	table[0] = 1;
	table[2] = UINT32_MAX;
	expect_end("a huge bloom filter");
	draw();
	memset(table + 7, 0, BYTES - TABLE - 28);
	expect_end("a chain without end");
	draw_hash();
	for (int i = 3; i < 8; i++)
		table[i] = 1;
	expect_end("a chain that bites its tail");
	table[0] = 0;
	expect_end("no bucket in the older table");
	draw_hash();
	table[2] = 5;
	expect_end("a symbol behind the last");
}

Test(dynamic, imports_end)
{
	draw();
	table[1] = UINT32_MAX;
	memory.n_reads = 0;
	cr_expect_not(imports("x"));
	cr_expect_leq(memory.n_reads, 256 + 2 * (1 << 16));
}
