/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes a heap dump of itself to its argument, with stacks that a test knows:
 * main > outer > (inlined inner) > leaf, 4 blocks of 100 bytes and 2 of 50, and
 * main > leaf, N blocks of 1000 where N is the second argument.
 */
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define KEEP __asm__ volatile("" ::: "memory")

static FILE *to;

__attribute__((noinline)) void leaf(size_t size, unsigned count)
{
	void *pcs[32];
	int n = backtrace(pcs, 32);

	fprintf(to, "z 0  sz %8zu  num    %u  bt", size, count);
	for (int i = 0; i < n; i++)
		fprintf(to, " %zx", (uintptr_t)pcs[i] - 1);
	fprintf(to, "\n");
	KEEP;
}

static inline __attribute__((always_inline)) void inner(size_t size, unsigned count)
{
	leaf(size, count); /* inner's call */
	KEEP;
}

__attribute__((noinline)) void outer(void)
{
	inner(100, 4); /* outer's first call */
	KEEP;
	inner(50, 2); /* outer's second call */
	KEEP;
}

static void copy_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];

	fprintf(to, "MAPS\n");
	while (fgets(line, sizeof(line), maps))
		fputs(line, to);
	fclose(maps);
	fprintf(to, "END\n");
}

int main(int argc, char **argv)
{
	to = fopen(argv[1], "w");
	fprintf(to, "Android Native Heap Dump v1.2\n\nBuild fingerprint: 'test'\n\n"
	            "Total memory: 1500\nAllocation records: 3\nBacktrace size: 16\n\n");
	outer();
	leaf(1000, argc > 2 ? (unsigned)atoi(argv[2]) : 1); /* main's call */
	copy_maps();
	return fclose(to) == 0 ? 0 : 1;
}
