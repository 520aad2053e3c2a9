/* SPDX-License-Identifier: Apache-2.0 */
/* What passes through the agent's hooks: arguments, results and registers of every kind. */
#include <criterion/criterion.h>
#include <string.h>

#include "diverted.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { N_VECTORS = 16, N_KEPT = 6, ANSWER = 0x567890, ERROR = 22 };

static struct libc hooks;
static struct diverted agent;

/* ---- in the C library's place ---- */

static uint64_t seen[3];
static void *slot;

static void *see_one(size_t a)
{
	seen[0] = a;
	return (void *)(uintptr_t)ANSWER;
}

static void see_block(void *block)
{
	seen[0] = (uint64_t)(uintptr_t)block;
}

static void *see_two(size_t a, size_t b)
{
	seen[0] = a;
	seen[1] = b;
	return (void *)(uintptr_t)ANSWER;
}

static void *see_block_and_one(void *block, size_t b)
{
	return see_two((uint64_t)(uintptr_t)block, b);
}

/* Another than see_one. */
static void *see_pages(size_t a)
{
	seen[1] = 1;
	return see_one(a);
}

static int see_three(void **a, size_t b, size_t c)
{
	seen[0] = (uint64_t)(uintptr_t)a;
	seen[1] = b;
	seen[2] = c;
	if (b == ERROR)
		return ERROR;
	*a = (void *)(uintptr_t)ANSWER;
	return 0;
}

static const struct libc ours = {
	.malloc = see_one,
	.free = see_block,
	.calloc = see_two,
	.realloc = see_block_and_one,
	.memalign = see_two,
	.aligned_alloc = see_two,
	.posix_memalign = see_three,
	.valloc = see_one,
	.pvalloc = see_pages,
};

static void put(uint64_t interval)
{
	diverted_map(&agent, interval, &ours);
	diverted_hooks(&agent, &hooks);
}

/* ---- around a call ---- */

struct state {
	uint64_t kept[N_KEPT]; /* rbx rbp r12 r13 r14 r15 */
	uint8_t vectors[N_VECTORS][16];
	uint64_t rsp;
	uint64_t result;
};

/* Call @function with these registers, and say how they are then. */
void call_with(struct state *state, void *function, const uint64_t arguments[3]);

__asm__(".text\n"
        "call_with:\n"
        "	push	%rbx\n	push	%rbp\n	push	%r12\n	push	%r13\n	push	%r14\n"
        "	push	%r15\n	push	%rdi\n"
        "	mov	%rsi, %rax\n"
        "	mov	0(%rdi), %rbx\n	mov	8(%rdi), %rbp\n	mov	16(%rdi), %r12\n"
        "	mov	24(%rdi), %r13\n	mov	32(%rdi), %r14\n	mov	40(%rdi), %r15\n"
        "	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "	movdqu	48 + 16 * \\n(%rdi), %xmm\\n\n"
        "	.endr\n"
        "	mov	%rsp, 304(%rdi)\n"
        "	mov	16(%rdx), %rcx\n	mov	8(%rdx), %rsi\n	mov	0(%rdx), %rdi\n"
        "	mov	%rcx, %rdx\n"
        "	call	*%rax\n"
        "	mov	(%rsp), %rdi\n"
        "	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "	movdqu	%xmm\\n, 48 + 16 * \\n(%rdi)\n"
        "	.endr\n"
        "	mov	%rbx, 0(%rdi)\n	mov	%rbp, 8(%rdi)\n	mov	%r12, 16(%rdi)\n"
        "	mov	%r13, 24(%rdi)\n	mov	%r14, 32(%rdi)\n	mov	%r15, 40(%rdi)\n"
        "	mov	%rax, 312(%rdi)\n"
        "	pop	%rdi\n	pop	%r15\n	pop	%r14\n	pop	%r13\n	pop	%r12\n"
        "	pop	%rbp\n	pop	%rbx\n"
        "	ret\n");

static const struct row {
	const char *name;
	enum ms_agent_function function;
	uint64_t arguments[3];
	unsigned n;
	uint64_t size; /* of the block; 0: none */
	uint64_t result;
} rows[] = {
	{ "malloc", MS_AGENT_MALLOC, { 1000 }, 1, 1000, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "calloc", MS_AGENT_CALLOC, { 10, 30 }, 2, 300, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "realloc", MS_AGENT_REALLOC, { 0x1230, 700 }, 2, 700, ANSWER },
	{ "realloc of it", MS_AGENT_REALLOC, { ANSWER, 800 }, 2, 800, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "realloc of nothing", MS_AGENT_REALLOC, { 0, 900 }, 0, 900, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "memalign", MS_AGENT_MEMALIGN, { 32, 40 }, 2, 40, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "memalign of 16", MS_AGENT_MEMALIGN, { 16, 40 }, 2, 0, ANSWER },
	{ "aligned_alloc", MS_AGENT_ALIGNED_ALLOC, { 4096, 41 }, 2, 41, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "posix_memalign", MS_AGENT_POSIX_MEMALIGN, { 1, 64, 42 }, 3, 42, 0 },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "posix_memalign", MS_AGENT_POSIX_MEMALIGN, { 1, ERROR, 42 }, 3, 0, ERROR },
	{ "valloc", MS_AGENT_VALLOC, { 43 }, 1, 43, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
	{ "pvalloc", MS_AGENT_PVALLOC, { 44, 1 }, 2, 44, ANSWER },
	{ "free", MS_AGENT_FREE, { ANSWER }, 1, 0, 0 },
};

static void expect_sample(const struct row *row, const struct state *before)
{
	const struct ms_agent_record *record = diverted_find(&agent, (void *)(uintptr_t)ANSWER);

	cr_assert_eq(record != NULL, row->size != 0, "%s", row->name);
	if (!record)
		return;
	cr_expect_eq(record->size, row->size, "%s: %zu", row->name, (size_t)record->size);
	cr_expect_eq(record->registers[0] - (uint64_t)(uintptr_t)call_with < 1024, 1, "%s",
	             row->name);
	cr_expect_arr_eq(&record->registers[2], before->kept, sizeof(before->kept), "%s",
	                 row->name);
}

static void try_row(const struct row *row, bool sampled)
{
	struct state state, before;
	void *functions[MS_AGENT_OF_LIBC];
	uint64_t arguments[3];

	memcpy(functions, &hooks, sizeof(functions));
	memcpy(arguments, row->arguments, sizeof(arguments));
	if (row->function == MS_AGENT_POSIX_MEMALIGN)
		arguments[0] = (uint64_t)(uintptr_t)&slot;
	for (size_t i = 0; i < sizeof(state); i++)
		((uint8_t *)&state)[i] = (uint8_t)(i * 7 + 1);
	memcpy(&before, &state, sizeof(state));
	memset(seen, 0, sizeof(seen));
	call_with(&state, functions[row->function], arguments);
	cr_expect_arr_eq(state.kept, before.kept, sizeof(state.kept), "%s", row->name);
	cr_expect_arr_eq(state.vectors, before.vectors, sizeof(state.vectors), "%s", row->name);
	cr_expect_arr_eq(seen, arguments, row->n * sizeof(seen[0]), "%s", row->name);
	if (row->function != MS_AGENT_FREE)
		cr_expect_eq((int)state.result, (int)row->result, "%s", row->name);
	if (sampled)
		expect_sample(row, &before);
}

Test(agent_registers, pass_by_samples_as_they_are)
{
	put(0);
	for (size_t i = 0; i < N_OF(rows); i++)
		try_row(&rows[i], true);
	cr_expect_eq(diverted_live(&agent), 0);
}

Test(agent_registers, pass_between_samples_as_they_are)
{
	put(UINT64_C(1) << 50);
	for (size_t i = 0; i < N_OF(rows); i++)
		try_row(&rows[i], false);
	cr_expect_eq(agent.data->n_samples, 0);
}

/* ---- whose stack is it ---- */

Test(agent_registers, the_stack_is_what_is_behind_the_return_address)
{
	struct state state = { .kept = { 0 } };
	uint64_t own[4], arguments[3] = { 1000 };

	put(0);
	call_with(&state, *(void **)(void *)&hooks.malloc, arguments);
	const struct ms_agent_record *record = diverted_find(&agent, (void *)(uintptr_t)ANSWER);
	cr_assert_not_null(record);
	cr_expect_eq(record->registers[1], state.rsp);
	memcpy(own, record->stack, sizeof(own));
	cr_expect_eq(own[0], (uint64_t)(uintptr_t)&state, "what call_with pushed last");
}

/* ---- what is counted ---- */

static uint64_t left(void)
{
	uint64_t word;

	__asm__ volatile("movq %%fs:(%1),%0" : "=r"(word) : "r"(agent.data->left));
	return word;
}

static void set_left(uint64_t word)
{
	__asm__ volatile("movb $1,%%fs:(%1)\n\tmovq %0,%%fs:(%2)"
	                 :
	                 : "r"(word), "r"(agent.data->started), "r"(agent.data->left));
}

static const struct {
	const char *what;
	enum ms_agent_function function;
	uint64_t arguments[3];
	uint64_t n; /* bytes */
} counts[] = {
	{ "malloc", MS_AGENT_MALLOC, { 1000 }, 1000 },
	{ "malloc of nothing", MS_AGENT_MALLOC, { 0 }, 0 },
	{ "free", MS_AGENT_FREE, { 1000 }, 0 },
	{ "calloc", MS_AGENT_CALLOC, { 10, 30 }, 300 },
	{ "calloc that overflows", MS_AGENT_CALLOC, { (UINT64_C(1) << 61) + 1, 8 }, 0 },
	{ "realloc", MS_AGENT_REALLOC, { 0x1230, 700 }, 700 },
	{ "realloc of nothing", MS_AGENT_REALLOC, { 0, 700 }, 700 },
	{ "memalign", MS_AGENT_MEMALIGN, { 32, 40 }, 40 },
	{ "memalign, which is malloc", MS_AGENT_MEMALIGN, { 16, 40 }, 0 },
	{ "aligned_alloc", MS_AGENT_ALIGNED_ALLOC, { 64, 41 }, 41 },
	{ "posix_memalign", MS_AGENT_POSIX_MEMALIGN, { 0, 64, 42 }, 42 },
	{ "posix_memalign, which is malloc", MS_AGENT_POSIX_MEMALIGN, { 0, 8, 42 }, 0 },
	{ "valloc", MS_AGENT_VALLOC, { 43 }, 43 },
	{ "pvalloc", MS_AGENT_PVALLOC, { 44 }, 44 },
};

Test(agent_registers, bytes_are_counted_once_to_the_last)
{
	enum { LEFT = 10000 };
	void *functions[MS_AGENT_OF_LIBC];

	put(1);
	memcpy(functions, &hooks, sizeof(functions));
	for (size_t i = 0; i < N_OF(counts); i++) {
		uint64_t arguments[3];
		struct state state = { .kept = { 0 } };

		memcpy(arguments, counts[i].arguments, sizeof(arguments));
		if (counts[i].function == MS_AGENT_POSIX_MEMALIGN)
			arguments[0] = (uint64_t)(uintptr_t)&slot;
		set_left(LEFT);
		call_with(&state, functions[counts[i].function], arguments);
		cr_expect_eq(LEFT - left(), counts[i].n, "%s: %zu", counts[i].what,
		             (size_t)(LEFT - left()));
		set_left(counts[i].n);
		call_with(&state, functions[counts[i].function], arguments);
		cr_expect_eq(agent.data->n_samples, 0, "%s: enough was left", counts[i].what);
	}
}

Test(agent_registers, realloc_of_a_sampled_block_counts_the_same)
{
	put(1);
	for (uint64_t off = 0; off < 2; off++) {
		set_left(0);
		hooks.malloc(700);
		cr_assert_not_null(diverted_find(&agent, (void *)(uintptr_t)ANSWER));
		set_left(800 - off);
		hooks.realloc((void *)(uintptr_t)ANSWER, 800);
		cr_expect_eq(diverted_find(&agent, (void *)(uintptr_t)ANSWER) != NULL, off != 0);
		hooks.free((void *)(uintptr_t)ANSWER);
	}
}

/* ---- a function that calls another ---- */

/* The C library's realloc would call malloc, and the block be counted twice. */
Test(agent_registers, realloc_of_nothing_is_malloc)
{
	put(0);
	cr_expect_eq(hooks.realloc(NULL, 900), (void *)(uintptr_t)ANSWER);
	cr_expect_eq(seen[0], 900);
}

static void *by_way_of_malloc(size_t alignment, size_t size)
{
	return hooks.malloc(size + alignment);
}

Test(agent_registers, of_two_functions_the_outer_one_has_the_last_word)
{
	static const struct libc nested = { .malloc = see_one,
		                            .free = see_block,
		                            .memalign = by_way_of_malloc };

	diverted_map(&agent, 0, &nested);
	diverted_hooks(&agent, &hooks);
	void *block = hooks.memalign(64, 1000);
	cr_expect_eq(diverted_live(&agent), 1);
	cr_assert_not_null(diverted_find(&agent, block));
	cr_expect_eq(diverted_find(&agent, block)->size, 1000);
	hooks.free(block);
	cr_expect_eq(diverted_live(&agent), 0);
}
