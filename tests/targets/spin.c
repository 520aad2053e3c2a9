/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin THREADS MAX_SIZE [LIVE]: each thread allocates, resizes and frees without
 * pause, blocks of 1 to MAX_SIZE bytes, and keeps LIVE (64) of them in a global
 * table. Every block is filled with a pattern that is checked before it goes, so
 * that a scan which hurt the process shows: status 3, and the word "damaged".
 *
 * Prints "READY", and ends on end of input or a line "stop": "rounds N", status 0.
 *
 * variants: static static-pie
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 256, MAX_LIVE = 4096, CHECKED_BYTES = 256 };

struct block {
	unsigned char *bytes;
	size_t size;
	unsigned char pattern;
};

struct spinner {
	uint64_t random;
	uint64_t rounds;
	struct block live[MAX_LIVE];
};

static struct spinner spinners[MAX_THREADS];
static size_t max_size;
static size_t n_live = 64;
static atomic_bool stop;

static uint64_t next_random(struct spinner *spinner)
{
	spinner->random ^= spinner->random << 13;
	spinner->random ^= spinner->random >> 7;
	spinner->random ^= spinner->random << 17;
	return spinner->random;
}

/* The ends of a block tell of damage as well as all of it, and large blocks stay cheap. */
static void fill(struct block *block)
{
	size_t n = block->size < CHECKED_BYTES ? block->size : CHECKED_BYTES;

	memset(block->bytes, block->pattern, n);
	memset(block->bytes + block->size - n, block->pattern, n);
}

static int is_whole(const unsigned char *bytes, size_t size, unsigned char pattern)
{
	for (size_t i = 0; i < size && i < CHECKED_BYTES; i++)
		if (bytes[i] != pattern)
			return 0;
	return 1;
}

static void check(const struct block *block)
{
	size_t n = block->size < CHECKED_BYTES ? block->size : CHECKED_BYTES;

	if (is_whole(block->bytes, n, block->pattern) &&
	    is_whole(block->bytes + block->size - n, n, block->pattern))
		return;
	printf("damaged\n");
	fflush(stdout);
	_exit(3);
}

static void replace(struct spinner *spinner, struct block *block)
{
	size_t size = 1 + next_random(spinner) % max_size;

	if (!block->bytes) {
		block->bytes = next_random(spinner) % 4 ? malloc(size) : calloc(1, size);
	} else if (next_random(spinner) % 4) {
		check(block);
		free(block->bytes);
		block->bytes = malloc(size);
	} else {
		check(block);
		block->bytes = realloc(block->bytes, size);
	}
	if (!block->bytes)
		abort();
	block->size = size;
	block->pattern = (unsigned char)spinner->rounds;
	fill(block);
}

static void *spin(void *arg)
{
	struct spinner *spinner = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		replace(spinner, &spinner->live[next_random(spinner) % n_live]);
		spinner->rounds++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	uint64_t rounds = 0;
	char line[16];
	int n;

	if (argc < 3)
		return 2;
	n = atoi(argv[1]);
	max_size = strtoul(argv[2], NULL, 10);
	if (argc > 3)
		n_live = strtoul(argv[3], NULL, 10);
	if (n < 1 || n > MAX_THREADS || !max_size || !n_live || n_live > MAX_LIVE)
		return 2;
	for (int i = 0; i < n; i++) {
		spinners[i].random = 88172645463325252ULL + (uint64_t)i;
		if (pthread_create(&threads[i], NULL, spin, &spinners[i]))
			return 2;
	}
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "stop\n"))
		;
	atomic_store(&stop, 1);
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		rounds += spinners[i].rounds;
	}
	printf("rounds %llu\n", (unsigned long long)rounds);
	return 0;
}
