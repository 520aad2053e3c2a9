// variants: static static-pie
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every way to lose a block: `leaks SCENARIO`, `leaks list`; see truth.h.
 *
 * Each scenario must tell every block that nothing reaches. Blocks which stay
 * alive beside them are as much a part of the test: none of them may be told.
 */
#include "truth.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

/* What stays alive is kept here. */
void *volatile kept[4096];
static unsigned n_kept;

struct node {
	struct node *next;
	struct node *other;
	uint64_t load[4];
};

static struct node *new_node(struct node *next)
{
	struct node *node = fresh(sizeof(*node));

	node->next = next;
	return node;
}

NOINLINE static void keep(size_t size)
{
	kept[n_kept++] = fresh(size);
}

static void none(void)
{
	for (size_t size = 0; size < 3000; size += 7)
		keep(size);
}

static void simple(void)
{
	keep(100);
	leak(100);
	keep(100);
}

static void chain(void)
{
	struct node *node = NULL;

	for (int i = 0; i < 10; i++) {
		node = new_node(node);
		tell(i < 9 ? "leak-indirect" : "leak-direct", node);
	}
}

static struct node *tree(int depth)
{
	struct node *node = new_node(NULL);

	if (depth > 0) {
		node->next = tree(depth - 1);
		node->other = tree(depth - 1);
	}
	tell(depth == 6 ? "leak-direct" : "leak-indirect", node);
	return node;
}

static void dominated_tree(void)
{
	tree(6);
}

/* Blocks come in rising addresses from a fresh top, and the lowest is direct. */
static void cycle(void)
{
	struct node *first = new_node(NULL), *second = new_node(first);
	struct node *third = new_node(second);
	struct node *lowest = first;

	first->next = third;
	if (second < lowest)
		lowest = second;
	if (third < lowest)
		lowest = third;
	tell(first == lowest ? "leak-direct" : "leak-indirect", first);
	tell(second == lowest ? "leak-direct" : "leak-indirect", second);
	tell(third == lowest ? "leak-direct" : "leak-indirect", third);
}

static void own_pointer(void)
{
	struct node *node = new_node(NULL);

	node->next = node;
	tell("leak-direct", node);
}

/* A cycle that explains another cycle, which explains a block. */
static void cycle_of_cycles(void)
{
	struct node *a = new_node(NULL), *b = new_node(a), *c = new_node(NULL), *d = new_node(c);

	a->next = b;
	c->next = d;
	b->other = d;
	d->other = new_node(NULL);
	tell("leak", a);
	tell("leak", b);
	tell("leak-indirect", c);
	tell("leak-indirect", d);
	tell("leak-indirect", d->other);
}

static void shared_child(void)
{
	struct node *child = new_node(NULL);

	tell("leak", child);
	for (int i = 0; i < 5; i++)
		tell("leak-direct", new_node(child));
}

/* One that a live block reaches and a leaked block too is alive. */
static void leak_points_to_live(void)
{
	struct node *live = new_node(NULL);

	kept[n_kept++] = live;
	live->next = new_node(NULL);
	tell("live", live->next);
	tell("leak", new_node(live->next));
}

/*
 * Leak a block into which no multiple of 2^32 points: a stale pointer on the stack of which the
 * lower half is a number by now, zero as a rule, would keep one of 64 MiB in every sixtieth run.
 */
NOINLINE static void leak_within_4_gib(size_t size)
{
	char *p = (char *)fresh(size), *first = p;

	if (((uint64_t)(uintptr_t)p ^ ((uint64_t)(uintptr_t)p + size)) >> 32) {
		p = (char *)fresh(size);
		free(first);
	}
	*p = 1;
	tell("leak", p);
}

static void big(void)
{
	leak(200000);
	keep(300000);
	leak(300000);
	leak(1 << 20);
	keep(1 << 20);
	leak_within_4_gib(64 << 20);
}

/* A block behind an mmapped leak's pointer is explained by it. */
static void big_with_child(void)
{
	void **parent = fresh(500000);

	parent[30000] = fresh(40);
	tell("leak-indirect", parent[30000]);
	tell("leak-direct", parent);
}

NOINLINE static void leak_aligned(size_t alignment, size_t size)
{
	void *p = NULL;

	if (posix_memalign(&p, alignment, size) != 0)
		_exit(97);
	memset(p, 0, malloc_usable_size(p));
	tell("leak", p);
}

static void aligned(void)
{
	for (size_t alignment = 16; alignment <= (1 << 20); alignment *= 2) {
		leak_aligned(alignment, 24);
		leak_aligned(alignment, 1000);
		keep(40);
	}
	for (size_t alignment = 16; alignment <= (1 << 20); alignment *= 2)
		leak_aligned(alignment, 300000);
	tell("leak", aligned_alloc(64, 640));
	tell("leak", memalign(4096, 10));
	tell("leak", valloc(100));
}

static void zeroed(void)
{
	tell("leak", calloc(1, 1));
	tell("leak", calloc(10, 100));
	tell("leak", calloc(1000, 1000));
}

static void size_zero(void)
{
	for (int i = 0; i < 10; i++)
		leak(0);
}

static void sizes(void)
{
	for (size_t size = 1; size <= 2000; size++) {
		leak(size);
		if (size % 3 == 0)
			keep(size);
	}
}

/* realloc in place, by moving, into an mmapped chunk, by mremap, and back. */
static void grown(void)
{
	static const size_t steps[] = { 100, 150, 5000, 200000, 900000, 9000000, 150000, 300, 10 };

	for (size_t last = 1; last <= sizeof(steps) / sizeof(steps[0]); last++) {
		void *p = fresh(8);

		for (size_t i = 0; i < last; i++) {
			p = realloc(p, steps[i]);
			keep(64);
		}
		memset(p, 0, malloc_usable_size(p));
		tell("leak", p);
	}
	for (int i = 0; i < 5; i++) {
		void *p = NULL;

		if (posix_memalign(&p, (size_t)4096 << i, 500000) != 0)
			_exit(97);
		p = realloc(p, 400000 + 100000 * (size_t)i);
		memset(p, 0, malloc_usable_size(p));
		tell("leak", p);
	}
}

static uint32_t random_state = 12345;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)random_state * n) >> 32);
}

/*
 * Leaks, live and freed blocks in disorder, so that leaks stand before free
 * chunks of every kind of bin. The order is made in a table that is cleared.
 */
NOINLINE static void among_freed(void)
{
	enum { N = 6000 };
	static void *table[N];

	for (int i = 0; i < N; i++)
		table[i] = fresh(1 + random_below(i % 10 == 0 ? 20000 : 400));
	for (int i = 0; i < N; i++) {
		uint32_t fate = random_below(20);

		if (fate == 0)
			tell("leak", table[i]);
		else if (fate < 4 && n_kept < 4000)
			kept[n_kept++] = table[i];
		else
			free(table[i]);
	}
	memset(table, 0, sizeof(table));
	OPAQUE(random_state);
}

/*
 * The last block before top, and blocks before a chunk in a bin: the arena's
 * own pointers to the next header lie in the last 8 bytes of the block.
 */
static void before_headers(void)
{
	void *freed[8];

	for (int i = 0; i < 8; i++) {
		leak(24 + 16 * (size_t)i);
		freed[i] = fresh(2000 + 48 * (size_t)i);
	}
	keep(24);
	for (int i = 0; i < 8; i++)
		free(freed[i]);
	/* the second sorts them into bins and takes none */
	keep(100000);
	leak(8);
	leak(120008);
}

/* The only pointer is in a block that was freed. */
static void held_by_freed(void)
{
	struct node *holder = new_node(NULL);

	holder->load[2] = (uintptr_t)fresh(77);
	tell("leak", (void *)(uintptr_t)holder->load[2]);
	free(holder);
}

/* One past the usable end is not inside, nor is the byte before the start. */
static void next_to_block(void)
{
	char *p = fresh(104);

	keep(16);
	kept[n_kept++] = p + malloc_usable_size(p) + 0;
	tell("leak", p);
	keep(104); /* or that byte is one of the block before */
	p = fresh(104);
	kept[n_kept++] = p - 16;
	tell("leak", p);
}

/* With a number in the upper bits alone it would be a possible one (tests/e2e/special/tagged.c). */
static void disguised(void)
{
	char *p = fresh(200);

	kept[n_kept++] = (void *)((uintptr_t)p ^ UINTPTR_MAX / 0xff * 0x5a);
	tell("leak", p);
	p = fresh(200);
	kept[n_kept++] = (void *)~(uintptr_t)p;
	tell("leak", p);
}

/* Not at a word's boundary: a leak by default, alive with --unaligned. */
static void packed(void)
{
	static char bytes[64] __attribute__((aligned(8)));
	void *p = fresh(200);

	memcpy(bytes + 13, &p, sizeof(p));
	tell("unaligned", p);
	OPAQUE(p);
	kept[n_kept++] = bytes;
}

NOINLINE static void library_leaks(void)
{
	char *line = NULL;
	size_t size = 0;
	FILE *in = fopen("/proc/self/status", "r");

	tell("leak", strdup("a copy of some text that nobody frees"));
	if (in == NULL || getline(&line, &size, in) < 0)
		_exit(97);
	fclose(in);
	memset(line, 0, malloc_usable_size(line));
	tell("leak", line);
	tell("leak", opendir("/"));
}

/* ---- threads ---- */

static pthread_barrier_t barrier;

static void *leak_and_stay(void *unused)
{
	(void)unused;
	for (int i = 0; i < 5; i++)
		leak(40 + 100 * (size_t)i);
	leak(150000);
	forget();
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void threads_stay(void)
{
	pthread_t id;

	pthread_barrier_init(&barrier, NULL, 7);
	for (int i = 0; i < 6; i++)
		pthread_create(&id, NULL, leak_and_stay, NULL);
	pthread_barrier_wait(&barrier);
}

static void *leak_and_end(void *unused)
{
	(void)unused;
	for (int i = 0; i < 5; i++)
		leak(40 + 100 * (size_t)i);
	leak(150000);
	forget();
	return NULL;
}

static void threads_joined(void)
{
	pthread_t ids[6];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 6; i++)
			pthread_create(&ids[i], NULL, leak_and_end, NULL);
		for (int i = 0; i < 6; i++)
			pthread_join(ids[i], NULL);
	}
}

static volatile int n_ended;

static void *leak_and_end_detached(void *unused)
{
	leak_and_end(unused);
	__atomic_fetch_add(&n_ended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static int n_tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 2;
}

static void wait_until_alone(void)
{
	while (n_tasks() > 1)
		usleep(1000);
	usleep(10000);
}

static void threads_detached(void)
{
	pthread_attr_t attr;
	pthread_t id;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 6; i++)
		pthread_create(&id, &attr, leak_and_end_detached, NULL);
	pthread_attr_destroy(&attr);
	while (n_ended < 6)
		usleep(1000);
	wait_until_alone();
}

static void *return_a_block(void *unused)
{
	void *result = fresh(333);

	(void)unused;
	leak(222);
	tell("live", result);
	forget();
	return result;
}

/* The result of a finished thread that can still be joined is alive. */
static void threads_unjoined(void)
{
	static pthread_t ids[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&ids[i], NULL, return_a_block, NULL);
	wait_until_alone();
}

/* All of them live at the same time, so that each has a stack of its own. */
enum { N_CACHED = 60, CACHED_STACK_BYTES = FORGET_BYTES + 128 * 1024 };

static void *lose_result(void *unused)
{
	void *result = fresh(334);

	(void)unused;
	tell("leak", result);
	pthread_barrier_wait(&barrier);
	forget();
	return result;
}

static void *lose_argument(void *argument)
{
	tell("leak", argument);
	argument = NULL;
	pthread_barrier_wait(&barrier);
	forget();
	return NULL;
}

NOINLINE static void start_with_block(pthread_t *id, pthread_attr_t *attr)
{
	pthread_create(id, attr, lose_argument, fresh(70));
}

static __thread void *volatile thread_slot[4];

static void *lose_local(void *unused)
{
	(void)unused;
	thread_slot[2] = fresh(90);
	tell("leak", thread_slot[2]);
	pthread_barrier_wait(&barrier);
	forget();
	return NULL;
}

/*
 * glibc caches the stacks of threads that ended: arguments, results and
 * thread-local pointers are still written there, but nobody can get at them.
 */
static void cached_stacks(void)
{
	pthread_t ids[N_CACHED];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, CACHED_STACK_BYTES);
	pthread_barrier_init(&barrier, NULL, N_CACHED);
	for (int i = 0; i < N_CACHED; i++) {
		if (i % 3 == 0)
			pthread_create(&ids[i], &attr, lose_result, NULL);
		else if (i % 3 == 1)
			start_with_block(&ids[i], &attr);
		else
			pthread_create(&ids[i], &attr, lose_local, NULL);
	}
	for (int i = 0; i < N_CACHED; i++)
		pthread_join(ids[i], NULL);
	pthread_attr_destroy(&attr);
	memset(ids, 0, sizeof(ids));
	OPAQUE(n_kept);
}

static const struct scenario scenarios[] = {
	{ "none", none, 0 },
	{ "simple", simple, 0 },
	{ "chain", chain, 0 },
	{ "dominated_tree", dominated_tree, 0 },
	{ "cycle", cycle, 0 },
	{ "own_pointer", own_pointer, 0 },
	{ "cycle_of_cycles", cycle_of_cycles, 0 },
	{ "shared_child", shared_child, 0 },
	{ "leak_points_to_live", leak_points_to_live, 0 },
	{ "big", big, 0 },
	{ "big_with_child", big_with_child, 0 },
	{ "aligned", aligned, 0 },
	{ "zeroed", zeroed, 0 },
	{ "size_zero", size_zero, 0 },
	{ "sizes", sizes, 0 },
	{ "grown", grown, 0 },
	{ "among_freed", among_freed, 0 },
	{ "before_headers", before_headers, 0 },
	{ "held_by_freed", held_by_freed, 0 },
	{ "next_to_block", next_to_block, 0 },
	{ "disguised", disguised, 0 },
	{ "packed", packed, 0 },
	{ "library_leaks", library_leaks, 0 },
	{ "threads_stay", threads_stay, 0 },
	{ "threads_joined", threads_joined, 0 },
	{ "threads_detached", threads_detached, 0 },
	{ "threads_unjoined", threads_unjoined, 0 },
	{ "cached_stacks", cached_stacks, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "among_freed");
}
