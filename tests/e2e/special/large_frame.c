/* SPDX-License-Identifier: Apache-2.0 */
/* At each line of input, allocates below a function whose frame is larger than a sample keeps. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 50, LARGE = 600 << 10 };

static void *volatile kept;

__attribute__((noinline)) static void allocate(void)
{
	kept = malloc(20000);
	memset(kept, 1, 20000);
}

__attribute__((noinline)) static void large(void)
{
	volatile char space[LARGE];

	space[0] = space[LARGE - 1] = 1;
	allocate();
	space[1] = space[0];
}

__attribute__((noinline)) static void small(void)
{
	kept = malloc(30000);
	memset(kept, 1, 30000);
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	puts("READY");
	(void)fflush(stdout);
	while (getchar() == '\n') {
		for (int i = 0; i < ROUNDS; i++) {
			large();
			small();
		}
		kept = NULL;
		puts("done");
		(void)fflush(stdout);
	}
	return 0;
}
