/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swapped: shared memory that holds the only pointers to live blocks and is in swap, where
 * no page table says that there is something.
 *
 * Prints "READY", or "SKIP" when it stayed in memory; with the end of its input frees all,
 * prints "freed N" and ends.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

enum { BLOCKS = 64, BLOCK = 200, BYTES = 1 << 20, TRIES = 50 };

static int is_in_swap(void)
{
	FILE *sums = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0;
	char line[256];

	while (sums && !kib && fgets(line, sizeof(line), sums))
		(void)sscanf(line, "Swap: %lu", &kib);
	if (sums)
		(void)fclose(sums);
	return kib > 0;
}

int main(void)
{
	void **held = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int freed = 0;

	if (held == MAP_FAILED)
		return 1;
	for (int i = 0; i < BLOCKS; i++)
		held[i] = malloc(BLOCK);
	for (int i = 0; i < TRIES && !is_in_swap(); i++) {
		(void)madvise(held, BYTES, MADV_PAGEOUT);
		(void)usleep(20000);
	}
	(void)puts(is_in_swap() ? "READY" : "SKIP");
	(void)fflush(stdout);
	(void)getchar();
	for (; freed < BLOCKS; freed++)
		free(held[freed]);
	(void)printf("freed %d\n", freed);
	return 0;
}
