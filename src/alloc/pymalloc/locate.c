/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "alloc/pymalloc/pymalloc.h"
#include "alloc/window.h"
#include "base/sort.h"

/*
 * The anchor is the table of used pools: for each size of blocks the two ends of a ring of
 * pools. Only the links of each ring's head are in the table, so a head is said to begin
 * as much in front of its two words as the links stand behind the begin of a pool: a ring
 * without pools is a word pair that points 16 bytes in front of itself. (The bins of glibc
 * are kept in the same way, but chunks have no sizes of a pool, and no arena leads to them.)
 *
 * The pools so found know their arena by its number. So the array of arena objects is where
 * a word of the same module's data points, if all these pools are in the arenas that the
 * array has under their numbers.
 */

enum {
	TABLE_BYTES = MS_PY_CLASSES * 16,
	HEAD = 16, /* from where a ring's head is said to begin to its links */
	PIECE = MS_WINDOW_BYTES - TABLE_BYTES,
	LEAST_PAGE = 4096,
	FIRST_OBJECTS = 16, /* and twice as many each time there are too few */
	MAX_OBJECTS = 1 << 20,
	MAX_TRIED = 64, /* tables, and arrays, that are looked at closely: for each, much is read */
};

static_assert(sizeof(struct ms_py_pool) == 48, "a pool's header");
static_assert(sizeof(struct ms_py_object) == 48, "an arena object");

/* Those of equal pools together, the most frequent first. */
static const struct ms_py_layout layouts[] = {
	{ "3.9 and before", 1 << 18, 1 << 12 },
	{ "3.10 to 3.14", 1 << 20, 1 << 14 },
	{ "3.10 to 3.14 without a tree of arenas", 1 << 20, 1 << 12 },
};

enum { N_LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

/* A pool of each ring that has one; all are equally long. */
struct known {
	uint32_t pool_bytes;
	struct {
		ms_addr at;
		struct ms_py_pool header;
	} pools[MS_PY_CLASSES];
	size_t n;
};

static bool read_pool(const struct ms_pymalloc *py, ms_addr at, struct ms_py_pool *ret)
{
	return ms_peek_read(py->peek, at, ret, sizeof(*ret)) == sizeof(*ret);
}

static bool read_object(const struct ms_pymalloc *py, ms_addr at, struct ms_py_object *ret)
{
	return ms_peek_read(py->peek, at, ret, sizeof(*ret)) == sizeof(*ret);
}

static uint64_t word_in(const uint8_t *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

/* ---- the table of used pools ---- */

/* Whether the two words at @pair can be the links of a ring whose head is at @head. */
static bool may_be_ring(const uint8_t *pair, ms_addr head)
{
	uint64_t next = word_in(pair, 0);
	uint64_t prev = word_in(pair, 8);

	if (next == head || prev == head)
		return next == prev;
	return next && prev && next % LEAST_PAGE == 0 && prev % LEAST_PAGE == 0;
}

static bool may_be_table(const uint8_t *bytes, ms_addr at)
{
	for (size_t i = 0; i < MS_PY_CLASSES; i++)
		if (!may_be_ring(bytes + 16 * i, at + 16 * i - HEAD))
			return false;
	return true;
}

/* Whether the ring has pools, both ends lead back to @head, and they have blocks of @szidx. */
static bool is_ring(const struct ms_pymalloc *py, const uint8_t *pair, ms_addr head, uint32_t szidx,
                    struct ms_py_pool *first)
{
	struct ms_py_pool last;

	return read_pool(py, word_in(pair, 0), first) && first->prevpool == head &&
	       first->szidx == szidx && read_pool(py, word_in(pair, 8), &last) &&
	       last.nextpool == head && last.szidx == szidx;
}

/* A pool says by itself how long pools are; 0 when it does not make sense. */
static uint32_t pool_bytes_of(const struct ms_py_pool *pool)
{
	uint64_t bytes = (uint64_t)pool->maxnextoffset + ms_py_block_bytes(pool->szidx);

	return bytes <= MS_PY_MAX_POOL ? (uint32_t)bytes : 0;
}

/* The first layout that has pools so long, or NULL. */
static const struct ms_py_layout *layout_of(const struct known *known)
{
	for (size_t i = 0; i < N_LAYOUTS; i++)
		if (layouts[i].pool_bytes == known->pool_bytes)
			return &layouts[i];
	return NULL;
}

static bool are_alike(struct known *known)
{
	known->pool_bytes = pool_bytes_of(&known->pools[0].header);
	if (!layout_of(known))
		return false;
	for (size_t i = 0; i < known->n; i++)
		if (pool_bytes_of(&known->pools[i].header) != known->pool_bytes ||
		    known->pools[i].at != ms_align_down(known->pools[i].at, known->pool_bytes))
			return false;
	return true;
}

/* One ring may be in the middle of a change. */
static bool is_table(const struct ms_pymalloc *py, const uint8_t *bytes, ms_addr at,
                     struct known *ret)
{
	unsigned int n_wrong = 0;

	ret->n = 0;
	for (uint32_t i = 0; i < MS_PY_CLASSES; i++) {
		const uint8_t *pair = bytes + 16 * (size_t)i;
		ms_addr head = at + 16 * (ms_addr)i - HEAD;

		if (word_in(pair, 0) == head)
			continue;
		ret->pools[ret->n].at = word_in(pair, 0);
		if (is_ring(py, pair, head, i, &ret->pools[ret->n].header))
			ret->n++;
		else if (n_wrong++)
			return false;
	}
	return ret->n > n_wrong && are_alike(ret);
}

/* ---- the array of arena objects ---- */

/* Whether an arena is what @object shows, as far as that shows without its pools. */
static bool is_arena(const struct ms_py_object *object, const struct ms_py_layout *layout)
{
	ms_addr end = object->address + layout->arena_bytes;

	return object->address && object->address % LEAST_PAGE == 0 && end > object->address &&
	       object->ntotalpools == ms_py_n_pools(object->address, layout) &&
	       object->nfreepools <= object->ntotalpools &&
	       object->pool_address % layout->pool_bytes == 0 &&
	       object->pool_address >= object->address && object->pool_address <= end;
}

/* Whether all of @known lie in the arenas that an array at @arenas has for them. */
static bool is_array(const struct ms_pymalloc *py, ms_addr arenas, const struct known *known,
                     const struct ms_py_layout *layout)
{
	for (size_t i = 0; i < known->n; i++) {
		const struct ms_py_pool *pool = &known->pools[i].header;
		ms_addr at = known->pools[i].at;
		struct ms_py_object object;

		if (pool->arenaindex >= MAX_OBJECTS ||
		    !read_object(py, arenas + pool->arenaindex * sizeof(object), &object) ||
		    !is_arena(&object, layout) || at < object.address || at >= object.pool_address)
			return false;
	}
	return true;
}

/* Whether @addr is in memory of the program's that is no module's. */
static bool is_memory(const struct ms_pymalloc *py, ms_addr addr)
{
	const struct ms_region *region = ms_region_of(py->d->regions, addr);

	return region && (region->kind == MS_REGION_BRK || region->kind == MS_REGION_MEMORY) &&
	       (ms_region_mapping(py->d->src, region)->prot & MS_PROT_WRITE);
}

/*
 * Whether the @n objects at @arenas can be an array: those not in use are a chain that ends
 * once.
 */
static bool is_whole(const struct ms_pymalloc *py, ms_addr arenas, uint32_t n)
{
	uint64_t bytes = n * sizeof(struct ms_py_object);
	unsigned int n_last = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct ms_py_object object;
		uint64_t next;

		if (!read_object(py, arenas + i * sizeof(object), &object))
			return false;
		if (object.address % LEAST_PAGE)
			return false;
		if (object.address)
			continue;
		next = object.nextarena - arenas;
		if (object.nextarena ? next >= bytes || next % sizeof(object) : n_last++)
			return false;
	}
	return true;
}

/*
 * How many objects the array at @arenas has: as many as there can be, for the chain may pass
 * over any of its parts; 0 when none of its lengths makes sense.
 */
static uint32_t count_objects(const struct ms_pymalloc *py, ms_addr arenas)
{
	uint32_t found = 0;

	for (uint32_t n = FIRST_OBJECTS; n <= MAX_OBJECTS && is_memory(py, arenas); n *= 2)
		if (is_whole(py, arenas, n))
			found = n;
	return found;
}

/* Fill @heap when the array at @arenas is the one of @known. */
static bool is_heap(struct ms_pymalloc *py, ms_addr arenas, const struct known *known,
                    struct ms_py_heap *heap)
{
	for (size_t i = 0; i < N_LAYOUTS; i++) {
		if (layouts[i].pool_bytes != known->pool_bytes ||
		    !is_array(py, arenas, known, &layouts[i]) || py->n_arrays == MAX_TRIED)
			continue;
		py->n_arrays++;
		heap->layout = &layouts[i];
		heap->arenas = arenas;
		heap->n_objects = count_objects(py, arenas);
		return heap->n_objects;
	}
	return false;
}

/* ---- a module's data ---- */

/* Going word by word through the data of one module, without what nobody wrote to. */
struct cursor {
	struct ms_source *src;
	struct ms_window window;
	struct ms_range rest; /* behind run */
	struct ms_range run;
	size_t len; /* bytes wanted from each word on */
};

static void begin(struct cursor *c, const struct ms_pymalloc *py, struct ms_range data, size_t len)
{
	*c = (struct cursor){ .src = py->d->src, .rest = data, .len = len };
	c->run = (struct ms_range){ data.begin, data.begin };
	ms_window_init(&c->window, py->d->src, data, py->buffer);
}

/* What is wanted may begin in front of what was written to. */
static bool next_run(struct cursor *c)
{
	ms_addr before = c->run.end;

	if (!ms_source_present(c->src, c->rest, &c->run))
		return false;
	c->rest.begin = c->run.end;
	c->run.begin = c->run.begin - before > c->len ? c->run.begin - c->len : before;
	c->run.begin = ms_align_up(c->run.begin, sizeof(uint64_t));
	return true;
}

/* The bytes from the next word on, which is at @at; NULL when there are no more. */
static const uint8_t *next_word(struct cursor *c, ms_addr *at)
{
	for (;;) {
		const uint8_t *bytes;

		while (c->run.begin >= c->run.end)
			if (!next_run(c))
				return NULL;
		*at = c->run.begin;
		bytes = ms_window_at(&c->window, *at, c->len);
		c->run.begin = bytes ? *at + sizeof(uint64_t) : ms_align_up(*at + 1, LEAST_PAGE);
		if (bytes)
			return bytes;
	}
}

/* Find the array of arenas that has the pools @known; false when nothing in @data leads there. */
static bool find_array(struct ms_pymalloc *py, struct ms_range data, const struct known *known,
                       struct ms_py_heap *heap)
{
	const uint8_t *bytes;
	struct cursor c;
	ms_addr tried = 0; /* last; many words may lead there */
	ms_addr at;

	begin(&c, py, data, sizeof(uint64_t));
	while ((bytes = next_word(&c, &at))) {
		uint64_t word = word_in(bytes, 0);

		if (!word || word == tried || word % MS_PY_ALIGNMENT || !is_memory(py, word))
			continue;
		tried = word;
		if (!is_heap(py, word, known, heap))
			continue;
		heap->of_interpreter = at == heap->used + TABLE_BYTES;
		return true;
	}
	return false;
}

static enum ms_status add_arena(struct ms_pymalloc *py, uint32_t index,
                                const struct ms_py_object *object)
{
	uint32_t heap = (uint32_t)(py->heaps.n - 1);
	const struct ms_py_layout *layout = py->heaps.at[heap].layout;
	struct ms_py_arena *arena = ms_vec_push(py->d->arena, &py->arenas);

	if (!arena)
		return MS_E_NOMEM;
	*arena = (struct ms_py_arena){ .object = *object, .index = index, .heap = heap };
	arena->range.begin = object->address;
	arena->range.end = object->address + layout->arena_bytes;
	return MS_OK;
}

/* The kernel is first asked to take an empty arena, which takes long; then this is noted. */
static bool is_given_back(const struct ms_pymalloc *py, const struct ms_py_object *object)
{
	return object->nfreepools == object->ntotalpools &&
	       !ms_region_of(py->d->regions, object->address);
}

/* Add the arenas of the heap that was found last. */
static enum ms_status add_arenas(struct ms_pymalloc *py)
{
	struct ms_py_heap *heap = &py->heaps.at[py->heaps.n - 1];

	for (uint32_t i = 0; i < heap->n_objects; i++) {
		ms_addr at = heap->arenas + i * sizeof(struct ms_py_object);
		struct ms_py_object object;

		if (!read_object(py, at, &object) || !object.address)
			continue;
		if (is_given_back(py, &object))
			continue;
		if (!is_arena(&object, heap->layout))
			ms_proof_doubt(&heap->proof, MS_DOUBT_DISAGREES,
			               "arena %u contradicts itself", i);
		else if (add_arena(py, i, &object))
			return MS_E_NOMEM;
	}
	return MS_OK;
}

/* Add the heap that has the table at @used, with the pools @known. */
static enum ms_status add_heap(struct ms_pymalloc *py, struct ms_range data, ms_addr used,
                               const struct known *known)
{
	struct ms_py_heap heap = { .used = used, .layout = layout_of(known) };
	struct ms_py_heap *slot;

	if (!find_array(py, data, known, &heap))
		ms_proof_doubt(&heap.proof, MS_DOUBT_DISAGREES,
		               "no array of arenas has the pools that are in the table");
	if (py->d->ended && heap.of_interpreter) {
		ms_note_add(
			py->d->arena, py->d->warnings,
			"CPython's own heap is not searched at a program's end: from 3.12 on the "
			"interpreter leaves objects there, and nothing that leads to them");
		return MS_OK;
	}
	slot = ms_vec_push(py->d->arena, &py->heaps);
	if (!slot)
		return MS_E_NOMEM;
	*slot = heap;
	return add_arenas(py);
}

/* Add the heaps whose tables are in @data. */
static enum ms_status locate_in(struct ms_pymalloc *py, struct ms_range data)
{
	enum ms_status st = MS_OK;
	const uint8_t *bytes;
	struct known known;
	struct cursor c;
	ms_addr at;

	begin(&c, py, data, TABLE_BYTES);
	while (!st && (bytes = next_word(&c, &at))) {
		if (!may_be_table(bytes, at) || !is_table(py, bytes, at, &known) ||
		    py->n_tables == MAX_TRIED)
			continue;
		py->n_tables++;
		st = add_heap(py, data, at, &known);
		/* Another cursor had the same buffer. */
		c.window.shown.end = c.window.shown.begin;
		c.run.begin = at + TABLE_BYTES;
	}
	return st;
}

/* ---- all modules ---- */

static bool begins_before(const void *a, const void *b)
{
	return ((const struct ms_py_arena *)a)->range.begin <
	       ((const struct ms_py_arena *)b)->range.begin;
}

/* Whether @range is the process's own memory without a hole, that no file has. */
static bool is_private(const struct ms_decoding *d, struct ms_range range)
{
	const struct ms_region *region = ms_region_of(d->regions, range.begin);

	for (; region && region < d->regions->at + d->regions->n; region++) {
		const struct ms_mapping *m = ms_region_mapping(d->src, region);

		if (region->kind != MS_REGION_MEMORY || !(m->prot & MS_PROT_WRITE) || m->shared ||
		    m->file || region->range.begin > range.begin)
			return false;
		if (region->range.end >= range.end)
			return true;
		range.begin = region->range.end;
	}
	return false;
}

/* Nobody can tell whose the memory is that two arenas have. */
static bool refuse_doubtful(struct ms_pymalloc *py)
{
	struct ms_py_arenas *arenas = &py->arenas;
	ms_addr end = 0; /* of those before */

	if (!ms_sort(py->d->arena, arenas->at, arenas->n, sizeof(*arenas->at), begins_before))
		return false;
	for (size_t i = 0; i < arenas->n; i++) {
		struct ms_py_arena *arena = &arenas->at[i];

		if (!is_private(py->d, arena->range))
			arena->refused = true;
		if (arena->range.begin < end)
			arena[0].refused = arena[-1].refused = true;
		end = arena->range.end > end ? arena->range.end : end;
	}
	return true;
}

enum ms_status ms_py_locate(struct ms_pymalloc *py)
{
	enum ms_status st = MS_OK;
	struct ms_data data;

	for (size_t i = 0; !st && ms_next_data(py->d->src, py->d->regions, &i, &data);)
		st = locate_in(py, data.range);
	if (!st && !refuse_doubtful(py))
		st = MS_E_NOMEM;
	return st;
}
