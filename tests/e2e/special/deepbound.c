/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deepbound LIBRARY [twice]: exchanges blocks with a library that RTLD_DEEPBIND binds to the C
 * library's malloc(), leaks 50 of its, and waits. "twice": frees one of them twice at the end.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 50 };

static void *(*make)(size_t);
static void *(*resize)(void *, size_t);
static size_t (*usable)(void *);
static void (*take)(void *);
static void (*take_by_data)(void *);
static void **early;

static void *find(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol)
		_exit(96);
	return symbol;
}

static void load(const char *path)
{
	char *before = strdup("made before the library was there");
	void *library = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);

	if (!library) {
		puts(dlerror());
		_exit(95);
	}
	make = find(library, "deep_make");
	resize = find(library, "deep_resize");
	usable = find(library, "deep_usable");
	take = find(library, "deep_free");
	take_by_data = find(library, "deep_release");
	early = find(library, "early");
	take(before);
}

static void exchange(void)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		char *p = strdup("made by the program, resized and freed by the library");

		p = resize(p, 500 * i + 1);
		if (!p || usable(p) < 500 * i + 1)
			_exit(94);
		(i % 2 ? take : take_by_data)(p);
		free(make(100 + i));
		free(realloc(make(60), 3000));
	}
}

/* The library's, and it is the library that made them, at addresses of the program's. */
__attribute__((noinline)) static void lose(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		take(memset(malloc(60), 1, 60));
		(void)make(60);
	}
}

__attribute__((noinline)) static void scrub(void)
{
	volatile char bytes[32768];

	memset((void *)bytes, 0, sizeof(bytes));
}

int main(int argc, char **argv)
{
	void *p;

	load(argv[1]);
	if (malloc_usable_size(*early) < 100)
		return 93;
	p = realloc(*early, 5000);
	free(p);
	exchange();
	lose();
	scrub();
	puts("READY");
	(void)fflush(stdout);
	(void)getchar();
	if (argc > 2) {
		void *volatile again = make(80);

		free(again);
		free(again);
	}
	return 0;
}
