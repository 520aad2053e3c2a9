// variants: static static-pie
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Heaps of unusual shape: `heap_shapes SCENARIO`, `heap_shapes list`; see
 * truth.h. Some scenarios only get their shape by GLIBC_TUNABLES, which
 * tests/e2e/test_targets.py sets for them; without, they are ordinary heaps.
 */
#include "truth.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096

/* Block 0 of a chain that keeps all that stays alive; any thread may add. */
static void **kept_head;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_block(void **block)
{
	pthread_mutex_lock(&kept_lock);
	block[0] = kept_head;
	kept_head = block;
	pthread_mutex_unlock(&kept_lock);
}

NOINLINE static void keep(size_t size)
{
	keep_block(fresh(size < 8 ? 8 : size));
}

static uint32_t next_random(uint32_t *state, uint32_t below)
{
	*state = *state * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)*state * below) >> 32);
}

/* Some kept, some lost, most freed, of all sizes up to @largest. */
NOINLINE static void mix(uint32_t seed, int n, uint32_t largest)
{
	void **table = mmap(NULL, (size_t)n * sizeof(void *), PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t state = seed;

	for (int i = 0; i < n; i++)
		table[i] = fresh(8 + next_random(&state, i % 50 == 0 ? largest : 600));
	for (int i = 0; i < n; i++) {
		uint32_t fate = next_random(&state, 20);

		if (fate == 0)
			tell("leak", table[i]);
		else if (fate < 5)
			keep_block(table[i]);
		else
			free(table[i]);
	}
	munmap(table, (size_t)n * sizeof(void *));
}

struct work {
	uint32_t seed;
	int stay;
};

static int n_done;

static void *mix_in_thread(void *argument)
{
	struct work work = *(struct work *)argument;

	argument = NULL;
	mix(work.seed, 400, 200000);
	forget();
	__atomic_fetch_add(&n_done, 1, __ATOMIC_SEQ_CST);
	while (work.stay)
		pause();
	return NULL;
}

/* Half of the threads stay, half have ended. */
static void mix_in_threads(int n)
{
	static struct work work[1000];
	static pthread_t ids[1000];

	for (int i = 0; i < n; i++) {
		work[i].seed = (uint32_t)i + 1;
		work[i].stay = i % 2;
		if (pthread_create(&ids[i], NULL, mix_in_thread, &work[i]) != 0)
			_exit(97);
	}
	while (__atomic_load_n(&n_done, __ATOMIC_SEQ_CST) < n)
		usleep(1000);
	for (int i = 0; i < n; i += 2)
		pthread_join(ids[i], NULL);
	/* musl's are addresses of stacks that are gone, where a block may be now */
	memset(ids, 0, sizeof(ids));
	usleep(20000);
}

static void mixed(void)
{
	mix(99, 3000, 300000);
	mix_in_threads(8);
	mix(100, 3000, 300000);
}

/* ---- sbrk and brk ---- */

#ifdef __GLIBC__
static void foreign_sbrk(void)
{
	static const intptr_t gaps[] = { 16, 1000, 77777, 4096, 24, 1 << 20 };

	mix(1, 300, 3000);
	for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++) {
		char *gap = sbrk(gaps[i]);

		if (gap == (void *)-1)
			_exit(97);
		memset(gap, 0x5a + (int)i, (size_t)gaps[i]);
		for (int piece = 0; piece < 40; piece++)
			leak(4000 + 8 * (size_t)piece);
		mix((uint32_t)i + 2, 500, 60000);
	}
}

/* What a foreign user of sbrk stored there is a root. */
static void foreign_sbrk_holds(void)
{
	void **gap, *live;

	mix(1, 300, 3000);
	gap = sbrk(3 * PAGE);
	memset(gap, 0, 3 * PAGE);
	gap = (void **)(((uintptr_t)gap + 15) & ~(uintptr_t)15);
	live = fresh(140000 - 32 * 1024);
	tell("live", live);
	gap[700] = live;
	mix(2, 800, 60000);
}
#endif

static void *block_brk(void)
{
	uintptr_t end = ((uintptr_t)sbrk(0) + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	void *p = mmap((void *)end, PAGE, PROT_READ,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED)
		_exit(97);
	return p;
}

static void fill_megabytes(int megabytes)
{
	for (int i = 0; i < megabytes * 16; i++) {
		keep(60000);
		if (i % 5 == 0)
			leak(5000);
	}
}

/* The main arena goes on by mmap. */
static void brk_blocked(void)
{
	mix(1, 500, 30000);
	block_brk();
	fill_megabytes(5);
	mix(2, 2000, 60000);
}

static void brk_never(void)
{
	block_brk();
	fill_megabytes(3);
	mix(2, 2000, 60000);
}

/* ... and comes back to brk. */
static void brk_unblocked(void)
{
	void *obstacle;

	mix(1, 500, 30000);
	obstacle = block_brk();
	fill_megabytes(3);
	munmap(obstacle, PAGE);
	fill_megabytes(3);
	mix(3, 2000, 60000);
}

/* ---- mmapped chunks ---- */

/* Neighbours, which the kernel shows as one mapping; some taken out again. */
static void mapped_neighbours(void)
{
	static void *table[60];

	for (int i = 0; i < 60; i++)
		table[i] = fresh(140000 + 4096 * (size_t)(i % 7));
	for (int i = 0; i < 60; i++) {
		if (i % 4 == 0)
			tell("leak", table[i]);
		else if (i % 4 == 1)
			free(table[i]);
		else
			keep_block(table[i]);
	}
	memset(table, 0, sizeof(table));
	OPAQUE(n_done);
}

NOINLINE static char *page_inside(void *block, size_t pages)
{
	return (char *)(((uintptr_t)block & ~(uintptr_t)(PAGE - 1)) + pages * PAGE);
}

/* One chunk, several mappings: advice and protection on a part of it. */
static void split_mappings(void)
{
	for (int i = 0; i < 12; i++) {
		char *block = fresh(4000000 + 100000 * (size_t)i);

		switch (i % 4) {
		case 0:
			madvise(page_inside(block, 300), 200 * PAGE, MADV_HUGEPAGE);
			break;
		case 1:
			madvise(page_inside(block, 3), 20 * PAGE, MADV_DONTFORK);
			break;
		case 2:
			mprotect(page_inside(block, 100), PAGE, PROT_READ);
			break;
		case 3:
			mlock(page_inside(block, 7), PAGE);
			break;
		}
		if (i % 3 == 0)
			tell("leak", block);
		else
			keep_block((void **)block);
	}
}

/* The same in brk memory and in a thread's arena. */
static void split_heaps(void)
{
	mix(1, 3000, 60000);
	madvise(page_inside(kept_head, 0), 3 * PAGE, MADV_DONTFORK);
	mix_in_threads(4);
	madvise(page_inside(kept_head, 0), 2 * PAGE, MADV_DONTFORK);
	for (int i = 0; i < 30; i++) {
		char *block = fresh(50000);

		if (i % 3 == 0)
			mprotect(page_inside(block, 2), PAGE, PROT_READ);
		if (i % 2 == 0)
			tell("leak", block);
		else
			keep_block((void **)block);
	}
}

/* A hole which no reader gets at in a lost block must not hide it. */
static void closed_page(void)
{
	for (int i = 0; i < 6; i++) {
		char *block = fresh(i < 3 ? 400000 : 60000);

		mprotect(page_inside(block, 3), PAGE, PROT_NONE);
		if (i % 2 == 0)
			tell("leak", block);
		else
			keep_block((void **)block);
	}
}

/* ---- arenas ---- */

#ifdef __GLIBC__
static void *grow_beyond_one_heap(void *unused)
{
	static void *table[200];

	(void)unused;
	for (int i = 0; i < 200; i++)
		table[i] = fresh(1000000);
	for (int i = 0; i < 200; i++) {
		if (i % 9 == 0)
			tell("leak", table[i]);
		else if (i % 3 == 0)
			keep_block(table[i]);
		else
			free(table[i]);
	}
	memset(table, 0, sizeof(table));
	mix(5, 1000, 60000);
	forget();
	__atomic_fetch_add(&n_done, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

/* An arena of several heaps of 64 MiB. */
static void many_heaps(void)
{
	pthread_t id;

	mallopt(M_MMAP_MAX, 0);
	pthread_create(&id, NULL, grow_beyond_one_heap, NULL);
	while (__atomic_load_n(&n_done, __ATOMIC_SEQ_CST) < 1)
		usleep(1000);
}
#endif

static void many_threads(void)
{
	mix_in_threads(300);
}

static void arenas_used_again(void)
{
	for (int round = 0; round < 5; round++) {
		n_done = 0;
		mix_in_threads(round % 2 ? 6 : 3);
	}
}

#ifdef __GLIBC__
static void options(void)
{
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TOP_PAD, 500000);
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_PERTURB, 0x5a);
	mallopt(M_MXFAST, 160);
	mixed();
}

static void no_fastbins(void)
{
	mallopt(M_MXFAST, 0);
	mallopt(M_TRIM_THRESHOLD, 4096);
	mixed();
}

static void trimmed(void)
{
	mix(1, 20000, 60000);
	mix_in_threads(4);
	malloc_trim(0);
	malloc_trim(0);
	mix(2, 100, 1000);
}
#endif

/* Threads come and go all the time; what they use is always reachable. */
static void *live_shortly(void *argument)
{
	void *volatile block = malloc((size_t)(uintptr_t)argument);

	usleep(200);
	free(block);
	return NULL;
}

static void *start_others(void *unused)
{
	for (uintptr_t i = 0;; i++) {
		pthread_t ids[4];

		for (int t = 0; t < 4; t++)
			pthread_create(&ids[t], NULL, live_shortly, (void *)(100 + i % 5000));
		for (int t = 0; t < 4; t++)
			pthread_join(ids[t], NULL);
	}
	return unused;
}

static void thread_churn(void)
{
	pthread_t id;

	leak(100);
	pthread_create(&id, NULL, start_others, NULL);
}

/* ---- fork ---- */

static void *fill_cache(void *unused)
{
	static __thread void *table[500];

	(void)unused;
	mix(3, 500, 20000);
	for (int i = 0; i < 500; i++)
		table[i] = fresh(16 * (size_t)(i % 60) + 8);
	for (int i = 0; i < 500; i++)
		free(table[i]);
	memset(table, 0, sizeof(table));
	forget();
	__atomic_fetch_add(&n_done, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

/* The child has the other threads' arenas and caches, but no threads. */
static void fork_child(void)
{
	pthread_t id;
	pid_t child;

	for (int i = 0; i < 4; i++)
		pthread_create(&id, NULL, fill_cache, NULL);
	while (__atomic_load_n(&n_done, __ATOMIC_SEQ_CST) < 4)
		usleep(1000);
	usleep(10000);
	memset(&id, 0, sizeof(id));
	child = fork();
	if (child == 0) {
		mix(7, 500, 20000);
		tell_pid(getpid());
		ready();
	}
	waitpid(child, NULL, 0);
	_exit(0);
}

static const struct scenario scenarios[] = {
	{ "mixed", mixed, 0 },
	{ "tcache_off", mixed, 0 },
	{ "tcache_long", mixed, 0 },
	{ "tcache_max", mixed, 0 },
	{ "one_arena", mixed, 0 },
	{ "low_mmap_threshold", mixed, 0 },
	{ "mxfast", mixed, 0 },
	{ "perturbed", mixed, 0 },
	{ "top_pad", mixed, 0 },
	{ "huge_pages", mixed, 0 },
	{ "brk_blocked", brk_blocked, 0 },
	{ "brk_never", brk_never, 0 },
	{ "brk_unblocked", brk_unblocked, 0 },
	{ "mapped_neighbours", mapped_neighbours, 0 },
	{ "split_mappings", split_mappings, 0 },
	{ "split_heaps", split_heaps, 0 },
	{ "closed_page", closed_page, 0 },
#ifdef __GLIBC__
	{ "foreign_sbrk", foreign_sbrk, 0 },
	{ "foreign_sbrk_holds", foreign_sbrk_holds, 0 },
	{ "many_heaps", many_heaps, 0 },
	{ "options", options, 0 },
	{ "no_fastbins", no_fastbins, 0 },
	{ "trimmed", trimmed, 0 },
#endif
	{ "many_threads", many_threads, 0 },
	{ "arenas_used_again", arenas_used_again, 0 },
	{ "thread_churn", thread_churn, 0 },
	{ "fork_child", fork_child, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "mixed");
}
