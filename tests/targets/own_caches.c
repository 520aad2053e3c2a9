/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc with caches of the program's own (mallocx with MALLOCX_TCACHE), and an arena of
 * its own: what these caches hold is free, what they gave out is not. Exits with 77 under
 * any other malloc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "truth.h"

enum { CACHES = 3, BLOCKS = 40 };

static void *(*mallocx)(size_t, int);
static void (*dallocx)(void *, int);
static int (*mallctl)(const char *, void *, size_t *, void *, size_t);

/* As jemalloc.h has them. */
static int through_cache(unsigned cache)
{
	return (int)((cache + 2) << 8);
}

static int in_arena(unsigned arena)
{
	return (int)((arena + 1) << 20);
}

static unsigned make(const char *what)
{
	unsigned id = 0;
	size_t len = sizeof(id);

	if (mallctl(what, &id, &len, NULL, 0))
		_exit(96);
	return id;
}

/* Of @flags every third block of a size is leaked, the others go back into the cache. */
static NOINLINE void use(int flags, size_t size)
{
	void *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = memset(mallocx(size, flags), 0, size);
	for (int i = 0; i < BLOCKS; i++)
		if (i % 3)
			dallocx(blocks[i], flags);
		else
			tell("leak", blocks[i]);
	explicit_bzero(blocks, sizeof(blocks));
}

int main(void)
{
	*(void **)&mallocx = dlsym(RTLD_DEFAULT, "mallocx");
	*(void **)&dallocx = dlsym(RTLD_DEFAULT, "dallocx");
	*(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
	if (!mallocx || !dallocx || !mallctl)
		return 77;
	for (int i = 0; i < CACHES; i++) {
		unsigned cache = make("tcache.create");

		use(through_cache(cache), 100);
		use(through_cache(cache), 20000);
		use(through_cache(cache) | in_arena(make("arenas.create")), 300);
	}
	forget();
	ready();
}
