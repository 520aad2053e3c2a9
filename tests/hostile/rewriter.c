/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rewriter MIB [led]: holds so much in small blocks, and writes to every page of it again and
 * again: each of them is copied for a clone. "led" by another thread: the first ends.
 *
 * Prints "READY"; with the end of its input "rounds N", how often it wrote to all.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 240, STEP = 4, BLOCKS_PER_MIB = 4096 }; /* 256 bytes each, in malloc's count */

static char **blocks;
static size_t n;

static void *rewrite(void *unused)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	unsigned long rounds = 0;

	(void)unused;
	(void)puts("READY");
	(void)fflush(stdout);
	for (; !poll(&input, 1, 0); rounds++)
		for (size_t i = 0; i < n; i += STEP)
			((volatile char *)blocks[i])[0]++;
	(void)printf("rounds %lu\n", rounds);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) * BLOCKS_PER_MIB;
	blocks = malloc(n * sizeof(*blocks));
	for (size_t i = 0; i < n; i++) {
		blocks[i] = malloc(BLOCK);
		memset(blocks[i], 'r', BLOCK);
	}
	if (argc > 2 && !pthread_create(&thread, NULL, rewrite, NULL))
		pthread_exit(NULL);
	(void)rewrite(NULL);
	return 0;
}
