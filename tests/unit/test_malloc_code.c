/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <elf.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "held.h"
#include "sanitized.h"
#include "target/code/static_code.h"

static struct ms_collection *code;
static struct ms_arena arena;

static void sleep_for_ever(void *arg)
{
	(void)arg;
	child_ready();
	for (;;)
		pause();
}

static bool is_in(const struct ms_range *ranges, uint32_t n, ms_addr addr)
{
	for (uint32_t i = 0; i < n; i++)
		if (ms_range_has(ranges[i], addr))
			return true;
	return false;
}

static bool is_malloc(ms_addr addr)
{
	return is_in(code->malloc_code, code->n_malloc_code, addr);
}

static bool is_libc(ms_addr addr)
{
	return is_in(code->libc_code, code->n_libc_code, addr);
}

Test(malloc_code, is_found_by_what_the_library_exports)
{
	pid_t pid = child_start(sleep_for_ever, NULL);
	struct ms_error err;

	cr_assert_eq(ms_collection_create(pid, 1000000000, &code, &err), MS_OK);
	ms_malloc_code_find(pid, code, &arena);
	cr_assert_geq(code->n_malloc_code, 1);
	/* Under a sanitizer these are its own, and the library's are found all the same. */
	if (!SANITIZED) {
		cr_expect(is_malloc((uintptr_t)malloc));
		cr_expect(is_malloc((uintptr_t)free));
		cr_expect(is_malloc((uintptr_t)calloc));
	}
	cr_expect_not(is_malloc((uintptr_t)getpid));
	cr_expect_not(is_malloc((uintptr_t)sleep_for_ever));
	for (uint32_t i = 0; i < code->n_malloc_code; i++) {
		cr_expect(is_libc(code->malloc_code[i].begin));
		cr_expect(is_libc(code->malloc_code[i].end - 1));
	}
	cr_expect(is_libc(getauxval(AT_SYSINFO_EHDR)), "what the C library calls");
	for (uint32_t i = 1; i < code->n_all_code; i++)
		cr_expect_geq(code->all_code[i].begin, code->all_code[i - 1].end);
	child_end(pid);
	ms_collection_destroy(code);
	ms_arena_deinit(&arena);
}

Test(malloc_code, a_process_that_is_not_there_has_none)
{
	pid_t pid = child_start(sleep_for_ever, NULL);
	struct ms_error err;

	cr_assert_eq(ms_collection_create(pid, 1000000000, &code, &err), MS_OK);
	child_end(pid);
	code->n_malloc_code = 7;
	ms_malloc_code_find(pid, code, &arena);
	cr_expect_eq(code->n_malloc_code, 0);
	ms_collection_destroy(code);
	ms_arena_deinit(&arena);
}

/* ---- libraries that are allocators, drawn ---- */

struct drawn {
	char title[40];
	char names[2][24]; /* of the functions that it exports */
	size_t len;        /* of its text */
	bool runs;         /* it names an interpreter */
	bool all;          /* that text is malloc's */
	bool called;       /* malloc calls it */
	bool named;        /* it is a library */
};

static struct drawn drawn[] = {
	{ "jemalloc", { "malloc", "mallctl" }, 8192, .all = true },
	{ "gperftools", { "malloc", "tc_malloc" }, 8192, .all = true },
	{ "mimalloc", { "malloc", "mi_malloc" }, 8192, .all = true },
	{ "not in place of malloc", { "mi_calloc", "mi_malloc" }, 8192, .all = false },
	{ "in front of malloc", { "malloc", "calloc" }, 8192, .all = false },
	{ "part of something larger", { "malloc", "mallctl" }, 8 << 20, .all = false },
	{ "part of a program", { "malloc", "mallctl" }, 8192, .runs = true },
	{ "its locks", { "pthread_create", "pthread_mutex_lock" }, 8192, .called = true },
	/* As glibc's are before 2.34. */
	{ "its locks in a library that can be run",
	  { "pthread_create", "pthread_mutex_lock" },
	  8192,
	  .runs = true,
	  .called = true,
	  .named = true },
	{ "locks of a program", { "pthread_create", "pthread_mutex_lock" }, 8192, .runs = true },
};

/* Where the child has mapped it. */
static ms_addr *place;

static void draw(unsigned char *file, const struct drawn *d)
{
	enum { DYNAMIC = 512, SYMBOLS = 1024, STRINGS = 1536, HASH = 2048 };
	Elf64_Ehdr *head = (void *)file;
	Elf64_Phdr *segments = (void *)(file + sizeof(*head));
	const Elf64_Dyn entries[] = { { d->named ? DT_SONAME : DT_DEBUG, { 0 } },
		                      { DT_SYMTAB, { SYMBOLS } },
		                      { DT_STRTAB, { STRINGS } },
		                      { DT_STRSZ, { 64 } },
		                      { DT_HASH, { HASH } } };
	const uint32_t hash[] = { 1, 3, 1, 0, 2, 0 };
	Elf64_Sym *symbols = (void *)(file + SYMBOLS);

	memcpy(head->e_ident, ELFMAG, SELFMAG);
	head->e_ident[EI_CLASS] = ELFCLASS64;
	head->e_phentsize = sizeof(Elf64_Phdr);
	head->e_phnum = 3;
	head->e_phoff = sizeof(*head);
	segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_memsz = d->len };
	segments[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC };
	segments[2] = (Elf64_Phdr){ .p_type = d->runs ? PT_INTERP : PT_NOTE };
	memcpy(file + DYNAMIC, entries, sizeof(entries));
	memcpy(file + HASH, hash, sizeof(hash));
	for (unsigned i = 0; i < 2; i++) {
		symbols[i + 1] = (Elf64_Sym){ .st_name = 1 + 24 * i,
			                      .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			                      .st_shndx = 1,
			                      .st_value = 4096 };
		strcpy((char *)file + STRINGS + 1 + 24 * i, d->names[i]);
	}
}

static void map_drawn(void *arg)
{
	const struct drawn *d = arg;
	int fd = memfd_create("library", 0);
	unsigned char *file;

	if (ftruncate(fd, (off_t)d->len))
		return;
	file = mmap(NULL, d->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	draw(file, d);
	*place = (uintptr_t)mmap(NULL, d->len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	sleep_for_ever(NULL);
}

Test(malloc_code, is_all_of_a_library_that_is_an_allocator_and_calls_its_locks)
{
	struct ms_error err;

	place = child_memory(sizeof(*place));
	for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
		pid_t pid = child_start(map_drawn, &drawn[i]);

		cr_assert_eq(ms_collection_create(pid, 1000000000, &code, &err), MS_OK);
		ms_malloc_code_find(pid, code, &arena);
		cr_expect_eq(is_malloc(*place), drawn[i].all, "%s", drawn[i].title);
		cr_expect_eq(is_malloc(*place + drawn[i].len - 1), drawn[i].all, "%s",
		             drawn[i].title);
		cr_expect_eq(is_libc(*place), drawn[i].called, "%s", drawn[i].title);
		child_end(pid);
		ms_collection_destroy(code);
	}
	ms_arena_deinit(&arena);
}
