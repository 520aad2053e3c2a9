/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge_pages N [led]: maps N huge pages of 2 MiB, all that there are, without a reservation,
 * and writes to them again and again: a page that is shared with another process cannot be
 * written to, as there is none for the copy of it. "led" by another thread: the first ends.
 *
 * Prints "READY"; with the end of its input "rounds N".
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, STEP = 4096, SMALL = 100 };

static void **held;

static size_t len;

static void *work(void *arg)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	unsigned long rounds = 0;

	(void)puts("READY");
	(void)fflush(stdout);
	for (; !poll(&input, 1, 0); rounds++)
		for (size_t i = 1; i < len / sizeof(*held); i += STEP)
			((volatile size_t *)held)[i]++;
	(void)printf("rounds %lu\n", rounds);
	exit(0);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t other;

	len = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) * HUGE_PAGE;
	held = mmap(NULL, len, PROT_READ | PROT_WRITE,
	            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	if (held == MAP_FAILED)
		return 77;
	for (size_t i = 0; i < len / sizeof(*held); i += STEP)
		held[i] = malloc(SMALL);
	if (argc < 3)
		(void)work(NULL);
	if (pthread_create(&other, NULL, work, NULL))
		return 1;
	pthread_exit(NULL);
}
