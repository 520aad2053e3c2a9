/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent keeps of the stack, and what it does to it: hooks before functions of ours. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "diverted.h"

enum { PAGE = 4096, SIZE = 100, DEEP = 64 << 10, BLOCK = 0x12340 };

static struct libc hooks;
static struct diverted agent;

static void *give(size_t size)
{
	(void)size;
	return (void *)(uintptr_t)BLOCK;
}

static void take(void *block)
{
	(void)block;
}

static void put(void)
{
	static const struct libc ours = { .malloc = give, .free = take };

	diverted_map(&agent, 0, &ours);
	diverted_hooks(&agent, &hooks);
}

static void *stack_map(size_t n)
{
	uint8_t *stack =
		mmap(NULL, n + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(stack, MAP_FAILED);
	cr_assert_eq(mprotect(stack + n, PAGE, PROT_NONE), 0);
	return stack;
}

/* As swapcontext does it, of which sanitizers complain. @end: of the stack; a multiple of 16. */
static __attribute__((noinline)) void run_on(uint8_t *end, void (*what)(void))
{
	__asm__ volatile("movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tcall *%1\n\tmovq %%rbx, %%rsp"
	                 :
	                 : "r"(end), "r"(what)
	                 : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
	                   "memory", "cc");
}

/* ---- what is kept ---- */

struct kept {
	uint64_t rsp;
	uint64_t n; /* bytes */
};

/* A sample from here: what is kept is what is on the stack. */
static __attribute__((noinline)) struct kept sample(void)
{
	volatile char here[SIZE];

	memset((char *)(uintptr_t)here, 0x5a, SIZE);
	void *block = hooks.malloc(SIZE);
	const struct ms_agent_record *record = diverted_find(&agent, block);
	cr_assert_not_null(record);
	struct kept kept = { record->registers[1], record->n_stack };
	uint64_t at = (uint64_t)(uintptr_t)here;
	cr_expect_geq(at, kept.rsp);
	if (at - kept.rsp + SIZE <= kept.n)
		cr_expect_eq(memcmp(record->stack + (at - kept.rsp), (char *)(uintptr_t)here, SIZE),
		             0);
	hooks.free(block);
	cr_expect_null(diverted_find(&agent, block));
	return kept;
}

static void expect_end(struct kept kept, uint64_t end)
{
	uint64_t n = end - kept.rsp;

	cr_expect_eq(kept.n, n < MS_AGENT_STACK ? n : MS_AGENT_STACK, "%zu, to the end are %zu",
	             (size_t)kept.n, (size_t)n);
}

/* As deep as no copy reaches from. */
static __attribute__((noinline)) struct kept sample_deep(void)
{
	volatile char space[DEEP];

	space[0] = space[DEEP - 1] = 1;
	struct kept kept = sample();
	kept.n += (uint64_t)(space[0] - space[DEEP - 1]);
	return kept;
}

Test(agent_stack, of_the_main_thread_is_kept_up_to_its_end)
{
	put();
	cr_expect_eq(sample_deep().n, MS_AGENT_STACK);
	expect_end(sample(), agent.data->main_end);
	agent.data->main_end = (uint64_t)(uintptr_t)__builtin_frame_address(0) & ~UINT64_C(7);
	struct kept kept = sample();
	cr_expect_lt(kept.n, MS_AGENT_STACK);
	expect_end(kept, agent.data->main_end);
}

static void *sample_in_thread(void *ret)
{
	(void)ret;
	expect_end(sample(), (uint64_t)pthread_self());
	return NULL;
}

static void *sample_deep_in_thread(void *ret)
{
	(void)ret;
	cr_expect_eq(sample_deep().n, MS_AGENT_STACK);
	return NULL;
}

static void in_thread(void *(*function)(void *), size_t stack_size)
{
	pthread_attr_t attr;
	pthread_t thread;

	cr_assert_eq(pthread_attr_init(&attr), 0);
	cr_assert_eq(pthread_attr_setstacksize(&attr, stack_size), 0);
	cr_assert_eq(pthread_create(&thread, &attr, function, NULL), 0);
	(void)pthread_join(thread, NULL);
	(void)pthread_attr_destroy(&attr);
}

Test(agent_stack, of_a_thread_is_kept_up_to_its_thread_pointer)
{
	put();
	in_thread(sample_in_thread, 4 * DEEP);
	in_thread(sample_deep_in_thread, 4 * DEEP);
}

static void *sample_in_page(void *ret)
{
	struct kept kept = sample();
	uint64_t return_address = kept.rsp - sizeof(void *);

	(void)ret;
	expect_end(kept, (return_address | (PAGE - 1)) + 1);
	return NULL;
}

static void sample_in_page_from_here(void)
{
	(void)sample_in_page(NULL);
}

/* Where nothing tells what is a thread's stack. */
Test(agent_stack, of_unknown_bounds_is_kept_to_the_end_of_the_page)
{
	put();
	agent.data->stackblock = 0;
	agent.data->main_end = agent.data->main_begin;
	(void)sample_in_page(NULL);
	in_thread(sample_in_page, 4 * DEEP);
	uint8_t *stack = stack_map(DEEP);
	for (size_t below = 0; below < PAGE; below += 16)
		run_on(stack + DEEP - below, sample_in_page_from_here);
}

/* The word of the main thread's control block says 0, and that its stack ends behind all. */
Test(agent_stack, that_begins_at_0_is_none)
{
	uint64_t words[2] = { 0, UINT64_MAX };

	put();
	agent.data->main_end = agent.data->main_begin;
	agent.data->stackblock = (uint64_t)(uintptr_t)words - (uint64_t)pthread_self();
	(void)sample_in_page(NULL);
	agent.data->stackblock = 0;
}

/* ---- coroutines ---- */

static struct kept kept_inside;

static void sample_inside(void)
{
	kept_inside = sample();
}

/* Whoever reads on gets a fault. */
static void sample_in_coroutine(void)
{
	enum { N = 16 * PAGE };
	uint8_t *stack = stack_map(N);

	run_on(stack + N, sample_inside);
	expect_end(kept_inside, (uint64_t)(uintptr_t)stack + N);
}

static void *coroutine_in_thread(void *ret)
{
	sample_in_coroutine();
	return ret;
}

Test(agent_stack, of_a_coroutine_is_not_read_beyond_its_end)
{
	put();
	sample_in_coroutine();
	in_thread(coroutine_in_thread, 4 * DEEP);
}

/* ---- what is used ---- */

static void *sample_many(void *ret)
{
	for (int i = 0; i < 100; i++)
		(void)sample();
	return ret;
}

Test(agent_stack, of_16_kilobytes_is_enough)
{
	put();
	in_thread(sample_many, 16 << 10);
	cr_expect_eq(agent.data->n_samples, 100);
}

enum { PATTERN = 0x6b, N_STACK = 4 * PAGE };

static uint8_t *area;

/* Hardly anything of the stack is used by these besides what the hooks use. */
static void malloc_inside(void)
{
	(void)hooks.malloc(SIZE);
}

static void free_inside(void)
{
	hooks.free((void *)(uintptr_t)BLOCK);
}

static void nothing_inside(void)
{
	(void)give(SIZE);
}

/* Run @what on a stack with a pattern. Returns how much of it was used. */
static size_t used_by(void (*what)(void))
{
	size_t n = 0;

	memset(area, PATTERN, N_STACK);
	run_on(area + N_STACK, what);
	while (area[n] == PATTERN)
		n++;
	return N_STACK - n;
}

/* Words of the stack that look like addresses in the agent's text. */
static size_t n_left_behind(void)
{
	size_t n = 0;

	for (size_t at = 0; at < N_STACK; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, area + at, sizeof(word));
		n += word - (uint64_t)(uintptr_t)agent.text < MS_AGENT_TEXT_BYTES;
	}
	return n;
}

Test(agent_stack, is_hardly_used_and_no_address_of_ours_stays_on_it)
{
	put();
	area = stack_map(N_STACK);
	size_t nothing = used_by(nothing_inside), by_malloc = used_by(malloc_inside);
	cr_expect_eq(n_left_behind(), 0, "malloc");
	cr_expect_not_null(diverted_find(&agent, give(0)));
	cr_expect_gt(by_malloc, nothing);
	cr_expect_lt(by_malloc, nothing + 250, "%zu of %zu", by_malloc, nothing);
	size_t by_free = used_by(free_inside);
	cr_expect_eq(n_left_behind(), 0, "free");
	cr_expect_null(diverted_find(&agent, give(0)));
	cr_expect_lt(by_free, nothing + 250, "%zu of %zu", by_free, nothing);
}
