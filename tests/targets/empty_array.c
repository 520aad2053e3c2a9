/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What new T[0] gives in C++ for a T with a destructor: a block with the number of elements, and
 * the address behind it. Beside them as many blocks of that size are leaked, with other numbers.
 */
#include "truth.h"

enum { N = 10 };

static size_t *kept[2 * N + 1];

/* What is behind an array is kept by that array's address, too, so it is another one's block. */
static NOINLINE void make_arrays(void)
{
	for (size_t i = 0; i < N; i++) {
		kept[2 * i] = malloc(sizeof(size_t));
		kept[2 * i + 1] = malloc(sizeof(size_t));
		*kept[2 * i]++ = 0;
		*kept[2 * i + 1] = 0;
	}
	/* What malloc left in it leads to the next block. */
	kept[2 * N] = calloc(1, sizeof(size_t));
}

static NOINLINE void leak_some(void)
{
	for (size_t i = 0; i < N; i++) {
		size_t *p = malloc(sizeof(*p));

		*p = i + 1;
		tell("leak", p);
	}
}

int main(void)
{
	make_arrays();
	leak_some();
	forget();
	ready();
}
