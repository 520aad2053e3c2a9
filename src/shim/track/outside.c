/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/outside.h"

#include <stdint.h>
#include <sys/mman.h>

/*
 * Chunks of slots; a pointer is in one of a few slots of any chunk, found by its hash, so
 * nothing ever moves and an empty slot ends no search. Inverted, so that they are no
 * references to what looks for leaks.
 */
enum { SLOTS = 4096, TRIED = 8, SEEN = 4096 };

struct chunk {
	struct chunk *next;
	uintptr_t slot[SLOTS];
};

static struct {
	size_t live;              /* never too small: counted before it is entered */
	uint64_t seen[SEEN / 64]; /* bit by hash: some pointer was entered that has it */
	struct chunk first;
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static size_t hash_of(const void *p)
{
	return (size_t)(((uint64_t)(uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static uint64_t *seen_of(const void *p)
{
	return &state.seen[hash_of(p) % SEEN / 64];
}

static uint64_t seen_bit(const void *p)
{
	return UINT64_C(1) << hash_of(p) % 64;
}

/* False when @p surely was never entered. */
static bool is_seen(const void *p)
{
	return (__atomic_load_n(seen_of(p), __ATOMIC_RELAXED) & seen_bit(p)) != 0;
}

static uintptr_t *slot_of(struct chunk *chunk, const void *p, unsigned nth)
{
	return &chunk->slot[(hash_of(p) + nth) % SLOTS];
}

static struct chunk *after(struct chunk *chunk)
{
	struct chunk *next = __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE);
	struct chunk *expected = NULL;

	if (next)
		return next;
	next = mmap(NULL, sizeof(*next), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	            0);
	if (next == MAP_FAILED)
		return NULL;
	if (__atomic_compare_exchange_n(&chunk->next, &expected, next, false, __ATOMIC_ACQ_REL,
	                                __ATOMIC_ACQUIRE))
		return next;
	(void)munmap(next, sizeof(*next));
	return expected;
}

static bool swap_in(struct chunk *chunk, const void *p, uintptr_t from, uintptr_t to)
{
	for (unsigned i = 0; i < TRIED; i++) {
		uintptr_t expected = from;

		if (__atomic_load_n(slot_of(chunk, p, i), __ATOMIC_RELAXED) == from &&
		    __atomic_compare_exchange_n(slot_of(chunk, p, i), &expected, to, false,
		                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

void ms_outside_add(const void *p)
{
	if (!p)
		return;
	(void)__atomic_fetch_add(&state.live, 1, __ATOMIC_RELAXED);
	(void)__atomic_fetch_or(seen_of(p), seen_bit(p), __ATOMIC_RELAXED);
	for (struct chunk *chunk = &state.first; chunk; chunk = after(chunk)) {
		if (swap_in(chunk, p, 0, ~(uintptr_t)p))
			return;
	}
}

bool ms_outside_has(const void *p)
{
	if (!__atomic_load_n(&state.live, __ATOMIC_RELAXED) || !is_seen(p))
		return false;
	for (struct chunk *chunk = &state.first; chunk;
	     chunk = __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE)) {
		for (unsigned i = 0; i < TRIED; i++) {
			if (__atomic_load_n(slot_of(chunk, p, i), __ATOMIC_RELAXED) ==
			    ~(uintptr_t)p)
				return true;
		}
	}
	return false;
}

bool ms_outside_take(const void *p)
{
	if (!__atomic_load_n(&state.live, __ATOMIC_RELAXED) || !is_seen(p))
		return false;
	for (struct chunk *chunk = &state.first; chunk;
	     chunk = __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE)) {
		if (!swap_in(chunk, p, ~(uintptr_t)p, 0))
			continue;
		(void)__atomic_fetch_sub(&state.live, 1, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}
