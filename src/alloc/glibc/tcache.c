/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/glibc/ptmalloc.h"
#include "engine/loaded/tls.h"

/*
 * A thread's cache is a block of its own, pointed to from the C library's static
 * thread-local storage. The pointer stands at one distance below the thread
 * pointer in all threads of a process, but which one depends on what else is
 * linked; nor can it be seen whether the lists are safe-linked. So each pointer in
 * that storage that leads to a block of the right size is decoded in every way there
 * is, and the distance and the way that fit most threads win.
 *
 * A cache fits when every bin's counter agrees with its list and every entry is
 * the beginning of a used block of the bin's size.
 *
 * Where the storage is known, and no thread has a pointer there that may be one to a
 * cache, there is none: it comes with a thread's first malloc(), from 2.42 on with its
 * first free(). Where it is not known, what lies nearest to the thread pointer is
 * searched, and finding nothing says nothing.
 */

enum {
	REACH = 32 * 1024, /* bytes beside the thread pointer that are searched */
	ALLOWANCE = 32,    /* a block may be so much larger than was asked for */
	MAX_TRIALS = 4096,
	PIECE = 4096,            /* read at a time */
	ENOUGH_THREADS = 64,     /* to learn the distance from, */
	ENOUGH_BYTES = 16 << 20, /* or so much of their storage */
	ARENA_REACH = 0x80,      /* thread_arena is so near to the pointer to the cache */
	MIN_ORPHAN = 2,          /* entries that must carry one key when no thread's is known */
};

/* A way of reading a cache. */
struct way {
	const struct ms_tcache_layout *layout;
	bool plain; /* not safe-linked */
};

struct decoded {
	uint64_t n;
	uint64_t key; /* of the first entry */
	bool one_key; /* all entries carry it */
};

/* One thread's pointer read in one way, and fitting. */
struct trial {
	uint64_t distance;
	struct way way;
	uint64_t entries;
};

struct trials MS_VEC(struct trial);

/* For the caches of one C library. */
struct search {
	struct ms_ptmalloc *pt;
	const struct ms_libc *libc;
	struct ms_tls tls; /* is searched */
	bool tls_known;    /* the library's storage is all of it inside */
	struct trials trials;
	uint64_t key;
	bool key_known;
	bool misfit; /* what may be a cache fits in no way */
	bool found;
	struct way way; /* of what was found */
};

struct searches MS_VEC(struct search);

static void note_entry(uint64_t key, struct decoded *d)
{
	if (!d->n)
		d->key = key;
	d->one_key = (!d->n || d->one_key) && key == d->key;
	d->n++;
}

/* Follow the list of bin @bin; false when it does not hold @count used blocks of its size. */
static bool decode_bin(struct ms_ptmalloc *pt, const struct way *way, ms_addr mem,
                       uint64_t bin_and_count, struct decoded *d)
{
	const struct ms_pt_shape *shape = pt->shape;
	uint64_t bin = bin_and_count >> 32;
	uint64_t left = bin_and_count & UINT32_MAX;

	for (; mem && left; left--) {
		uint64_t usable = ms_blocks_usable(pt->d->blocks, mem);
		uint8_t bytes[MS_HEADER_MAX] = { 0 }; /* link, key */
		uint64_t stored;

		if (!usable || (bin < MS_TCACHE_SMALL_BINS &&
		                (usable + shape->word - shape->min_chunk) / MS_ALIGNMENT != bin))
			return false;
		(void)ms_pt_read(pt, mem, bytes, shape->header);
		stored = ms_pt_load(pt, bytes);
		note_entry(ms_pt_load(pt, bytes + shape->word), d);
		mem = way->plain ? stored : ms_pt_reveal(mem, stored);
	}
	return !mem && !left;
}

/* How many entries bin @i of the cache @bytes holds; false when its counter makes no sense. */
static bool count_of(const struct search *s, const struct way *way, const uint8_t *bytes,
                     uint64_t i, uint64_t *ret)
{
	uint64_t most = s->libc->par_layout ? s->libc->tcache_count : s->pt->tcache_count;
	uint16_t count = 0;

	memcpy(&count, bytes + i * way->layout->count_bytes, way->layout->count_bytes);
	if (!way->layout->counts_free) {
		*ret = count;
		return true;
	}
	*ret = most - count;
	return count <= most;
}

/* Decode the cache at @cache without changing anything; false when it does not fit. */
static bool decode(const struct search *s, const struct way *way, ms_addr cache,
                   struct decoded *ret)
{
	uint8_t bytes[(sizeof(uint16_t) + sizeof(uint64_t)) * MS_TCACHE_MAX_BINS];
	const uint64_t word = s->pt->shape->word;
	size_t len = way->layout->entries + (size_t)word * way->layout->n_bins;

	*ret = (struct decoded){ 0 };
	if (ms_pt_read(s->pt, cache, bytes, len) != len)
		return false;
	for (uint64_t i = 0; i < way->layout->n_bins; i++) {
		uint64_t head = ms_pt_load(s->pt, bytes + way->layout->entries + i * word);
		uint64_t count;

		if (!count_of(s, way, bytes, i, &count) || !head != !count ||
		    !decode_bin(s->pt, way, head, i << 32 | count, ret))
			return false;
	}
	return true;
}

/* Take the block at @mem for free; false when it is none, or free already. */
static bool spare(struct ms_ptmalloc *pt, ms_addr mem)
{
	const struct ms_extent *e = ms_blocks_extent_of(pt->d->blocks, mem);
	uint64_t usable = ms_blocks_usable(pt->d->blocks, mem);
	struct ms_pt_spared *spared;
	struct ms_pt_arena *arena;

	if (!ms_blocks_kill(pt->d->blocks, mem))
		return false;
	arena = ms_pt_arena_of(pt, e->group);
	spared = arena ? &arena->spared : &pt->mmapped.spared;
	spared->n++;
	spared->bytes += usable;
	return true;
}

/* Take the entries of a cache that fits for free. */
static void take(struct search *s, const struct way *way, ms_addr cache)
{
	for (uint64_t i = 0; i < way->layout->n_bins; i++) {
		ms_addr mem =
			ms_pt_word(s->pt, cache + way->layout->entries + i * s->pt->shape->word);

		while (mem && spare(s->pt, mem)) {
			uint64_t stored = ms_pt_word(s->pt, mem);

			mem = way->plain ? stored : ms_pt_reveal(mem, stored);
		}
	}
}

static bool has_size_of(const struct ms_ptmalloc *pt, ms_addr cache,
                        const struct ms_tcache_layout *layout)
{
	uint64_t usable = ms_blocks_usable(pt->d->blocks, cache);

	return usable >= layout->usable && usable <= layout->usable + (uint64_t)ALLOWANCE;
}

/*
 * Whether @bytes, as many as there are of one, can be a cache of @layout with entries:
 * each bin counts some and leads to them, or neither.
 */
static bool looks_like(const struct ms_ptmalloc *pt, const struct ms_tcache_layout *layout,
                       const uint8_t *bytes)
{
	bool filled = false;

	for (size_t i = 0; i < layout->n_bins; i++) {
		uint16_t count = 0;
		uint64_t head = ms_pt_load(pt, bytes + layout->entries + i * pt->shape->word);

		memcpy(&count, bytes + i * layout->count_bytes, layout->count_bytes);
		if (pt->tcache_count && count > pt->tcache_count)
			return false;
		if (layout->counts_free)
			count = (uint16_t)(pt->tcache_count - count);
		if (!count != !head || head % MS_ALIGNMENT)
			return false;
		filled |= head != 0;
	}
	return filled;
}

bool ms_pt_may_be_cache(const struct ms_ptmalloc *pt, const uint8_t *bytes, size_t n,
                        uint64_t usable)
{
	for (size_t i = 0; i < pt->shape->n_tcaches; i++) {
		const struct ms_tcache_layout *layout = &pt->shape->tcaches[i];

		if (usable < layout->usable || usable > layout->usable + (uint64_t)ALLOWANCE)
			continue;
		if (n < layout->entries + (size_t)pt->shape->word * layout->n_bins ||
		    looks_like(pt, layout, bytes))
			return true;
	}
	return false;
}

/* Try every way of reading the cache at @cache. */
static enum ms_status try_cache(struct search *s, ms_addr cache, uint64_t distance)
{
	for (size_t i = 0; i < 2 * s->pt->shape->n_tcaches; i++) {
		struct way way = { &s->pt->shape->tcaches[i / 2], i % 2 };
		struct decoded d;
		struct trial *trial;

		if (!has_size_of(s->pt, cache, way.layout))
			continue;
		if (!decode(s, &way, cache, &d)) {
			s->misfit = true;
			continue;
		}
		if (s->trials.n >= MAX_TRIALS)
			return MS_OK;
		trial = ms_vec_push(s->pt->d->arena, &s->trials);
		if (!trial)
			return MS_E_NOMEM;
		*trial = (struct trial){ distance, way, d.n };
	}
	return MS_OK;
}

static bool has_storage(const struct search *s, const struct ms_thread *t)
{
	return t->tp && (int64_t)t->tp >= s->tls.far;
}

static enum ms_status try_thread(struct search *s, const struct ms_thread *t)
{
	const ms_addr begin = t->tp - (uint64_t)s->tls.far;
	const ms_addr end = t->tp - (uint64_t)s->tls.near;
	const uint64_t word = s->pt->shape->word;
	uint64_t words[PIECE / sizeof(uint32_t)];
	enum ms_status st = MS_OK;

	for (ms_addr at = ms_align_up(begin, word); at + word <= end && !st;) {
		ms_addr stop = ms_align_down(at, PIECE) + PIECE;
		size_t n;

		stop = stop < end ? stop : end;
		n = ms_source_words(s->pt->d->src, at, words, (size_t)(stop - at) / word);
		for (size_t i = 0; i < n && !st; i++)
			if (words[i] && words[i] % MS_ALIGNMENT == 0 &&
			    ms_blocks_begins(s->pt->d->blocks, words[i]))
				st = try_cache(s, words[i], t->tp - (at + i * word));
		at = stop;
	}
	return st;
}

/* Whether enough of the storage of @n threads has been searched to know the distance. */
static bool has_enough(const struct search *s, uint64_t n)
{
	return s->trials.n &&
	       (n >= ENOUGH_THREADS || n * (uint64_t)(s->tls.far - s->tls.near) >= ENOUGH_BYTES);
}

static enum ms_status try_threads(struct search *s)
{
	const struct ms_thread *t;
	enum ms_status st = MS_OK;
	uint64_t n = 0;

	ms_vec_for_each (t, &s->pt->d->src->threads) {
		if (st || has_enough(s, n))
			break;
		if (!has_storage(s, t))
			continue;
		n++;
		st = try_thread(s, t);
	}
	return st;
}

static bool same_trial(const struct trial *a, const struct trial *b)
{
	return a->distance == b->distance && a->way.layout == b->way.layout &&
	       a->way.plain == b->way.plain;
}

/* What speaks for a trial's distance and way. */
struct score {
	uint32_t threads; /* that it fits */
	bool filled;      /* some of their caches hold something: zeros would fit anywhere */
	uint64_t distance;
};

static struct score score_of(const struct trials *trials, const struct trial *t)
{
	struct score score = { .distance = t->distance };
	const struct trial *other;

	ms_vec_for_each (other, trials) {
		score.threads += same_trial(t, other);
		score.filled |= same_trial(t, other) && other->entries;
	}
	return score;
}

/* Where nothing else is known, the C library's storage is among the first below tp. */
static bool is_better(const struct score *a, const struct score *b)
{
	if (a->threads != b->threads)
		return a->threads > b->threads;
	if (a->filled != b->filled)
		return a->filled;
	return a->distance < b->distance;
}

/* The distance and way that fit best; NULL when no cache was found. */
static const struct trial *best_trial(const struct trials *trials)
{
	const struct trial *best = NULL;
	struct score best_score = { 0 };
	const struct trial *t;

	ms_vec_for_each (t, trials) {
		struct score score = score_of(trials, t);

		if (best && !is_better(&score, &best_score))
			continue;
		best = t;
		best_score = score;
	}
	return best;
}

/* Take what @cache holds for free, and the cache itself: it is no block of the program's. */
static void take_cache(struct search *s, const struct way *way, ms_addr cache,
                       const struct decoded *d)
{
	s->pt->tcaches.n_entries += d->n;
	take(s, way, cache);
	(void)spare(s->pt, cache);
}

/* True when @addr is in memory of an arena that could not be proved. */
static bool is_in_doubt(const struct ms_ptmalloc *pt, ms_addr addr)
{
	const struct ms_pt_share *share;

	ms_vec_for_each (share, &pt->shares) {
		const struct ms_pt_arena *arena = ms_pt_arena_of(pt, share->group);

		if (arena && arena->proof.doubt && ms_range_has(share->range, addr))
			return true;
	}
	return false;
}

/* True when a word in [@begin, @end) is the address of an arena. */
static bool has_arena(const struct ms_ptmalloc *pt, ms_addr begin, ms_addr end)
{
	const uint64_t word = pt->shape->word;

	for (ms_addr at = ms_align_up(begin, word); at + word <= end; at += word) {
		uint64_t value = ms_pt_word(pt, at);
		const struct ms_pt_arena *arena;

		ms_vec_for_each (arena, &pt->arenas)
			if (value && value == arena->addr)
				return true;
	}
	return false;
}

/*
 * A thread without a cache that waits for a lock inside malloc: it may be allocating for
 * the first time. But one that has an arena already may be ending: then it has forgotten
 * its cache, and is still giving back, one by one, the blocks that were in it.
 *
 * @begin, @end: where its arena is noted
 */
static void doubt_waiting(struct search *s, const struct ms_thread *t, ms_addr begin, ms_addr end)
{
	if (ms_claim_in_malloc(s->pt->d, s->pt->claim, t) != MS_MALLOC_WAITS ||
	    !has_arena(s->pt, begin, end))
		return;
	for (size_t i = 0; i < s->libc->n_arenas; i++)
		ms_proof_doubt(&s->pt->arenas.at[s->libc->first_arena + i].proof, MS_DOUBT_CHANGES,
		               "thread %d waits inside malloc and may be giving its cache back",
		               (int)t->tid);
}

static void take_thread(struct search *s, const struct trial *best, const struct ms_thread *t)
{
	struct ms_tcaches *tcaches = &s->pt->tcaches;
	ms_addr slot = t->tp - best->distance;
	ms_addr cache = ms_pt_word(s->pt, slot);
	struct decoded d;

	/* No cache yet; 2.43 then has a dummy, which is no block. */
	if (!cache || !ms_blocks_begins(s->pt->d->blocks, cache)) {
		tcaches->n_failed += is_in_doubt(s->pt, cache);
		doubt_waiting(s, t, slot - ARENA_REACH, slot + ARENA_REACH);
		return;
	}
	if (!decode(s, &best->way, cache, &d)) {
		tcaches->n_failed++;
		return;
	}
	if (d.n && d.one_key) {
		s->key = d.key;
		s->key_known = true;
	}
	take_cache(s, &best->way, cache, &d);
	tcaches->n++;
}

/* From 2.34 on all entries carry one random key, in 2.29 to 2.33 the address of their cache. */
static bool key_fits(const struct search *s, ms_addr cache, const struct decoded *d)
{
	if (!d->n || !d->one_key || !d->key)
		return false;
	if (d->key == cache)
		return true;
	return s->key_known ? d->key == s->key : d->n >= MIN_ORPHAN;
}

/*
 * A cache that no thread has: fork() of a process with threads leaves their caches
 * to the child, with all they hold. The C library has lost these; nobody leaks.
 * An empty one has no key and looks like any block of zeros: that one is known by the
 * pointer to it in what is left of the thread's storage (ms_cache_place).
 */
static void try_orphan(struct search *s, const struct way *way, ms_addr cache)
{
	struct decoded d;

	if (!ms_blocks_begins(s->pt->d->blocks, cache) || !decode(s, way, cache, &d) ||
	    !key_fits(s, cache, &d))
		return;
	take_cache(s, way, cache, &d);
	s->pt->tcaches.n_orphans++;
}

/* The walk has marked what may be a cache. */
static void find_orphans_in(struct search *s, const struct way *way, const struct ms_extent *e)
{
	const struct ms_blocks *blocks = s->pt->d->blocks;

	for (size_t i = 0; i < e->n_cells; i++) {
		const struct ms_cell *cell = &blocks->cells.at[e->cell0 + i];

		for (uint64_t left = cell->starts & cell->marks; left; left &= left - 1) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);
			ms_addr cache = ms_block_begin(e, granule);

			if (has_size_of(s->pt, cache, way->layout))
				try_orphan(s, way, cache);
		}
	}
}

static void find_orphans(struct search *s, const struct way *way)
{
	const struct ms_extent *e;

	ms_vec_for_each (e, &s->pt->d->blocks->extents)
		if (e->kind == MS_EXTENT_HEAP && e->shift != MS_SINGLE_SHIFT && !e->dropped)
			find_orphans_in(s, way, e);
}

/* Take the caches at @best of all threads. */
static enum ms_status take_all(struct search *s, const struct trial *best)
{
	const uint64_t usable = best->way.layout->usable;
	struct ms_cache_place *place = ms_vec_push(s->pt->d->arena, &s->pt->d->cache_places);
	const struct ms_thread *t;

	if (!place)
		return MS_E_NOMEM;
	*place = (struct ms_cache_place){ best->distance, usable, usable + ALLOWANCE };
	s->found = true;
	s->way = best->way;
	s->pt->tcaches.versions = best->way.layout->versions;
	ms_vec_for_each (t, &s->pt->d->src->threads)
		if (t->tp)
			take_thread(s, best, t);
	return MS_OK;
}

static bool any_in_doubt(const struct search *s)
{
	for (size_t i = 0; i < s->libc->n_arenas; i++)
		if (s->pt->arenas.at[s->libc->first_arena + i].proof.doubt)
			return true;
	return false;
}

/* Whether a thread has an arena, and so has allocated by itself. */
static bool any_allocates(const struct search *s)
{
	const struct ms_thread *t;

	ms_vec_for_each (t, &s->pt->d->src->threads)
		if (has_storage(s, t) &&
		    has_arena(s->pt, t->tp - (uint64_t)s->tls.far, t->tp - (uint64_t)s->tls.near))
			return true;
	return false;
}

/*
 * Why nobody can tell what is cached, though no cache was found; NULL: what is, was found
 * otherwise. Where no thread has allocated yet, caches are those of threads that are gone: of
 * a main thread that called pthread_exit(), or of before a fork().
 */
static const char *why_missed(struct search *s)
{
	uint32_t n_orphans = s->pt->tcaches.n_orphans;

	if (s->libc->par_layout && !s->libc->tcache_count)
		return NULL;
	if (s->misfit)
		return "what may be a thread's cache contradicts itself";
	if (any_in_doubt(s))
		return "a thread's cache may be in memory that is not proved";
	if (!s->tls_known)
		return "it was not found where threads have their caches";
	for (size_t i = 0; i < 2 * s->pt->shape->n_tcaches; i++)
		find_orphans(s, &(struct way){ &s->pt->shape->tcaches[i / 2], i % 2 });
	if (s->pt->tcaches.n_orphans == n_orphans || !any_allocates(s))
		return NULL;
	return "there are caches that no thread has";
}

/* No cache was found: there is none, or nobody can tell what is cached. */
static void doubt_missed(struct search *s)
{
	const char *why = why_missed(s);
	const struct ms_thread *t;

	for (size_t i = 0; why && i < s->libc->n_arenas; i++)
		ms_proof_doubt(&s->pt->arenas.at[s->libc->first_arena + i].proof,
		               MS_DOUBT_DISAGREES, "%s", why);
	ms_vec_for_each (t, &s->pt->d->src->threads)
		if (has_storage(s, t))
			doubt_waiting(s, t, t->tp - (uint64_t)s->tls.far,
			              t->tp - (uint64_t)s->tls.near);
}

static enum ms_status take_for_libc(struct search *s)
{
	const struct trial *best;
	enum ms_status st;

	s->tls_known = ms_tls_find(
		s->pt->peek, ms_module_begin(s->pt->d->regions, s->libc->data->module), &s->tls);
	st = try_threads(s);
	best = best_trial(&s->trials);
	return !st && best ? take_all(s, best) : st;
}

static struct ms_tls near_tp(const struct ms_abi *abi)
{
	return abi->tls_above ? (struct ms_tls){ 0, -REACH } : (struct ms_tls){ REACH, 0 };
}

/* Those of all threads first: what one library left behind is not another's. */
enum ms_status ms_pt_take_tcaches(struct ms_ptmalloc *pt)
{
	struct searches searches = { 0 };
	const struct ms_libc *libc;
	struct search *s;

	ms_vec_for_each (libc, &pt->libcs) {
		enum ms_status st;

		if (libc->unused)
			continue;
		s = ms_vec_push(pt->d->arena, &searches);
		if (!s)
			return MS_E_NOMEM;
		*s = (struct search){ .pt = pt, .libc = libc, .tls = near_tp(&pt->d->src->abi) };
		st = take_for_libc(s);
		if (st)
			return st;
	}
	ms_vec_for_each (s, &searches) {
		if (s->found)
			find_orphans(s, &s->way);
		else
			doubt_missed(s);
	}
	return MS_OK;
}
