/* SPDX-License-Identifier: Apache-2.0 */
/* A library to be loaded with RTLD_DEEPBIND: it makes, resizes and frees blocks of the program's.
 */

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

void *early;                    /* made by the constructor */
void (*release)(void *) = free; /* in data */

__attribute__((constructor)) static void construct(void)
{
	early = malloc(100);
}

__attribute__((noinline)) void *deep_make(size_t size)
{
	void *p = malloc(size);

	return p ? memset(p, 2, size) : NULL;
}

void *deep_resize(void *p, size_t size)
{
	return realloc(p, size);
}

size_t deep_usable(void *p)
{
	return malloc_usable_size(p);
}

void deep_free(void *p)
{
	free(p);
}

void deep_release(void *p)
{
	release(p);
}
