/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A malloc of its own, or one in front of the C library's. Built as a program, it brings
 * an allocator (OWN), or memory from mmap besides the heap (MAPPED: so many MiB); built
 * with -shared, it is that allocator, or passes calls on by dlsym (WRAP_DLSYM), or by
 * __libc_malloc (WRAP_LIBC).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef OWN
static char pool[1 << 20];
static size_t used;

void *malloc(size_t size)
{
	char *p = pool + used + 16;

	size = (size + 31) & ~(size_t)15;
	if (size > sizeof(pool) - used)
		return NULL;
	used += size;
	memcpy(p - 16, &size, sizeof(size));
	return p;
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size);
}

void *realloc(void *p, size_t size)
{
	void *grown = malloc(size);

	if (p && grown)
		memcpy(grown, p, size);
	return grown;
}

void free(void *p)
{
	(void)p;
}
#endif

#ifdef WRAP_DLSYM
void *malloc(size_t size)
{
	static void *(*next)(size_t);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "malloc");
	return next(size);
}
#endif

#ifdef WRAP_LIBC
extern void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
	return __libc_malloc(size);
}
#endif

int main(int argc, char **argv)
{
	void *volatile p;
	char byte;

	(void)argv;
#ifdef MAPPED
	p = mmap(NULL, (size_t)MAPPED << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	         -1, 0);
	memset(p, 1, (size_t)MAPPED << 20);
#endif
	for (int i = 0; argc < 2 && i < 100; i++)
		p = malloc(100);
	p = NULL;
	(void)p;
	if (write(1, "READY\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
