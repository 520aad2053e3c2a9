/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many_times COUNT MIB private|shared: COUNT blocks of malloc's, all of which are one file
 * of so many MiB that is full of pointers to them: little memory that looks like much.
 *
 * Prints "READY", and ends with its input.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_COUNT = 1000, PAGE = 4096, HEADER_WORDS = 2 };

static char *blocks[MAX_COUNT];

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	size_t len = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) << 20;
	int how = argc > 3 && *argv[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	int fd = memfd_create("many", 0);
	uint64_t *words;

	if (count > MAX_COUNT || ftruncate(fd, (off_t)len))
		return 1;
	words = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (size_t i = 0; i < count; i++) {
		/* the header before it makes a whole number of pages of it */
		blocks[i] = malloc(len - HEADER_WORDS * sizeof(*words));
		if (!blocks[i])
			return 1;
	}
	for (size_t i = HEADER_WORDS; i < len / sizeof(*words); i++)
		words[i] = (uintptr_t)blocks[i % count] + i * sizeof(*words);
	memcpy(words, blocks[0] - HEADER_WORDS * sizeof(*words), HEADER_WORDS * sizeof(*words));
	(void)munmap(words, len);
	for (size_t i = 0; i < count; i++) {
		char *at = blocks[i] - HEADER_WORDS * sizeof(*words);

		if (mmap(at, len, PROT_READ | PROT_WRITE, how | MAP_FIXED, fd, 0) != at)
			return 1;
		for (size_t page = 0; page < len; page += PAGE)
			(void)((volatile char *)at)[page];
	}
	(void)puts("READY");
	(void)fflush(stdout);
	(void)getchar();
	return 0;
}
