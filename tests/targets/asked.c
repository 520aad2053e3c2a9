/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asked NAME: blocks whose sizes are told as they were asked for, not as they are usable;
 * for a malloc_debug that is preloaded. Else as truth.h says.
 */
#include "truth.h"

#include <pthread.h>

enum { SIZES = 90, KEPT = 2000, THREADS = 3, SLOTS = 64 };

static void *volatile kept[KEPT]; /* written only, but not for nothing */
static int n_kept;

NOINLINE static void *keep(void *p)
{
	memset(p, 0, malloc_usable_size(p));
	kept[n_kept++] = p;
	return p;
}

NOINLINE static void lost(void *p, size_t size)
{
	if (!p)
		_exit(97);
	memset(p, 0, size);
	tell_sized("leak", p, size ? size : 1);
}

NOINLINE static void lose_each(size_t size)
{
	void *p = NULL;

	lost(malloc(size), size);
	lost(calloc(1, size), size);
	lost(realloc(NULL, size), size);
	lost(reallocarray(NULL, size, 3), 3 * size);
	lost(aligned_alloc(64, size & ~63UL), size & ~63UL);
	lost(memalign(512, size), size);
	if (posix_memalign(&p, 8192, size))
		_exit(97);
	lost(p, size);
	lost(realloc(malloc(size + 1000), size), size);
	lost(realloc(malloc(size / 2 + 1), size), size);
	lost(realloc(memalign(256, size + 100), size), size);
	lost(realloc(malloc(size), 3 * size + 20), 3 * size + 20);
	keep(malloc(size));
}

/* Every way to allocate, in small, in bins, and by mmap. */
static void shapes(void)
{
	for (size_t i = 0; i < SIZES; i++)
		lose_each(1 + i * 7);
	for (size_t size = 1000; size < 2000000; size = size * 3 + 17)
		lose_each(size);
	lost(malloc(0), 0);
	lost(valloc(100), 100);
	lost(pvalloc(100), 4096);
}

/* Programs ask how much they may use, and use it. */
static void slack(void)
{
	void **holder = keep(malloc(1));
	size_t last = malloc_usable_size(holder) / sizeof(void *) - 1;
	char *p = fresh(100);

	holder[last] = p;
	tell_sized("live", p, 100);
	p = fresh(1);
	kept[n_kept++] = p + malloc_usable_size(p) - 1;
	tell_sized("live", p, 1);
	lost(malloc(1), 1);
}

/* Hold one block where it counts, and leave the address of another behind what was asked for. */
NOINLINE static void leave_behind(size_t size)
{
	char *holder = malloc(size);
	size_t behind = (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
	void *live = malloc(50);
	void *gone = malloc(70);

	memset(holder, 0, size);
	memset(live, 0, 50);
	lost(gone, 70);
	memcpy(holder + behind - sizeof(void *), &live, sizeof(live));
	OPAQUE(holder);
	memcpy(holder + behind, &gone, sizeof(gone));
	kept[n_kept++] = holder;
	tell_sized("live", live, 50);
}

/* As slack(), but without asking: where usable bytes remain, they are nobody's. */
static void residual(void)
{
	static const size_t sizes[] = { 8, 16, 32, 1008, 8000, 100000, 130000, 300000, 3000000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		leave_behind(sizes[i]);
}

/* What a freed block holds is lost with it, also when it is kept for a while. */
static void freed(void)
{
	for (int i = 0; i < 50; i++) {
		void **holder = keep(malloc(200));
		void *inner = malloc(60);

		holder[10] = inner;
		OPAQUE(holder);
		lost(inner, 60);
		free(holder);
	}
}

static struct {
	void *volatile slot[SLOTS];
} tables[THREADS];

static void *never_rest(void *table)
{
	void *volatile *slot = table;
	unsigned long random = (unsigned long)(uintptr_t)table | 1;

	for (;;) {
		unsigned i;
		size_t size;

		random = random * 6364136223846793005UL + 1442695040888963407UL;
		i = random >> 40 & (SLOTS - 1);
		size = random >> 46 & 0x7ff;
		if (random >> 63) {
			free(slot[i]);
			slot[i] = NULL;
			slot[i] = random >> 62 & 1 ? malloc(size) : calloc(1, size);
		} else {
			slot[i] = realloc(slot[i], size + 1);
		}
	}
	return NULL;
}

/* Threads that allocate without pause, and lose nothing. */
static void threads(void)
{
	pthread_t thread;

	for (int i = 0; i < 40; i++)
		lost(malloc(10 + (size_t)i), 10 + (size_t)i);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, never_rest, (void *)tables[i].slot))
			_exit(97);
	memset(&thread, 0, sizeof(thread));
}

static const struct scenario scenarios[] = {
	{ "shapes", shapes, 0 }, { "slack", slack, 0 },     { "residual", residual, 0 },
	{ "freed", freed, 0 },   { "threads", threads, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "shapes");
}
