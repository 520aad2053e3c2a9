/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/trace.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

/* Chains begin in BUCKETS heads; numbers lead through pages of PAGE entries. */
enum { BUCKETS = 1 << 16, PAGE = 4096, PAGES = 4096 };

struct page {
	struct ms_trace *trace[PAGE];
};

_Static_assert(offsetof(struct ms_trace, id) == offsetof(struct malloc_debug_stack, id) &&
                       offsetof(struct ms_trace, n) == offsetof(struct malloc_debug_stack, n) &&
                       offsetof(struct ms_trace, pc) == offsetof(struct malloc_debug_stack, pc) &&
                       sizeof(uintptr_t) == sizeof(uint64_t),
               "the registry's");
_Static_assert((int)MS_TRACE_FIRST == (int)MALLOC_DEBUG_FIRST_STACK, "the registry's");

/* Additions are under the lock, and readers see a trace once it is whole. */
static struct {
	pthread_mutex_t lock;
	struct ms_arena arena;
	uint32_t n;
	struct page *page[PAGES];
	struct ms_trace *bucket[BUCKETS];
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static uint64_t hash_of(const uintptr_t *pc, size_t n)
{
	uint64_t hash = n;

	for (size_t i = 0; i < n; i++) {
		hash = (hash ^ pc[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

static const struct ms_trace *look(uint64_t hash, const uintptr_t *pc, size_t n)
{
	const struct ms_trace *trace =
		__atomic_load_n(&state.bucket[hash % BUCKETS], __ATOMIC_ACQUIRE);

	while (trace && (trace->hash != hash || trace->n != n ||
	                 memcmp(trace->pc, pc, n * sizeof(*pc)) != 0))
		trace = trace->next;
	return trace;
}

static bool enter(struct ms_trace *trace)
{
	struct page **page = &state.page[state.n / PAGE];

	if (state.n >= (uint32_t)PAGES * PAGE)
		return false;
	if (!*page) {
		struct page *fresh = ms_arena_alloc(&state.arena, sizeof(**page));

		if (!fresh)
			return false;
		__atomic_store_n(page, fresh, __ATOMIC_RELEASE);
	}
	trace->id = MS_TRACE_FIRST + state.n;
	__atomic_store_n(&(*page)->trace[state.n % PAGE], trace, __ATOMIC_RELEASE);
	__atomic_store_n(&state.n, state.n + 1, __ATOMIC_RELEASE);
	trace->next = state.bucket[trace->hash % BUCKETS];
	__atomic_store_n(&state.bucket[trace->hash % BUCKETS], trace, __ATOMIC_RELEASE);
	return true;
}

static const struct ms_trace *add(uint64_t hash, const uintptr_t *pc, size_t n)
{
	struct ms_trace *trace = ms_arena_alloc(&state.arena, sizeof(*trace) + n * sizeof(*pc));

	if (!trace)
		return NULL;
	trace->hash = hash;
	trace->n = (uint32_t)n;
	memcpy(trace->pc, pc, n * sizeof(*pc));
	return enter(trace) ? trace : NULL;
}

uint32_t ms_trace_keep(const uintptr_t *pc, size_t n)
{
	uint64_t hash = hash_of(pc, n);
	const struct ms_trace *trace;

	if (!n)
		return MS_TRACE_NONE;
	trace = look(hash, pc, n);
	if (!trace) {
		(void)pthread_mutex_lock(&state.lock);
		trace = look(hash, pc, n);
		if (!trace)
			trace = add(hash, pc, n);
		(void)pthread_mutex_unlock(&state.lock);
	}
	return trace ? trace->id : MS_TRACE_NONE;
}

const struct ms_trace *ms_trace_find(uint32_t id)
{
	const struct page *page;
	uint32_t i = id - MS_TRACE_FIRST;

	if (i >= __atomic_load_n(&state.n, __ATOMIC_ACQUIRE))
		return NULL;
	page = __atomic_load_n(&state.page[i / PAGE], __ATOMIC_ACQUIRE);
	return __atomic_load_n(&page->trace[i % PAGE], __ATOMIC_ACQUIRE);
}

struct malloc_debug_list ms_trace_pages(uint32_t *ret_a_page)
{
	*ret_a_page = PAGE;
	return (struct malloc_debug_list){ (uintptr_t)state.page, PAGES, sizeof(uint64_t) };
}
