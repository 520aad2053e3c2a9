/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that leaks blocks of a library's and of its own, of a size for each. Once more, and
 * one of 20 MB, when it gets a line; some of 20 MB it has from the beginning.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *make_file(void *mark);
void *make_cart(void *mark);

enum { LARGE = 20 << 20 };

static void callback(void)
{
}

__attribute__((noipa)) static void *make(size_t size, void *mark)
{
	void **p = calloc(1, size);

	p[1] = mark;
	return p;
}

__attribute__((noinline)) static void leak(void)
{
	(void)!make_file(NULL);
	(void)!make_file((void *)callback);
	(void)!make_cart(NULL);
	(void)!make_cart((void *)callback);
	(void)!make(408, (void *)callback);
	(void)!make(504, (void *)free);
	(void)!make(LARGE, NULL);
}

/* What calls have left on the stack is no pointer to a block. */
__attribute__((noinline)) static void forget(void)
{
	volatile char stack[8192];

	memset((void *)stack, 0, sizeof(stack));
}

int main(void)
{
	char line[16];

	setvbuf(stdout, NULL, _IONBF, 0);
	do {
		leak();
		forget();
		puts("READY");
	} while (fgets(line, sizeof(line), stdin));
	return 0;
}
