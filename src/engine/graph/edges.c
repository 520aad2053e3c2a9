/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/edges.h"

#include <assert.h>
#include <string.h>

#include "engine/graph/lookup.h"
#include "engine/graph/shared.h"
#include "engine/graph/words.h"

/*
 * Each worker reads a piece at a time through a buffer that stays in its cache, and
 * looks at the words in groups: first which of them lie between the lowest and the
 * highest block, without a branch for each word, then at those alone. Of most, the
 * first byte of a granule, it is not asked whether a block begins there: the walk
 * will, with the cell at hand. For a word that points elsewhere the block is looked up
 * some words later, like in follow.c, when its cell has been prefetched. The queue is
 * first in, first out, so that edges come out by source.
 *
 * A cell's edges are held until all are there, and then packed. A worker
 * writes edges where its last piece's end. Where they run out of room, it
 * takes a new slab and moves the edges of the present piece there.
 */

enum {
	QUEUE = 8,
	BUFFER = 1 << 18,
	TAIL = MS_WORD_MAX, /* bytes behind the last position that words may reach into */
	GROUP = 1024,       /* bytes looked at in one go */
	SLAB = 1 << 24,
	WORDS = 64,
	HELD = 1 << 11,
	SPARSE = 128, /* one edge in so many bytes, or less, is kept for large blocks */
};

struct candidate {
	const struct ms_cell *cell; /* of value; NULL: value is a place, of its first byte */
	const struct ms_extent *extent;
	uint64_t value;
	uint64_t self;   /* place of the block that holds the word */
	size_t from;     /* cell that holds it */
	uint64_t source; /* an edge without its target */
	bool large;
};

/* What is known of the cell that is read. */
struct reading {
	const struct ms_extent *extent;
	size_t cell;
	uint64_t starts;
	uint64_t ends;
	uint64_t live;    /* granules that a block has */
	uint64_t large;   /* and a large one */
	uint64_t carried; /* place of the block that goes on from the cell before; UINT64_MAX */
	uint64_t carries; /* the same for the next cell */
	bool carries_large;
	uint64_t asked; /* place of the block whose words end at asked_end; UINT64_MAX: of none */
	ms_addr asked_end;
};

struct gathering;

struct gatherer {
	struct gathering *all;
	struct ms_lookup lookup;
	struct candidate queue[QUEUE];
	uint32_t n_candidates, first_candidate;
	struct reading reading;

	const struct ms_extent *recent; /* that a word pointed into; NULL */

	uint8_t *slab; /* where the edges of the present piece, or part, begin */
	size_t room;
	uint32_t n;     /* packed */
	size_t cell;    /* whose edges are being added */
	uint64_t *held; /* these, not packed yet, by source */
	uint32_t n_held, room_held;
	uint32_t n_large;
	uint64_t large; /* granules that these come from */
	uint32_t limit; /* more than so many are not kept */
	bool out_of_memory;
	uint8_t buffer[BUFFER + TAIL];
	size_t n_read; /* of it */
};

struct gathering {
	struct ms_edges *edges;
	const struct ms_abi *abi;
	bool plain; /* its words can be taken as they are */
	struct ms_edge_options options;
	struct ms_shared_arena arena;
	size_t n_pieces;
	struct gatherer *gatherers[MS_WORKERS_MAX];
};

bool ms_edges_wanted(const struct ms_blocks *blocks)
{
	const struct ms_extent *e;

	ms_vec_for_each (e, &blocks->extents)
		if (e->host)
			return false;
	return blocks->extents.n;
}

/* ---- what was found ---- */

/* Room for the edges that are held. */
static bool make_room(struct gatherer *g)
{
	size_t used = (size_t)g->n * MS_EDGE_BYTES;
	size_t need = used + (size_t)g->n_held * MS_EDGE_BYTES + MS_EDGE_BEHIND;
	size_t want = 2 * need < SLAB ? SLAB : 2 * need;
	uint8_t *slab;

	if (need <= g->room)
		return true;
	slab = ms_arena_alloc(ms_shared_take(&g->all->arena), want);
	ms_shared_give(&g->all->arena);
	if (!slab || g->n >= MS_FIRST_COUNT - g->n_held) {
		g->out_of_memory = true;
		return false;
	}
	if (used)
		memcpy(slab, g->slab, used);
	g->slab = slab;
	g->room = want;
	return true;
}

static bool hold_more(struct gatherer *g)
{
	uint32_t want = 2 * g->room_held < HELD ? HELD : 2 * g->room_held;
	uint64_t *held =
		ms_arena_resize(ms_shared_take(&g->all->arena), g->held, want * sizeof(*held));

	ms_shared_give(&g->all->arena);
	if (!held) {
		g->out_of_memory = true;
		return false;
	}
	g->held = held;
	g->room_held = want;
	return true;
}

static uint64_t source_of(uint64_t edge)
{
	return edge >> MS_EDGE_SOURCE;
}

/* Take out the edges of large blocks from the cell that is being added to, if there are many. */
static void drop_large(struct gatherer *g)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < g->n_held; i++)
		if (!(g->large >> source_of(g->held[i]) & 1))
			g->held[kept++] = g->held[i];
	g->n_held = kept;
	g->all->edges->first[g->cell + g->cell / MS_EDGE_CELLS] |= MS_FIRST_AGAIN;
}

/* Put the edges that are held behind those of the cells before. */
static void pack(struct gatherer *g)
{
	const uint64_t *held = g->held;
	uint32_t n = g->n_held;
	uint8_t *at;

	if (n && !make_room(g))
		n = 0;
	g->n_held = 0;
	if (!n)
		return;
	at = g->slab + (size_t)g->n * MS_EDGE_BYTES;
	for (uint32_t i = 0; i < n; i++, at += MS_EDGE_PLACE_BYTES)
		memcpy(at, &held[i], sizeof(held[i]));
	for (uint32_t i = 0; i < n; i++)
		at[i] = (uint8_t)(held[i] >> MS_EDGE_FLAGS);
	g->n += n;
}

static void end_cell(struct gatherer *g)
{
	if (g->n_large > g->limit)
		drop_large(g);
	g->n_large = 0;
	g->large = 0;
	pack(g);
}

/* Go on to @cell, whose edges begin behind those there are. */
static void begin_cell(struct gatherer *g, size_t cell)
{
	uint32_t *first = g->all->edges->first;

	end_cell(g);
	while (g->cell < cell) {
		g->cell++;
		/* The flag of a single may be there. */
		first[g->cell + g->cell / MS_EDGE_CELLS] |= g->n;
	}
}

/* Put the edge behind all others of its cell that have no higher source. */
static inline void keep(struct gatherer *g, const struct candidate *c, uint64_t edge)
{
	uint32_t i;

	if (c->from != g->cell)
		begin_cell(g, c->from);
	if (g->n_held == g->room_held && !hold_more(g))
		return;
	for (i = g->n_held++; i && source_of(g->held[i - 1]) > source_of(edge); i--)
		g->held[i] = g->held[i - 1];
	g->held[i] = edge;
	if (c->large) {
		g->n_large++;
		g->large |= UINT64_C(1) << source_of(edge);
	}
}

static void resolve_oldest(struct gatherer *g)
{
	const struct candidate *c = &g->queue[g->first_candidate++ % QUEUE];
	uint64_t place = c->value | MS_EDGE_EXACT;
	uint64_t granule;

	g->n_candidates--;
	if (c->cell) {
		granule = ms_lookup_hit(g->lookup.blocks, c->extent, c->cell, c->value, false);
		if (granule == UINT64_MAX)
			return;
		place = c->extent->cell0 * MS_CELL_GRANULES + granule;
		if (c->extent->kind == MS_EXTENT_MAPPING || c->extent->inner)
			place |= MS_EDGE_EXACT;
	}
	if ((place & MS_EDGE_PLACE) != c->self)
		keep(g, c, place | c->source);
}

static void resolve_all(struct gatherer *g)
{
	while (g->n_candidates)
		resolve_oldest(g);
}

/* ---- looking at words ---- */

static inline const struct ms_extent *extent_of(struct gatherer *g, uint64_t value)
{
	if (!g->recent || !ms_range_has(g->recent->range, value))
		g->recent = ms_lookup_extent(&g->lookup, value);
	return g->recent;
}

/*
 * Whether the word at @offset of the cell that is read is within the size that was asked for. An
 * extent of one block was cut to that size already.
 *
 * @place: of its block
 */
static bool is_asked_for(struct gatherer *g, uint64_t offset, uint64_t place)
{
	struct reading *r = &g->reading;
	const struct ms_extent *extent = r->extent;

	if (extent->shift == MS_SINGLE_SHIFT)
		return true;
	if (r->asked != place) {
		r->asked = place;
		r->asked_end = ms_block_words_end(g->lookup.blocks, extent,
		                                  place - extent->cell0 * MS_CELL_GRANULES);
	}
	return ms_block_begin(extent, (r->cell - extent->cell0) * MS_CELL_GRANULES) + offset +
	               g->all->abi->word_bytes <=
	       r->asked_end;
}

/*
 * The word at @offset of the cell that is read has @value, or was mangled to hold it.
 * Nothing is to be waited for when it is exact, unless by others before it.
 */
static inline void consider(struct gatherer *g, uint64_t offset, uint64_t value, uint64_t mangled)
{
	const struct reading *r = &g->reading;
	uint64_t granule = offset >> r->extent->shift;
	uint64_t bit = UINT64_C(1) << granule;
	uint64_t below = r->starts & (bit | (bit - 1));
	const struct ms_extent *extent;
	struct candidate c;

	if (!(r->live & bit))
		return;
	if ((r->ends & bit) &&
	    (offset + g->all->abi->word_bytes - 1) >> r->extent->shift != granule)
		return;
	extent = extent_of(g, value);
	if (!extent)
		return;
	c = (struct candidate){
		.extent = extent,
		.value = value,
		.self = below ? r->cell * MS_CELL_GRANULES + (uint64_t)(63 - __builtin_clzll(below))
		              : r->carried,
		.from = r->cell,
		.source = granule << MS_EDGE_SOURCE | mangled,
		.large = r->large & bit,
	};
	if (r->extent->trimmed && !is_asked_for(g, offset, c.self))
		return;
	granule = ms_granule_of(extent, value);
	if (ms_block_begin(extent, granule) != value) {
		c.cell = ms_blocks_cell(g->lookup.blocks, extent, granule);
		__builtin_prefetch(c.cell);
	} else {
		c.value = extent->cell0 * MS_CELL_GRANULES + granule;
		if (!g->n_candidates) {
			if (c.value != c.self)
				keep(g, &c, c.value | MS_EDGE_EXACT | c.source);
			return;
		}
	}
	if (g->n_candidates == QUEUE)
		resolve_oldest(g);
	g->queue[(g->first_candidate + g->n_candidates++) % QUEUE] = c;
}

static void look_for_mangled(struct gatherer *g, const uint8_t *bytes, size_t len, uint64_t offset)
{
	const struct ms_abi *abi = g->all->abi;
	const struct ms_mangling mangling = g->all->options.mangling;
	const bool plain = g->all->plain;
	size_t readable = (size_t)(g->buffer + g->n_read - bytes);
	size_t step = g->all->options.unaligned ? 1 : abi->word_bytes;

	for (size_t i = 0; i < len; i += step) {
		uint64_t value = plain ? ms_word_at(bytes + i) : 0;

		if (plain ? !ms_may_be_mangled(value)
		          : !ms_abi_take_mangled(abi, bytes + i, readable - i, mangling, &value))
			continue;
		if (plain)
			value = ms_unmangled(value, mangling);
		if (value - g->lookup.low < g->lookup.span)
			consider(g, offset + i, value, MS_EDGE_MANGLED);
	}
}

/*
 * The words that begin in the first @len bytes, of any kind and at any alignment. Returns all
 * their bits.
 */
static uint64_t look_at_any(struct gatherer *g, const uint8_t *bytes, size_t len, uint64_t offset)
{
	const struct ms_abi *abi = g->all->abi;
	size_t step = g->all->options.unaligned ? 1 : abi->word_bytes;
	uint64_t all = 0;

	for (size_t i = 0; i < len; i += step) {
		uint64_t value = ms_abi_word(abi, bytes + i);

		all |= value;
		value = ms_abi_address(abi, value);
		if (value - g->lookup.low < g->lookup.span)
			consider(g, offset + i, value, 0);
	}
	return all;
}

/* Plain words, aligned. */
static uint64_t look_at_aligned(struct gatherer *g, const uint8_t *bytes, size_t len,
                                uint64_t offset)
{
	uint64_t low = g->lookup.low;
	uint64_t span = g->lookup.span;
	uint64_t all = 0;

	for (size_t i = 0; i < len; i += WORDS * sizeof(uint64_t)) {
		size_t n = (len - i + sizeof(uint64_t) - 1) / sizeof(uint64_t);
		uint64_t found =
			ms_words_between(bytes + i, n < WORDS ? n : WORDS, low, span, &all);

		for (; found; found &= found - 1) {
			size_t at = i + (size_t)__builtin_ctzll(found) * sizeof(uint64_t);
			uint64_t value = ms_word_at(bytes + at);

			if (value - low < span)
				consider(g, offset + at, value, 0);
		}
	}
	return all;
}

/* The words that begin in the first @len bytes, which are at @offset of the cell that is read. */
static void look_at(struct gatherer *g, const uint8_t *bytes, size_t len, uint64_t offset)
{
	uint64_t all;

	if (!g->reading.live)
		return;
	all = g->all->options.unaligned || !g->all->plain ? look_at_any(g, bytes, len, offset)
	                                                  : look_at_aligned(g, bytes, len, offset);
	if (g->all->options.mangling.guard && ms_abi_may_be_mangled(g->all->abi, all))
		look_for_mangled(g, bytes, len, offset);
}

/* ---- cells ---- */

/* True when the block that begins in @granule of @cell, and goes on behind it, is large. */
static bool is_large(const struct ms_blocks *blocks, const struct ms_extent *extent, size_t cell,
                     uint64_t granule)
{
	uint64_t large = (uint64_t)MS_LARGE_BYTES >> extent->shift;
	uint64_t n = MS_CELL_GRANULES - granule;

	for (cell++; n < large && cell < extent->cell0 + extent->n_cells; cell++) {
		uint64_t ends = blocks->cells.at[cell].ends;

		if (ends)
			return n + (uint64_t)__builtin_ctzll(ends) + 1 >= large;
		n += MS_CELL_GRANULES;
	}
	return true;
}

/*
 * ~ends + starts carries from a block's first granule to its last, and so changes
 * just the bits of the block; ends without a block, of those that were taken out of
 * the table, are not reached.
 */
static void begin_reading(struct gatherer *g, size_t cell)
{
	const struct ms_cell *c = &g->lookup.blocks->cells.at[cell];
	struct reading *r = &g->reading;
	bool carried = r->carries != UINT64_MAX;
	uint64_t sum;
	bool over = __builtin_add_overflow(~c->ends, c->starts, &sum);

	over |= __builtin_add_overflow(sum, (uint64_t)carried, &sum);
	r->cell = cell;
	r->starts = c->starts;
	r->ends = c->ends;
	r->live = sum ^ ~c->ends;
	r->large = 0;
	r->carried = r->carries;
	if (carried && r->carries_large)
		r->large = c->ends ^ (c->ends - 1);
	if (!over)
		r->carries = UINT64_MAX;
	if (over && c->starts) {
		uint64_t granule = (uint64_t)(63 - __builtin_clzll(c->starts));

		r->carries = cell * MS_CELL_GRANULES + granule;
		r->carries_large = is_large(g->lookup.blocks, r->extent, cell, granule);
		if (r->carries_large)
			r->large |= UINT64_MAX << granule;
	}
}

/* Look at the words that begin in the first @n bytes of the buffer, which are those at @begin. */
static void look_at_buffer(struct gatherer *g, ms_addr begin, size_t n)
{
	const struct ms_extent *extent = g->reading.extent;
	uint64_t cell_bytes = (uint64_t)MS_CELL_GRANULES << extent->shift;
	size_t group = cell_bytes < GROUP ? (size_t)cell_bytes : GROUP;

	for (size_t i = 0; i < n; i += group) {
		uint64_t offset = (begin + i - extent->range.begin) % cell_bytes;

		if (!offset)
			begin_reading(g,
			              extent->cell0 + (size_t)((begin + i - extent->range.begin) /
			                                       cell_bytes));
		look_at(g, g->buffer + i, n - i < group ? n - i : group, offset);
	}
}

/* The same in an extent that is one block, until there are too many. */
static void look_at_single(struct gatherer *g, size_t n)
{
	for (size_t i = 0; i < n && g->n_held <= g->limit; i += GROUP)
		look_at(g, g->buffer + i, n - i < GROUP ? n - i : GROUP, 0);
}

/* Look at the words that begin in [@begin, @end) of the extent that is read and end by @limit. */
static void read_words(struct gatherer *g, ms_addr begin, ms_addr end, ms_addr limit)
{
	const uint8_t word = g->all->abi->word_bytes;

	for (; begin < end && begin + word <= limit; begin += BUFFER) {
		uint64_t left = limit - begin;
		size_t got = left < sizeof(g->buffer) ? (size_t)left : sizeof(g->buffer);
		size_t n = got - (word - 1U);

		n = n < end - begin ? n : (size_t)(end - begin);
		n = n < BUFFER ? n : BUFFER;
		ms_source_fill(g->lookup.blocks->src, begin, g->buffer, got);
		g->n_read = got;
		if (g->reading.extent->shift == MS_SINGLE_SHIFT)
			look_at_single(g, n);
		else
			look_at_buffer(g, begin, n);
	}
}

/* Edges of the cells [@from, @to) of @extent, which are of one piece. */
static void gather_cells(struct gatherer *g, const struct ms_extent *extent, size_t from, size_t to)
{
	uint64_t cell_bytes = (uint64_t)MS_CELL_GRANULES << extent->shift;
	uint64_t granules = ms_granule_of(extent, extent->range.end - 1) + 1;
	ms_addr limit = extent->range.begin + (granules << extent->shift);
	ms_addr begin = extent->range.begin + (from - extent->cell0) * cell_bytes;
	ms_addr end = extent->range.begin + (to - extent->cell0) * cell_bytes;
	const struct ms_edge_piece *piece = &g->all->edges->pieces[from / MS_EDGE_CELLS];
	const ms_addr behind = (ms_addr)2 * g->all->abi->word_bytes;

	g->limit = (uint32_t)(cell_bytes / SPARSE);
	g->reading =
		(struct reading){ .extent = extent, .carries = UINT64_MAX, .asked = UINT64_MAX };
	if (from > extent->cell0 && piece->carried != UINT64_MAX) {
		g->reading.carries = piece->carried;
		g->reading.carries_large =
			is_large(g->lookup.blocks, extent, piece->carried / MS_CELL_GRANULES,
		                 piece->carried % MS_CELL_GRANULES);
	}
	end = end < limit ? end : limit;
	if (end + behind < limit)
		limit = end + behind;
	read_words(g, begin, end, limit);
	resolve_all(g);
	end_cell(g);
}

/* A place also when there are none yet, nor memory for any: readers add to it. */
static const uint8_t *place_of_edges(const struct gatherer *g)
{
	static const uint8_t none;

	return g->n ? g->slab : &none;
}

static void gather_piece(struct gatherer *g, size_t index)
{
	struct ms_edges *edges = g->all->edges;
	size_t from = index * MS_EDGE_CELLS;
	size_t to = from + MS_EDGE_CELLS;
	size_t i = ms_edges_span(edges, from);

	to = to < edges->blocks->cells.n ? to : edges->blocks->cells.n;
	g->n = 0;
	g->cell = from;
	for (; i < edges->spans.n && edges->spans.at[i].cell0 < to; i++) {
		const struct ms_edge_span *span = &edges->spans.at[i];
		const struct ms_extent *extent = &edges->blocks->extents.at[span->extent];
		size_t end = extent->cell0 + extent->n_cells;

		if (extent->shift == MS_SINGLE_SHIFT && span->cell0 >= from)
			edges->first[span->cell0 + index] |= MS_FIRST_SINGLE;
		else if (end > from)
			gather_cells(g, extent, span->cell0 < from ? from : span->cell0,
			             end < to ? end : to);
	}
	/* The entry behind the last cell is the piece's end. */
	begin_cell(g, to - 1);
	edges->first[to + index] = g->n;
	edges->pieces[index].at = place_of_edges(g);
}

static void gather_part(struct gatherer *g, struct ms_edge_part *part)
{
	const struct ms_extent *extent = &g->lookup.blocks->extents.at[part->extent];
	struct ms_range rest = { part->range.begin, part->limit };
	struct ms_range run;
	uint64_t bytes = 0;

	while (rest.begin < rest.end && ms_source_present(g->lookup.blocks->src, rest, &run)) {
		bytes += ms_range_len(run);
		rest.begin = run.end;
	}
	g->n = 0;
	g->cell = extent->cell0;
	g->limit = (uint32_t)(bytes / SPARSE);
	g->reading = (struct reading){ .extent = extent,
		                       .cell = extent->cell0,
		                       .starts = 1,
		                       .live = 1,
		                       .carried = UINT64_MAX };
	rest.begin = part->range.begin;
	while (rest.begin < rest.end && ms_source_present(g->lookup.blocks->src, rest, &run)) {
		read_words(g, run.begin, run.end < part->range.end ? run.end : part->range.end,
		           run.end);
		rest.begin = run.end;
	}
	resolve_all(g);
	part->again = g->n_held > g->limit;
	if (part->again)
		g->n_held = 0;
	pack(g);
	part->n = g->n;
	part->at = place_of_edges(g);
}

static void gather_item(void *ctx, unsigned worker, size_t item)
{
	struct gathering *all = ctx;
	struct gatherer *g = all->gatherers[worker];
	size_t used;

	if (g->out_of_memory)
		return;
	if (item < all->n_pieces)
		gather_piece(g, item);
	else
		gather_part(g, &all->edges->parts.at[item - all->n_pieces]);
	used = (size_t)g->n * MS_EDGE_BYTES;
	if (!used)
		return;
	g->slab += used;
	g->room -= used;
}

enum ms_status ms_edges_gather(struct ms_blocks *blocks, const struct ms_edge_options *options,
                               struct ms_workers *workers, struct ms_edges *ret,
                               struct ms_error *err)
{
	struct gathering all = { .edges = ret,
		                 .abi = &blocks->src->abi,
		                 .plain = ms_abi_is_plain(&blocks->src->abi),
		                 .options = *options,
		                 .n_pieces = ms_edges_pieces(blocks) };
	unsigned n = ms_workers_count(workers);
	bool ok;

	assert(blocks->cells.n <= MS_EDGE_PLACE / MS_CELL_GRANULES);
	ret->blocks = blocks;
	ms_shared_init(&all.arena, blocks->arena);
	ok = ms_edges_plan(ret);
	for (unsigned i = 0; i < n && ok; i++) {
		struct gatherer *g = ms_arena_alloc(blocks->arena, sizeof(*g));

		ok = g != NULL;
		if (!ok)
			break;
		g->all = &all;
		ms_lookup_init(&g->lookup, blocks);
		all.gatherers[i] = g;
	}
	if (ok)
		ms_workers_run(workers, all.n_pieces + ret->parts.n, gather_item, &all);
	for (unsigned i = 0; i < n && ok; i++)
		ok = !all.gatherers[i]->out_of_memory;
	return ok ? MS_OK : ms_fail(err, MS_E_NOMEM, "no memory for the pointers between blocks");
}
