/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/live.h"

#include <pthread.h>
#include <sys/mman.h>

enum { SHARDS = 128, LINE_BYTES = 64, FIRST_SLOTS = 256, SHARD_SHIFT = 57 };

struct slot {
	uintptr_t inverted; /* 0: empty */
	size_t size;
	uint32_t trace;
};

struct shard {
	pthread_mutex_t lock;
	size_t n;
	size_t n_slots; /* a power of two, at most 3/4 full */
	struct slot *slot;
} __attribute__((aligned(LINE_BYTES)));

static struct {
	struct shard shard[SHARDS];
	bool filtered;
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

uint8_t ms_live_filter_of[MS_LIVE_FILTER]; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
                                            */

/* All zeros is what PTHREAD_MUTEX_INITIALIZER is; the table is ready before main(). */
_Static_assert(1U << (64 - SHARD_SHIFT) == SHARDS, "the top bits choose the shard");

static uint64_t hash_of(uintptr_t p)
{
	return ((uint64_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

void ms_live_filter(void)
{
	state.filtered = true;
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

static struct shard *lock_shard(uintptr_t p)
{
	struct shard *shard = &state.shard[hash_of(p) >> SHARD_SHIFT];

	(void)pthread_mutex_lock(&shard->lock);
	return shard;
}

static size_t home_of(const struct shard *shard, uintptr_t p)
{
	return (size_t)(hash_of(p) >> 24) & (shard->n_slots - 1);
}

/* The slot of @p, or the empty one where it belongs. */
static struct slot *slot_of(const struct shard *shard, uintptr_t p)
{
	size_t i = home_of(shard, p);

	while (shard->slot[i].inverted && shard->slot[i].inverted != ~p)
		i = (i + 1) & (shard->n_slots - 1);
	return &shard->slot[i];
}

static bool grow(struct shard *shard)
{
	struct shard more = *shard;

	more.n_slots = shard->n_slots ? 2 * shard->n_slots : FIRST_SLOTS;
	more.slot = mmap(NULL, more.n_slots * sizeof(struct slot), PROT_READ | PROT_WRITE,
	                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (more.slot == MAP_FAILED)
		return false;
	for (size_t i = 0; i < shard->n_slots; i++) {
		if (shard->slot[i].inverted)
			*slot_of(&more, ~shard->slot[i].inverted) = shard->slot[i];
	}
	if (shard->slot)
		(void)munmap(shard->slot, shard->n_slots * sizeof(struct slot));
	shard->slot = more.slot;
	shard->n_slots = more.n_slots;
	return true;
}

static bool put(struct shard *shard, uintptr_t p, struct ms_live live)
{
	struct slot *slot;

	if (4 * (shard->n + 1) > 3 * shard->n_slots && !grow(shard))
		return false;
	slot = slot_of(shard, p);
	if (!slot->inverted) {
		shard->n++;
		count_in_filter(p, 1);
	}
	*slot = (struct slot){ ~p, live.size, live.trace };
	return true;
}

bool ms_live_add(const void *p, struct ms_live live)
{
	struct shard *shard = lock_shard((uintptr_t)p);
	bool done = put(shard, (uintptr_t)p, live);

	(void)pthread_mutex_unlock(&shard->lock);
	return done;
}

/* Move back what the hole would hide: entries whose home is not behind it. */
static void close_hole(struct shard *shard, struct slot *hole)
{
	size_t mask = shard->n_slots - 1;
	size_t empty = (size_t)(hole - shard->slot);

	for (size_t i = (empty + 1) & mask; shard->slot[i].inverted; i = (i + 1) & mask) {
		size_t home = home_of(shard, ~shard->slot[i].inverted);

		if (((i - home) & mask) < ((i - empty) & mask))
			continue;
		shard->slot[empty] = shard->slot[i];
		empty = i;
	}
	shard->slot[empty].inverted = 0;
}

static bool look(const void *p, struct ms_live *ret, bool remove)
{
	struct shard *shard = lock_shard((uintptr_t)p);
	struct slot *slot = shard->slot ? slot_of(shard, (uintptr_t)p) : NULL;
	bool found = slot && slot->inverted;

	if (found) {
		*ret = (struct ms_live){ slot->size, slot->trace };
		if (remove) {
			close_hole(shard, slot);
			shard->n--;
			count_in_filter((uintptr_t)p, -1);
		}
	}
	(void)pthread_mutex_unlock(&shard->lock);
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

static bool list_shard(const struct shard *shard, struct ms_arena *arena,
                       size_t (*usable)(uintptr_t p), struct ms_live_blocks *ret)
{
	for (size_t i = 0; i < shard->n_slots; i++) {
		const struct slot *slot = &shard->slot[i];
		struct ms_live_block *block;

		if (!slot->inverted)
			continue;
		block = ms_vec_push(arena, ret);
		if (!block)
			return false;
		*block =
			(struct ms_live_block){ ~slot->inverted, slot->size,
			                        usable ? usable(~slot->inverted) : 0, slot->trace };
	}
	return true;
}

bool ms_live_list(struct ms_arena *arena, size_t (*usable)(uintptr_t p), struct ms_live_blocks *ret)
{
	bool done = true;

	for (unsigned i = 0; i < SHARDS && done; i++) {
		(void)pthread_mutex_lock(&state.shard[i].lock);
		done = list_shard(&state.shard[i], arena, usable, ret);
		(void)pthread_mutex_unlock(&state.shard[i].lock);
	}
	return done;
}
