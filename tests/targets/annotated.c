/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Annotated for LeakSanitizer, nothing of memscan's in it: `annotated SCENARIO`,
 * `annotated list`; see truth.h. Only with a library that has its names can it be linked;
 * without one (weak) it does nothing and every block is told.
 */
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern void __lsan_ignore_object(const void *p) __attribute__((weak));
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));
extern void __lsan_register_root_region(const void *p, size_t size) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *p, size_t size) __attribute__((weak));

struct node {
	struct node *next;
	uint64_t load[9];
};

/* A list of three; every node told as @what. */
NOINLINE static struct node *new_list(const char *what)
{
	struct node *list = NULL;

	for (int i = 0; i < 3; i++) {
		struct node *node = fresh(sizeof(*node));

		node->next = list;
		list = node;
		tell(what, node);
	}
	return list;
}

static void ignored(void)
{
	__lsan_ignore_object(new_list("live"));
	leak(100);
}

static void ignored_inside(void)
{
	__lsan_ignore_object((char *)new_list("live") + 33);
	__lsan_ignore_object((char *)fresh(50) + 49);
	leak(100);
}

/* NULL, numbers, and what is no block. */
static void ignored_nonsense(void)
{
	int local = 0;

	__lsan_ignore_object(NULL);
	__lsan_ignore_object((void *)7);
	__lsan_ignore_object((void *)-1);
	__lsan_ignore_object(&local);
	__lsan_register_root_region(NULL, 100);
	__lsan_register_root_region(&local, 0);
	__lsan_unregister_root_region(NULL, 200);
	__lsan_unregister_root_region(&local, 0);
	leak(100);
}

/* The same address once more, now as a leak. */
NOINLINE static void freed_at(size_t size, size_t offset)
{
	char *p = fresh(size);
	uintptr_t old = (uintptr_t)p;

	__lsan_ignore_object(p + offset);
	free(p);
	p = fresh(size);
	if ((uintptr_t)p != old)
		_exit(92); /* nothing would be proved */
	tell("leak", p);
}

static void freed(void)
{
	/* or a freed mapping would raise it, and the next block be elsewhere */
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	freed_at(100, 0);
	freed_at(1000, 500);
	freed_at(60000, 59999);
	freed_at(1000000, 0);
	freed_at(3000000, 2000000);
}

static void freed_of_window(void)
{
	for (size_t size = 24; size < 300000; size *= 3) {
		void *p;

		__lsan_disable();
		p = fresh(size);
		__lsan_enable();
		free(p);
		leak(size);
	}
}

/* As LeakSanitizer has it: a block that realloc() made outside of a window is told. */
static void reallocated(void)
{
	void *p;

	__lsan_disable();
	p = fresh(100);
	__lsan_enable();
	p = realloc(p, 5000);
	memset(p, 0, malloc_usable_size(p));
	tell("leak", p);
	p = fresh(100);
	__lsan_disable();
	p = realloc(p, 6000);
	__lsan_enable();
	memset(p, 0, malloc_usable_size(p));
	tell("live", p);
}

static void realloc_that_fails(void)
{
	void *p = fresh(100);
	volatile size_t much = (size_t)1 << 62;

	__lsan_ignore_object(p);
	if (realloc(p, much) != NULL)
		_exit(96);
	tell("live", p);
	leak(100);
}

NOINLINE static void window(void)
{
	__lsan_disable();
	new_list("live");
	__lsan_disable();
	tell("live", fresh(200));
	__lsan_enable();
	tell("live", fresh(300));
	__lsan_enable();
	leak(400);
}

static void windows(void)
{
	for (int i = 0; i < 3; i++)
		window();
}

/* Every way to allocate. */
NOINLINE static void window_of_all_kinds(void)
{
	void *p = NULL;
	char *line;

	__lsan_disable();
	p = calloc(3, 40);
	tell("live", p);
	tell("live", reallocarray(NULL, 3, 50));
	tell("live", memalign(64, 100));
	tell("live", aligned_alloc(4096, 4096));
	if (posix_memalign(&p, 256, 100) == 0)
		tell("live", p);
	tell("live", valloc(100));
	tell("live", pvalloc(100));
	tell("live", strdup("of the C library"));
	if (asprintf(&line, "%d of the C library", 1) > 0)
		tell("live", line);
	__lsan_enable();
	leak(100);
}

static pthread_barrier_t barrier;

static void *leak_meanwhile(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < 50; i++)
		leak(500);
	forget();
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

/* Windows are those of one thread. */
static void window_beside_threads(void)
{
	pthread_t ids[3];

	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 3; i++)
		pthread_create(&ids[i], NULL, leak_meanwhile, NULL);
	__lsan_disable();
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < 50; i++)
		tell("live", fresh(600));
	pthread_barrier_wait(&barrier);
	__lsan_enable();
	leak(700);
}

static void unmatched(void)
{
	__lsan_enable();
	leak(100);
	__lsan_disable();
	tell("live", fresh(100));
	__lsan_enable();
	__lsan_unregister_root_region((void *)0x10000, 100);
	leak(100);
}

/* ---- root regions ---- */

enum { REGION = 3 * 4096, APART = 64 * 4096 };

/* The only reference to the region; hidden. */
static uintptr_t inverted;

/* A mapping that nobody can find, with neighbours that nobody merges it with. */
NOINLINE static void **new_region(void)
{
	char *fence = mmap(NULL, APART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *region = fence + APART / 2;

	if (fence == MAP_FAILED || mprotect(region, REGION, PROT_READ | PROT_WRITE) != 0)
		_exit(95);
	inverted = ~(uintptr_t)region;
	return (void **)region;
}

/* A mapping that nothing points to makes what it holds no leak, but possible ones. */
static void region_unknown(void)
{
	new_region()[5] = new_list("possible");
}

static void region_registered(void)
{
	void **region = new_region();

	region[5] = new_list("live");
	__lsan_register_root_region(region, REGION);
	leak(100);
}

static void region_unregistered(void)
{
	void **region = new_region();

	region[5] = new_list("possible");
	__lsan_register_root_region(region, REGION);
	__lsan_register_root_region(region, 4096);
	__lsan_unregister_root_region((void *)~inverted, REGION);
	__lsan_unregister_root_region((void *)~inverted, 4096);
}

/* Made before any of it can be read, and then in several mappings. */
static void region_over_mappings(void)
{
	char *region = mmap(NULL, APART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	__lsan_register_root_region(region, APART);
	for (size_t at = 4096; at < APART; at += (size_t)7 * 4096) {
		if (mprotect(region + at, 4096, PROT_READ | PROT_WRITE) != 0)
			_exit(94);
		*(void **)(region + at + 8) = new_list("live");
	}
	leak(100);
}

static void region_in_block(void)
{
	char *block = fresh(10000);

	*(void **)(block + 5008) = new_list("live");
	__lsan_register_root_region(block + 5000, 100);
	tell("live", block);
	leak(100);
}

/* ---- processes ---- */

static volatile int stop;

static void *annotate_for_ever(void *unused)
{
	while (!stop) {
		void *p;

		__lsan_disable();
		p = malloc(40);
		__lsan_enable();
		__lsan_ignore_object((char *)p + 8);
		free(p);
	}
	return unused;
}

static void on_alarm(int number)
{
	static char local[16];

	(void)number;
	__lsan_ignore_object(local);
	__lsan_disable();
	__lsan_enable();
}

/* Children of a process whose other threads are amid it, and handlers amid it. */
static void forked(void)
{
	pthread_t ids[2];

	signal(SIGALRM, on_alarm);
	for (int i = 0; i < 2; i++)
		pthread_create(&ids[i], NULL, annotate_for_ever, NULL);
	for (int i = 0; i < 100; i++) {
		pid_t child;
		int status;

		ualarm(300, 0);
		child = fork();
		if (child == 0) {
			for (int n = 0; n < 100; n++)
				__lsan_ignore_object(malloc(100));
			_exit(0);
		}
		while (waitpid(child, &status, 0) < 0)
			;
		if (status != 0)
			_exit(93);
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
	__lsan_ignore_object(new_list("live"));
	leak(100);
}

static const struct scenario scenarios[] = {
	{ "ignored", ignored, 0 },
	{ "ignored_inside", ignored_inside, 0 },
	{ "ignored_nonsense", ignored_nonsense, 0 },
	{ "freed", freed, 0 },
	{ "freed_of_window", freed_of_window, 0 },
	{ "reallocated", reallocated, 0 },
	{ "realloc_that_fails", realloc_that_fails, 0 },
	{ "windows", windows, 0 },
	{ "window_of_all_kinds", window_of_all_kinds, 0 },
	{ "window_beside_threads", window_beside_threads, 0 },
	{ "unmatched", unmatched, 0 },
	{ "region_unknown", region_unknown, 0 },
	{ "region_registered", region_registered, 0 },
	{ "region_unregistered", region_unregistered, 0 },
	{ "region_over_mappings", region_over_mappings, 0 },
	{ "region_in_block", region_in_block, 0 },
	{ "forked", forked, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "ignored");
}
