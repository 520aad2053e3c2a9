/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hooks.S calls when a block is to be sampled, or a sampled one may be freed.
 *
 * It is compiled together with table.c, distance.c and unload.c, in front of it, and none of these
 * functions calls another then (the Makefile looks): a return address of ours that is left
 * on a stack would keep the agent from being taken out.
 */
#include <assert.h>

#include "target/inject/agent/agent.h"
#include "target/inject/agent/distance.h"
#include "target/inject/agent/unload.h"

enum { PAGE = 4096 };

/* The data lie behind the text (flat.lds): all addresses are known as distances. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): they are written */
extern struct ms_agent_data ms_agent_here __attribute__((visibility("hidden")));

static_assert(offsetof(struct ms_agent_data, filter) == MS_AGENT_FILTER_AT, "as hooks.S knows it");
static_assert(offsetof(struct ms_agent_data, passed_on) == MS_AGENT_PASSED_AT, "and this");
static_assert(offsetof(struct ms_agent_data, left) == MS_AGENT_LEFT_AT, "and this");
static_assert(offsetof(struct ms_agent_data, find_object) == MS_AGENT_FIND_AT, "and this");
static_assert(offsetof(struct ms_agent_data, outer) == MS_AGENT_OUTER_AT, "and this");

/* On the stack, as hooks.S puts it there, right below the return address. */
struct call {
	uint64_t registers[MS_AGENT_REGISTERS - 2]; /* rbx rbp r12 r13 r14 r15 */
	uint64_t first;                             /* argument */
	uint64_t others[2];
	uint64_t size;
	uint32_t record; /* for the new block; NONE */
	uint32_t taken;  /* of the block that realloc is given; NONE */
	uint64_t return_address;
};

#define ENTRY __attribute__((flatten, used, visibility("hidden")))

void ms_agent_before(struct call *call);
void ms_agent_before_outer(struct call *call);
void ms_agent_before_realloc(struct call *call);
uint64_t ms_agent_after(struct call *call, uint64_t result);
uint64_t ms_agent_after_realloc(struct call *call, uint64_t result);
uint64_t ms_agent_after_posix_memalign(struct call *call, uint64_t result);
void ms_agent_before_free(uint64_t block);
void ms_agent_before_unload(const struct ms_agent_object *object, int failed);

/* ---- the thread ---- */

/* @offset: from the thread pointer, where the first word is its own address */
static uint64_t thread_word(uint64_t offset)
{
	uint64_t word;

	__asm__ volatile("movq %%fs:(%1),%0" : "=r"(word) : "r"(offset));
	return word;
}

static void set_thread_word(uint64_t offset, uint64_t word)
{
	__asm__ volatile("movq %1,%%fs:(%0)" : : "r"(offset), "r"(word));
}

static bool is_started(uint64_t offset)
{
	uint8_t byte;

	__asm__ volatile("movb %%fs:(%1),%0" : "=q"(byte) : "r"(offset));
	return byte;
}

static void set_started(uint64_t offset)
{
	__asm__ volatile("movb $1,%%fs:(%0)" : : "r"(offset));
}

/*
 * Where the stack ends that a word at @at is on; up to there all is mapped. It is the return
 * address: what a coroutine begins with may have no caller, and be called at the very end.
 */
static uint64_t stack_end(const struct ms_agent_data *data, uint64_t at)
{
	uint64_t tp = thread_word(0);

	if (at >= data->main_begin && at < data->main_end)
		return data->main_end;
	if (data->stackblock) {
		uint64_t begin = thread_word(data->stackblock);
		uint64_t size = thread_word(data->stackblock + sizeof(begin));
		/* The main thread's has no begin, and says its end as the size. */
		if (begin && at >= begin && at < tp && tp - begin < size)
			return tp;
	}
	return (at | (PAGE - 1)) + 1;
}

/* ---- sampling ---- */

static uint64_t draw(struct ms_agent_data *data)
{
	return ms_agent_distance(ms_agent_random(data), data->interval);
}

/*
 * Count @size down, of which the hook knows that it is too much, or nothing: then it left
 * nothing, or what there was. Returns whether the block is a sample.
 */
static bool is_due(struct ms_agent_data *data, uint64_t size)
{
	if (!is_started(data->started)) {
		set_started(data->started);
		set_thread_word(data->left, draw(data));
	}
	uint64_t now = thread_word(data->left);
	bool due = size > now;
	set_thread_word(data->left, due ? draw(data) : now - size);
	return due;
}

/* A word at a time, by the processor: a loop would be made a call of memcpy. */
static void copy(void *to, uint64_t from, uint64_t n_words)
{
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n_words) : : "memory");
}

static void keep(struct ms_agent_record *record, const struct call *call)
{
	uint64_t sp = (uint64_t)(uintptr_t)(call + 1);
	uint64_t n = stack_end(&ms_agent_here, sp - sizeof(sp)) - sp;

	n = (n < MS_AGENT_STACK ? n : MS_AGENT_STACK) & -sizeof(uint64_t);
	record->size = call->size;
	record->n_stack = (uint32_t)n;
	record->n_unloads = __atomic_load_n(&ms_agent_here.n_unloads, __ATOMIC_ACQUIRE);
	record->registers[0] = call->return_address;
	record->registers[1] = sp;
	for (unsigned i = 2; i < MS_AGENT_REGISTERS; i++)
		record->registers[i] = call->registers[i - 2];
	copy(record->stack, sp, n / sizeof(uint64_t));
}

static void sample(struct call *call)
{
	struct ms_agent_data *data = &ms_agent_here;

	if (!is_due(data, call->size))
		return;
	call->record = ms_agent_reserve(data);
	if (call->record != MS_AGENT_NONE)
		keep(&data->records[call->record], call);
}

static void drop(uint64_t block)
{
	uint32_t record = ms_agent_take(&ms_agent_here, block);

	if (record != MS_AGENT_NONE)
		ms_agent_release(&ms_agent_here, record);
}

/* A function that has called another for the block, as realloc may malloc, has the last word. */
static void enter(uint32_t record, uint64_t block)
{
	if (record == MS_AGENT_NONE)
		return;
	if (!block) {
		ms_agent_release(&ms_agent_here, record);
		return;
	}
	drop(block);
	(void)ms_agent_enter(&ms_agent_here, block, record);
}

/* ---- called by the hooks ---- */

ENTRY void ms_agent_before(struct call *call)
{
	sample(call);
}

/* The function that it calls will count the block again. */
ENTRY void ms_agent_before_outer(struct call *call)
{
	sample(call);
	set_thread_word(ms_agent_here.left, thread_word(ms_agent_here.left) + call->size);
}

/* While the function is at work the block may be another thread's already: it is out before. */
ENTRY void ms_agent_before_realloc(struct call *call)
{
	sample(call);
	call->taken = ms_agent_take(&ms_agent_here, call->first);
}

ENTRY uint64_t ms_agent_after(struct call *call, uint64_t result)
{
	enter(call->record, result);
	return result;
}

ENTRY uint64_t ms_agent_after_realloc(struct call *call, uint64_t result)
{
	bool failed = !result && call->size;

	if (failed)
		enter(call->taken, call->first);
	else if (call->taken != MS_AGENT_NONE)
		ms_agent_release(&ms_agent_here, call->taken);
	enter(call->record, result);
	return result;
}

ENTRY uint64_t ms_agent_after_posix_memalign(struct call *call, uint64_t result)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): realloc's is no more than a number */
	const uint64_t *block = (const uint64_t *)(uintptr_t)call->first;

	enter(call->record, (uint32_t)result ? 0 : *block);
	return result;
}

ENTRY void ms_agent_before_free(uint64_t block)
{
	drop(block);
}

ENTRY void ms_agent_before_unload(const struct ms_agent_object *object, int failed)
{
	if (!failed)
		ms_agent_note_unload(&ms_agent_here, object);
}
