/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Prints READY; when a byte comes, maps a page near both ends of each gap of 40 MiB or more
 * between its mappings, and prints TAKEN. Allocates until standard input ends; status 0, or 1
 * without a list of its mappings.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 4096 };

static const uintptr_t inwards = 1 << 20, least = 40 << 20;

static void take(uintptr_t at)
{
	(void)mmap((void *)at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
	           -1, 0);
}

static void take_all(void)
{
	static uintptr_t begins[MOST], ends[MOST];
	FILE *maps = fopen("/proc/self/maps", "re");
	size_t n = 0;

	if (!maps)
		exit(1);
	while (n < MOST && fscanf(maps, "%lx-%lx%*[^\n]", &begins[n], &ends[n]) == 2)
		n++;
	for (size_t i = 0; i + 1 < n; i++) {
		if (begins[i + 1] - ends[i] < least)
			continue;
		take(ends[i] + inwards);
		take(begins[i + 1] - inwards);
	}
	fclose(maps);
}

int main(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char byte;

	puts("READY");
	fflush(stdout);
	for (;;) {
		free(malloc(100));
		if (poll(&in, 1, 1) <= 0)
			continue;
		if (read(STDIN_FILENO, &byte, 1) != 1)
			return 0;
		take_all();
		puts("TAKEN");
		fflush(stdout);
	}
}
