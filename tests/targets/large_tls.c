// variants: static static-pie
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * More thread-local storage than is usual, so that the C library's own, with the pointer
 * to the thread's cache of free blocks, is far from the thread pointer: `large_tls
 * SCENARIO`, `large_tls list`; see truth.h. What is in the caches is free, not lost.
 */
#include "truth.h"

#include <pthread.h>

enum { N_THREADS = 3, N_SIZES = 40 };

static __thread char large[200 * 1024];
static __thread void *volatile slot[4];

static pthread_barrier_t barrier;

/* Leave free blocks of many sizes in the thread's cache, and lose and hold one. */
NOINLINE static void use_cache(void)
{
	void *blocks[N_SIZES][5];

	memset(large, 0, sizeof(large));
	for (int size = 0; size < N_SIZES; size++)
		for (int i = 0; i < 5; i++)
			blocks[size][i] = fresh(20 + 24 * (size_t)size);
	leak(77);
	slot[2] = fresh(99);
	tell("live", slot[2]);
	for (int size = 0; size < N_SIZES; size++)
		for (int i = 0; i < 5; i++)
			free(blocks[size][i]);
}

static void one_thread(void)
{
	use_cache();
}

static void *run(void *unused)
{
	(void)unused;
	use_cache();
	forget();
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void start_threads(void)
{
	pthread_attr_t attr;
	pthread_t id;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 2 << 20);
	pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
	for (int i = 0; i < N_THREADS; i++)
		pthread_create(&id, &attr, run, NULL);
	pthread_barrier_wait(&barrier);
	pthread_attr_destroy(&attr);
}

static void four_threads(void)
{
	use_cache();
	start_threads();
}

/* The main thread has none. */
static void three_threads(void)
{
	start_threads();
}

static const struct scenario scenarios[] = {
	{ "one_thread", one_thread, 0 },
	{ "four_threads", four_threads, 0 },
	{ "three_threads", three_threads, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "one_thread");
}
