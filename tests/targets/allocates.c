/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * allocates THREADS: so many threads that do nothing but replace blocks, up to 400 KB large,
 * each in a table of its own. All that is allocated is in a table, or in the hands of a
 * thread that is inside malloc or just came out of it: nothing is ever a leak.
 */
#include <pthread.h>

#include "truth.h"

enum { SLOTS = 512, SMALL = 3000, LARGE = 400000, LARGE_EVERY = 100 };

static void *replace(void *arg)
{
	static __thread void *slots[SLOTS];
	uint64_t random = (uintptr_t)arg;

	for (;;) {
		uint32_t i, size;

		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		i = (uint32_t)(random >> 33) % SLOTS;
		size = (uint32_t)(random >> 24);
		free(slots[i]);
		slots[i] = malloc(size % LARGE_EVERY ? size % SMALL : size % LARGE);
		if (slots[i] != NULL)
			memset(slots[i], 0, malloc_usable_size(slots[i]) < 64 ? 1 : 64);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
		if (pthread_create(&thread, NULL, replace, (void *)(uintptr_t)i) != 0)
			return 98;
	wait_for_end();
	return 0;
}
