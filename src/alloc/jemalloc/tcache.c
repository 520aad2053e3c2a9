/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/jemalloc/jemalloc.h"

#include "engine/loaded/tls.h"

/*
 * Each arena has a ring of the caches of the threads that use it, and of those that the
 * program made. A cache has one stack of pointers for each size class that it keeps;
 * all stacks are one allocation of jemalloc's own, one after the other:
 *
 *	          bin 0                bin 1
 *	 ├─junk─┼──free──┬──cached────┼─────────┬────┼ …  ┼─junk─┤    (junk from 5.3 on)
 *	                 ^head        ^empty
 *
 * So where the stack of one bin ends the next one's begins, and the last one's at the
 * junk: bins that are not a cache's do not fit so. A build that does not count blocks has
 * no rings: there the caches of threads are found in their storage.
 */

enum {
	BIN_BYTES = 24,
	LEAST_STACK = 512, /* bytes of the block that has a cache's stack */
	MOST_CACHES = 1 << 16,
	MOST_FILLED = 200,     /* pointers of a bin that counts: TCACHE_NSLOTS_SMALL_MAX */
	MOST_CACHED = 1 << 13, /* pointers of one bin: its stack has no more than 64 KiB */
};

static const uint64_t BEFORE = 0x7a7a7a7a7a7a7a7a;

struct cache {
	ms_addr entry; /* what the ring is of */
	ms_addr bins;  /* what has the bins */
	ms_addr stack; /* the whole allocation; before 5.3 an address in it */
	ms_addr at;    /* where the next bin's stack must begin; 0: anywhere */
	uint32_t index;
};

/* One bin's stack. */
struct stack {
	ms_addr begin; /* 0: not known */
	ms_addr head;  /* what is cached is from here on */
	ms_addr end;
};

/* A block of jemalloc's own, which is none of the program's. */
struct internal {
	struct ms_je_arena *arena;
	struct ms_range range;
};

static bool find_internal(const struct ms_jemalloc *je, const struct ms_je_copy *copy, ms_addr addr,
                          struct internal *ret)
{
	const struct ms_je_extent *e = ms_range_find(&copy->extents, addr);

	ret->arena = e ? ms_je_arena_of(copy, e) : NULL;
	if (!ret->arena)
		return false;
	if (ms_je_is_slab(e))
		addr -= (addr - e->range.begin) % ms_je_class_bytes(ms_je_class_of(copy, e));
	else
		addr = e->addr;
	ret->range.begin = addr;
	ret->range.end = addr + ms_blocks_usable(je->d->blocks, addr);
	return true;
}

static bool take_internal(struct ms_jemalloc *je, const struct internal *own)
{
	if (!ms_blocks_kill(je->d->blocks, own->range.begin))
		return false;
	own->arena->tally.n_internal++;
	own->arena->tally.internal_bytes += ms_range_len(own->range);
	return true;
}

static bool is_metadata(const struct ms_je_copy *copy, ms_addr addr)
{
	return ms_range_find(&copy->metadata, addr);
}

/*
 * Take a block for free that is cached as one of class @index. A small one may be of another class:
 * see alloc/misplaced.h.
 */
static bool take_cached(struct ms_jemalloc *je, struct ms_je_copy *copy, ms_addr addr,
                        uint32_t index)
{
	const struct ms_je_extent *e = ms_range_find(&copy->extents, addr);
	struct ms_je_arena *arena = e ? ms_je_arena_of(copy, e) : NULL;
	uint64_t usable = ms_blocks_usable(je->d->blocks, addr);
	bool small = index < MS_JE_BINS;

	if (!arena || ms_je_is_slab(e) != small || (!small && ms_je_class_of(copy, e) != index) ||
	    !ms_blocks_kill(je->d->blocks, addr))
		return false;
	if (ms_je_class_of(copy, e) != index)
		ms_misplaced_note(&copy->misplaced, addr, usable, ms_je_class_bytes(index));
	arena->tally.n_cached++;
	arena->tally.cached_bytes += usable;
	return true;
}

/* Before 5.3: a count, and a pointer behind the stack. False: it can be no bin. */
static bool read_counted(const uint64_t words[3], struct stack *ret)
{
	uint32_t n = (uint32_t)(words[0] >> 32);

	if (n > MOST_CACHED || words[2] % MS_JE_WORD || words[2] < n * (uint64_t)MS_JE_WORD)
		return false;
	*ret = (struct stack){ .head = words[2] - n * (uint64_t)MS_JE_WORD, .end = words[2] };
	return true;
}

/* From 5.3 on: the head, and the lowest 16 bits of where the stack begins and ends. */
static bool read_marked(const uint64_t words[3], struct stack *ret)
{
	ms_addr head = words[0];
	uint16_t full = (uint16_t)(words[2] >> 16);
	uint16_t empty = (uint16_t)(words[2] >> 32);

	*ret = (struct stack){ .begin = head - (uint16_t)((uint16_t)head - full),
		               .head = head,
		               .end = head + (uint16_t)(empty - (uint16_t)head) };
	return head % MS_JE_WORD == 0 && ret->begin % MS_JE_WORD == 0 &&
	       ret->end % MS_JE_WORD == 0 && ret->end - ret->begin < 1 << 16;
}

static bool take_stack(struct ms_jemalloc *je, struct ms_je_copy *copy, const struct stack *stack,
                       uint32_t index)
{
	const uint64_t misplaced = copy->misplaced.n;

	for (ms_addr at = stack->head; at < stack->end; at += MS_JE_WORD) {
		uint64_t addr;

		if (!ms_je_word(je, at, &addr) || !take_cached(je, copy, addr, index))
			return false;
	}
	if (stack->head < stack->end)
		copy->n_bins[copy->misplaced.n > misplaced]++;
	return true;
}

enum step { STEP_NEXT, STEP_END, STEP_BAD };

static bool belongs(struct ms_je_copy *copy, struct cache *cache, const struct stack *stack)
{
	const struct ms_je_extent *e;

	if (!copy->layout->counted)
		return stack->begin == cache->at;
	e = ms_range_find(&copy->extents, cache->at ? cache->at - 1 : stack->end - 1);
	return e && stack->end - 1 < e->range.end && stack->head >= e->range.begin &&
	       (!cache->at || stack->head >= cache->at);
}

/* Where an empty bin gets its blocks. Of a bin that counts only the end is known. */
static struct ms_range room_of(const struct ms_je_copy *copy, const struct cache *cache,
                               const struct stack *stack)
{
	struct ms_range room = { stack->begin, stack->end };

	if (!copy->layout->counted)
		return room;
	room.begin = stack->end - MOST_FILLED * (uint64_t)MS_JE_WORD;
	if (room.begin < cache->at)
		room.begin = cache->at;
	return room;
}

/* Bin cache->index: whether it goes on, and what is in it. */
static enum step take_bin(struct ms_jemalloc *je, struct ms_je_copy *copy, struct cache *cache)
{
	const struct ms_je_layout *layout = copy->layout;
	uint32_t i = cache->index;
	ms_addr bin =
		cache->bins +
		(i < MS_JE_BINS ? layout->small_bins + i * (uint64_t)BIN_BYTES
	                        : layout->large_bins + (i - MS_JE_BINS) * (uint64_t)BIN_BYTES);
	uint64_t words[3];
	struct stack stack;

	if (ms_peek_read(je->peek, bin, words, sizeof(words)) != sizeof(words))
		return STEP_BAD;
	if (!words[layout->counted ? 2 : 0])
		return STEP_END;
	if (!(layout->counted ? read_counted(words, &stack) : read_marked(words, &stack)))
		return STEP_BAD;
	if (layout->tells_max) {
		/* A bin that is off shares a stack without room. */
		if (stack.begin == stack.end && stack.begin != cache->at)
			return STEP_NEXT;
		if ((stack.end - stack.begin) / MS_JE_WORD != (uint16_t)(words[2] >> 48))
			return STEP_BAD;
	}
	if (!belongs(copy, cache, &stack))
		return STEP_BAD;
	if (stack.head == stack.end &&
	    !ms_je_hold_room(je, copy, (struct ms_range){ bin, bin + BIN_BYTES },
	                     room_of(copy, cache, &stack)))
		copy->no_memory = true;
	cache->at = stack.end;
	return take_stack(je, copy, &stack, i) ? STEP_NEXT : STEP_BAD;
}

/* Whether the stacks are between the two words of junk, from 5.3 on. */
static bool is_framed(const struct ms_jemalloc *je, const struct ms_je_layout *layout,
                      const struct cache *cache)
{
	return layout->counted || (ms_je_word_or_0(je, cache->stack) == BEFORE &&
	                           ms_je_word_or_0(je, cache->at) == layout->behind);
}

static bool open_cache(const struct ms_jemalloc *je, const struct ms_je_copy *copy, ms_addr entry,
                       struct cache *ret)
{
	const struct ms_je_layout *layout = copy->layout;

	*ret = (struct cache){ .entry = entry, .bins = entry };
	if (layout->counted)
		return true;
	ret->bins = ms_je_word_or_0(je, entry + layout->list_tcache);
	ret->stack = ms_je_word_or_0(je, entry + layout->list_stack);
	ret->at = ret->stack + MS_JE_WORD;
	/* A cache begins with what the ring is of. */
	return ret->bins && ms_je_word_or_0(je, ret->bins) == entry;
}

/* What else there is of the thread that has the cache at @bins in its storage. */
static bool take_threads(struct ms_jemalloc *je, struct ms_je_copy *copy, ms_addr bins)
{
	const struct ms_je_layout *layout = copy->layout;
	ms_addr lookups = bins + (uint64_t)(int64_t)layout->lookups;
	struct internal own;
	ms_addr tdata = 0;

	if (layout->tdata)
		tdata = ms_je_word_or_0(je, bins + (uint64_t)(int64_t)layout->tdata);
	copy->no_memory |= !ms_ranges_add(je->d->arena, &je->d->own_words, lookups,
	                                  lookups + MS_JE_LOOKUPS_BYTES);
	return !tdata || (find_internal(je, copy, tdata, &own) && take_internal(je, &own));
}

/* The stacks, and what belongs to the cache's thread. */
static bool take_own(struct ms_jemalloc *je, struct ms_je_copy *copy, const struct cache *cache)
{
	struct internal own = { 0 };
	ms_addr stack = copy->layout->counted ? cache->at - 1 : cache->stack;

	copy->base_stacks |= is_metadata(copy, stack);
	if (!is_metadata(copy, stack) &&
	    !(find_internal(je, copy, stack, &own) && take_internal(je, &own)))
		return false;
	/* The program's own caches are in one allocation with their stacks. */
	return ms_range_has(own.range, cache->bins) || take_threads(je, copy, cache->bins);
}

static bool take_cache(struct ms_jemalloc *je, struct ms_je_copy *copy, ms_addr entry)
{
	struct cache cache;
	enum step step = STEP_NEXT;

	if (!open_cache(je, copy, entry, &cache))
		return false;
	for (; step == STEP_NEXT && cache.index < copy->layout->max_bins; cache.index++)
		step = take_bin(je, copy, &cache);
	copy->n_caches++;
	return step != STEP_BAD && cache.index > 1 && is_framed(je, copy->layout, &cache) &&
	       take_own(je, copy, &cache);
}

/* The ring of one arena; false when it is none, or a cache in it contradicts itself. */
static bool take_ring(struct ms_jemalloc *je, struct ms_je_copy *copy,
                      const struct ms_je_arena *arena)
{
	const struct ms_je_layout *layout = copy->layout;
	ms_addr first = ms_je_word_or_0(je, arena->addr + layout->arena_tcaches);
	ms_addr at = first;

	if (!first)
		return true;
	for (uint32_t n = 0; n < MOST_CACHES; n++) {
		uint64_t links[2];

		if (ms_peek_read(je->peek, at + layout->list_link, links, sizeof(links)) !=
		            sizeof(links) ||
		    ms_je_word_or_0(je, at + layout->list_arena) != arena->addr ||
		    ms_je_word_or_0(je, links[0] + layout->list_link + MS_JE_WORD) != at ||
		    !take_cache(je, copy, at))
			return false;
		at = links[0];
		if (at == first)
			return true;
	}
	return false;
}

/* ---- without rings ---- */

static bool is_arena(const struct ms_je_copy *copy, ms_addr addr)
{
	const struct ms_je_arena *arena;

	ms_vec_for_each (arena, &copy->arenas)
		if (arena->addr == addr)
			return true;
	return false;
}

/* Whether a thread's cache is at @at. */
static bool is_cache(const struct ms_jemalloc *je, const struct ms_je_copy *copy, ms_addr at)
{
	ms_addr arena = ms_je_word_or_0(je, at + copy->layout->list_arena);
	ms_addr bins;

	if (!arena || !is_arena(copy, arena))
		return false;
	bins = ms_je_word_or_0(je, at + copy->layout->list_tcache);
	return bins && ms_je_word_or_0(je, bins) == at;
}

/* The caches in one thread's storage; false when one contradicts itself. */
static bool take_thread(struct ms_jemalloc *je, struct ms_je_copy *copy, struct ms_range storage,
                        uint32_t *n)
{
	ms_addr at = ms_align_up(storage.begin, MS_JE_WORD);

	for (; at + MS_JE_WORD <= storage.end; at += MS_JE_WORD) {
		if (!is_cache(je, copy, at))
			continue;
		++*n;
		if (!take_cache(je, copy, at))
			return false;
	}
	return true;
}

/* Whether a stack that begins at a block of @e is of no cache that was taken. */
static bool has_stack(const struct ms_jemalloc *je, const struct ms_je_copy *copy,
                      const struct ms_je_extent *e)
{
	uint64_t bytes = ms_je_class_bytes(ms_je_class_of(copy, e));
	ms_addr at = ms_je_is_slab(e) ? e->range.begin : e->addr;

	if (bytes < LEAST_STACK || !ms_je_in_use(copy->bits, e->bits))
		return false;
	do {
		if (ms_je_word_or_0(je, at) == BEFORE && ms_blocks_begins(je->d->blocks, at))
			return true;
		at += bytes;
	} while (ms_je_is_slab(e) && at < e->range.end);
	return false;
}

/*
 * Rings are kept for the sake of counters: without these, caches are looked for in the
 * storage of threads. That none is missed shows by the stacks, which are blocks that begin with
 * junk; where stacks are metadata, each thread must have one.
 */
static void take_storage(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	const struct ms_decoding *d = je->d;
	ms_addr module = ms_module_begin(d->regions, copy->region->module);
	const struct ms_je_extent *e;
	const struct ms_thread *t;
	struct ms_tls tls;
	uint32_t n_without = 0;

	if (copy->layout->counted || !ms_tls_find(je->peek, module, &tls)) {
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "its bins do not count, and where threads have caches is not known");
		return;
	}
	ms_vec_for_each (t, &d->src->threads) {
		struct ms_range storage = { t->tp - (uint64_t)tls.far, t->tp - (uint64_t)tls.near };
		uint32_t n = 0;

		if ((int64_t)t->tp > tls.far && !take_thread(je, copy, storage, &n))
			ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
			               "the cache of thread %d contradicts itself", (int)t->tid);
		n_without += !n;
	}
	if (copy->base_stacks && n_without)
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "%u threads have no cache that was found", n_without);
	ms_vec_for_each (e, &copy->extents)
		if (has_stack(je, copy, e))
			ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
			               "the cache that has its stack in the extent at 0x%llx was "
			               "not found",
			               (unsigned long long)e->range.begin);
}

enum ms_status ms_je_take_caches(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	const struct ms_je_arena *arena;

	ms_vec_for_each (arena, &copy->arenas)
		if (!take_ring(je, copy, arena))
			ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
			               "a thread's cache of arena %u contradicts itself",
			               arena->ind);
	copy->counts = ms_je_counts(je, copy);
	if (!copy->counts)
		take_storage(je, copy);
	/* Then these are no bins, or those of other classes. */
	if (copy->n_bins[true] > copy->n_bins[false])
		ms_proof_doubt(
			&copy->proof, MS_DOUBT_DISAGREES,
			"of threads' caches of blocks of one size %u have others, %u have not",
			copy->n_bins[true], copy->n_bins[false]);
	return copy->no_memory ? MS_E_NOMEM : MS_OK;
}
