/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/live/histogram.h"

#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/sort.h"

/* The last of each number are for what is grouped. */
enum { MOST_EXACT = MS_LIVE_MOST - 16384, MOST_TYPED = MS_LIVE_MOST - 512 };

/*
 * A key is a type and a size, or with GROUPED a class of sizes:
 *
 *	63      47  46                0
 *	│ type    │ GROUPED │ size, class │
 */
enum { TYPE_SHIFT = 47, GROUPED_SHIFT = 46 };

struct ms_histogram {
	struct ms_types *types;
	struct ms_arena *arena;
	struct ms_live_list kinds;     /* .type: the number that ms_types has */
	struct ms_map known;           /* of keys: the kind, from 1 on */
	struct MS_VEC(uint32_t) first; /* of each type: the first that looks the same, or 0 */
	struct ms_map looks;           /* of hashes of types: the first that has it */
	bool grouped;
};

struct ms_histogram *ms_histogram_new(struct ms_types *types, struct ms_arena *arena)
{
	struct ms_histogram *histogram = ms_arena_alloc(arena, sizeof(*histogram));

	if (!histogram)
		return NULL;
	histogram->types = types;
	histogram->arena = arena;
	return histogram;
}

/* ---- types: one for each first word, of which several can have one name ---- */

static uint64_t look_of(const struct ms_type *type)
{
	uint64_t hash = ms_hash(MS_HASH_BASIS, type->name, strlen(type->name) + 1);

	return ms_hash(ms_hash(hash, type->module, strlen(type->module)), &type->how, 1);
}

static uint32_t find_first(struct ms_histogram *h, uint32_t number)
{
	const struct ms_type *type = ms_types_at(h->types, number);
	uint64_t look = look_of(type);
	uint32_t first = (uint32_t)ms_map_find(&h->looks, look);

	if (!first)
		return ms_map_add(&h->looks, h->arena, look, number) ? number : 0;
	return ms_type_is_same(ms_types_at(h->types, first), type) ? first : number;
}

/* The number that stands for all types like that of @number; 0 without memory. */
static uint32_t first_like(struct ms_histogram *h, uint32_t number)
{
	if (!ms_vec_reserve(h->arena, &h->first, number))
		return 0;
	h->first.n = h->first.n < number ? number : h->first.n; /* what is new is 0 */
	if (!h->first.at[number - 1])
		h->first.at[number - 1] = find_first(h, number);
	return h->first.at[number - 1];
}

/* ---- kinds ---- */

struct sizes {
	uint64_t class; /* its number */
	uint64_t least;
	uint64_t most;
};

/* Below 8 each size is a class of its own. */
static struct sizes class_of(uint64_t size)
{
	unsigned bit = size ? 63 - (unsigned)__builtin_clzll(size) : 0;
	uint64_t step;
	uint64_t quarter;

	if (size < 8)
		return (struct sizes){ size, size, size };
	step = UINT64_C(1) << (bit - 2);
	quarter = size / step; /* 4 to 7 */
	return (struct sizes){ UINT64_C(4) * bit + quarter, quarter * step,
		               quarter * step + step - 1 };
}

static uint64_t key_of(uint32_t type, bool grouped, uint64_t size)
{
	return (uint64_t)type << TYPE_SHIFT | (uint64_t)grouped << GROUPED_SHIFT | size;
}

static struct ms_live *add_kind(struct ms_histogram *h, uint64_t key, uint32_t type,
                                struct sizes sizes)
{
	struct ms_live *kind = ms_vec_push(h->arena, &h->kinds);

	if (!kind || !ms_map_add(&h->known, h->arena, key, h->kinds.n))
		return NULL;
	*kind = (struct ms_live){ .type = type, .least_size = sizes.least, .size = sizes.most };
	return kind;
}

static struct ms_live *find_kind(const struct ms_histogram *h, uint64_t key)
{
	uint64_t number = ms_map_find(&h->known, key);

	return number ? &h->kinds.at[number - 1] : NULL;
}

static struct ms_live *group_of(struct ms_histogram *h, uint32_t type, uint64_t size)
{
	struct sizes sizes = class_of(size);
	uint64_t key = key_of(type, true, sizes.class);
	struct ms_live *kind = find_kind(h, key);

	h->grouped = true;
	if (kind)
		return kind;
	if (h->kinds.n >= MOST_TYPED) {
		type = MS_TYPE_UNKNOWN;
		key = key_of(type, true, sizes.class);
		kind = find_kind(h, key);
	}
	return kind ? kind : add_kind(h, key, type, sizes);
}

/* Where the block is counted; NULL without memory. */
static struct ms_live *kind_of(struct ms_histogram *h, ms_addr begin, uint64_t size)
{
	uint32_t type = ms_types_of_block(h->types, begin, size);
	bool fits = size < UINT64_C(1) << GROUPED_SHIFT;
	uint64_t key;
	struct ms_live *kind;

	if (type != MS_TYPE_UNKNOWN) {
		type = first_like(h, type);
		if (!type)
			return NULL;
	}
	key = key_of(type, false, size);
	kind = fits ? find_kind(h, key) : NULL;
	if (kind)
		return kind;
	if (fits && h->kinds.n < MOST_EXACT)
		return add_kind(h, key, type, (struct sizes){ 0, size, size });
	return group_of(h, type, size);
}

bool ms_histogram_add_leaked(struct ms_histogram *histogram, ms_addr begin, uint64_t size)
{
	struct ms_live *kind = kind_of(histogram, begin, size);

	if (!kind)
		return false;
	kind->leaked_allocations++;
	kind->leaked_bytes += size;
	return true;
}

static bool count_cell(struct ms_histogram *h, const struct ms_blocks *blocks,
                       const struct ms_extent *extent, size_t cell)
{
	for (uint64_t left = blocks->cells.at[extent->cell0 + cell].starts; left;
	     left &= left - 1) {
		uint64_t granule = cell * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);
		uint64_t size = ms_block_size(blocks, extent, granule);
		struct ms_live *kind = kind_of(h, ms_block_begin(extent, granule), size);

		if (!kind)
			return false;
		kind->allocations++;
		kind->bytes += size;
	}
	return true;
}

static bool count_all(struct ms_histogram *h, const struct ms_blocks *blocks)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &blocks->extents)
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++)
			if (!count_cell(h, blocks, extent, i))
				return false;
	return true;
}

static bool before(const void *a, const void *b)
{
	const struct ms_live *x = a;
	const struct ms_live *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes;
	return x->size != y->size ? x->size > y->size : x->type < y->type;
}

bool ms_histogram_write(struct ms_histogram *histogram, const struct ms_blocks *blocks,
                        struct ms_report *report)
{
	struct ms_live_list *kinds = &histogram->kinds;
	struct ms_live *kind;

	if (!count_all(histogram, blocks) ||
	    !ms_sort(histogram->arena, kinds->at, kinds->n, sizeof(*kinds->at), before))
		return false;
	ms_vec_for_each (kind, kinds)
		kind->type = ms_types_report(histogram->types, kind->type, report);
	report->live = *kinds;
	if (histogram->grouped)
		ms_note_add(histogram->arena, &report->warnings,
		            "there are more than %d types and sizes of blocks: in the histogram "
		            "the others are grouped by classes of sizes",
		            MOST_EXACT);
	return true;
}
