/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The target of `make bench`: grows a heap of one shape, then obeys.
 *
 *	heap SHAPE N SIZE [THREADS [PLANTED]]
 *
 * N blocks of SIZE bytes are built as SHAPE, all of them reachable; THREADS more
 * threads sleep; PLANTED blocks are lost on purpose, so that whoever scans can be
 * asked for the right answer. "READY pid P blocks B bytes R" says what there is, R
 * being the resident anonymous memory. Then each line of standard input is answered
 * by one line:
 *
 *	fork      a plain fork() whose child ends at once, as the parent sees it: its ns
 *	touch     write to every page, as a busy program does: what a fork shared is its own again
 *	watch     start a thread that does nothing but look at the clock
 *	gap       the longest time between two of its looks since it was last asked
 *	still     end that thread
 *	lsan      LeakSanitizer's recoverable check: its ns, and 1 if it found leaks
 *	self      libmemunreachable's search from inside: its ns, and the leaks it found
 *	valgrind  Valgrind's leak check: its ns, and the bytes lost
 *	quit
 *
 * One source, built plainly for memscan, with -fsanitize=leak for its peer, and linked
 * with libmemunreachable to search itself. The
 * blocks are full of words that are no pointers, because nobody's heap is zeros.
 * What building needs besides the heap is mapped, and unmapped before READY.
 */

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memunreachable/memunreachable.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_DO_LEAK_CHECK           die("built without Valgrind's header")
#define VALGRIND_COUNT_LEAKS(a, b, c, d) ((a) = (b) = (c) = (d) = 0)
#endif

enum { LISTS = 64, PER_VECTOR = 64, ARENAS = 64, MOST_ROOTS = 64 };
enum { STACK_BYTES = 64 << 10, TOUCH_LEAST = 128 << 10 };

struct plan {
	size_t n;
	size_t size;
	size_t threads;
	size_t planted;
};

struct node {
	struct node *next[2];
};

/* A slice of the table that one builder fills. */
struct part {
	void **at;
	size_t n;
	size_t size;
	uint32_t seed;
};

static void *roots[MOST_ROOTS];
static size_t n_blocks;
static pthread_barrier_t built;

/* Defined in the build with -fsanitize=leak only. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
extern __typeof__(GetUnreachableMemory) GetUnreachableMemory __attribute__((weak));
extern __typeof__(FreeUnreachableMemory) FreeUnreachableMemory __attribute__((weak));

static void die(const char *what)
{
	fprintf(stderr, "heap: %s\n", what);
	_exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *allot(size_t size)
{
	static _Thread_local uint64_t state = 88172645463325252u;
	uint64_t *block = malloc(size);

	if (!block)
		die("out of memory");
	for (size_t i = 0; i < size / sizeof(*block); i++)
		block[i] = next_random(&state);
	return block;
}

static void **map_table(size_t n)
{
	void *table = mmap(NULL, n * sizeof(void *), PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
		die("no memory for the table");
	return table;
}

/* Allocated in order, linked in a random order: almost every step is a cache miss. */
static void *grow_tree(struct part *p)
{
	uint64_t state = p->seed;

	for (size_t i = 0; i < p->n; i++)
		p->at[i] = allot(p->size);
	for (size_t i = p->n; i > 1; i--) {
		size_t k = next_random(&state) % i;
		void *swap = p->at[i - 1];

		p->at[i - 1] = p->at[k];
		p->at[k] = swap;
	}
	for (size_t i = 0; i < p->n; i++) {
		struct node *node = p->at[i];

		for (size_t side = 0; side < 2; side++)
			node->next[side] = 2 * i + 1 + side < p->n ? p->at[2 * i + 1 + side] : NULL;
	}
	return p->at[0];
}

static void shape_tree(const struct plan *plan)
{
	struct part whole = { map_table(plan->n), plan->n, plan->size, 1 };

	roots[0] = grow_tree(&whole);
	n_blocks = plan->n;
	munmap(whole.at, plan->n * sizeof(void *));
}

/* A few long lists that grew at the same time. */
static void shape_lists(const struct plan *plan)
{
	uint64_t state = 1;

	for (size_t i = 0; i < plan->n; i++) {
		struct node *node = allot(plan->size);
		size_t list = next_random(&state) % LISTS;

		node->next[0] = roots[list];
		node->next[1] = NULL;
		roots[list] = node;
	}
	n_blocks = plan->n;
}

/* Four to a bucket; bucket by bucket, the entries lie anywhere. */
static void shape_hash(const struct plan *plan)
{
	size_t n_buckets = plan->n / 4 + 1;
	struct node **bucket = calloc(n_buckets, sizeof(*bucket));
	uint64_t state = 1;

	if (!bucket)
		die("out of memory");
	for (size_t i = 0; i < plan->n; i++) {
		struct node *node = allot(plan->size);
		size_t slot = next_random(&state) % n_buckets;

		node->next[0] = bucket[slot];
		bucket[slot] = node;
	}
	roots[0] = bucket;
	n_blocks = plan->n + 1;
}

/* A vector of vectors of pointers to blocks that hold none. */
static void shape_vectors(const struct plan *plan)
{
	size_t n_vectors = plan->n / (PER_VECTOR + 1) + 1;
	void ***top = calloc(n_vectors, sizeof(*top));

	if (!top)
		die("out of memory");
	for (size_t i = 0; i < n_vectors; i++) {
		top[i] = allot(PER_VECTOR * sizeof(void *));
		for (size_t k = 0; k < PER_VECTOR; k++)
			top[i][k] = allot(plan->size);
	}
	roots[0] = top;
	n_blocks = n_vectors * (PER_VECTOR + 1) + 1;
}

static void shape_buffers(const struct plan *plan)
{
	void **top = calloc(plan->n, sizeof(*top));

	if (!top)
		die("out of memory");
	for (size_t i = 0; i < plan->n; i++)
		top[i] = allot(plan->size);
	roots[0] = top;
	n_blocks = plan->n + 1;
}

static void __attribute__((noreturn)) sleep_forever(void)
{
	for (;;)
		pause();
}

static void *sleep_on(void *arg)
{
	(void)arg;
	sleep_forever();
}

static void *grow_and_sleep(void *arg)
{
	struct part *part = arg;

	*part->at = grow_tree(part);
	pthread_barrier_wait(&built);
	sleep_forever();
}

static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_BYTES);
	if (pthread_create(&thread, &small, run, arg))
		die("no thread");
	pthread_attr_destroy(&small);
	return thread;
}

/* Each thread grows a tree in an arena of its own, and stays. */
static void shape_arenas(const struct plan *plan)
{
	struct part parts[ARENAS];
	size_t share = plan->n / ARENAS + 1;
	void **table = map_table(share * ARENAS);

	pthread_barrier_init(&built, NULL, ARENAS + 1);
	for (size_t i = 0; i < ARENAS; i++) {
		parts[i] = (struct part){ table + i * share, share, plan->size, (uint32_t)i + 1 };
		start(grow_and_sleep, &parts[i]);
	}
	pthread_barrier_wait(&built);
	for (size_t i = 0; i < ARENAS; i++)
		roots[i] = *parts[i].at;
	n_blocks = share * ARENAS;
	munmap(table, share * ARENAS * sizeof(void *));
}

static const struct shape {
	const char *name;
	void (*build)(const struct plan *plan);
} shapes[] = {
	{ "tree", shape_tree },       { "lists", shape_lists },     { "hash", shape_hash },
	{ "vectors", shape_vectors }, { "buffers", shape_buffers }, { "arenas", shape_arenas },
};

/* First of all, so that building overwrites what of these addresses is on the stack. */
static void __attribute__((noinline)) lose(const struct plan *plan)
{
	for (size_t i = 0; i < plan->planted; i++) {
		void *volatile lost = allot(plan->size);

		memset(lost, 1, plan->size);
		lost = NULL;
	}
}

static void __attribute__((noinline)) scrub_stack(void)
{
	char dead[8192];

	memset(dead, 0, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

static uint64_t resident_anonymous(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "RssAnon: %lu", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return (uint64_t)kib << 10;
}

/* ---- commands ---- */

static atomic_bool watching;
static _Atomic uint64_t longest_ns;
static _Atomic uint64_t n_looks;
static pthread_t watcher;

static void *watch(void *arg)
{
	uint64_t last = now_ns();

	(void)arg;
	while (watching) {
		uint64_t now = now_ns();

		/* whoever resets in between loses one gap of some nanoseconds */
		if (now - last > longest_ns)
			longest_ns = now - last;
		last = now;
		n_looks++;
	}
	return NULL;
}

static void do_watch(void)
{
	watching = true;
	watcher = start(watch, NULL);
	puts("watch");
}

static void do_still(void)
{
	watching = false;
	pthread_join(watcher, NULL);
	puts("still");
}

/* The gap that ends just now counts: wait for a look that began after the question. */
static void do_gap(void)
{
	uint64_t until = n_looks + 2;

	while (n_looks < until)
		usleep(50);
	printf("gap %lu\n", (unsigned long)atomic_exchange(&longest_ns, 0));
}

static void do_fork(void)
{
	uint64_t since = now_ns();
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	since = now_ns() - since;
	if (child < 0 || waitpid(child, NULL, 0) != child)
		die("no fork");
	printf("fork %lu\n", (unsigned long)since);
}

static void touch_range(uint64_t begin, uint64_t end)
{
	for (uint64_t at = begin; at < end; at += 4096) {
		volatile char *byte = (volatile char *)(uintptr_t)at;

		*byte = *byte;
	}
}

/* Sleeping threads' stacks may be among it; they do not mind. */
static void do_touch(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	if (watching || !maps)
		die("cannot touch");
	while (fgets(line, sizeof(line), maps)) {
		unsigned long begin, end;
		char mode[8], name[256] = "";

		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &begin, &end, mode, name) >= 3 &&
		    !strcmp(mode, "rw-p") &&
		    (!strcmp(name, "[heap]") || (!*name && end - begin >= TOUCH_LEAST)))
			touch_range(begin, end);
	}
	fclose(maps);
	puts("touch");
}

static void do_lsan(void)
{
	uint64_t since = now_ns();
	int found;

	if (!__lsan_do_recoverable_leak_check)
		die("built without LeakSanitizer");
	found = __lsan_do_recoverable_leak_check();
	printf("lsan %lu %d\n", (unsigned long)(now_ns() - since), found);
}

static void do_self(void)
{
	struct UnreachableMemoryInfo info = { 0 };
	uint64_t since = now_ns();
	bool found;

	if (!GetUnreachableMemory)
		die("built without libmemunreachable");
	found = GetUnreachableMemory(&info, 100);
	since = now_ns() - since;
	if (!found)
		die("the search failed");
	printf("self %lu %zu\n", (unsigned long)since, info.num_leaks);
	FreeUnreachableMemory(&info);
}

static void do_valgrind(void)
{
	unsigned long lost = 0, maybe = 0, reachable = 0, suppressed = 0;
	uint64_t since = now_ns();

	VALGRIND_DO_LEAK_CHECK;
	since = now_ns() - since;
	VALGRIND_COUNT_LEAKS(lost, maybe, reachable, suppressed);
	(void)maybe;
	(void)reachable;
	(void)suppressed;
	printf("valgrind %lu %lu\n", (unsigned long)since, lost);
}

static void do_quit(void)
{
	/* not exit(): LeakSanitizer would check once more */
	_exit(0);
}

static const struct command {
	const char *name;
	void (*run)(void);
} commands[] = {
	{ "fork", do_fork }, { "touch", do_touch },       { "watch", do_watch },
	{ "gap", do_gap },   { "still", do_still },       { "lsan", do_lsan },
	{ "quit", do_quit }, { "valgrind", do_valgrind }, { "self", do_self },
};

static void obey(const char *line)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].name, line)) {
			commands[i].run();
			fflush(stdout);
			return;
		}
	die("no such command");
}

static void build(const char *shape, const struct plan *plan)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (!strcmp(shapes[i].name, shape)) {
			lose(plan);
			shapes[i].build(plan);
			scrub_stack();
			return;
		}
	die("no such shape");
}

static size_t number(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (*end || end == text)
		die("not a number");
	return n;
}

int main(int argc, char **argv)
{
	struct plan plan = { 0 };
	char line[64];

	if (argc < 4 || argc > 6)
		die("usage: heap SHAPE N SIZE [THREADS [PLANTED]]");
	plan.n = number(argv[2]);
	plan.size = number(argv[3]);
	plan.threads = argc > 4 ? number(argv[4]) : 0;
	plan.planted = argc > 5 ? number(argv[5]) : 0;
	if (!plan.n || plan.size < sizeof(struct node))
		die("N is at least 1, SIZE at least 16");
	mallopt(M_ARENA_MAX, ARENAS + 1);
	build(argv[1], &plan);
	for (size_t i = 0; i < plan.threads; i++)
		start(sleep_on, NULL);
	printf("READY pid %d blocks %zu bytes %lu\n", getpid(), n_blocks + plan.planted,
	       (unsigned long)resident_anonymous());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		obey(line);
	}
	_exit(0);
}
