/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_storm MILLISECONDS [N]: executes itself anew after that time, again and again; N
 * counts. Ends with its input: prints "execs N", status 0.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 1000, BYTES = 100 };

static char *volatile held[BLOCKS];

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	int milliseconds = argc > 1 ? atoi(argv[1]) : 40;
	long n = argc > 2 ? atol(argv[2]) : 0;
	char number[24];
	int ready;

	if (!n) {
		puts("READY");
		fflush(stdout);
	}
	for (int i = 0; i < BLOCKS; i++) {
		held[i] = malloc(BYTES);
		memset(held[i], i, BYTES);
	}
	ready = poll(&input, 1, milliseconds);
	if (ready < 0)
		perror("poll");
	if (ready) {
		printf("execs %ld\n", n);
		return ready < 0;
	}
	snprintf(number, sizeof(number), "%ld", n + 1);
	execl("/proc/self/exe", argv[0], argv[1], number, (char *)NULL);
	perror("execl");
	return 1;
}
