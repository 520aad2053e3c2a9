/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Leaks whose stacks are named. With a library as argument one more in that; ends when its
 * input does. NUMBER makes another build of it, with other code.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef NUMBER
#define NUMBER 1
#endif

static inline __attribute__((always_inline)) void *take_block(size_t n)
{
	void *p = malloc(n); /* here: take */

	memset(p, 1, n);
	return p;
}

__attribute__((noinline)) static void lose_block(size_t n)
{
	void *p = take_block(n); /* here: lose */

	__asm__ volatile("" : "+r"(p));
}

/* As Rust's compiler names functions, by its older and by its present rules. */
void rust_legacy(size_t n) __asm__("_ZN5store5Cache3put17h0123456789abcdefE");
void rust_v0(size_t n) __asm__("_RNvNtCs1234_7mycrate5store3put");

__attribute__((noinline)) void rust_legacy(size_t n)
{
	void *p = malloc(n);

	memset(p, 3, n);
	__asm__ volatile("" : "+r"(p));
}

__attribute__((noinline)) void rust_v0(size_t n)
{
	void *p = malloc(n);

	memset(p, 2, n);
	__asm__ volatile("" : "+r"(p));
}

static void lose_in(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*lose)(size_t n) = NULL;

	if (library)
		*(void **)&lose = dlsym(library, "lose_in_library");
	if (!lose)
		abort();
	lose(4321);
}

/* What calls leave on the stack and in registers would keep the blocks alive. */
static __attribute__((noinline)) void forget(void)
{
	volatile char stack[16 * 1024];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = NUMBER;
}

int main(int argc, char **argv)
{
	volatile size_t size = 1234; /* else there are clones of functions, just for that */

	for (int i = 0; i < NUMBER; i++)
		lose_block(size); /* here: main */
	rust_legacy(2345);
	rust_v0(3456);
	if (argc > 1)
		lose_in(argv[1]);
	forget();
	puts("READY");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
