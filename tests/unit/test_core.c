/* SPDX-License-Identifier: Apache-2.0 */
/* A source that is a core: what it shows of drawn ones. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "drawn_core.h"
#include "source_suite.h"
#include "target/arch/arch.h"
#include "target/core/core.h"
#include "target/core/layout.h"

static struct drawn_core *drawn;
static struct ms_arena arena;
static struct ms_notes warnings;
static struct ms_core_process process;
static struct ms_source *src;
static struct ms_error err;
static bool has_file;
static uint32_t n_asked;

static void setup(void)
{
	drawn = malloc(sizeof(*drawn));
	cr_assert(drawn);
	drawn_core_init(drawn);
	has_file = true;
}

static void teardown(void)
{
	if (src)
		src->ops->close(src);
	ms_arena_deinit(&arena);
	free(drawn);
}

TestSuite(core, .init = setup, .fini = teardown, .timeout = 20);

/* The program's file is at the second place of all. */
static int open_file(void *ctx, const struct ms_core_wanted *wanted, uint32_t *place)
{
	(void)ctx;
	n_asked++;
	if (!has_file || strcmp(wanted->path, DRAWN_PATH) != 0 || *place > 1)
		return -1;
	*place = 2;
	return drawn_memfd(drawn->program, sizeof(drawn->program));
}

static enum ms_status open_bytes(size_t n)
{
	struct ms_core_call call = { .path = "drawn", .open = open_file, .warnings = &warnings };
	enum ms_status st;

	call.fd = drawn_memfd(drawn->bytes, n);
	st = ms_core_open(&call, &arena, &process, &src, &err);
	(void)close(call.fd);
	return st;
}

static void open_drawn(void)
{
	drawn_core_write(drawn);
	cr_assert_eq(open_bytes(drawn->n), MS_OK, "%s", err.text);
}

static const char *name_at(ms_addr at)
{
	const struct ms_mapping *map = ms_range_find(&src->mappings, at);

	return map ? map->name : "nothing";
}

static uint8_t byte_at(ms_addr at)
{
	uint8_t byte = 0xee;

	cr_assert_eq(ms_source_read(src, at, &byte, 1), 1, "nothing at %llx",
	             (unsigned long long)at);
	return byte;
}

static bool is_unseen(ms_addr at)
{
	return ms_range_find(&src->unseen, at);
}

static bool is_present(ms_addr at)
{
	struct ms_range run;

	return ms_source_present(src, (struct ms_range){ at, at + DRAWN_PAGE }, &run);
}

static bool warns(const char *text)
{
	const struct ms_note *note;

	ms_vec_for_each (note, &warnings)
		if (strstr(note->text, text))
			return true;
	return false;
}

/* ---- what it shows ---- */

Test(core, keeps_what_every_source_promises)
{
	unsigned char bytes[DRAWN_PAGE];
	const struct source_sample sample = { DRAWN_MEMORY, DRAWN_PAGE, bytes, DRAWN_PAGE };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = source_suite_byte(i);
	open_drawn();
	source_suite_run(src, &sample);
}

Test(core, keeps_the_promises_where_gdb_puts_segments_anywhere)
{
	unsigned char bytes[DRAWN_PAGE];
	const struct source_sample sample = { DRAWN_MEMORY, DRAWN_PAGE, bytes, DRAWN_PAGE };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = source_suite_byte(i);
	drawn->shift = 0x3f8;
	open_drawn();
	source_suite_run(src, &sample);
	cr_assert(ms_source_view(src, DRAWN_MEMORY, 16));
}

Test(core, does_not_view_what_is_not_aligned)
{
	drawn->shift = 0x3fc;
	open_drawn();
	cr_assert_null(ms_source_view(src, DRAWN_MEMORY, 16));
	cr_assert_eq(byte_at(DRAWN_MEMORY + 5), source_suite_byte(5));
}

Test(core, names_what_the_kernel_and_brk_mapped)
{
	open_drawn();
	cr_assert_str_eq(name_at(DRAWN_BRK), "[heap]");
	cr_assert_str_eq(name_at(DRAWN_STACK), "[stack]");
	cr_assert_str_eq(name_at(DRAWN_VDSO), "[vdso]");
	cr_assert_str_eq(name_at(DRAWN_VVAR), "[vvar]");
	cr_assert_str_eq(name_at(DRAWN_MEMORY), "");
	cr_assert_str_eq(name_at(DRAWN_CODE), DRAWN_PATH);
	cr_assert_str_eq(name_at(DRAWN_BSS), "");
}

Test(core, finds_no_break_that_is_far_away)
{
	drawn_core_load(drawn, DRAWN_BRK)->at = DRAWN_BRK + (UINT64_C(2) << 30);
	open_drawn();
	cr_assert_str_eq(name_at(DRAWN_BRK + (UINT64_C(2) << 30)), "");
}

Test(core, has_mapped_files_in_both_units)
{
	for (int gdb = 0; gdb < 2; gdb++) {
		const struct ms_mapping *map;

		drawn->file_units = gdb ? 1 : DRAWN_PAGE;
		open_drawn();
		map = ms_range_find(&src->mappings, DRAWN_DATA);
		cr_assert(map && map->file && map->inode && !map->shared);
		cr_assert_eq(map->offset, 2 * DRAWN_PAGE);
		cr_assert_eq(map->prot, MS_PROT_READ | MS_PROT_WRITE);
	}
}

/* Words of a thread, and where one of its vectors' is that has a number of its own. */
#ifdef __x86_64__
/* 27 general ones, st and xmm, and what is behind the header of XSAVE */
enum { WORDS = 27 + 48 + (1024 - 576) / 8, TP = 21 };
static const struct {
	size_t at;
	uint64_t number;
} vectors[] = { { 27, 4 }, { 27 + 48, 72 } };
#else
/* The thread pointer has a note of its own, which is not read. */
enum { WORDS = 34 + 528 / 8, TP = 0 };
static const struct {
	size_t at;
	uint64_t number;
} vectors[] = { { 34, 0 }, { 34 + 65, 65 } };
#endif

Test(core, has_threads_with_all_their_registers)
{
	const struct ms_arch *arch = &ms_native_arch;

	open_drawn();
	cr_assert_eq(src->threads.n, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct ms_thread *t = &src->threads.at[i];

		cr_assert_eq(t->tid, 100 + (int32_t)i);
		cr_assert(t->stopped);
		cr_assert_eq(t->sp, DRAWN_STACK + DRAWN_PAGE + (uint64_t)t->tid * 8);
		cr_assert_eq(t->pc, (uint64_t)t->tid << 12 | arch->dwarf[arch->dwarf_pc]);
		cr_assert_eq(t->tp, TP ? (uint64_t)t->tid << 12 | TP : 0);
		cr_assert_eq(t->n_words, WORDS);
		for (size_t k = 0; k < 2; k++)
			cr_assert_eq(t->words[vectors[k].at],
			             (uint64_t)t->tid << 24 | vectors[k].number);
	}
}

Test(core, says_which_process_it_is_of)
{
	open_drawn();
	cr_assert_eq(process.facts.pid, 99);
	cr_assert_eq(process.facts.threads, 2);
	cr_assert_str_eq(process.facts.exe, DRAWN_PATH);
	cr_assert_eq(process.facts.cmdline_len, sizeof("program\0one\0two"));
	cr_assert_eq(memcmp(process.facts.cmdline, "program\0one\0two", 16), 0);
	cr_assert_eq(process.program, DRAWN_PROGRAM);
}

/* ---- files ---- */

Test(core, reads_from_the_file_what_the_core_left_out)
{
	open_drawn();
	cr_assert_eq(byte_at(DRAWN_CODE + 5), drawn->program[DRAWN_PAGE + 5]);
	cr_assert_eq(byte_at(DRAWN_DATA + 5), source_suite_byte(5));
	cr_assert_not(is_unseen(DRAWN_CODE));
	cr_assert_not(warns("not in the core"));
}

Test(core, knows_which_pages_of_a_file_were_written_to)
{
	drawn_core_load(drawn, DRAWN_DATA)->file = 1;
	drawn_core_load(drawn, DRAWN_DATA)->page = 2;
	open_drawn();
	cr_assert_not(is_present(DRAWN_PROGRAM));
	cr_assert_not(is_present(DRAWN_CODE));
	cr_assert_not(is_present(DRAWN_DATA), "it is as the file has it");
	cr_assert(is_present(DRAWN_BRK));
}

Test(core, does_without_a_file_that_is_not_there)
{
	uint8_t byte;

	has_file = false;
	open_drawn();
	cr_assert_eq(ms_source_read(src, DRAWN_CODE, &byte, 1), 0);
	cr_assert_eq(src->unseen.n, 0, "code holds no pointers to the heap");
	cr_assert(warns("4 KiB of /drawn/program are not in the core, and there is no such file"));
}

Test(core, does_not_read_another_build)
{
	uint8_t byte;

	drawn_core_write(drawn);
	drawn->program[0x800 + sizeof(Elf64_Nhdr) + 4] ^= 1; /* of its build-id */
	cr_assert_eq(open_bytes(drawn->n), MS_OK);
	cr_assert_eq(ms_source_read(src, DRAWN_CODE, &byte, 1), 0);
	cr_assert(warns("the file is another build"));
	cr_assert_gt(n_asked, 1, "other places are asked");
}

Test(core, takes_no_core_or_object_for_a_file_that_was_mapped)
{
	static const Elf64_Half types[] = { ET_CORE, ET_REL, ET_NONE };
	uint8_t byte;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		memcpy(drawn->program + offsetof(Elf64_Ehdr, e_type), &types[i], sizeof(types[i]));
		drawn->n = 0;
		open_drawn();
		cr_expect_eq(ms_source_read(src, DRAWN_CODE, &byte, 1), 0, "type %d", types[i]);
		src->ops->close(src);
		src = NULL;
	}
}

Test(core, reads_the_same_build_with_other_headers)
{
	drawn_core_write(drawn);
	drawn->program[0x900] ^= 1; /* no part of the build-id */
	cr_assert_eq(open_bytes(drawn->n), MS_OK);
	cr_assert_eq(byte_at(DRAWN_CODE), drawn->program[DRAWN_PAGE]);
}

Test(core, says_when_nothing_proves_a_file)
{
	drawn_core_load(drawn, DRAWN_PROGRAM)->in_core = 0;
	open_drawn();
	cr_assert_eq(byte_at(DRAWN_CODE), drawn->program[DRAWN_PAGE]);
	cr_assert(warns("nothing in the core says that it is the same build"));
}

Test(core, doubts_where_a_program_cannot_be_recognised)
{
	drawn_core_load(drawn, DRAWN_PROGRAM)->in_core = 0;
	has_file = false;
	open_drawn();
	cr_assert(is_unseen(DRAWN_PROGRAM));
}

/* ---- what is missing ---- */

Test(core, takes_untouched_memory_for_zeros)
{
	open_drawn();
	cr_assert_eq(byte_at(DRAWN_BSS + 100), 0);
	cr_assert_eq(byte_at(DRAWN_MEMORY + DRAWN_PAGE), 0);
	cr_assert_not(is_unseen(DRAWN_BSS), "a program's own data is not withheld");
	cr_assert_not(is_present(DRAWN_BSS));
}

Test(core, doubts_writable_memory_that_is_left_out)
{
	drawn_core_load(drawn, DRAWN_BRK)->in_core = 0;
	open_drawn();
	cr_assert(is_unseen(DRAWN_BRK));
	cr_assert(warns("4 KiB of memory that the program may have written to"));
}

/* As lld links a small one: of each segment there is the page with the file's header. */
Test(core, doubts_memory_behind_a_program_of_less_than_a_page)
{
	static const ms_addr segments[] = { DRAWN_PROGRAM, DRAWN_CODE, DRAWN_DATA };
	const ms_addr behind = DRAWN_BSS + 2 * DRAWN_PAGE;
	Elf64_Phdr *phdrs = (void *)(drawn->program + sizeof(Elf64_Ehdr));

	for (size_t i = 0; i < 3; i++) {
		struct drawn_load *load = drawn_core_load(drawn, segments[i]);
		uint64_t at = i * 0x200;

		phdrs[i].p_offset = at;
		phdrs[i].p_vaddr += at;
		phdrs[i].p_memsz -= at;
		drawn->files[i].page = 0;
		load->file = 1;
		load->page = 0;
	}
	drawn_core_load(drawn, DRAWN_BRK)->in_core = 0;
	drawn_core_load(drawn, DRAWN_BRK)->at = behind;
	open_drawn();
	cr_assert_not(is_unseen(DRAWN_BSS));
	cr_assert(is_unseen(behind));
}

Test(core, does_not_doubt_what_could_not_be_written_to)
{
	drawn_core_load(drawn, DRAWN_BRK)->in_core = 0;
	drawn_core_load(drawn, DRAWN_BRK)->flags = 0;
	open_drawn();
	cr_assert_not(is_unseen(DRAWN_BRK));
}

Test(core, doubts_shared_memory_that_is_left_out)
{
	static const struct drawn_file shared = { { DRAWN_BRK, DRAWN_BRK + DRAWN_PAGE },
		                                  0,
		                                  "/dev/zero (deleted)" };

	drawn->files[drawn->n_files++] = shared;
	drawn_core_load(drawn, DRAWN_BRK)->in_core = 0;
	open_drawn();
	cr_assert(is_unseen(DRAWN_BRK));
	cr_assert(warns("(coredump_filter), as /dev/zero (deleted)"));
	cr_assert(((const struct ms_mapping *)ms_range_find(&src->mappings, DRAWN_BRK))->shared);
}

Test(core, doubts_what_gdb_could_not_read)
{
	drawn_core_load(drawn, DRAWN_BRK)->file = 2;
	for (int gdb = 0; gdb < 2; gdb++) {
		drawn->file_units = gdb ? 1 : DRAWN_PAGE;
		open_drawn();
		cr_assert_eq(is_unseen(DRAWN_BRK), gdb);
	}
}

Test(core, goes_as_far_as_one_that_was_cut_off)
{
	uint8_t byte;

	drawn_core_write(drawn);
	cr_assert_eq(open_bytes(drawn->n - DRAWN_PAGE - 100), MS_OK);
	cr_assert_eq(byte_at(DRAWN_STACK + DRAWN_PAGE - 101), source_suite_byte(DRAWN_PAGE - 101));
	cr_assert_eq(ms_source_read(src, DRAWN_STACK + DRAWN_PAGE - 100, &byte, 1), 0);
	cr_assert(is_unseen(DRAWN_STACK + DRAWN_PAGE));
	cr_assert_eq(process.missing_bytes, DRAWN_PAGE + 100);
	cr_assert(warns("the core is cut off: 5 KiB"));
}

Test(core, has_holes_where_the_file_has)
{
	struct ms_core_call call = { .path = "drawn", .open = open_file, .warnings = &warnings };
	size_t at;

	if (ms_page_bytes() > DRAWN_PAGE)
		cr_skip_test("files have no holes that are as short");
	drawn_core_write(drawn);
	at = drawn->n - 2 * DRAWN_PAGE;
	call.fd = drawn_memfd(drawn->bytes, at);
	cr_assert_eq(pwrite(call.fd, drawn->bytes, DRAWN_PAGE, (off_t)at + DRAWN_PAGE), DRAWN_PAGE);
	cr_assert_eq(ms_core_open(&call, &arena, &process, &src, &err), MS_OK);
	(void)close(call.fd);
	cr_assert_eq(byte_at(DRAWN_STACK), 0);
	cr_assert_not(is_present(DRAWN_STACK));
	cr_assert(is_present(DRAWN_STACK + DRAWN_PAGE));
	cr_assert(is_present(DRAWN_VDSO));
}

/* Memory of this process that is there, bytes. */
static size_t resident_bytes(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	cr_assert(statm && fscanf(statm, "%*u %zu", &pages) == 1);
	(void)fclose(statm);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Its headers say that there is a terabyte, and so does the length of the file. */
Test(core, reads_no_hole_of_its_file)
{
	struct ms_core_call call = { .path = "drawn", .open = open_file, .warnings = &warnings };
	const uint64_t long_bytes = (uint64_t)1 << 40;
	size_t before = resident_bytes();
	Elf64_Phdr *last;
	struct ms_range run;

	drawn_core_write(drawn);
	last = (Elf64_Phdr *)(void *)(drawn->bytes + sizeof(Elf64_Ehdr)) +
	       ((Elf64_Ehdr *)(void *)drawn->bytes)->e_phnum - 1;
	last->p_vaddr = (uint64_t)1 << 44;
	last->p_memsz = last->p_filesz = long_bytes;
	last->p_offset = ms_align_up(drawn->n, ms_page_bytes());
	call.fd = drawn_memfd(drawn->bytes, drawn->n);
	cr_assert_eq(ftruncate(call.fd, (off_t)(last->p_offset + long_bytes)), 0);
	cr_assert_lt(ms_core_data_bytes(call.fd), 1 << 20);
	cr_assert_eq(ms_core_open(&call, &arena, &process, &src, &err), MS_OK, "%s", err.text);
	(void)close(call.fd);
	cr_assert_eq(byte_at(last->p_vaddr + long_bytes - 1), 0);
	cr_assert_not(ms_source_present(
		src, (struct ms_range){ last->p_vaddr, last->p_vaddr + long_bytes }, &run));
	cr_assert_lt(resident_bytes(), before + (64 << 20));
}

Test(core, refuses_memory_of_which_the_bytes_are_shared)
{
	Elf64_Phdr *phdrs;

	drawn_core_write(drawn);
	phdrs = (Elf64_Phdr *)(void *)(drawn->bytes + sizeof(Elf64_Ehdr));
	phdrs[2].p_offset = phdrs[1].p_offset;
	phdrs[2].p_filesz = phdrs[1].p_filesz = DRAWN_PAGE;
	cr_assert_eq(open_bytes(drawn->n), MS_E_CORRUPT);
	cr_assert(strstr(err.text, "segments share bytes of the file"), "%s", err.text);
}

/* A file that becomes shorter is the end of the process that reads it, which is one for that. */
static int cut_short(void *ctx, const struct ms_core_wanted *wanted, uint32_t *place)
{
	(void)wanted;
	(void)place;
	cr_assert_eq(ftruncate(*(int *)ctx, 0), 0);
	return -1;
}

Test(core, that_becomes_shorter_ends_its_reader_alone, .signal = SIGBUS)
{
	struct ms_core_call call = { .path = "drawn", .open = cut_short, .warnings = &warnings };

	drawn_core_write(drawn);
	call.fd = drawn_memfd(drawn->bytes, drawn->n);
	call.ctx = &call.fd;
	if (ms_core_open(&call, &arena, &process, &src, &err) == MS_OK)
		(void)byte_at(DRAWN_STACK);
}

Test(core, knows_a_static_program_that_has_signal_stacks)
{
	const struct ms_code_bytes *call = &ms_native_arch.sigaltstack_code;
	const uint64_t least = ms_native_arch.abi.signal_frame.least_stack;
	char text[96];

	open_drawn();
	cr_assert_eq(src->unknown_stack_bytes, 0);
	cr_assert(warns("epoll instances, timers, queued signals"));
	cr_assert_not(warns("signal stacks"));
	memcpy(drawn->program + DRAWN_PAGE + 100, call->bytes, call->n);
	open_drawn();
	cr_assert_eq(src->unknown_stack_bytes, least);
	(void)snprintf(text, sizeof(text),
	               "where signal stacks are: unreachable blocks of %llu bytes",
	               (unsigned long long)least);
	cr_assert(warns(text));
}

/* ---- what makes no sense ---- */

struct wrong {
	size_t at; /* in the file, or with @note in the notes */
	bool note;
	uint8_t bytes[8];
	size_t n;
	char text[64];
};

ParameterizedTestParameters(core, refuses)
{
	static struct wrong rows[] = {
		{ 0, false,
		  "\x7f"
		  "ELG",
		  4, "not a core" },
		{ EI_DATA, false, "\2", 1, "big-endian" },
		{ EI_CLASS, false, "\1", 1, "x32" },
		{ 16, false, "\3", 1, "not a core: a program" },
#ifdef __x86_64__
		{ 18, false, "\xb7", 1, "aarch64" },
#else
		{ 18, false, "\x3e", 1, "x86-64" },
#endif
		{ 18, false, "\3", 1, "i386" },
		{ 18, false, "\x2a", 1, "another processor" },
		{ 32, false, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "program headers lie behind" },
		{ 54, false, "\1", 1, "unknown size" },
		{ 56, false, "\0\0", 2, "no program headers" },
		{ 56, false, "\xff\xff", 2, "no program headers" },
		{ 64 + 8, false, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "notes lie behind" },
		{ 64 + 56 + 16, false, "\1", 1, "makes no sense as memory" },
		{ 64 + 56 + 40, false, "\0\0\0\0\0\xf0\xff\xff", 8, "" },
		{ 64 + 56 + 40, false, "\0\xf0\xff\xff\xff\xff\xff\xff", 8, "makes no sense" },
		{ 64 + 56 + 40, false, "\0\x20\0\0\0\0\0\0", 8, "over each other" },
		{ 8, true, "\7", 1, "no registers" },
	};

	rows[16].text[0] = '\0'; /* the second thread's are there */
	return cr_make_param_array(struct wrong, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct wrong *row, core, refuses)
{
	enum ms_status st;

	drawn_core_write(drawn);
	memcpy(drawn->bytes + row->at + (row->note ? drawn->notes : 0), row->bytes, row->n);
	st = open_bytes(drawn->n);
	if (!row->text[0] && !st)
		return;
	cr_assert_neq(st, MS_OK);
	cr_assert(strstr(err.text, row->text), "%s, not %s", err.text, row->text);
	cr_assert(err.advice[0]);
}

/* Not the page of the machine that reads it. */
Test(core, has_the_page_of_the_kernel_that_wrote_it)
{
	drawn->page_bytes = 0x10000;
	open_drawn();
	cr_expect_eq(src->abi.page_bytes, DRAWN_PAGE, "segments are of no such pages");
	src->ops->close(src);
	drawn->n_files = 0;
	drawn->loads[0] = (struct drawn_load){ DRAWN_MEMORY, 0x10000, 0x10000, PF_R | PF_W, 0, 0 };
	drawn->n_loads = 1;
	open_drawn();
	cr_expect_eq(src->abi.page_bytes, 0x10000);
	src->ops->close(src);
	drawn->page_bytes = 0x11000;
	open_drawn();
	cr_expect_eq(src->abi.page_bytes, DRAWN_PAGE, "no power of two");
}

Test(core, leaves_out_notes_that_make_no_sense)
{
	Elf64_Nhdr *note;

	drawn_core_write(drawn);
	note = (Elf64_Nhdr *)(void *)(drawn->bytes + drawn->notes);
	note->n_namesz = UINT32_MAX;
	cr_assert_neq(open_bytes(drawn->n), MS_OK);
	cr_assert(strstr(err.text, "no registers"));
}

static void *find_note(uint32_t type)
{
	uint8_t *at = drawn->bytes + drawn->notes;

	for (;;) {
		const Elf64_Nhdr *note = (const Elf64_Nhdr *)(void *)at;

		if (note->n_type == type)
			return at + sizeof(*note) + ms_align_up(note->n_namesz, 4);
		at += sizeof(*note) + ms_align_up(note->n_namesz, 4) +
		      ms_align_up(note->n_descsz, 4);
	}
}

Test(core, has_the_threads_in_front_of_a_note_that_is_too_long)
{
	uint8_t *last;

	drawn_core_write(drawn);
	last = memmem(drawn->bytes + drawn->notes + 4, drawn->n, drawn->bytes + drawn->notes, 20);
	cr_assert(last);
	((Elf64_Nhdr *)(void *)last)->n_descsz = UINT32_MAX;
	cr_assert_eq(open_bytes(drawn->n), MS_OK);
	cr_assert_eq(src->threads.n, 1);
	cr_assert(warns("notes make no sense"));
}

Test(core, does_without_files_whose_number_is_a_lie)
{
	static const uint64_t lies[] = { 4, 1 << 20, UINT64_MAX, UINT64_MAX / 24 };

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		drawn_core_write(drawn);
		memcpy(find_note(NT_FILE), &lies[i], sizeof(lies[i]));
		cr_assert_eq(open_bytes(drawn->n), MS_OK);
		cr_assert(warns("notes make no sense"));
	}
}

Test(core, does_not_believe_a_file_offset_that_is_too_large)
{
	uint64_t *files;

	drawn_core_write(drawn);
	files = find_note(NT_FILE);
	files[4] = UINT64_MAX / DRAWN_PAGE + 1;
	cr_assert_eq(open_bytes(drawn->n), MS_OK);
	cr_assert(warns("notes make no sense"));
}

Test(core, takes_files_that_overlap_once)
{
	drawn->files[1].range.end = DRAWN_BSS;
	open_drawn();
	cr_assert(warns("notes make no sense"));
	cr_assert_str_eq(name_at(DRAWN_CODE), DRAWN_PATH);
}
