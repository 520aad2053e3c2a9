/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rewriter MIB: holds so much in small blocks, and writes to every page of it again and again:
 * each of them is copied for a clone.
 *
 * Prints "READY"; with the end of its input "rounds N", how often it wrote to all.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 240, STEP = 4, BLOCKS_PER_MIB = 4096 }; /* 256 bytes each, in malloc's count */

static char **blocks;

int main(int argc, char **argv)
{
	size_t n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) * BLOCKS_PER_MIB;
	struct pollfd input = { .fd = 0, .events = POLLIN };
	unsigned long rounds = 0;

	blocks = malloc(n * sizeof(*blocks));
	for (size_t i = 0; i < n; i++) {
		blocks[i] = malloc(BLOCK);
		memset(blocks[i], 'r', BLOCK);
	}
	(void)puts("READY");
	(void)fflush(stdout);
	for (; !poll(&input, 1, 0); rounds++)
		for (size_t i = 0; i < n; i += STEP)
			((volatile char *)blocks[i])[0]++;
	(void)printf("rounds %lu\n", rounds);
	return 0;
}
