/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loses a block of as many bytes as each line of its input says, and answers; 0: none. It
 * does not search itself: whoever does is beside it.
 */
#include "truth.h"

#include <stdio.h>

NOINLINE static void lose(size_t size)
{
	void *volatile p = fresh(size);

	p = NULL;
	(void)p;
}

/* The next block's header begins in the last word of the one lost. */
static void *volatile fence;

int main(void)
{
	char line[64];

	puts("READY");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (atoi(line))
			lose((size_t)atoi(line));
		fence = fresh(8);
		forget();
		fence = fresh(8);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
