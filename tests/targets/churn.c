/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A heap with a history, whichever malloc it is: "churn all", or "churn LEAKS"; with "plain"
 * behind that, no block is aligned.
 *
 * Four threads make 100,000 calls: blocks of one byte to four megabytes, most of them
 * small, some aligned, some grown or shrunk, many freed by another thread than allocated
 * them. Two threads then end; two wait, with what their caches hold. "all": every block
 * that lives is a leak, for the program keeps no pointer that can be read. LEAKS: so
 * many are, and the others hang on a table.
 *
 * No address is kept anywhere but in slots, which are outside of any heap and hold them
 * mixed with a secret.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "truth.h"

enum {
	THREADS = 4,
	SLOTS = 40000,
	CALLS_EACH = 25000,
	LARGE = 4 << 20,
};

/* Two marks that no address has. */
#define EMPTY UINT64_C(0)
#define BUSY  UINT64_C(1)

struct hidden {
	uint64_t secret;
	_Atomic uint64_t slots[SLOTS]; /* address XOR secret */
};

static struct hidden *hidden;
static pthread_barrier_t done;

static int plain;

/* The blocks that live, where these are to be reachable: a list in the first words. */
static void *kept;

static uint32_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

/* Nine of ten up to 1 KiB, most others up to 64 KiB, one of a thousand up to 4 MiB. */
static size_t any_size(uint64_t *state)
{
	uint32_t kind = next_random(state) % 1000;

	if (kind < 900)
		return 1 + next_random(state) % 1024;
	if (kind < 999)
		return 1 + next_random(state) % (64 << 10);
	return 1 + next_random(state) % LARGE;
}

static void *any_block(uint64_t *state)
{
	size_t size = any_size(state);
	void *p = NULL;

	switch (next_random(state) % 16) {
	case 0:
		return calloc(1, size);
	case 1:
		if (plain)
			return malloc(size);
		return posix_memalign(&p, (size_t)16 << next_random(state) % 9, size) ? NULL : p;
	default:
		return malloc(size);
	}
}

/* Take what is in a slot, and put back something, or nothing. */
static void change(uint64_t *state)
{
	_Atomic uint64_t *slot = &hidden->slots[next_random(state) % SLOTS];
	uint64_t old = atomic_exchange(slot, BUSY);
	void *p = old > BUSY ? (void *)(uintptr_t)(old ^ hidden->secret) : NULL;

	if (old == BUSY)
		return;
	if (!p)
		p = any_block(state);
	else if (next_random(state) % 4 == 0)
		p = realloc(p, any_size(state));
	else {
		free(p);
		p = NULL;
	}
	/* One word of zeros in a block of its own could be an array without elements. */
	if (p)
		*(char *)memset(p, 0, malloc_usable_size(p)) = 1;
	atomic_store(slot, p ? (uint64_t)(uintptr_t)p ^ hidden->secret : EMPTY);
}

static NOINLINE void make_calls(unsigned number)
{
	uint64_t state = 1000 + number;

	for (int i = 0; i < CALLS_EACH; i++)
		change(&state);
}

static void *run(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;

	make_calls(number);
	forget();
	(void)pthread_barrier_wait(&done);
	if (number >= THREADS / 2)
		return NULL;
	for (;;)
		pause();
}

static NOINLINE void run_threads(void)
{
	pthread_t threads[THREADS];

	(void)pthread_barrier_init(&done, NULL, THREADS + 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			_exit(97);
	(void)pthread_barrier_wait(&done);
	for (int i = THREADS / 2; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
}

static NOINLINE void keep(void *p)
{
	*(void **)p = kept;
	kept = p;
}

/* Of the slots' blocks @n are leaks, the others are kept; one without room for a link is freed. */
static NOINLINE void settle(long n)
{
	for (int i = 0; i < SLOTS; i++) {
		uint64_t value = hidden->slots[i];
		void *p = (void *)(uintptr_t)(value ^ hidden->secret);

		if (value == EMPTY)
			continue;
		if (n-- > 0)
			tell("leak", p);
		else if (malloc_usable_size(p) >= sizeof(void *))
			keep(p);
		else
			free(p);
	}
}

static NOINLINE void hide(void)
{
	hidden = mmap(NULL, sizeof(*hidden), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	              -1, 0);
	if (hidden == MAP_FAILED || getrandom(&hidden->secret, sizeof(hidden->secret), 0) < 0)
		_exit(96);
	hidden->secret |= UINT64_C(1) << 63;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";

	plain = argc > 2 && strcmp(argv[2], "plain") == 0;
	hide();
	run_threads();
	settle(strcmp(what, "all") == 0 ? SLOTS : strtol(what, NULL, 10));
	ready();
}
