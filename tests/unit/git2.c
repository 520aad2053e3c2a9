/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What Criterion wants of libgit2, for whose sake each test would load fourteen more libraries: a
 * third of its time. Where it cannot compare two texts Criterion does so by itself.
 *
 * At the end of a test LeakSanitizer reads all zeros of the program, most of which are its own
 * tables: they are had by one call, where each of 2,500 pages would be a fault.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14 */
#endif

int git_libgit2_init(void);
int git_libgit2_shutdown(void);
int git_diff_buffers(void);

static int read_zeros(struct dl_phdr_info *program, size_t size, void *arg)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)arg;
	for (int i = 0; i < program->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &program->dlpi_phdr[i];
		uintptr_t begin = program->dlpi_addr + part->p_vaddr + part->p_filesz;
		uintptr_t end = program->dlpi_addr + part->p_vaddr + part->p_memsz;

		begin = (begin + page - 1) & -page;
		if (part->p_type == PT_LOAD && begin < end)
			(void)madvise((void *)begin, end - begin, MADV_POPULATE_READ);
	}
	return 1;
}

/* Behind the test, to which its own memory is to look as it would without. */
static void read_zeros_at_end(void)
{
	(void)dl_iterate_phdr(read_zeros, NULL);
}

/* What is registered here is done before what the program's start had registered. */
int git_libgit2_init(void)
{
	return atexit(read_zeros_at_end) ? -1 : 1;
}

int git_libgit2_shutdown(void)
{
	return 0;
}

int git_diff_buffers(void)
{
	return -1;
}
