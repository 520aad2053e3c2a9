/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * plants: after READY each line of standard input loses blocks of 50000 bytes, by each way that
 * makes them another number, in a function of that name, and is answered by DONE. At the end of
 * input status 0.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 50000 };

#define PLANT(name, n, make)                             \
	static __attribute__((noinline)) void name(void) \
	{                                                \
		for (int i = 0; i < (n); i++) {          \
			void *volatile block = (make);   \
			if (block)                       \
				memset(block, 0, 64);    \
		}                                        \
	}

static void *aligned(void)
{
	void *block = NULL;

	return posix_memalign(&block, 64, SIZE) ? NULL : block;
}

PLANT(plant_malloc, 60, malloc(SIZE))
PLANT(plant_calloc, 50, calloc(SIZE / 10, 10))
PLANT(plant_realloc, 40, realloc(malloc(SIZE / 100), SIZE))
PLANT(plant_aligned_alloc, 30, aligned_alloc(64, SIZE / 64 * 64))
PLANT(plant_posix_memalign, 20, aligned())

/* What the last calls have left on the stack and in registers. */
static __attribute__((noinline)) void wipe(void)
{
	volatile char room[16384];

	memset((void *)room, 0, sizeof(room));
}

int main(void)
{
	void *volatile any = malloc(1);
	char line[16];

	signal(SIGPIPE, SIG_IGN); /* or a static program of musl has no way back from signals */
	free(any);                /* nor free() */
	setvbuf(stdin, NULL, _IONBF, 0);
	puts("READY");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		plant_malloc();
		plant_calloc();
		plant_realloc();
		plant_aligned_alloc();
		plant_posix_memalign();
		wipe();
		puts("DONE");
		fflush(stdout);
	}
	return 0;
}
