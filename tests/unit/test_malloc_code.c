/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "held.h"
#include "target/code/image.h"
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

static bool is_malloc(ms_addr addr)
{
	for (uint32_t i = 0; i < code->n_malloc_code; i++)
		if (ms_range_has(code->malloc_code[i], addr))
			return true;
	return false;
}

Test(malloc_code, is_found_by_what_the_library_exports)
{
	pid_t pid = child_start(sleep_for_ever, NULL);
	struct ms_error err;

	cr_assert_eq(ms_collection_create(pid, 1000000000, &code, &err), MS_OK);
	ms_malloc_code_find(pid, code, &arena);
	cr_assert_eq(code->n_malloc_code, code->n_libc_code);
	cr_assert_geq(code->n_malloc_code, 1);
	/* Under a sanitizer these are its own, and the library's are found all the same. */
#if !defined(__SANITIZE_ADDRESS__)
	cr_expect(is_malloc((uintptr_t)malloc));
	cr_expect(is_malloc((uintptr_t)free));
	cr_expect(is_malloc((uintptr_t)calloc));
#endif
	cr_expect_not(is_malloc((uintptr_t)getpid));
	cr_expect_not(is_malloc((uintptr_t)sleep_for_ever));
	for (uint32_t i = 0; i < code->n_malloc_code; i++) {
		cr_expect_leq(code->libc_code[i].begin, code->malloc_code[i].begin);
		cr_expect_geq(code->libc_code[i].end, code->malloc_code[i].end);
	}
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

/* ---- hostile images: our own memory stands for the target's ---- */

enum { IMAGE_BYTES = 8192 };

static _Alignas(4096) unsigned char forged[IMAGE_BYTES];

static bool opens(void)
{
	char path[] = "/proc/self/mem";
	int fd = open(path, O_RDONLY);
	struct ms_image image;
	ms_addr at = 0;
	bool ok = ms_image_open(fd, (uintptr_t)forged, &image);

	cr_expect_not(ok && ms_image_find(&image, "malloc", &at), "found at %#llx",
	              (unsigned long long)at);
	(void)close(fd);
	return ok;
}

static void forge(Elf64_Ehdr **head, Elf64_Phdr **load, Elf64_Phdr **dynamic)
{
	memset(forged, 0, sizeof(forged));
	*head = (void *)forged;
	memcpy((*head)->e_ident, ELFMAG, SELFMAG);
	(*head)->e_ident[EI_CLASS] = ELFCLASS64;
	(*head)->e_phentsize = sizeof(Elf64_Phdr);
	(*head)->e_phnum = 2;
	(*head)->e_phoff = sizeof(Elf64_Ehdr);
	*load = (void *)(forged + sizeof(Elf64_Ehdr));
	*dynamic = *load + 1;
	**load = (Elf64_Phdr){ .p_type = PT_LOAD, .p_memsz = IMAGE_BYTES };
	**dynamic = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = 1024 };
}

Test(malloc_code, what_is_no_image_is_refused)
{
	Elf64_Phdr *load;
	Elf64_Phdr *dynamic;
	Elf64_Ehdr *head;

	forge(&head, &load, &dynamic);
	cr_expect(opens());
	head->e_phnum = 60000;
	cr_expect_not(opens());
	head->e_phnum = 0;
	cr_expect_not(opens());
	head->e_phnum = 2;
	head->e_phoff = UINT64_MAX - 8;
	cr_expect_not(opens());
	head->e_phoff = sizeof(Elf64_Ehdr);
	head->e_ident[EI_CLASS] = ELFCLASS32;
	cr_expect_not(opens());
	forge(&head, &load, &dynamic);
	load->p_memsz = 0;
	cr_expect_not(opens());
}

Test(malloc_code, hash_tables_that_lead_nowhere_end)
{
	Elf64_Phdr *load;
	Elf64_Phdr *dynamic;
	Elf64_Ehdr *head;
	Elf64_Dyn *entry;
	uint32_t *hash = (void *)(forged + 2048);

	forge(&head, &load, &dynamic);
	entry = (void *)(forged + 1024);
	entry[0] = (Elf64_Dyn){ .d_tag = DT_SYMTAB, .d_un.d_ptr = 4096 };
	entry[1] = (Elf64_Dyn){ .d_tag = DT_STRTAB, .d_un.d_ptr = 4096 };
	entry[2] = (Elf64_Dyn){ .d_tag = DT_STRSZ, .d_un.d_val = UINT64_MAX };
	entry[3] = (Elf64_Dyn){ .d_tag = DT_GNU_HASH, .d_un.d_ptr = 2048 };
	/* No bucket; as many as there can be; a chain without end; a huge bloom filter. */
	cr_expect(opens());
	hash[0] = UINT32_MAX;
	cr_expect(opens());
	hash[0] = 1;
	hash[4] = 1;
	cr_expect(opens());
	hash[2] = UINT32_MAX;
	cr_expect(opens());
	/* The older table, with a chain that bites its tail. */
	entry[3].d_tag = DT_HASH;
	hash[0] = 1;
	hash[1] = 16;
	for (int i = 2; i < 18; i++)
		hash[i] = 1;
	cr_expect(opens());
}
