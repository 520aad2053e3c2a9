/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * two_heaps [LIBRARY]: blocks of the malloc that serves this program, and of a library's
 * own, which another allocator in front of it does not hide: the C library's, or that of
 * LIBRARY, loaded a second time into a namespace of its own. Each holds blocks of the other.
 *
 *	chains ──▶ a block of malloc's ──▶ a block of the library's ──▶ one of malloc's ──▶ …
 *
 * Leaks are told as "leak", those of the library, and "served", those of malloc: who does
 * not read that allocator cannot see them.
 */
#include "truth.h"

#include <dlfcn.h>

enum { CHAINS = 300, LINKS = 3, LEAKS = 200, LARGE_EVERY = 50, LARGE = 1 << 20 };

/* The library's. */
static void *(*own_malloc)(size_t size);
static size_t (*own_usable)(void *p);

/* Reached from here alone. */
static void **chains[CHAINS];

static size_t size_of(int i)
{
	return i % LARGE_EVERY ? 64 + (size_t)i % 900 : LARGE;
}

static void *own_block(size_t size)
{
	void *p = own_malloc(size);

	if (p == NULL)
		_exit(98);
	memset(p, 0, own_usable(p));
	return p;
}

NOINLINE static void make_chains(void)
{
	for (int i = 0; i < CHAINS; i++) {
		void **link = chains[i] = fresh(size_of(i));

		for (int k = 0; k < LINKS; k++) {
			*link = k % 2 == 1 ? fresh(size_of(i + k)) : own_block(size_of(i + k));
			link = *link;
		}
	}
}

NOINLINE static void make_leaks(void)
{
	for (int i = 0; i < LEAKS; i++) {
		void *p = own_block(size_of(i));

		tell_sized("leak", p, own_usable(p));
		tell("served", fresh(size_of(i)));
	}
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW)
	                         : dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	void ***held = chains;

	if (library == NULL)
		_exit(97);
	*(void **)&own_malloc = dlsym(library, "malloc");
	*(void **)&own_usable = dlsym(library, "malloc_usable_size");
	make_chains();
	OPAQUE(held); /* lest they be dropped, being never read */
	make_leaks();
	ready();
}
