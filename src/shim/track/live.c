/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/live.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "malloc_debug/registry.h"
#include "shim/pointer.h"

enum { SHARDS = 128, LINE_BYTES = 64, FIRST_SLOTS = 256, SHARD_SHIFT = 57 };

/* A lock is held for some instructions, or a mapping; then its holder waits for a processor. */
enum { YIELDS = 1000, ROUND_NS = 100000 };

/* As registry.h has it, which says what a reader sees while something changes. */
struct shard {
	_Alignas(8) struct malloc_debug_table *table;
	_Alignas(8) uint32_t locked; /* what is above a shorter address stays 0 */
	size_t n;
	size_t n_slots; /* of the table: a power of two, at most 3/4 full */
} __attribute__((aligned(LINE_BYTES)));

_Static_assert(offsetof(struct shard, table) == offsetof(struct malloc_debug_shard, table),
               "the registry's");
_Static_assert(offsetof(struct shard, locked) >= sizeof(struct malloc_debug_shard),
               "addresses are as the registry has them");

static struct {
	struct shard shard[SHARDS];
	bool filtered;
	bool few; /* blocks, for which one shard is enough */
} state;          /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
uint8_t ms_live_filter_of[MS_LIVE_FILTER];

_Static_assert(1U << (64 - SHARD_SHIFT) == SHARDS, "the top bits choose the shard");

static uint64_t hash_of(uintptr_t p)
{
	return ((uint64_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

void ms_live_filter(bool few)
{
	state.filtered = true;
	state.few = few;
}

/* A count that reached the most it can say is not known any more, and stays. */
static void count_in_filter(uintptr_t p, int change)
{
	uint8_t *count = &ms_live_filter_of[ms_live_filter_hash(p)];
	uint8_t was = __atomic_load_n(count, __ATOMIC_RELAXED);

	while (state.filtered && was != UINT8_MAX &&
	       !__atomic_compare_exchange_n(count, &was, (uint8_t)(was + change), true,
	                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static size_t home_of(const struct shard *shard, uintptr_t p)
{
	return (size_t)(hash_of(p) >> 24) & (shard->n_slots - 1);
}

static struct malloc_debug_slot *slots_of(const struct shard *shard)
{
	return (struct malloc_debug_slot *)(void *)(shard->table + 1);
}

/* Unlocking is a plain store, which with a mutex it is not. */
static void lock(struct shard *shard)
{
	static const struct timespec round = { 0, ROUND_NS };

	for (unsigned i = 0; __atomic_exchange_n(&shard->locked, 1, __ATOMIC_ACQUIRE); i++) {
		if (i < YIELDS)
			(void)sched_yield();
		else
			(void)nanosleep(&round, NULL);
	}
}

static void unlock(struct shard *shard)
{
	__atomic_store_n(&shard->locked, 0, __ATOMIC_RELEASE);
}

static struct shard *shard_of(uintptr_t p)
{
	return &state.shard[state.few ? 0 : hash_of(p) >> SHARD_SHIFT];
}

/* No load passes the exchange in a lock; what was on its way before it is there after it. */
void ms_live_prefetch(const void *p)
{
	const struct shard *shard = shard_of((uintptr_t)p);
	size_t mask = __atomic_load_n(&shard->n_slots, __ATOMIC_RELAXED) - 1;
	uintptr_t table = (uintptr_t)__atomic_load_n(&shard->table, __ATOMIC_RELAXED);
	size_t home = (size_t)(hash_of((uintptr_t)p) >> 24) & mask;

	if (table) /* that of an address which is none takes long */
		__builtin_prefetch(ms_pointer(table + sizeof(struct malloc_debug_table) +
		                              home * sizeof(struct malloc_debug_slot)),
		                   1);
}

static struct shard *lock_shard(uintptr_t p)
{
	struct shard *shard = shard_of(p);

	lock(shard);
	return shard;
}

/* The slot of @p, or the empty one where it belongs. */
static struct malloc_debug_slot *slot_of(const struct shard *shard, uintptr_t p)
{
	struct malloc_debug_slot *slots = slots_of(shard);
	size_t i = home_of(shard, p);

	while (slots[i].inverted && slots[i].inverted != ~(uint64_t)p)
		i = (i + 1) & (shard->n_slots - 1);
	return &slots[i];
}

static void clear(struct malloc_debug_slot *slot)
{
	__atomic_store_n(&slot->inverted, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

/* No reader meanwhile finds parts of two entries. */
static void fill(struct malloc_debug_slot *slot, const struct malloc_debug_slot *with)
{
	clear(slot);
	slot->size = with->size;
	slot->stack = with->stack;
	slot->flags = with->flags;
	__atomic_store_n(&slot->inverted, with->inverted, __ATOMIC_RELEASE);
}

static size_t table_bytes(size_t n_slots)
{
	return sizeof(struct malloc_debug_table) + n_slots * sizeof(struct malloc_debug_slot);
}

/* The number of slots stands in the table, so that both change together. */
static bool grow(struct shard *shard)
{
	struct shard more = { .n_slots = shard->n_slots ? 2 * shard->n_slots : FIRST_SLOTS };
	struct malloc_debug_table *was = shard->table;
	size_t had = shard->n_slots;

	more.table = mmap(NULL, table_bytes(more.n_slots), PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (more.table == MAP_FAILED)
		return false;
	more.table->n_slots = more.n_slots;
	for (size_t i = 0; i < had; i++) {
		const struct malloc_debug_slot *slot = &slots_of(shard)[i];

		if (slot->inverted)
			*slot_of(&more, (uintptr_t)~slot->inverted) = *slot;
	}
	shard->n_slots = more.n_slots;
	__atomic_store_n(&shard->table, more.table, __ATOMIC_RELEASE);
	if (was)
		(void)munmap(was, table_bytes(had));
	return true;
}

static bool put(struct shard *shard, uintptr_t p, struct ms_live live)
{
	struct malloc_debug_slot entry = { .inverted = ~(uint64_t)p,
		                           .size = live.size,
		                           .stack = live.trace,
		                           .flags = live.flags };
	struct malloc_debug_slot *slot;

	if (4 * (shard->n + 1) > 3 * shard->n_slots && !grow(shard))
		return false;
	slot = slot_of(shard, p);
	if (!slot->inverted) {
		shard->n++;
		count_in_filter(p, 1);
	}
	fill(slot, &entry);
	return true;
}

bool ms_live_add(const void *p, struct ms_live live)
{
	struct shard *shard = lock_shard((uintptr_t)p);
	bool done = put(shard, (uintptr_t)p, live);

	unlock(shard);
	return done;
}

/* Move back what the hole would hide: entries whose home is not behind it. */
static void close_hole(struct shard *shard, struct malloc_debug_slot *hole)
{
	struct malloc_debug_slot *slots = slots_of(shard);
	size_t mask = shard->n_slots - 1;
	size_t empty = (size_t)(hole - slots);

	for (size_t i = (empty + 1) & mask; slots[i].inverted; i = (i + 1) & mask) {
		size_t home = home_of(shard, (uintptr_t)~slots[i].inverted);

		if (((i - home) & mask) < ((i - empty) & mask))
			continue;
		fill(&slots[empty], &slots[i]);
		empty = i;
	}
	clear(&slots[empty]);
}

static bool look(const void *p, struct ms_live *ret, bool remove)
{
	struct shard *shard = lock_shard((uintptr_t)p);
	struct malloc_debug_slot *slot = shard->table ? slot_of(shard, (uintptr_t)p) : NULL;
	bool found = slot && slot->inverted;

	if (found) {
		*ret = (struct ms_live){ (size_t)slot->size, slot->stack, slot->flags };
		if (remove) {
			close_hole(shard, slot);
			shard->n--;
			count_in_filter((uintptr_t)p, -1);
		}
	}
	unlock(shard);
	return found;
}

bool ms_live_remove(const void *p, struct ms_live *ret)
{
	return look(p, ret, true);
}

bool ms_live_find(const void *p, struct ms_live *ret)
{
	return look(p, ret, false);
}

void ms_live_flag(const void *p, uint32_t flags)
{
	struct shard *shard = lock_shard((uintptr_t)p);
	struct malloc_debug_slot *slot = shard->table ? slot_of(shard, (uintptr_t)p) : NULL;

	if (slot && slot->inverted)
		slot->flags |= flags;
	unlock(shard);
}

static bool list_shard(const struct shard *shard, struct ms_arena *arena,
                       size_t (*usable)(uintptr_t p), struct ms_live_blocks *ret)
{
	for (size_t i = 0; i < shard->n_slots; i++) {
		const struct malloc_debug_slot *slot = &slots_of(shard)[i];
		uintptr_t p = (uintptr_t)~slot->inverted;
		struct ms_live_block *block;

		if (!slot->inverted)
			continue;
		block = ms_vec_push(arena, ret);
		if (!block)
			return false;
		*block = (struct ms_live_block){ p, (size_t)slot->size, usable ? usable(p) : 0,
			                         slot->stack };
	}
	return true;
}

bool ms_live_list(struct ms_arena *arena, size_t (*usable)(uintptr_t p), struct ms_live_blocks *ret)
{
	bool done = true;

	for (unsigned i = 0; i < SHARDS && done; i++) {
		lock(&state.shard[i]);
		done = list_shard(&state.shard[i], arena, usable, ret);
		unlock(&state.shard[i]);
	}
	return done;
}

struct malloc_debug_list ms_live_shards(void)
{
	return (struct malloc_debug_list){ (uintptr_t)state.shard, SHARDS, sizeof(struct shard) };
}
