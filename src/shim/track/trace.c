/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/trace.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "shim/track/loaded.h"

/* Chains begin in BUCKETS heads; numbers lead through pages of PAGE entries. */
enum { BUCKET_BITS = 16, BUCKETS = 1 << BUCKET_BITS, PAGE = 4096, PAGES = 4096 };

enum { LINE_BITS = 12, WAYS = 4, LINE_BYTES = 64 };

#define MIX UINT64_C(0x9e3779b97f4a7c15)

/* Addresses as the registry has them: what is above a shorter one is 0, as all is at first. */
struct place {
	_Alignas(8) struct ms_trace *trace;
};

struct page {
	struct place at[PAGE];
};

struct page_place {
	_Alignas(8) struct page *page;
};

_Static_assert(offsetof(struct ms_trace, id) == offsetof(struct malloc_debug_stack, id) &&
                       offsetof(struct ms_trace, n) == offsetof(struct malloc_debug_stack, n) &&
                       offsetof(struct ms_trace, pc) == offsetof(struct malloc_debug_stack, pc) &&
                       sizeof(struct place) == sizeof(uint64_t) &&
                       sizeof(struct page_place) == sizeof(uint64_t),
               "the registry's");
_Static_assert((int)MS_TRACE_FIRST == (int)MALLOC_DEBUG_FIRST_STACK, "the registry's");

/*
 * A number by its stack's hash, in one line of the cache: among a million of stacks, two
 * have the same 64 bits once in thirty million programs. Written and read without a lock:
 * halves of two entries stand for a hash that no stack has.
 */
struct recent {
	uint64_t check; /* the hash xor the number mixed */
	uint64_t id;    /* 0: empty */
};

_Static_assert(sizeof(struct recent) * WAYS == LINE_BYTES, "a line of the cache each");

/* Additions are under the lock, and readers see a trace once it is whole. */
static struct {
	pthread_mutex_t lock;
	struct ms_arena arena;
	uint32_t n;
	struct page_place at[PAGES];
	struct ms_trace *bucket[BUCKETS];
	struct recent recent[1 << LINE_BITS][WAYS] __attribute__((aligned(LINE_BYTES)));
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* Each address times a number of its place: no step waits for the one before. */
static uint64_t hash_of(const uint64_t *pc, size_t n)
{
	uint64_t hash = n;
	uint64_t factor = MIX;

	for (size_t i = 0; i < n; i++) {
		hash += pc[i] * factor;
		factor *= MIX;
	}
	return (hash ^ hash >> 32) * MIX;
}

static struct ms_trace **bucket_of(uint64_t hash)
{
	return &state.bucket[hash >> (64 - BUCKET_BITS)];
}

static const struct ms_trace *look(uint64_t hash, const uint64_t *pc, size_t n)
{
	const struct ms_trace *trace = __atomic_load_n(bucket_of(hash), __ATOMIC_ACQUIRE);

	while (trace && (trace->hash != hash || trace->n != n ||
	                 memcmp(trace->pc, pc, n * sizeof(*pc)) != 0))
		trace = trace->next;
	return trace;
}

static bool enter(struct ms_trace *trace)
{
	struct page **page;

	if (state.n >= (uint32_t)PAGES * PAGE)
		return false;
	page = &state.at[state.n / PAGE].page;
	if (!*page) {
		struct page *fresh = ms_arena_alloc(&state.arena, sizeof(**page));

		if (!fresh)
			return false;
		__atomic_store_n(page, fresh, __ATOMIC_RELEASE);
	}
	trace->id = MS_TRACE_FIRST + state.n;
	__atomic_store_n(&(*page)->at[state.n % PAGE].trace, trace, __ATOMIC_RELEASE);
	__atomic_store_n(&state.n, state.n + 1, __ATOMIC_RELEASE);
	trace->next = *bucket_of(trace->hash);
	__atomic_store_n(bucket_of(trace->hash), trace, __ATOMIC_RELEASE);
	return true;
}

static const struct ms_trace *add(uint64_t hash, const uint64_t *pc, size_t n)
{
	struct ms_trace *trace = ms_arena_alloc(&state.arena, sizeof(*trace) + n * sizeof(*pc));

	if (!trace)
		return NULL;
	trace->hash = hash;
	trace->n = (uint32_t)n;
	memcpy(trace->pc, pc, n * sizeof(*pc));
	return enter(trace) ? trace : NULL;
}

static struct recent *recent_of(uint64_t hash)
{
	return state.recent[hash >> (64 - LINE_BITS)];
}

/* With what the trace is found by: that was written before it was noted here. */
static uint32_t recall(uint64_t hash)
{
	const struct recent *line = recent_of(hash);
	uint64_t found = MS_TRACE_NONE;

	/* all of them, without a branch: which one it is cannot be predicted */
	for (unsigned way = 0; way < WAYS; way++) {
		uint64_t id = __atomic_load_n(&line[way].id, __ATOMIC_RELAXED);
		uint64_t check = __atomic_load_n(&line[way].check, __ATOMIC_ACQUIRE);

		found = (check ^ id * MIX) == hash ? id : found;
	}
	return (uint32_t)found;
}

static void remember(uint64_t hash, uint32_t id)
{
	struct recent *line = recent_of(hash);
	unsigned way = 0;

	while (way < WAYS && __atomic_load_n(&line[way].id, __ATOMIC_RELAXED))
		way++;
	way = way < WAYS ? way : id % WAYS;
	__atomic_store_n(&line[way].id, id, __ATOMIC_RELAXED);
	__atomic_store_n(&line[way].check, hash ^ id * MIX, __ATOMIC_RELEASE);
}

/* Of a stack that was not kept recently. */
__attribute__((noinline)) static uint32_t keep(uint64_t hash, const uint64_t *pc, size_t n)
{
	const struct ms_trace *trace;

	trace = look(hash, pc, n);
	if (!trace) {
		(void)pthread_mutex_lock(&state.lock);
		trace = look(hash, pc, n);
		if (!trace)
			trace = add(hash, pc, n);
		(void)pthread_mutex_unlock(&state.lock);
	}
	if (!trace)
		return MS_TRACE_NONE;
	remember(hash, trace->id);
	return trace->id;
}

uint32_t ms_trace_keep(const uint64_t *pc, size_t n)
{
	uint64_t hash = hash_of(pc, n) ^ ms_loaded_mix();
	uint32_t id;

	if (!n)
		return MS_TRACE_NONE;
	id = recall(hash);
	return id >= MS_TRACE_FIRST ? id : keep(hash, pc, n);
}

uint32_t ms_trace_next(void)
{
	return MS_TRACE_FIRST + __atomic_load_n(&state.n, __ATOMIC_ACQUIRE);
}

const struct ms_trace *ms_trace_find(uint32_t id)
{
	const struct page *page;
	uint32_t i = id - MS_TRACE_FIRST;

	if (i >= __atomic_load_n(&state.n, __ATOMIC_ACQUIRE))
		return NULL;
	page = __atomic_load_n(&state.at[i / PAGE].page, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&page->at[i % PAGE].trace, __ATOMIC_ACQUIRE);
}

struct malloc_debug_list ms_trace_pages(uint32_t *ret_a_page)
{
	*ret_a_page = PAGE;
	return (struct malloc_debug_list){ (uintptr_t)state.at, PAGES, sizeof(*state.at) };
}
