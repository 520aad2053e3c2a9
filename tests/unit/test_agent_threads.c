/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's table against the truth: which blocks threads have, whatever they do at once,
 * are forked in, or are interrupted by.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diverted.h"

enum { THREADS = 4, OWN = 60, SHARED = 40, OPERATIONS = 30000, SMALL = 2000, LARGE = 200000 };

static struct libc libc;
static struct diverted agent;

struct block {
	uint8_t *at; /* NULL: none */
	size_t size;
};

struct worker {
	pthread_t thread;
	uint64_t random;
	struct block blocks[OWN];
};

static struct worker workers[THREADS];
/* Handed from thread to thread; the size is in the block. */
static _Atomic(uint8_t *) shared[SHARED];

static uint32_t roll(struct worker *w)
{
	w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (uint32_t)(w->random >> 33);
}

/* ---- what threads do ---- */

static struct block make(struct worker *w)
{
	size_t size = sizeof(size_t) + roll(w) % (roll(w) % 50 ? SMALL : LARGE);
	struct block made = { .size = size };
	void *block = NULL;

	switch (roll(w) % 8) {
	case 0:
		made.at = libc.calloc(1, size);
		break;
	case 1:
		made.at = libc.realloc(NULL, size);
		break;
	case 2:
		made.at = libc.memalign(128, size);
		break;
	case 3:
		cr_assert_eq(libc.posix_memalign(&block, 16U << roll(w) % 4, size), 0);
		made.at = block;
		break;
	case 4:
		made.at = roll(w) % 10 ? libc.aligned_alloc(32, size) : libc.valloc(size);
		break;
	default:
		made.at = libc.malloc(size);
	}
	cr_assert_not_null(made.at);
	memcpy(made.at, &made.size, sizeof(made.size));
	return made;
}

static void change(struct worker *w, struct block *block)
{
	size_t size = sizeof(size_t) + roll(w) % (roll(w) % 20 ? SMALL : LARGE);

	if (roll(w) % 8 == 0)
		cr_assert_null(libc.realloc(block->at, PTRDIFF_MAX - size));
	block->at = libc.realloc(block->at, size);
	cr_assert_not_null(block->at);
	block->size = size;
	memcpy(block->at, &size, sizeof(size));
}

static void operate(struct worker *w)
{
	struct block *block = &w->blocks[roll(w) % OWN];

	if (!block->at) {
		*block = make(w);
	} else if (roll(w) % 3 == 0) {
		change(w, block);
	} else if (roll(w) % 2) {
		uint8_t *other = atomic_exchange(&shared[roll(w) % SHARED], block->at);
		block->at = NULL;
		libc.free(other);
	} else {
		libc.free(block->at);
		block->at = NULL;
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;

	for (int i = 0; i < OPERATIONS; i++)
		operate(w);
	return NULL;
}

static void start(void)
{
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].random += i + 1;
		cr_assert_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
}

static void finish(void)
{
	for (unsigned i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_join(workers[i].thread, NULL), 0);
}

/* ---- the truth ---- */

/* Every block that there is now. Returns how many. */
static size_t truth(struct block *ret)
{
	size_t n = 0;

	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned k = 0; k < OWN; k++)
			if (workers[i].blocks[k].at)
				ret[n++] = workers[i].blocks[k];
	for (unsigned k = 0; k < SHARED; k++)
		if (shared[k]) {
			ret[n].at = shared[k];
			memcpy(&ret[n++].size, shared[k], sizeof(size_t));
		}
	return n;
}

extern const uint8_t __executable_start, etext; /* the linker's */

/* The C library and the test's runner have blocks, too. */
static bool is_ours(const struct ms_agent_record *record)
{
	return record->registers[0] >= (uint64_t)(uintptr_t)&__executable_start &&
	       record->registers[0] < (uint64_t)(uintptr_t)&etext;
}

static size_t n_ours(void)
{
	size_t n = 0;

	for (size_t i = 0; i < MS_AGENT_SLOTS; i++) {
		uint64_t at = agent.data->slots[i];
		n += at && is_ours(&agent.data->records[ms_agent_record_of(at)]);
	}
	return n;
}

/* Records that are in use, by the list of those that are not. */
static size_t n_records(void)
{
	size_t n = agent.data->n_used;

	for (uint32_t i = (uint32_t)agent.data->free_list; i; n--)
		i = agent.data->records[i - 1].next;
	return n;
}

/*
 * Blocks of the truth that are in the table; all there are ours. Those below 16 bytes of
 * alignment were counted as malloc's, whose caller is the C library.
 */
static size_t compare(void)
{
	static struct block blocks[THREADS * OWN + SHARED];
	size_t n = truth(blocks), known = 0, known_ours = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ms_agent_record *record = diverted_find(&agent, blocks[i].at);

		if (!record)
			continue;
		known++;
		known_ours += is_ours(record);
		cr_expect_eq(record->size, blocks[i].size, "%zu, not %zu", (size_t)record->size,
		             blocks[i].size);
		cr_expect_eq(record->block, (uint64_t)(uintptr_t)blocks[i].at);
	}
	cr_expect_eq(n_ours(), known_ours, "%zu are stale", n_ours() - known_ours);
	return known;
}

static void put(uint64_t interval)
{
	libc_find(&libc);
	diverted_put(&agent, interval);
}

static void expect_all(void)
{
	static struct block blocks[THREADS * OWN + SHARED];

	cr_expect_eq(agent.data->n_dropped, 0);
	cr_expect_eq(compare(), truth(blocks));
	cr_expect_eq(n_records(), diverted_live(&agent), "no record is lost");
}

Test(agent_threads, each_of_their_blocks_is_known_and_none_besides)
{
	put(0);
	for (int round = 0; round < 5; round++) {
		start();
		finish();
		expect_all();
	}
}

Test(agent_threads, of_sampled_blocks_none_is_stale)
{
	put(4096);
	for (int round = 0; round < 5; round++) {
		start();
		finish();
		cr_expect_gt(compare(), 0);
	}
	cr_expect_eq(agent.data->n_dropped, 0);
	cr_expect_eq(n_records(), diverted_live(&agent));
}

/* ---- fork ---- */

/* In the child: blocks of before and its own, by all ways. */
static void go_on_in_child(void)
{
	struct worker *own = &workers[0];
	struct block blocks[OWN];

	for (unsigned i = 0; i < OWN; i++) {
		blocks[i] = make(own);
		if (!diverted_find(&agent, blocks[i].at))
			_exit(1);
	}
	for (unsigned i = 0; i < OWN; i++) {
		libc.free(blocks[i].at);
		if (diverted_find(&agent, blocks[i].at))
			_exit(2);
	}
	_exit(0);
}

/* Whatever other threads were in the middle of, the child has it for ever. */
Test(agent_threads, a_fork_among_them_works_on)
{
	put(0);
	for (int round = 0; round < 3; round++) {
		start();
		for (int i = 0; i < 20; i++) {
			int status = -1;
			pid_t child = fork();

			cr_assert_geq(child, 0);
			if (!child)
				go_on_in_child();
			cr_assert_eq(waitpid(child, &status, 0), child);
			cr_expect_eq(status, 0, "%#x", (unsigned)status);
		}
		finish();
		expect_all();
	}
}

/* ---- signals ---- */

static atomic_uint n_signals;

static void interrupt(int signal)
{
	volatile uint8_t space[2048];

	(void)signal;
	for (size_t i = 0; i < sizeof(space); i++)
		space[i] = 0xee;
	n_signals++;
}

Test(agent_threads, signals_among_them_change_nothing)
{
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };

	put(0);
	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	start();
	for (int i = 0; i < 3000; i++) {
		cr_assert_eq(pthread_kill(workers[i % THREADS].thread, SIGUSR1), 0);
		(void)usleep(20);
	}
	finish();
	cr_expect_gt(n_signals, 0);
	expect_all();
}

/* Functions that a handler may call, in place of the C library's: blocks are never the same. */
static atomic_size_t next_block = 1 << 20;

static void *give(size_t size)
{
	return (void *)(uintptr_t)atomic_fetch_add(&next_block, size - size % 16 + 16);
}

static void *give_more(void *block, size_t size)
{
	(void)block;
	return give(size);
}

static void take(void *block)
{
	(void)block;
}

static struct libc hooks;
static atomic_uint n_known;
static void *kept_by_handler;

/*
 * One block from one signal to the next. A handler that comes between counting down and
 * looking at it goes without a sample.
 */
static void allocate_in_handler(int signal)
{
	void *block = hooks.realloc(hooks.malloc(64), 128);

	(void)signal;
	n_known += diverted_find(&agent, block) != NULL;
	hooks.free(kept_by_handler);
	kept_by_handler = block;
	n_signals++;
}

Test(agent_threads, a_handler_may_allocate_in_the_midst_of_a_sample)
{
	static const struct libc ours = { .malloc = give, .realloc = give_more, .free = take };
	struct sigaction action = { .sa_handler = allocate_in_handler, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
	enum { KEPT = 50 };
	void *kept[KEPT] = { NULL };
	size_t known = 0;

	diverted_map(&agent, 0, &ours);
	diverted_hooks(&agent, &hooks);
	cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
	cr_assert_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (unsigned i = 0; n_signals < 500; i++) {
		hooks.free(kept[i % KEPT]);
		kept[i % KEPT] = hooks.realloc(hooks.malloc(100), 200);
	}
	cr_assert_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
	cr_expect_gt(n_known, n_signals / 2);
	for (unsigned i = 0; i < KEPT; i++) {
		known += diverted_find(&agent, kept[i]) != NULL;
		hooks.free(kept[i]);
	}
	cr_expect_eq(known, KEPT);
	hooks.free(kept_by_handler);
	cr_expect_eq(diverted_live(&agent), 0);
	cr_expect_eq(n_records(), 0);
	cr_expect_eq(agent.data->n_dropped, 0);
}
