/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program that uses malloc and leaks, in nothing but standard C and POSIX:
 * built for 32 bits, and for other C libraries.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *held[100];

int main(void)
{
	char byte;

	for (int i = 0; i < 100; i++) {
		held[i] = malloc(100);
		memset(held[i], i, 100);
		if (i % 3 == 0)
			held[i] = NULL;
	}
	if (write(1, "READY\n", 6) != 6)
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
