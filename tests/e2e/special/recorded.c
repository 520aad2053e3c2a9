/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program whose blocks are known, by sizes that nobody else asks for: of ten of 10007 bytes
 * four are freed, and three by another thread; one grows from 20011 bytes in eight steps,
 * with something behind it that makes it move; the other thread leaves two of 30013.
 * "recorded busy": four threads that hand blocks of 1 to 200 bytes to each other.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 10, SHARED = 64, ROUNDS = 20000 };

static char *volatile kept[BLOCKS];
static char *volatile others[2];
static char *volatile grown;
static char *volatile behind;
static _Atomic(char *) shared[SHARED];
static pthread_barrier_t barrier;

static void *other(void *unused)
{
	for (int i = 4; i < 7; i++)
		free(kept[i]);
	for (int i = 0; i < 2; i++)
		others[i] = malloc(30013);
	return unused;
}

static void *hand_on(void *seed)
{
	unsigned state = *(unsigned *)seed;

	pthread_barrier_wait(&barrier);
	for (int i = 0; i < ROUNDS; i++) {
		char *p;

		state = state * 1103515245 + 12345;
		p = state & 0x100000 ? malloc(1 + (state >> 8) % 200) : NULL;
		p = atomic_exchange(&shared[(state >> 16) % SHARED], p);
		if (p && state & 0x200000)
			p = realloc(p, 1 + (state >> 9) % 200);
		free(p);
		if (i % 32 == 0)
			sched_yield();
	}
	return NULL;
}

static void busy(void)
{
	unsigned seeds[4] = { 1, 2, 3, 4 };
	pthread_t threads[4];

	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hand_on, &seeds[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1 && strcmp(argv[1], "busy") == 0) {
		busy();
		return 0;
	}
	for (int i = 0; i < BLOCKS; i++)
		kept[i] = malloc(10007);
	for (int i = 0; i < 4; i++)
		free(kept[i]);
	grown = malloc(20011);
	for (int i = 1; i <= 8; i++) {
		behind = malloc(1009);
		grown = realloc(grown, 20011 + (size_t)i * 10000);
	}
	pthread_create(&thread, NULL, other, NULL);
	pthread_join(thread, NULL);
	return 0;
}
