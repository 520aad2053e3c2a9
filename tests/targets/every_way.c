/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * every_way: blocks are made, moved and freed by every function of malloc that the process has,
 * those of C++ and of other allocators included, by four threads that free one another's blocks.
 *
 * After READY each line of standard input is one round, which ends with a line "block 0xADDR SIZE"
 * for each block that lives, of the size that was asked for, "made SIZE N" for how many of each
 * size were asked for in this round, and DONE. Status 0, or 3 and WRONG when a block has not what
 * was written to it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of an allocator's names in the program; what has none is another's. */
#ifndef PREFIX
#define PREFIX ""
#endif

enum { THREADS = 4, LIVE = 60, OPERATIONS = 20000, LARGE = 200000 };

struct block {
	unsigned char *at; /* NULL: none */
	size_t size, alignment;
	int sizeless; /* no function that wants the size may free it */
};

enum way { BY_SIZE, BY_COUNT, BY_FLAGS, BY_ALIGNMENT, BY_ALIGNMENT_FIRST, BY_ADDRESS, BY_PAGE };

static struct maker {
	const char *name;
	enum way way;
	union {
		void *found;
		void *(*by_size)(size_t);
		void *(*by_two)(size_t, size_t);
		void *(*by_flags)(size_t, int);
		void *(*by_three)(size_t, size_t, const void *);
		int (*by_address)(void **, size_t, size_t);
	} call;
} makers[] = {
	{ "malloc", BY_SIZE, { 0 } },
	{ "calloc", BY_COUNT, { 0 } },
	{ "mallocx", BY_FLAGS, { 0 } },
	{ "valloc", BY_PAGE, { 0 } },
	{ "memalign", BY_ALIGNMENT_FIRST, { 0 } },
	{ "aligned_alloc", BY_ALIGNMENT_FIRST, { 0 } },
	{ "posix_memalign", BY_ADDRESS, { 0 } },
	{ "_Znwm", BY_SIZE, { 0 } },
	{ "_Znam", BY_SIZE, { 0 } },
	{ "_ZnwmRKSt9nothrow_t", BY_COUNT, { 0 } },
	{ "_ZnamRKSt9nothrow_t", BY_COUNT, { 0 } },
	{ "_ZnwmSt11align_val_t", BY_ALIGNMENT, { 0 } },
	{ "_ZnamSt11align_val_t", BY_ALIGNMENT, { 0 } },
	{ "_ZnwmSt11align_val_tRKSt9nothrow_t", BY_ALIGNMENT, { 0 } },
	{ "_ZnamSt11align_val_tRKSt9nothrow_t", BY_ALIGNMENT, { 0 } },
};

/* What a function is given behind the block. */
enum given { NOTHING, SIZE, ALIGNMENT, BOTH, FLAGS, SIZE_AND_FLAGS, ALIGNMENT_AND_SIZE };

static struct freer {
	const char *name;
	enum given given;
	int aligned; /* for blocks that were aligned, and for no others */
	void (*call)(void *, size_t, size_t);
} freers[] = {
	{ "free", NOTHING, 0, 0 },
	{ "cfree", NOTHING, 0, 0 },
	{ "dallocx", FLAGS, 0, 0 },
	{ "sdallocx", SIZE_AND_FLAGS, 0, 0 },
	{ "free_sized", SIZE, 0, 0 },
	{ "tc_free_sized", SIZE, 0, 0 },
	{ "_ZdlPv", NOTHING, 0, 0 },
	{ "_ZdaPv", NOTHING, 0, 0 },
	{ "_ZdlPvRKSt9nothrow_t", NOTHING, 0, 0 },
	{ "_ZdaPvRKSt9nothrow_t", NOTHING, 0, 0 },
	{ "_ZdlPvm", SIZE, 0, 0 },
	{ "_ZdaPvm", SIZE, 0, 0 },
	{ "free", NOTHING, 1, 0 },
	{ "free_aligned_sized", ALIGNMENT_AND_SIZE, 1, 0 },
	{ "_ZdlPvSt11align_val_t", ALIGNMENT, 1, 0 },
	{ "_ZdaPvSt11align_val_t", ALIGNMENT, 1, 0 },
	{ "_ZdlPvSt11align_val_tRKSt9nothrow_t", ALIGNMENT, 1, 0 },
	{ "_ZdaPvSt11align_val_tRKSt9nothrow_t", ALIGNMENT, 1, 0 },
	{ "_ZdlPvmSt11align_val_t", BOTH, 1, 0 },
	{ "_ZdaPvmSt11align_val_t", BOTH, 1, 0 },
};

enum { MAKERS = sizeof(makers) / sizeof(makers[0]), FREERS = sizeof(freers) / sizeof(freers[0]) };

static void *(*rallocx_call)(void *, size_t, int);
static struct block live[THREADS][LIVE];
static _Atomic(struct block *) passed[LIVE]; /* from thread to thread */
static _Atomic unsigned made_of[LARGE + 4096];
static char nothrow;

static void *count(void *block, size_t size)
{
	atomic_fetch_add_explicit(&made_of[size], 1, memory_order_relaxed);
	return block;
}

static _Noreturn void wrong(const char *what)
{
	printf("WRONG %s\n", what);
	fflush(stdout);
	_exit(3);
}

/* A static program has no table of names. */
static void *find(const char *name)
{
	static const struct {
		const char *name;
		void *at;
	} linked[] = {
		{ "malloc", (void *)malloc },
		{ "calloc", (void *)calloc },
		{ "free", (void *)free },
		{ "memalign", (void *)memalign },
		{ "aligned_alloc", (void *)aligned_alloc },
		{ "posix_memalign", (void *)posix_memalign },
	};
	char whole[64];

	(void)snprintf(whole, sizeof(whole), "%s%s", PREFIX, name);
	void *found = dlsym(RTLD_DEFAULT, whole);

	for (size_t i = 0; !found && i < sizeof(linked) / sizeof(linked[0]); i++)
		if (!strcmp(linked[i].name, name))
			found = linked[i].at;
	return found;
}

static void find_all(void)
{
	for (int i = 0; i < MAKERS; i++)
		makers[i].call.found = find(makers[i].name);
	for (int i = 0; i < FREERS; i++)
		*(void **)&freers[i].call = find(freers[i].name);
	*(void **)&rallocx_call = find("rallocx");
}

static uint32_t roll(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

static void fill(const struct block *block)
{
	block->at[0] = block->at[block->size - 1] = (unsigned char)block->size;
}

static void check(const struct block *block)
{
	if (block->at[0] != (unsigned char)block->size ||
	    block->at[block->size - 1] != (unsigned char)block->size)
		wrong("a block was overwritten");
}

static struct block make(uint64_t *state)
{
	const struct maker *maker = &makers[roll(state) % MAKERS];
	size_t size = 1 + roll(state) % (roll(state) % 4 ? 3000 : roll(state) % 50 ? 30 : LARGE);
	size_t alignment = (size_t)16 << roll(state) % 8;
	struct block made = { NULL, size, 0, 0 };
	void *block = NULL;

	if (!maker->call.found)
		maker = &makers[0];
	switch (maker->way) {
	case BY_SIZE:
		made.at = maker->call.by_size(size);
		break;
	case BY_PAGE:
		made.alignment = 4096;
		made.sizeless = 1;
		made.at = maker->call.by_size(size);
		break;
	case BY_COUNT: /* or with what says that it is not to throw */
		if (maker->name[0] == 'c')
			made.at = maker->call.by_two(size, 1);
		else
			made.at = maker->call.by_two(size, (size_t)(uintptr_t)&nothrow);
		break;
	case BY_FLAGS:
		made.at = maker->call.by_flags(size, 0);
		break;
	case BY_ALIGNMENT: /* the C++ library's own asks for a multiple of it */
		made.size = size = (size + alignment - 1) & -alignment;
		made.alignment = alignment;
		made.at = maker->call.by_three(size, alignment, &nothrow);
		break;
	case BY_ALIGNMENT_FIRST:
		made.size = size = (size + alignment - 1) & -alignment;
		made.alignment = alignment;
		made.at = maker->call.by_two(alignment, size);
		break;
	case BY_ADDRESS:
		made.alignment = alignment;
		if (maker->call.by_address(&block, alignment, size) == 0)
			made.at = block;
		break;
	}
	if (!made.at || (made.alignment && (uintptr_t)made.at % made.alignment))
		wrong(maker->name);
	fill(&made);
	count(made.at, made.size);
	return made;
}

static void end(struct block *block, uint64_t *state)
{
	const struct freer *freer;

	if (!block->at)
		return;
	check(block);
	do
		freer = &freers[roll(state) % FREERS];
	while (!freer->call || freer->aligned != (block->alignment != 0) ||
	       (block->sizeless && freer->given != NOTHING && freer->given != FLAGS));
	switch (freer->given) {
	case NOTHING:
		freer->call(block->at, 0, 0);
		break;
	case SIZE:
		freer->call(block->at, block->size, 0);
		break;
	case ALIGNMENT:
		freer->call(block->at, block->alignment, 0);
		break;
	case BOTH:
		freer->call(block->at, block->size, block->alignment);
		break;
	case FLAGS:
		freer->call(block->at, 0, 0);
		break;
	case SIZE_AND_FLAGS:
		freer->call(block->at, block->size, 0);
		break;
	case ALIGNMENT_AND_SIZE:
		freer->call(block->at, block->alignment, block->size);
		break;
	}
	block->at = NULL;
}

static void change(struct block *block, uint64_t *state)
{
	size_t size = 1 + roll(state) % 3000;

	check(block);
	block->at = rallocx_call && roll(state) % 2 ? rallocx_call(block->at, size, 0)
	                                            : realloc(block->at, size);
	block->alignment = 0;
	block->sizeless = 1;
	if (!block->at || block->at[0] != (unsigned char)block->size)
		wrong("realloc");
	block->size = size;
	fill(block);
	count(block->at, size);
}

/* Give a block away, and take another thread's. */
static void pass(struct block *block, uint64_t *state)
{
	struct block *mine = count(malloc(sizeof(*mine)), sizeof(*mine)), *other;

	*mine = *block;
	other = atomic_exchange(&passed[roll(state) % LIVE], mine);
	block->at = NULL;
	if (other)
		*block = *other;
	free(other);
}

static void *work(void *arg)
{
	static _Atomic uint64_t seed = 1;
	uint64_t state = atomic_fetch_add(&seed, 77);
	struct block *own = live[(uintptr_t)arg];

	for (int i = 0; i < OPERATIONS; i++) {
		struct block *block = &own[roll(&state) % LIVE];

		if (block->at && roll(&state) % 4 == 0) {
			change(block, &state);
		} else if (block->at && roll(&state) % 8 == 0) {
			pass(block, &state);
		} else {
			end(block, &state);
			*block = make(&state);
		}
	}
	return NULL;
}

/* What was passed and not taken is freed, and what holds it, which nobody asks for. */
static void collect(void)
{
	uint64_t state = 5;

	for (int i = 0; i < LIVE; i++) {
		struct block *block = atomic_exchange(&passed[i], NULL);

		if (block)
			end(block, &state);
		free(block);
	}
}

static void run(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			wrong("pthread_create()");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	collect();
	for (int i = 0; i < THREADS; i++)
		for (int k = 0; k < LIVE; k++)
			if (live[i][k].at)
				printf("block %p %zu\n", (void *)live[i][k].at, live[i][k].size);
	for (size_t size = 0; size < sizeof(made_of) / sizeof(made_of[0]); size++) {
		unsigned n = atomic_exchange(&made_of[size], 0);

		if (n)
			printf("made %zu %u\n", size, n);
	}
	puts("DONE");
	fflush(stdout);
}

int main(void)
{
	static char buffer[1 << 16];
	char line[16];

	signal(SIGPIPE, SIG_IGN); /* or a static program of musl has no way back from signals */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	setvbuf(stdin, NULL, _IONBF, 0);
	find_all();
	puts("READY");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		run();
	return 0;
}
