/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a pair of malloc and free costs: the program that `make bench` starts with and
 * without what stands in front of malloc.
 *
 *	pairs SHAPE THREADS PAIRS ROUNDS [wait]
 *
 * Each of THREADS makes PAIRS pairs a round. "NS ns" for each of ROUNDS rounds is the time
 * of the slowest thread by its pairs. A round more comes first and is not told. With "wait" it
 * says READY and waits for a line before it begins: something is to be attached. SHAPE is
 *
 *	tight   one block of 64 bytes after the other
 *	window  4096 live blocks of 16 to 1024 bytes, one of them replaced at random, each
 *	        written and read as a program does: a line in two
 *	deep    the same with 256 blocks, each allocated under 20 functions anew, by one of
 *	        4096 ways
 *	tree    the same, by a program that goes up and down a tree of calls, 20 deep, with 4096
 *	        ways to its leaves: from one block to the next the innermost functions change
 *	quiet   what window does but for malloc and free: its blocks stay
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	WINDOW = 4096,
	SMALL_WINDOW = 256,
	TIGHT = 64,
	LEAST = 16,
	MOST = 1024,
	DEPTH = 20,
	LINE = 64
};
enum { WAYS = 4096, FORKS_BELOW = DEPTH - 13 };
enum { MOST_THREADS = 64, MOST_ROUNDS = 1000 };

struct worker {
	pthread_t thread;
	uint64_t random;
	uint64_t sum; /* of what was read, so that reading is not left out */
	size_t pairs;
	size_t done;
	size_t window;
	char *slot[WINDOW];
	uint32_t size[WINDOW];
	uint64_t ns[MOST_ROUNDS + 1];
};

static struct {
	void (*shape)(struct worker *);
	unsigned rounds;
	pthread_barrier_t start;
} plan;

static uint64_t now_ns(void)
{
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000U + (uint64_t)at.tv_nsec;
}

static uint32_t roll(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (uint32_t)(w->random >> 32);
}

static void use(struct worker *w, char *p, size_t size)
{
	for (size_t i = 0; i < size; i += 2 * LINE)
		p[i] = (char)w->sum;
	w->sum += (unsigned char)p[size - 1];
}

static void give_back(struct worker *w, size_t i)
{
	w->sum += (unsigned char)w->slot[i][0];
	free(w->slot[i]);
}

__attribute__((noinline)) static void replace(struct worker *w)
{
	size_t i = roll(w) % w->window;
	uint32_t size = LEAST + roll(w) % (MOST - LEAST + 1);

	if (w->slot[i])
		give_back(w, i);
	w->slot[i] = malloc(size);
	if (!w->slot[i])
		abort();
	w->size[i] = size;
	use(w, w->slot[i], size);
	w->done++;
}

/* ---- shapes ---- */

static void tight(struct worker *w)
{
	for (; w->done < w->pairs; w->done++) {
		char *volatile p = malloc(TIGHT);

		*p = 1;
		free(p);
	}
}

static void window(struct worker *w)
{
	w->window = WINDOW;
	while (w->done < w->pairs)
		replace(w);
}

static void quiet(struct worker *w)
{
	if (!w->slot[0])
		window(w);
	for (; w->done < w->pairs; w->done++) {
		size_t i = roll(w) % w->window;

		w->sum += roll(w) % (MOST - LEAST + 1) + (unsigned char)w->slot[i][0];
		use(w, w->slot[i], w->size[i]);
	}
}

/* Each call from a place of its own; what follows it keeps it from becoming a jump. */
#define CALL_ONE_OF_4(w, ways, expression) \
	do {                               \
		switch ((ways)&3) {        \
		case 0:                    \
			expression;        \
			(w)->sum += 3;     \
			break;             \
		case 1:                    \
			expression;        \
			(w)->sum ^= 5;     \
			break;             \
		case 2:                    \
			expression;        \
			(w)->sum -= 7;     \
			break;             \
		default:                   \
			expression;        \
			(w)->sum *= 9;     \
		}                          \
	} while (0)

__attribute__((noinline)) static void descend(struct worker *w, unsigned depth, uint64_t ways)
{
	if (depth == DEPTH)
		replace(w);
	else
		CALL_ONE_OF_4(w, ways, descend(w, depth + 1, ways >> 2));
	w->sum++;
}

/* Local variables make frames of different sizes, as functions of programs have them. */
__attribute__((noinline)) static void climb(struct worker *w, unsigned depth)
{
	unsigned children = depth == DEPTH ? 0 : depth > FORKS_BELOW ? 2 : 1;
	volatile char space[64];

	space[depth] = 1;
	replace(w);
	for (unsigned child = 0; child < children && w->done < w->pairs; child++)
		CALL_ONE_OF_4(w, depth + child, climb(w, depth + 1));
	w->sum += (unsigned char)space[depth];
}

static void deep(struct worker *w)
{
	w->window = SMALL_WINDOW;
	while (w->done < w->pairs)
		descend(w, 1, (1 + roll(w) % WAYS) * UINT64_C(0x9e3779b97f4a7c15));
}

static void tree(struct worker *w)
{
	w->window = SMALL_WINDOW;
	while (w->done < w->pairs)
		climb(w, 1);
}

/* ---- rounds ---- */

static void *work(void *argument)
{
	struct worker *w = argument;

	for (unsigned i = 0; i <= plan.rounds; i++) {
		uint64_t since;

		(void)pthread_barrier_wait(&plan.start);
		since = now_ns();
		w->done = 0;
		plan.shape(w);
		w->ns[i] = now_ns() - since;
	}
	return NULL;
}

static bool choose(const char *name)
{
	static const struct {
		const char *name;
		void (*shape)(struct worker *);
	} shapes[] = { { "tight", tight },
		       { "window", window },
		       { "quiet", quiet },
		       { "deep", deep },
		       { "tree", tree } };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (strcmp(name, shapes[i].name) == 0)
			plan.shape = shapes[i].shape;
	}
	return plan.shape != NULL;
}

static struct worker *start(unsigned threads, size_t pairs)
{
	struct worker *workers = calloc(threads, sizeof(*workers));

	if (!workers || pthread_barrier_init(&plan.start, NULL, threads) != 0)
		return NULL;
	for (unsigned i = 0; i < threads; i++) {
		workers[i].random = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
		workers[i].pairs = pairs;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			return NULL;
	}
	return workers;
}

static void tell(const struct worker *workers, unsigned threads, size_t pairs)
{
	for (unsigned i = 1; i <= plan.rounds; i++) {
		uint64_t most = 0;

		for (unsigned k = 0; k < threads; k++)
			most = workers[k].ns[i] > most ? workers[k].ns[i] : most;
		printf("%.3f ns\n", (double)most / (double)pairs);
	}
}

/* Without stdio, which allocates. */
static void await_line(void)
{
	static const char ready[] = "READY\n";
	char byte = 0;

	if (write(STDOUT_FILENO, ready, sizeof(ready) - 1) < 0)
		abort();
	while (byte != '\n' && read(STDIN_FILENO, &byte, 1) == 1)
		continue;
}

int main(int argc, char **argv)
{
	bool waits = argc == 6 && strcmp(argv[5], "wait") == 0;
	bool all = argc == 5 || waits;
	unsigned threads = all ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	size_t pairs = all ? strtoul(argv[3], NULL, 10) : 0;
	struct worker *workers;

	if (all)
		plan.rounds = (unsigned)strtoul(argv[4], NULL, 10);
	if (!threads || threads > MOST_THREADS || !pairs || !plan.rounds ||
	    plan.rounds > MOST_ROUNDS || !choose(argv[1])) {
		(void)fprintf(
			stderr,
			"usage: pairs tight|window|quiet|deep|tree THREADS PAIRS ROUNDS [wait]\n");
		return 2;
	}
	if (waits)
		await_line();
	workers = start(threads, pairs);
	if (!workers) {
		perror("pairs");
		return 1;
	}
	for (unsigned i = 0; i < threads; i++)
		(void)pthread_join(workers[i].thread, NULL);
	tell(workers, threads, pairs);
	for (unsigned i = 0; i < threads; i++) {
		for (size_t k = 0; k < WINDOW; k++)
			free(workers[i].slot[k]);
	}
	free(workers);
	return 0;
}
