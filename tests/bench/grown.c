/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The target of build/bench/decode: a heap that does not change any more.
 *
 *	grown N LEAST MOST FREED
 *
 * Allocates N blocks of LEAST to MOST bytes, frees about FREED of 16 of them, writes a byte
 * to standard output and waits to be killed. A program of its own, so that the C library that
 * it is built for may be another than that of who measures.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

int main(int argc, char **argv)
{
	size_t given[4] = { 0 };
	uint32_t state = 1;
	void **blocks;

	if (argc != 5)
		return 2;
	for (int i = 0; i < 4; i++)
		given[i] = strtoul(argv[i + 1], NULL, 10);
	blocks = malloc(given[0] * sizeof(*blocks));
	for (size_t i = 0; i < given[0]; i++) {
		size_t len = given[1] + next_random(&state) % (given[2] - given[1] + 1);

		blocks[i] = malloc(len);
		memset(blocks[i], 1, len);
	}
	for (size_t i = 0; i < given[0]; i++)
		if (next_random(&state) % 16 < given[3])
			free(blocks[i]);
	if (write(STDOUT_FILENO, "", 1) != 1)
		return 1;
	for (;;)
		pause();
}
