/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program that loses blocks under names that command a terminal: `hostile_names NAME` gives NAME
 * to its thread. Compiled with -DLIBRARY it is a malloc to preload.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#ifdef LIBRARY

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *p);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	return __libc_malloc(size);
}

void free(void *p)
{
	__libc_free(p);
}

void *calloc(size_t n, size_t size)
{
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return __libc_realloc(p, size);
}

#else

void *volatile fence;
void *volatile kept[100];

/* Its name is overwritten in the file: the assembler does not take any bytes in one. */
__attribute__((noinline)) static void lose_long_name(size_t size)
{
	fence = malloc(size);
	fence = NULL;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		(void)prctl(PR_SET_NAME, argv[1]);
	puts("READY");
	fflush(stdout);
	/* A line makes it lose more, when it may be attached. */
	while (getchar() != EOF) {
		for (size_t i = 0; i < 100; i++) {
			lose_long_name(1000 + i);
			kept[i] = malloc(5000);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}

#endif
