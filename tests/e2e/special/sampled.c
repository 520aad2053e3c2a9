/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program that samples its own allocations as the agent of memscan attach does: with the
 * agent's table and distances, in a mapping like the agent's; but by a function that it
 * calls in place of malloc.
 *
 *	sampled INTERVAL THREADS [magic|own]
 *
 * Each thread leaks by three ways; the facts are where they are, and how many blocks of each.
 * One more block of each way is freed again for each that is leaked. "magic": the agent was
 * taken out; "own": it searches itself.
 */
#include "../../targets/truth.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

#include "target/inject/agent/distance.c"
#include "target/inject/agent/table.c"

#ifdef OWN
#include "memunreachable/memunreachable.h"
#endif

enum { SMALL_BLOCKS = 8000, SMALL = 100, LARGE_BLOCKS = 200, LARGE = 30000, MIXED_BLOCKS = 2000 };

static struct ms_agent_data *table;
static __thread uint64_t left_bytes;
static __thread uint64_t stack_end;
static __thread bool started;
static sem_t worked; /* of threads that live on; its first value is 0 */

/* What sampled_malloc() pushes: the caller's registers. */
struct call {
	uint64_t rbx, rbp, r12, r13, r14, r15, rip;
};

/* ---- the agent's part ---- */

static void map_table(uint64_t interval)
{
	char *text = mmap(NULL, MS_AGENT_TEXT_BYTES + sizeof(*table), PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (text == MAP_FAILED)
		_exit(96);
	memcpy(text, MS_AGENT_TEXT_MAGIC, sizeof(MS_AGENT_TEXT_MAGIC) - 1);
	if (mprotect(text, MS_AGENT_TEXT_BYTES, PROT_READ | PROT_EXEC) != 0)
		_exit(96);
	table = (struct ms_agent_data *)(void *)(text + MS_AGENT_TEXT_BYTES);
	memcpy(table->magic, MS_AGENT_MAGIC, sizeof(table->magic));
	table->interval = interval;
	table->random = 1;
}

/* Once for each thread, before it samples: it allocates. */
static void find_stack(void)
{
	pthread_attr_t attr;
	size_t size = 0;
	void *begin = NULL;

	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		_exit(95);
	(void)pthread_attr_getstack(&attr, &begin, &size);
	(void)pthread_attr_destroy(&attr);
	stack_end = (uint64_t)(uintptr_t)begin + size;
}

static void keep_stack(struct ms_agent_record *record, const struct call *call)
{
	uint64_t rsp = (uint64_t)(uintptr_t)(call + 1);
	const uint64_t registers[] = { call->rip, rsp,       call->rbx, call->rbp,
		                       call->r12, call->r13, call->r14, call->r15 };

	memcpy(record->registers, registers, sizeof(registers));
	record->n_stack =
		(uint32_t)(stack_end - rsp < MS_AGENT_STACK ? stack_end - rsp : MS_AGENT_STACK);
	memcpy(record->stack, call + 1, record->n_stack);
}

__attribute__((used)) static void *sample(size_t size, const struct call *call)
{
	void *p = fresh(size);
	uint32_t number;

	if (!started)
		left_bytes = ms_agent_distance(ms_agent_random(table), table->interval);
	started = true;
	if (size <= left_bytes && table->interval) {
		left_bytes -= size;
		return p;
	}
	left_bytes = ms_agent_distance(ms_agent_random(table), table->interval);
	number = ms_agent_reserve(table);
	if (number == MS_AGENT_NONE)
		return p;
	table->records[number].size = size;
	keep_stack(&table->records[number], call);
	(void)ms_agent_enter(table, (uint64_t)(uintptr_t)p, number);
	return p;
}

void *sampled_malloc(size_t size);
__asm__(".text\n"
        ".globl sampled_malloc\n"
        ".type sampled_malloc, @function\n"
        "sampled_malloc:\n\t"
        "pushq %r15\n\tpushq %r14\n\tpushq %r13\n\tpushq %r12\n\tpushq %rbp\n\tpushq %rbx\n\t"
        "movq %rsp, %rsi\n\tsubq $8, %rsp\n\tcall sample\n\taddq $8, %rsp\n\t"
        "popq %rbx\n\tpopq %rbp\n\tpopq %r12\n\tpopq %r13\n\tpopq %r14\n\tpopq %r15\n\tret\n\t"
        ".size sampled_malloc, . - sampled_malloc\n");

static void sampled_free(void *p)
{
	uint32_t number = ms_agent_take(table, (uint64_t)(uintptr_t)p);

	if (number != MS_AGENT_NONE)
		ms_agent_release(table, number);
	free(p);
}

/* ---- the program's ---- */

NOINLINE static char *small_leak(void)
{
	char *p = sampled_malloc(SMALL);

	*p = 1;
	return p;
}

NOINLINE static char *large_leak(void)
{
	char *p = sampled_malloc(LARGE);

	*p = 2;
	return p;
}

NOINLINE static char *mixed_leak(size_t size)
{
	char *p = sampled_malloc(size);

	*p = 3;
	return p;
}

NOINLINE static void by_turns(unsigned i)
{
	char *p = NULL;

	for (int again = 0; again < 2; again++) {
		sampled_free(p);
		p = small_leak();
	}
	for (int again = 0; i < LARGE_BLOCKS && again < 2; again++) {
		if (again)
			sampled_free(p);
		p = large_leak();
	}
	for (int again = 0; i < MIXED_BLOCKS && again < 2; again++) {
		if (again)
			sampled_free(p);
		p = mixed_leak(16 + i % 1000);
	}
	OPAQUE(p);
}

static void *work(void *unused)
{
	find_stack();
	for (unsigned i = 0; i < SMALL_BLOCKS; i++)
		by_turns(i);
	forget();
	return unused;
}

/* It lives on, and may come to its work late; until it has done it nothing is said. */
static void *wait_for_ever(void *unused)
{
#ifdef LATE_US
	(void)usleep(LATE_US);
#endif
	(void)work(unused);
	(void)sem_post(&worked);
	for (;;)
		pause();
}

static void start(unsigned threads)
{
	pthread_t thread;

	for (unsigned i = 1; i < threads; i++) {
		void *(*body)(void *) = i % 2 ? work : wait_for_ever;

		if (pthread_create(&thread, NULL, body, NULL) != 0)
			_exit(97);
		if (i % 2)
			(void)pthread_join(thread, NULL);
	}
	(void)work(NULL);
	for (unsigned i = 2; i < threads; i += 2)
		while (sem_wait(&worked) != 0)
			continue;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	const char *mode = argc > 3 ? argv[3] : "";
	char *older = fresh(77);

	*older = 1;
	older = NULL;
	OPAQUE(older);
	map_table(argc > 1 ? (uint64_t)atol(argv[1]) : 0);
	start(threads);
	if (strcmp(mode, "magic") == 0)
		table->magic[0] = '\0';
	tell_sized("mapping", table, sizeof(*table));
	tell_sized("small", NULL, (size_t)SMALL_BLOCKS * threads);
	tell_sized("large", NULL, (size_t)LARGE_BLOCKS * threads);
	tell_sized("mixed", NULL, (size_t)MIXED_BLOCKS * threads);
#ifdef OWN
	forget();
	(void)printf("%s", GetUnreachableMemoryString(false, 10));
	return 0;
#endif
	ready();
}
