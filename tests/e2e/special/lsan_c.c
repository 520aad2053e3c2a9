/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A C program as others annotate theirs. Its verdict is LeakSanitizer's when it is built
 * with -fsanitize=leak, and must be the same from memscan when it is not. Sizes are 8 more
 * than a multiple of 16, for glibc has blocks of exactly these. Ends with its input.
 */
#include <sanitizer/lsan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline, noclone))

uintptr_t *registered; /* the region's address, inverted, in a block */
uintptr_t *unregistered;

/* A block with a reference to another one. */
NOINLINE static void **pair(size_t size, size_t other)
{
	void **block = memset(malloc(size), 0, size);

	*block = memset(malloc(other), 0, other);
	return block;
}

NOINLINE static void plain(void)
{
	pair(1000, 1016);
	__lsan_ignore_object(pair(2008, 2024));
}

NOINLINE static void windows(void)
{
	__lsan_disable();
	pair(3000, 3016);
	__lsan_disable();
	pair(3032, 3048);
	__lsan_enable();
	pair(3064, 3080);
	__lsan_enable();
	pair(4008, 4024);
}

NOINLINE static void freed(void)
{
	void *volatile p = malloc(5000);
	uintptr_t before = ~(uintptr_t)p;

	__lsan_ignore_object(p);
	free(p);
	p = memset(malloc(5000), 0, 5000);
	if (~(uintptr_t)p != before)
		fprintf(stderr, "elsewhere\n"); /* LeakSanitizer's allocator: any order */
}

NOINLINE static void grown(void)
{
	void *p;

	__lsan_disable();
	p = malloc(104);
	__lsan_enable();
	p = realloc(p, 6008);
	memset(p, 0, 6008);
}

NOINLINE static uintptr_t *region_with(size_t size)
{
	char *apart = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t *hidden = malloc(8);

	apart += 8 * 4096;
	if (mprotect(apart, 4096, PROT_READ | PROT_WRITE) != 0)
		exit(2);
	*(void ***)(apart + 64) = pair(size, size + 16);
	*hidden = ~(uintptr_t)apart;
	__lsan_register_root_region(apart, 4096);
	return hidden;
}

NOINLINE static void forget(void)
{
	char dead[65536];

	memset(dead, 0, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

int main(void)
{
	plain();
	windows();
	freed();
	grown();
	registered = region_with(7000);
	unregistered = region_with(8008);
	__lsan_unregister_root_region((void *)~*unregistered, 4096);
	forget();
	puts("READY");
	fflush(stdout);
	forget();
	while (getchar() != EOF)
		;
	forget();
	return 0;
}
