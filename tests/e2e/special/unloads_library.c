/* SPDX-License-Identifier: Apache-2.0 */
/* A library for unloads.c, whose function MAKE leaks blocks of SIZE bytes. */

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 100 };

/* The code is the same whatever the size is. */
const size_t library_size = SIZE;

__attribute__((noinline)) void MAKE(void)
{
	void *block = malloc(*(const volatile size_t *)&library_size);

	memset(block, 'x', *(const volatile size_t *)&library_size);
}

void library_run(void)
{
	for (int i = 0; i < BLOCKS; i++)
		MAKE();
	__asm__ volatile("" ::: "memory");
}
