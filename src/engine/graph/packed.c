/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/packed.h"

#include <string.h>

#include "base/map.h"
#include "base/sort.h"
#include "engine/graph/lookup.h"
#include "engine/graph/shared.h"
#include "engine/graph/walk.h"
#include "engine/graph/words.h"

/*
 * One sweep over all that is marked, in pieces that the workers share. Extents of the heap
 * are swept as a whole, and only of a word that leads somewhere it is asked whether it is a
 * marked block's. What is found is followed by an ordinary walk over bytes, which has the
 * blocks it comes to looked at in the same way.
 *
 * Words at odd places are kept aside until all have been seen: an address at such a place
 * may be a number or old bytes, but not so many at places that are alike.
 */

enum {
	PIECE = 1 << 20,
	BUFFER = PIECE + MS_WORD_MAX, /* the last word begins in the piece */
	WORD = 8,                     /* bytes, where odd places are looked at */
	LANES = 16,
	ENOUGH = 8, /* blocks to which words at one odd place lead: a structure has them there */
	TAG = 16,   /* bits of a word that an address leaves for a number */
	ZONES = 4,
};

static const uint64_t LIMIT = UINT64_C(4) << 30;
static const uint64_t SMALL_NUMBERS = UINT64_C(1) << 32;
static const uint64_t FAR = UINT64_C(1) << 30; /* what is farther away is in another zone */

struct piece {
	struct ms_range range;        /* where words begin */
	ms_addr end;                  /* of the memory that they may reach into */
	const uint8_t *host;          /* bytes of it, or NULL */
	const struct ms_extent *heap; /* NULL: all bytes of it count */
	bool code;                    /* a word may stand at every byte */
};

struct odd {
	struct ms_block block;
	uint8_t place; /* of the word that leads to its begin: bytes behind a multiple of WORD */
};

struct odds MS_VEC(struct odd);

struct seeker {
	struct ms_lookup lookup;
	struct MS_VEC(struct ms_block) found;
	struct odds odd;
	bool out_of_memory;
	uint8_t buffer[BUFFER]; /* for sources that cannot be viewed */
};

struct search {
	struct ms_blocks *blocks;
	const struct ms_abi *abi;
	struct MS_VEC(struct piece) pieces;
	struct ms_range zones[ZONES]; /* unmarked blocks begin in these */
	uint16_t highs[ZONES];        /* of a zone's addresses, the part above 32 bits, */
	uint16_t spans[ZONES];        /* and how much larger that of its last is */
	unsigned n_zones;
	struct ms_map empty_arrays; /* by the address behind each: where it begins */
	bool is_place[WORD];        /* odd places that count, once all were seen */
	struct ms_packed_kept *kept;
	uint64_t left; /* bytes that may be looked at */
	struct ms_walk *walk;
	bool walking;
	struct ms_shared_arena arena;
	unsigned n_seekers;
	struct seeker *seekers[MS_WORKERS_MAX];
};

/* ---- words ---- */

/* Where the words end that count in the block beginning in @granule. */
static ms_addr end_of(const struct search *s, const struct ms_extent *extent, uint64_t granule)
{
	ms_addr end = ms_block_begin(extent, granule) + ms_block_usable(s->blocks, extent, granule);
	ms_addr words_end = ms_block_words_end(s->blocks, extent, granule);

	return words_end < end ? words_end : end;
}

/* Whether the word at @addr belongs to a marked block of @extent, as a whole. */
static bool is_alive(const struct search *s, const struct ms_extent *extent, ms_addr addr)
{
	uint64_t granule = ms_block_start(s->blocks, extent, ms_granule_of(extent, addr));
	struct ms_block block = { (uint32_t)(extent - s->blocks->extents.at), granule };

	return granule != UINT64_MAX && ms_block_is_marked(s->blocks, block) &&
	       addr + s->abi->word_bytes <= end_of(s, extent, granule);
}

/* Whether the word at @addr, in @p, counts, and leads to a block that nothing has led to yet. */
static bool is_kept(const struct search *s, const struct piece *p, ms_addr addr,
                    struct ms_block block)
{
	return !ms_block_is_marked(s->blocks, block) && (!p->heap || is_alive(s, p->heap, addr));
}

static void take(struct search *s, struct seeker *k, struct ms_block block)
{
	struct ms_block *found;

	if (s->walking) {
		ms_walk_block(s->walk, block);
		return;
	}
	found = ms_vec_push(ms_shared_take(&s->arena), &k->found);
	ms_shared_give(&s->arena);
	k->out_of_memory |= !found;
	if (found)
		*found = block;
}

/* The heap block that @value points to, or into. */
static bool find_block(struct seeker *k, uint64_t value, struct ms_block *ret)
{
	const struct ms_blocks *blocks = k->lookup.blocks;
	const struct ms_extent *extent = ms_lookup_extent(&k->lookup, value);
	uint64_t granule;

	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	granule = ms_lookup_hit(blocks, extent,
	                        ms_blocks_cell(blocks, extent, ms_granule_of(extent, value)), value,
	                        value < SMALL_NUMBERS);
	*ret = (struct ms_block){ (uint32_t)(extent - blocks->extents.at), granule };
	return granule != UINT64_MAX;
}

/* The word at @addr, in @p, has @value, which is one of the heap's addresses. */
static void consider(struct search *s, struct seeker *k, const struct piece *p, ms_addr addr,
                     uint64_t value)
{
	struct ms_block block;

	if (find_block(k, value, &block) && is_kept(s, p, addr, block))
		take(s, k, block);
}

/* The word at @addr, in @p, has @value: whether it is that of an empty array. */
static void consider_end(struct search *s, struct seeker *k, const struct piece *p, ms_addr addr,
                         uint64_t value)
{
	uint64_t begin = ms_map_find(&s->empty_arrays, value);
	struct ms_block block;

	if (begin && ms_lookup_begin(&k->lookup, begin, &block) && is_kept(s, p, addr, block))
		take(s, k, block);
}

/* Look at the words of @p, whose bytes begin at @bytes, for addresses of empty arrays. */
static void look_for_ends(struct search *s, struct seeker *k, const struct piece *p,
                          const uint8_t *bytes)
{
	const size_t word = s->abi->word_bytes;
	const bool plain = ms_abi_is_plain(s->abi);
	uint64_t n = ms_range_len(p->range);

	for (size_t i = 0; i + word <= n; i += word) {
		uint64_t value = ms_pointer_at(s->abi, plain, bytes + i);

		if (value - k->lookup.low <= k->lookup.span)
			consider_end(s, k, p, p->range.begin + i, value);
	}
}

/* Look at the words of @p, whose bytes begin at @bytes: every one, or those half a word further. */
static void look(struct search *s, struct seeker *k, const struct piece *p, const uint8_t *bytes)
{
	const struct ms_abi *abi = s->abi;
	const bool plain = ms_abi_is_plain(abi);
	const size_t word = abi->word_bytes;
	const ms_addr low = k->lookup.low;
	const uint64_t span = k->lookup.span;
	uint64_t most = ms_range_len(p->range);
	uint64_t here = p->end - p->range.begin;
	size_t step = p->code ? 1 : word;
	uint64_t n;

	if (here < word)
		return;
	n = here - word + 1 < most ? here - word + 1 : most;
	for (size_t i = p->code ? 0 : word / 2; i < n; i += step) {
		uint64_t value = ms_pointer_at(abi, plain, bytes + i);

		if (value - low < span)
			consider(s, k, p, p->range.begin + i, value);
	}
}

/* ---- with a number beside them ---- */

static bool is_in_zones(const struct search *s, ms_addr addr)
{
	bool in = false;

	for (unsigned i = 0; i < s->n_zones; i++)
		in |= addr - s->zones[i].begin < ms_range_len(s->zones[i]);
	return in;
}

static void consider_begin(struct search *s, struct seeker *k, const struct piece *p, ms_addr addr,
                           uint64_t value)
{
	struct ms_block block;

	if (value >= SMALL_NUMBERS && ms_lookup_begin(&k->lookup, value, &block) &&
	    is_kept(s, p, addr, block))
		take(s, k, block);
}

/* One word, at @bytes + @i in @p, of which it is not known that it has no number. */
static void look_for_tag(struct search *s, struct seeker *k, const struct piece *p,
                         const uint8_t *bytes, size_t i)
{
	uint64_t value;
	ms_addr below;

	memcpy(&value, bytes + i, sizeof(value));
	below = value << TAG >> TAG;
	if (below != value && is_in_zones(s, below))
		consider_begin(s, k, p, p->range.begin + i, below);
	if (is_in_zones(s, value >> TAG))
		consider_begin(s, k, p, p->range.begin + i, value >> TAG);
}

typedef uint16_t quarters __attribute__((vector_size(LANES)));
typedef uint64_t words __attribute__((vector_size(LANES)));

/* Whether one of the words in the LANES bytes at @at may be an address with a number beside. */
static bool may_have_tag(const struct search *s, const uint8_t *at)
{
	static const quarters above = { 0, 0, 0xffff, 0, 0, 0, 0xffff, 0 };
	static const quarters below = { 0, 0, 0, 0xffff, 0, 0, 0, 0xffff };
	quarters parts;
	quarters hits = { 0 };
	quarters tagged;
	uint64_t both[2];

	memcpy(&parts, at, sizeof(parts));
	for (unsigned i = 0; i < s->n_zones; i++)
		hits |= (quarters)(parts - s->highs[i] <= s->spans[i]);
	tagged = (quarters)((words)parts >> TAG) != 0;
	hits &= (tagged & above) | below;
	memcpy(both, &hits, sizeof(both));
	return both[0] | both[1];
}

/* Look at the words of @p, whose bytes begin at @bytes, for addresses with a number beside. */
static void look_for_tagged(struct search *s, struct seeker *k, const struct piece *p,
                            const uint8_t *bytes)
{
	uint64_t n = ms_range_len(p->range);
	size_t i = 0;

	if (!ms_abi_is_wide(s->abi) || p->code)
		return;
	for (; i + LANES <= n; i += LANES)
		if (may_have_tag(s, bytes + i)) {
			look_for_tag(s, k, p, bytes, i);
			look_for_tag(s, k, p, bytes, i + WORD);
		}
	for (; i + WORD <= n; i += WORD)
		look_for_tag(s, k, p, bytes, i);
}

/* ---- odd places ---- */

typedef uint8_t lanes __attribute__((vector_size(LANES)));

static lanes load(const uint8_t *at)
{
	lanes ret;

	memcpy(&ret, at, sizeof(ret));
	return ret;
}

/*
 * Whether at one of LANES bytes from @at on, which stand at a multiple of WORD, an address
 * may begin whose sixth byte is in [@low, @low + @span]; other places are not asked for.
 */
static bool may_have_odd(const uint8_t *at, uint8_t low, uint8_t span)
{
	static const lanes odd = { 0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff,
		                   0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff };
	lanes above = load(at + 6) | load(at + 7);
	lanes hits = (lanes)(above == 0) & (lanes)(load(at + 5) - low <= span) & odd;
	uint64_t halves[2];

	memcpy(halves, &hits, sizeof(halves));
	return halves[0] | halves[1];
}

static void take_odd(struct search *s, struct seeker *k, struct odd odd)
{
	struct odd *slot;

	if (s->walking) {
		if (s->is_place[odd.place])
			ms_walk_block(s->walk, odd.block);
		return;
	}
	slot = ms_vec_push(ms_shared_take(&s->arena), &k->odd);
	ms_shared_give(&s->arena);
	k->out_of_memory |= !slot;
	if (slot)
		*slot = odd;
}

/* The byte at @bytes + @i, in @p, which is at an odd place. */
static void consider_odd(struct search *s, struct seeker *k, const struct piece *p,
                         const uint8_t *bytes, size_t i)
{
	struct odd odd = { .place = i % WORD };
	uint64_t value;

	memcpy(&value, bytes + i, sizeof(value));
	if (value >= SMALL_NUMBERS && ms_lookup_begin(&k->lookup, value, &odd.block) &&
	    is_kept(s, p, p->range.begin + i, odd.block))
		take_odd(s, k, odd);
}

/* Look for addresses of blocks at all places but multiples of half a word. */
static void look_at_odd(struct search *s, struct seeker *k, const struct piece *p,
                        const uint8_t *bytes)
{
	const ms_addr low = k->lookup.low;
	const uint8_t least = (uint8_t)(low >> 40);
	const uint8_t span = (uint8_t)((low + k->lookup.span) >> 40) - least;
	uint64_t most = ms_range_len(p->range);
	uint64_t here = p->end - p->range.begin;

	if (!ms_abi_is_wide(s->abi) || p->code || here < WORD)
		return;
	for (size_t i = 0; i < most; i += LANES) {
		size_t end = i + LANES;

		if (end + WORD > here || end > most)
			end = here - WORD + 1 < most ? (size_t)(here - WORD) + 1 : (size_t)most;
		else if (!may_have_odd(bytes + i, least, span))
			continue;
		for (size_t at = i; at < end; at++)
			if (at % (WORD / 2))
				consider_odd(s, k, p, bytes, at);
	}
}

static bool odd_before(const void *a, const void *b)
{
	const struct odd *x = a;
	const struct odd *y = b;

	if (x->place != y->place)
		return x->place < y->place;
	if (x->block.extent != y->block.extent)
		return x->block.extent < y->block.extent;
	return x->block.granule < y->block.granule;
}

/* Choose the odd places that lead to enough blocks, and follow these. False without memory. */
static bool follow_odd(struct search *s)
{
	struct odds all = { 0 };
	size_t n[WORD] = { 0 };
	const struct odd *odd;

	for (unsigned i = 0; i < s->n_seekers; i++)
		ms_vec_for_each (odd, &s->seekers[i]->odd) {
			struct odd *slot = ms_vec_push(s->arena.arena, &all);

			if (!slot)
				return false;
			*slot = *odd;
		}
	if (!ms_sort(s->arena.arena, all.at, all.n, sizeof(all.at[0]), odd_before))
		return false;
	ms_vec_for_each (odd, &all)
		n[odd->place] += odd == all.at || odd_before(odd - 1, odd);
	for (size_t i = 0; i < WORD; i++)
		s->is_place[i] = n[i] >= ENOUGH;
	ms_vec_for_each (odd, &all)
		if (s->is_place[odd->place])
			ms_walk_block(s->walk, odd->block);
	return true;
}

static void look_at(struct search *s, struct seeker *k, const struct piece *p)
{
	const uint8_t *bytes = p->host;

	if (!bytes) {
		uint64_t len = p->end - p->range.begin;

		ms_source_fill(s->blocks->src, p->range.begin, k->buffer,
		               (size_t)(len < BUFFER ? len : BUFFER));
		bytes = k->buffer;
	}
	look(s, k, p, bytes);
	look_for_tagged(s, k, p, bytes);
	look_at_odd(s, k, p, bytes);
	if (s->empty_arrays.used && !s->walking)
		look_for_ends(s, k, p, bytes);
}

static void look_at_piece(void *ctx, unsigned worker, size_t item)
{
	struct search *s = ctx;

	look_at(s, s->seekers[worker], &s->pieces.at[item]);
}

/* A block that the walk has come to. */
static void visit(void *ctx, struct ms_block block)
{
	struct search *s = ctx;
	const struct ms_extent *extent = &s->blocks->extents.at[block.extent];
	ms_addr begin = ms_block_begin(extent, block.granule);
	ms_addr end = end_of(s, extent, block.granule);

	s->kept->allocations++;
	s->kept->bytes += ms_block_size(s->blocks, extent, block.granule);
	for (ms_addr at = begin; at < end; at += PIECE) {
		struct piece p = { .range = { at, end - at < PIECE ? end : at + PIECE },
			           .end = end,
			           .heap = extent };

		if (extent->host)
			p.host = extent->host + (at - extent->range.begin);
		look_at(s, s->seekers[0], &p);
	}
}

/* ---- the search ---- */

/* Cut @whole.range, which is present, into pieces. False without memory. */
static bool cut(struct search *s, struct piece whole)
{
	ms_addr begin = whole.range.begin;

	for (ms_addr at = begin; at < whole.end; at += PIECE) {
		uint64_t len = whole.end - at < PIECE ? whole.end - at : PIECE;
		struct piece *p;

		if (len > s->left) {
			s->kept->limited = true;
			s->left = 0;
			return true;
		}
		s->left -= len;
		p = ms_vec_push(s->arena.arena, &s->pieces);
		if (!p)
			return false;
		*p = whole;
		p->range = (struct ms_range){ at, at + len };
		p->host = whole.host ? whole.host + (at - begin) : NULL;
	}
	return true;
}

/* What of @within is present; @kind: all but where it is. */
static bool plan(struct search *s, struct ms_range within, const struct piece *kind)
{
	struct ms_source *src = s->blocks->src;
	struct ms_range run;

	within.begin = ms_align_up(within.begin, s->abi->word_bytes);
	while (within.begin < within.end && ms_source_present(src, within, &run)) {
		struct piece whole = *kind;

		whole.range = run;
		whole.end = run.end;
		whole.host = ms_source_view(src, run.begin, (size_t)ms_range_len(run));
		if (!cut(s, whole))
			return false;
		within.begin = run.end;
	}
	return true;
}

/* Code that no file has was made by the program itself. */
static bool is_made_code(const struct search *s, const struct ms_extent *extent)
{
	const struct ms_mapping *map = &s->blocks->src->mappings.at[extent->mapping];

	return (map->prot & MS_PROT_EXEC) && !map->file;
}

/* What is in a file, and was not changed, has no addresses of this process. */
static bool is_files(const struct search *s, const struct ms_extent *extent)
{
	const struct ms_mapping *map = &s->blocks->src->mappings.at[extent->mapping];

	return map->file && !(map->prot & MS_PROT_WRITE);
}

static bool plan_all(struct search *s, const struct ms_packed_options *options)
{
	const struct ms_extent *extent;
	const struct ms_range *r;

	ms_vec_for_each (extent, &s->blocks->extents) {
		bool heap = extent->kind == MS_EXTENT_HEAP;
		struct piece kind = { .heap = heap ? extent : NULL,
			              .code = !heap && is_made_code(s, extent) };

		if ((heap || !is_files(s, extent)) && !plan(s, extent->range, &kind))
			return false;
	}
	for (size_t i = 0; i < options->n_roots; i++)
		ms_vec_for_each (r, options->roots[i])
			if (!plan(s, *r, &(struct piece){ 0 }))
				return false;
	return true;
}

/* Keep the block of @extent that begins in @granule if it can be an array of no elements. */
static bool keep_empty_array(struct search *s, const struct ms_extent *extent, uint64_t granule)
{
	ms_addr begin = ms_block_begin(extent, granule);
	uint64_t count;

	if (ms_block_usable(s->blocks, extent, granule) != s->abi->word_bytes ||
	    !ms_source_word(s->blocks->src, begin, &count) || count)
		return true;
	return ms_map_add(&s->empty_arrays, s->arena.arena, begin + s->abi->word_bytes, begin);
}

/* Note that an unmarked block begins at @begin, which is behind all that were noted. */
static void note_zone(struct search *s, ms_addr begin)
{
	struct ms_range *last = &s->zones[s->n_zones ? s->n_zones - 1 : 0];

	if (!s->n_zones || (begin - last->end > FAR && s->n_zones < ZONES)) {
		last = &s->zones[s->n_zones++];
		last->begin = begin;
	}
	last->end = begin + 1;
}

static void end_zones(struct search *s)
{
	for (unsigned i = 0; i < s->n_zones; i++) {
		s->highs[i] = (uint16_t)(s->zones[i].begin >> 32);
		s->spans[i] = (uint16_t)(((s->zones[i].end - 1) >> 32) - (s->zones[i].begin >> 32));
	}
}

/* Look through the unmarked blocks. False without memory. */
static bool look_at_unmarked(struct search *s)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &s->blocks->extents)
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++) {
			const struct ms_cell *cell = &s->blocks->cells.at[extent->cell0 + i];

			for (uint64_t left = cell->starts & ~cell->marks; left; left &= left - 1) {
				uint64_t granule =
					i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

				note_zone(s, ms_block_begin(extent, granule));
				if (!keep_empty_array(s, extent, granule))
					return false;
			}
		}
	end_zones(s);
	return true;
}

static bool make_seekers(struct search *s, const struct ms_packed_options *options)
{
	struct ms_walk_options walk = { .visit = visit, .visit_ctx = s };

	s->n_seekers = ms_workers_count(options->workers);
	for (unsigned i = 0; i < s->n_seekers; i++) {
		s->seekers[i] = ms_arena_alloc(s->arena.arena, sizeof(*s->seekers[i]));
		if (!s->seekers[i])
			return false;
		ms_lookup_init(&s->seekers[i]->lookup, s->blocks);
	}
	s->walk = ms_walk_new(s->blocks, &walk, s->arena.arena);
	return s->walk;
}

/* Follow what each seeker has found. */
static enum ms_status follow(struct search *s, struct ms_error *err)
{
	bool out_of_memory = false;

	s->walking = true;
	for (unsigned i = 0; i < s->n_seekers; i++) {
		const struct ms_block *block;

		ms_vec_for_each (block, &s->seekers[i]->found)
			ms_walk_block(s->walk, *block);
		out_of_memory |= s->seekers[i]->out_of_memory;
	}
	if (out_of_memory || !follow_odd(s))
		return ms_fail(err, MS_E_NOMEM, "no memory for unaligned pointers");
	return ms_walk_finish(s->walk, err);
}

enum ms_status ms_packed_mark(struct ms_blocks *blocks, const struct ms_packed_options *options,
                              struct ms_packed_kept *ret, struct ms_error *err)
{
	struct search s = { .blocks = blocks,
		            .abi = &blocks->src->abi,
		            .kept = ret,
		            .left = options->limit ? options->limit : LIMIT };

	ms_shared_init(&s.arena, blocks->arena);
	if (!look_at_unmarked(&s))
		return ms_fail(err, MS_E_NOMEM, "no memory for unaligned pointers");
	if (!s.n_zones)
		return MS_OK;
	if (!make_seekers(&s, options) || !plan_all(&s, options))
		return ms_fail(err, MS_E_NOMEM, "no memory for unaligned pointers");
	ms_workers_run(options->workers, s.pieces.n, look_at_piece, &s);
	return follow(&s, err);
}
