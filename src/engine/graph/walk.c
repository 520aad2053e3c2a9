/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/walk.h"

#include <assert.h>
#include <string.h>

#include "engine/graph/walker.h"

/*
 * A heap does not fit into any cache, and what a pointer leads to is nowhere near
 * what was read before, so nearly all time would be spent waiting for memory. A
 * short queue turns the waits into overlapping ones:
 *
 *	words ─▶ range? ─▶ extent ─▶ [candidates: 8] ─▶ starts? marked? ─▶ list
 *	  ▲             prefetch the cell, and the bytes pointed to         │
 *	  └─────────────────────────────────────────────────────────────────┘
 *
 * When a candidate's turn comes, its cell is there; when it turns out to be new,
 * so are its first bytes. Longer queues are slower: the machine has room for only
 * so many misses at once.
 *
 * Over edges (edges.h) the loop is the same with one wait more, since where a
 * block's edges are is known only when its cell's entry is there:
 *
 *	edges ─▶ [places: 8] ─▶ marked? ─▶ list ─▶ [ahead: 8] ─▶ edges of the block
 *	       prefetch the cell and the entry     prefetch the edges
 *
 * To go by batches instead, all places and then all blocks, was slower by half.
 *
 * The list is last in, first out, which keeps it short on trees; on a list of ten
 * million nodes it holds one entry. An entry is a position, never a pointer of the
 * target that is followed unchecked.
 *
 * Several workers go in rounds. A round's items are shares of all that waits, and each
 * follows a bounded number of blocks; what then waits is shared out again. A chain
 * of blocks is one item, followed by the caller without waking anybody.
 */

enum {
	READ_BYTES = 1 << 18,
	AGAIN_BYTES = 1 << 16,   /* read of a block at a time when its edges were not kept */
	SPARSE_BYTES = 1 << 18,  /* blocks from this size on are read by their present pages */
	STRETCH_BYTES = 1 << 20, /* of a root in one item */
	BUDGET = 8192,           /* blocks to follow in one item */
	BYTES_A_BLOCK = 128,     /* that cost as much as following one */
	MAX_SHARE = 64,          /* entries in one item */
	SHARES = 8,              /* items for each worker, if there are entries enough */
};

#define EXACT_FLAG   (MS_EDGE_EXACT >> MS_EDGE_FLAGS)
#define MANGLED_FLAG (MS_EDGE_MANGLED >> MS_EDGE_FLAGS)

static inline bool is_sensible(const struct ms_walk_options *options)
{
	if (options->visit && options->edges)
		return false;
	return !options->workers || !options->visit;
}

struct ms_walk *ms_walk_new(struct ms_blocks *blocks, const struct ms_walk_options *options,
                            struct ms_arena *arena)
{
	struct ms_walk *walk = ms_arena_alloc(arena, sizeof(*walk));

	if (!walk)
		return NULL;
	assert(blocks->extents.n < UINT64_C(1) << (63 - GRANULE_BITS));
	assert(is_sensible(options));
	walk->blocks = blocks;
	walk->options = *options;
	walk->edges = options->edges;
	walk->abi = &blocks->src->abi;
	walk->plain = ms_abi_is_plain(walk->abi);
	walk->n_walkers = ms_workers_count(options->workers);
	ms_shared_init(&walk->arena, arena);
	for (unsigned i = 0; i < walk->n_walkers; i++) {
		struct walker *w = ms_arena_alloc(arena, sizeof(*w));

		if (!w)
			return NULL;
		w->walk = walk;
		w->flags_asked = (uint8_t)((options->starts_only ? EXACT_FLAG : 0) |
		                           (options->mangling.guard ? 0 : MANGLED_FLAG));
		w->flags_wanted = options->starts_only ? EXACT_FLAG : 0;
		ms_lookup_init(&w->lookup, blocks);
		walk->walkers[i] = w;
	}
	return walk;
}

/* ---- entries of the list ---- */

static inline uint64_t entry_of(const struct ms_walk *walk, const struct ms_extent *extent,
                                uint64_t granule)
{
	if (walk->edges)
		return extent->cell0 * MS_CELL_GRANULES + granule;
	return (uint64_t)(extent - walk->blocks->extents.at) << GRANULE_BITS | granule;
}

/* The span that has @place. */
static const struct ms_edge_span *span_of(struct walker *w, uint64_t place)
{
	const struct ms_blocks *blocks = w->walk->blocks;
	size_t cell = (size_t)(place / MS_CELL_GRANULES);

	if (!w->span || cell - w->span->cell0 >= blocks->extents.at[w->span->extent].n_cells)
		w->span = ms_edges_span(w->walk->edges, cell);
	return w->span;
}

static const struct ms_extent *extent_of_place(struct walker *w, uint64_t place)
{
	return &w->walk->blocks->extents.at[span_of(w, place)->extent];
}

static struct ms_block block_of(struct walker *w, uint64_t entry)
{
	const struct ms_extent *extent;

	if (!w->walk->edges)
		return (struct ms_block){ (uint32_t)(entry >> GRANULE_BITS),
			                  entry & ((UINT64_C(1) << GRANULE_BITS) - 1) };
	extent = extent_of_place(w, entry);
	return (struct ms_block){ (uint32_t)(extent - w->walk->blocks->extents.at),
		                  entry - extent->cell0 * MS_CELL_GRANULES };
}

static void push_slowly(struct walker *w, uint64_t entry)
{
	uint64_t *slot = ms_vec_push(ms_shared_take(&w->walk->arena), &w->list);

	ms_shared_give(&w->walk->arena);
	w->out_of_memory |= !slot;
	if (slot)
		*slot = entry;
}

static inline void push(struct walker *w, uint64_t entry)
{
	if (w->list.n == w->list.cap)
		push_slowly(w, entry);
	else
		w->list.at[w->list.n++] = entry;
}

/* Mark the block, once among all workers. */
static inline void mark(struct walker *w, struct ms_cell *cell, uint64_t bit, uint64_t entry)
{
	if (__atomic_load_n(&cell->marks, __ATOMIC_RELAXED) & bit)
		return;
	if (w->walk->n_walkers == 1)
		cell->marks |= bit;
	else if (__atomic_fetch_or(&cell->marks, bit, __ATOMIC_RELAXED) & bit)
		return;
	push(w, entry);
}

/* ---- candidates ---- */

static void resolve_oldest(struct walker *w)
{
	struct candidate c = w->candidates[w->first_candidate % QUEUE];
	const struct ms_walk *walk = w->walk;
	uint64_t granule;

	w->first_candidate++;
	w->n_candidates--;
	granule = ms_lookup_hit(walk->blocks, c.extent, c.cell, c.value, walk->options.starts_only);
	if (granule != UINT64_MAX)
		mark(w, ms_blocks_cell(walk->blocks, c.extent, granule), ms_granule_bit(granule),
		     entry_of(walk, c.extent, granule));
}

/*
 * Put a candidate into the queue and prefetch what its turn will need. (A function
 * that did nothing but prefetch would be taken for one without effect, and left out.)
 */
static inline void add_candidate(struct walker *w, struct ms_cell *cell,
                                 const struct ms_extent *extent, uint64_t value)
{
	struct candidate *c;

	if (w->n_candidates == QUEUE)
		resolve_oldest(w);
	c = &w->candidates[(w->first_candidate + w->n_candidates++) % QUEUE];
	c->cell = cell;
	c->extent = extent;
	c->value = value;
	__builtin_prefetch(cell, 1);
	if (w->walk->edges)
		__builtin_prefetch(
			ms_edges_first(w->walk->edges, (size_t)(cell - w->walk->blocks->cells.at)));
}

static inline void consider(struct walker *w, uint64_t value)
{
	const struct ms_extent *extent;

	if (value - w->lookup.low >= w->lookup.span)
		return;
	extent = ms_lookup_extent(&w->lookup, value);
	if (!extent)
		return;
	add_candidate(w, ms_blocks_cell(w->walk->blocks, extent, ms_granule_of(extent, value)),
	              extent, value);
	if (extent->host)
		__builtin_prefetch(extent->host + (value - extent->range.begin));
}

/* A word whose value is an address as it is. */
static inline void consider_plain(struct walker *w, uint64_t value)
{
	consider(w, value);
	if (ms_may_be_mangled(value) && w->walk->options.mangling.guard)
		consider(w, ms_unmangled(value, w->walk->options.mangling));
}

static void consider_word(struct walker *w, uint64_t value)
{
	const struct ms_abi *abi = w->walk->abi;

	consider(w, ms_abi_address(abi, value));
	if (w->walk->options.mangling.guard && ms_abi_may_be_mangled(abi, value))
		consider(w, ms_abi_address(
				    abi, ms_abi_unmangled(abi, value, w->walk->options.mangling)));
}

void ms_walk_word(struct ms_walk *walk, uint64_t value)
{
	consider_word(walk->walkers[0], value);
}

/* ---- bytes ---- */

static void scan_any_words(struct walker *w, const uint8_t *bytes, size_t n, size_t len)
{
	const struct ms_abi *abi = w->walk->abi;
	size_t step = w->walk->options.unaligned ? 1 : abi->word_bytes;

	for (size_t i = 0; i < n && i + abi->word_bytes <= len; i += step)
		consider_word(w, ms_abi_word(abi, bytes + i));
}

/* Take the words that begin in the first @n of @len bytes. */
static void scan_bytes(struct walker *w, const uint8_t *bytes, size_t n, size_t len)
{
	size_t step = w->walk->options.unaligned ? 1 : sizeof(uint64_t);

	if (!w->walk->plain) {
		scan_any_words(w, bytes, n, len);
		return;
	}

	for (size_t i = 0; i < n && i + sizeof(uint64_t) <= len; i += step) {
		uint64_t value;

		memcpy(&value, bytes + i, sizeof(value));
		consider_plain(w, value);
	}
}

static bool have_buffer(struct walker *w)
{
	if (!w->buffer) {
		w->buffer = ms_arena_alloc(ms_shared_take(&w->walk->arena), READ_BYTES);
		ms_shared_give(&w->walk->arena);
	}
	w->out_of_memory |= !w->buffer;
	return w->buffer;
}

/* The same for memory that is read in pieces of @piece bytes; what is not readable is skipped. */
static void scan_copied(struct walker *w, struct stretch s, size_t piece)
{
	const struct ms_abi *abi = w->walk->abi;
	size_t overlap = w->walk->options.unaligned ? abi->word_bytes - 1U : 0;

	if (!have_buffer(w))
		return;
	while (s.range.begin < s.range.end) {
		uint64_t left = s.limit - s.range.begin;
		size_t want = left < piece ? (size_t)left : piece;
		size_t got = ms_source_read(w->walk->blocks->src, s.range.begin, w->buffer, want);
		uint64_t n = ms_range_len(s.range);

		scan_bytes(w, w->buffer, n < got ? (size_t)n : got, got);
		if (!got)
			s.range.begin = ms_align_up(s.range.begin + 1, abi->page_bytes);
		else if (got < want || want == left)
			s.range.begin += got;
		else
			s.range.begin += got - overlap;
	}
}

static void scan_stretch(struct walker *w, struct stretch s)
{
	struct ms_source *src = w->walk->blocks->src;
	struct ms_range rest = { s.range.begin, s.limit };
	struct ms_range run;

	while (rest.begin < s.range.end && ms_source_present(src, rest, &run)) {
		ms_addr end = run.end < s.range.end ? run.end : s.range.end;
		const uint8_t *bytes;

		rest.begin = run.end;
		if (run.begin >= end)
			continue;
		bytes = ms_source_view(src, run.begin, ms_range_len(run));
		if (bytes)
			scan_bytes(w, bytes, (size_t)(end - run.begin), ms_range_len(run));
		else
			scan_copied(w, (struct stretch){ { run.begin, end }, run.end }, READ_BYTES);
	}
}

void ms_walk_range(struct ms_walk *walk, struct ms_range range)
{
	const uint8_t word = walk->abi->word_bytes;
	ms_addr at = ms_align_up(range.begin, word);

	while (at < range.end) {
		uint64_t left = range.end - at;
		ms_addr end = left < STRETCH_BYTES ? range.end : at + STRETCH_BYTES;
		struct stretch *s = ms_vec_push(walk->arena.arena, &walk->stretches);

		if (!s) {
			walk->walkers[0]->out_of_memory = true;
			return;
		}
		*s = (struct stretch){ { at, end }, end };
		if (range.end - end >= word)
			s->limit = end + word - 1;
		else
			s->limit = range.end;
		at = end;
	}
}

/* ---- roots that are blocks ---- */

struct ms_range ms_walk_claim(struct ms_walk *walk, ms_addr addr)
{
	struct walker *w = walk->walkers[0];
	struct ms_range none = { addr, addr };
	const struct ms_extent *extent;
	struct ms_cell *cell;
	uint64_t granule;
	uint64_t size;

	if (addr - w->lookup.low >= w->lookup.span)
		return none;
	extent = ms_lookup_extent(&w->lookup, addr);
	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return none;
	cell = ms_blocks_cell(walk->blocks, extent, ms_granule_of(extent, addr));
	granule = ms_lookup_hit(walk->blocks, extent, cell, addr, walk->options.starts_only);
	if (granule == UINT64_MAX)
		return none;
	cell = ms_blocks_cell(walk->blocks, extent, granule);
	if (cell->marks & ms_granule_bit(granule))
		return none;
	cell->marks |= ms_granule_bit(granule);
	size = ms_block_usable(walk->blocks, extent, granule);
	w->count.blocks++;
	return (struct ms_range){ ms_block_begin(extent, granule),
		                  ms_block_begin(extent, granule) + size };
}

void ms_walk_block(struct ms_walk *walk, struct ms_block block)
{
	const struct ms_extent *extent = &walk->blocks->extents.at[block.extent];

	mark(walk->walkers[0], ms_blocks_cell(walk->blocks, extent, block.granule),
	     ms_granule_bit(block.granule), entry_of(walk, extent, block.granule));
}

/* ---- following by bytes ---- */

static void count(struct walker *w, const struct ms_extent *extent, uint64_t granule)
{
	if (extent->kind != MS_EXTENT_HEAP)
		return;
	w->count.blocks++;
	if (w->walk->options.count_bytes)
		w->count.bytes += ms_block_size(w->walk->blocks, extent, granule);
}

static inline void follow_bytes(struct walker *w, uint64_t entry)
{
	const struct ms_blocks *blocks = w->walk->blocks;
	const struct ms_extent *extent = &blocks->extents.at[entry >> GRANULE_BITS];
	uint64_t granule = entry & ((UINT64_C(1) << GRANULE_BITS) - 1);
	ms_addr begin = ms_align_up(ms_block_begin(extent, granule), w->walk->abi->word_bytes);
	ms_addr end = ms_block_words_end(blocks, extent, granule);
	size_t len = end > begin ? (size_t)(end - begin) : 0;

	count(w, extent, granule);
	w->budget -= (int64_t)(len / BYTES_A_BLOCK);
	if (extent->host && len < SPARSE_BYTES)
		scan_bytes(w, extent->host + (begin - extent->range.begin), len, len);
	else
		scan_stretch(w, (struct stretch){ { begin, end }, end });
	if (w->walk->options.visit && extent->kind == MS_EXTENT_HEAP)
		w->walk->options.visit(w->walk->options.visit_ctx, block_of(w, entry));
}

/* ---- following edges ---- */

/* Those of a cell, or of a part: places, then a byte of source and flags for each. */
struct cell_edges {
	const uint8_t *at;
	uint32_t n;
};

struct edge_range {
	uint32_t from;
	uint32_t to;
};

/* An exact edge to where no block begins. */
static void resolve_inner(struct walker *w, uint64_t place)
{
	const struct ms_walk *walk = w->walk;
	const struct ms_extent *extent = extent_of_place(w, place);
	ms_addr value = ms_block_begin(extent, place - extent->cell0 * MS_CELL_GRANULES);
	uint64_t granule = ms_lookup_hit(walk->blocks, extent,
	                                 &walk->blocks->cells.at[place / MS_CELL_GRANULES], value,
	                                 walk->options.starts_only);

	if (granule != UINT64_MAX)
		mark(w, ms_blocks_cell(walk->blocks, extent, granule), ms_granule_bit(granule),
		     entry_of(walk, extent, granule));
}

/* Mark what the oldest place is in. */
static inline void resolve_place(struct walker *w, const struct ms_edges *edges)
{
	uint64_t place = w->places[w->first_place++ % PLACES];
	struct ms_cell *cell = &edges->blocks->cells.at[place / MS_CELL_GRANULES];

	w->n_places--;
	if (cell->starts & ms_granule_bit(place))
		mark(w, cell, ms_granule_bit(place), place);
	else
		resolve_inner(w, place);
}

/*
 * Take an edge's place and prefetch what its turn will need. (A function that did
 * nothing but prefetch would be taken for one without effect, and left out.)
 */
static inline void add_place(struct walker *w, const struct ms_edges *edges, uint64_t place)
{
	size_t cell = (size_t)(place / MS_CELL_GRANULES);

	if (w->n_places == PLACES)
		resolve_place(w, edges);
	w->places[(w->first_place + w->n_places++) % PLACES] = place;
	__builtin_prefetch(&edges->blocks->cells.at[cell], 1);
	__builtin_prefetch(ms_edges_first(edges, cell));
}

/* The same for edges [@from, @to) of the @n at @at. */
static inline void add_edges(struct walker *w, const uint8_t *at, uint32_t n,
                             struct edge_range range)
{
	const struct ms_edges *edges = w->walk->edges;
	const uint8_t *flags = at + (size_t)n * MS_EDGE_PLACE_BYTES;

	for (uint32_t i = range.from; i < range.to; i++)
		if ((flags[i] & w->flags_asked) == w->flags_wanted)
			add_place(w, edges, ms_edge_place(at, i));
}

#define LANES(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Which of @n edges have a source in granules @from to @to, by their source bytes at @at.
 * Eight are compared at a time, and without a branch: any would be mispredicted half of
 * the time. Bit 6 of a lane becomes 0 when its source is lower than what is taken off.
 */
static inline struct edge_range edges_of(const uint8_t *at, uint32_t n, uint64_t from, uint64_t to)
{
	uint64_t low = LANES(1) * from;
	uint64_t high = LANES(1) * (to + 1);
	struct edge_range ret = { 0, 0 };

	for (uint32_t i = 0; i < n; i += 8) {
		uint64_t lanes;

		memcpy(&lanes, at + i, sizeof(lanes));
		lanes |= n - i < 8 ? UINT64_MAX << (n - i) * 8 : 0;
		lanes = (lanes >> 2 & LANES(63)) | LANES(64);
		ret.from += (uint32_t)((~(lanes - low) >> 6 & LANES(1)) * LANES(1) >> 56);
		ret.to += (uint32_t)((~(lanes - high) >> 6 & LANES(1)) * LANES(1) >> 56);
	}
	ret.to = ret.to < n ? ret.to : n;
	return ret;
}

static inline struct cell_edges cell_edges(const struct ms_edges *edges, size_t cell)
{
	const uint32_t *first = ms_edges_first(edges, cell);
	uint32_t begin = first[0] & MS_FIRST_COUNT;
	uint32_t end = first[1] & MS_FIRST_COUNT;

	return (struct cell_edges){
		edges->pieces[cell / MS_EDGE_CELLS].at + (size_t)begin * MS_EDGE_BYTES, end - begin
	};
}

/* Take the edges of @cell whose words begin in its granules @from to @to. */
static inline void follow_cell(struct walker *w, size_t cell, uint64_t from, uint64_t to)
{
	struct cell_edges e = cell_edges(w->walk->edges, cell);

	add_edges(w, e.at, e.n, edges_of(e.at + (size_t)e.n * MS_EDGE_PLACE_BYTES, e.n, from, to));
}

/* A block over several cells. */
struct long_block {
	size_t first_cell;
	size_t last_cell;
	uint64_t first; /* granule in its cell */
	uint64_t last;
	const struct ms_extent *extent; /* once asked for */
	bool large;
};

static void read_again(struct walker *w, const struct long_block *b, size_t from, size_t to)
{
	uint64_t zero = b->extent->cell0 * MS_CELL_GRANULES;
	uint64_t low = from == b->first_cell ? b->first : 0;
	ms_addr begin = ms_block_begin(b->extent, from * MS_CELL_GRANULES + low - zero);
	ms_addr limit =
		ms_block_begin(b->extent, b->last_cell * MS_CELL_GRANULES + b->last + 1 - zero);
	ms_addr end = ms_block_begin(b->extent, (to + 1) * MS_CELL_GRANULES - zero);

	end = end < limit ? end : limit;
	if (limit - end >= w->walk->abi->word_bytes)
		limit = end + w->walk->abi->word_bytes - 1;
	w->budget -= (int64_t)((end - begin) / BYTES_A_BLOCK);
	scan_copied(w, (struct stretch){ { begin, end }, limit }, AGAIN_BYTES);
}

static bool is_again(struct walker *w, struct long_block *b, size_t cell)
{
	if (!(*ms_edges_first(w->walk->edges, cell) & MS_FIRST_AGAIN))
		return false;
	if (!b->extent) {
		uint64_t n =
			(b->last_cell - b->first_cell) * MS_CELL_GRANULES + b->last + 1 - b->first;

		b->extent = extent_of_place(w, b->first_cell * MS_CELL_GRANULES);
		b->large = n >= (uint64_t)MS_LARGE_BYTES >> b->extent->shift;
	}
	return b->large;
}

static void follow_long(struct walker *w, uint64_t place)
{
	const struct ms_cell *cells = w->walk->blocks->cells.at;
	struct long_block b = { .first_cell = (size_t)(place / MS_CELL_GRANULES),
		                .first = place % MS_CELL_GRANULES };
	size_t cell = b.first_cell + 1;

	while (!cells[cell].ends)
		cell++;
	b.last_cell = cell;
	b.last = (uint64_t)__builtin_ctzll(cells[cell].ends);
	w->budget -= (int64_t)(b.last_cell - b.first_cell);
	for (cell = b.first_cell; cell <= b.last_cell; cell++) {
		size_t from = cell;

		if (!is_again(w, &b, cell)) {
			follow_cell(w, cell, cell == b.first_cell ? b.first : 0,
			            cell == b.last_cell ? b.last : MS_CELL_GRANULES - 1);
			continue;
		}
		while (cell < b.last_cell && is_again(w, &b, cell + 1))
			cell++;
		read_again(w, &b, from, cell);
	}
}

static void follow_part(struct walker *w, const struct ms_edge_part *part)
{
	if (part->again) {
		w->budget -= (int64_t)(ms_range_len(part->range) / BYTES_A_BLOCK);
		scan_stretch(w, (struct stretch){ part->range, part->limit });
		return;
	}
	w->budget -= part->n / 16;
	add_edges(w, part->at, part->n, (struct edge_range){ 0, part->n });
}

/* An extent that is one block: its parts wait like blocks, for others to take. */
static void follow_single(struct walker *w, uint64_t place)
{
	const struct ms_edge_span *span = span_of(w, place);

	count(w, &w->walk->blocks->extents.at[span->extent], 0);
	for (uint32_t i = 0; i < span->n_parts; i++)
		push(w, PART | (span->part0 + i));
}

static inline void follow_edges(struct walker *w, const struct ms_edges *edges, uint64_t entry)
{
	const struct ms_walk *walk = w->walk;
	size_t cell = (size_t)(entry / MS_CELL_GRANULES);
	uint64_t ends;

	if (entry & PART) {
		follow_part(w, &edges->parts.at[entry & ~PART]);
		return;
	}
	if (*ms_edges_first(edges, cell) & MS_FIRST_SINGLE) {
		follow_single(w, entry);
		return;
	}
	if (walk->options.count_bytes) {
		struct ms_block block = block_of(w, entry);

		count(w, &walk->blocks->extents.at[block.extent], block.granule);
	} else {
		w->count.blocks++;
	}
	ends = walk->blocks->cells.at[cell].ends & ~(ms_granule_bit(entry) - 1);
	if (ends)
		follow_cell(w, cell, entry % MS_CELL_GRANULES, (uint64_t)__builtin_ctzll(ends));
	else
		follow_long(w, entry);
}

/*
 * Take an entry and prefetch the edges of its block's cell, by their first line and their
 * last. (To prefetch just where the block's own would be, were they spread evenly, was slower.)
 */
static inline void add_entry(uint64_t *slot, const struct ms_edges *edges, uint64_t entry)
{
	struct cell_edges e;

	*slot = entry;
	if (entry & PART)
		return;
	e = cell_edges(edges, (size_t)(entry / MS_CELL_GRANULES));
	__builtin_prefetch(e.at);
	__builtin_prefetch(e.at + (size_t)e.n * MS_EDGE_BYTES);
}

/* Follow a block over its edges, or mark one that an edge led to. False when there is none. */
static inline bool step(struct walker *w, const struct ms_edges *edges)
{
	while (w->n_ahead < AHEAD && w->list.n)
		add_entry(&w->ahead[(w->first_ahead + w->n_ahead++) % AHEAD], edges,
		          w->list.at[--w->list.n]);
	if (w->n_ahead) {
		w->n_ahead--;
		follow_edges(w, edges, w->ahead[w->first_ahead++ % AHEAD]);
	} else if (w->n_places) {
		resolve_place(w, edges);
	} else {
		return false;
	}
	return true;
}

/* ---- the loop ---- */

/* Follow what waits until nothing does or the budget is used up. */
static void drain(struct walker *w)
{
	const struct ms_edges *edges = w->walk->edges;

	while (w->budget-- > 0) {
		if (edges && step(w, edges))
			continue;
		if (w->list.n)
			follow_bytes(w, w->list.at[--w->list.n]);
		else if (w->n_candidates)
			resolve_oldest(w);
		else
			return;
	}
}

static void read_item(void *ctx, unsigned worker, size_t item)
{
	struct ms_walk *walk = ctx;
	struct walker *w = walk->walkers[worker];

	scan_stretch(w, walk->stretches.at[item]);
	w->budget = BUDGET;
	drain(w);
}

static void follow_item(void *ctx, unsigned worker, size_t item)
{
	struct ms_walk *walk = ctx;
	struct walker *w = walk->walkers[worker];
	size_t begin = item * walk->share;
	size_t end = begin + walk->share < walk->pool.n ? begin + walk->share : walk->pool.n;

	for (size_t i = begin; i < end; i++)
		push(w, walk->pool.at[i]);
	w->budget = BUDGET;
	drain(w);
}

static void pool_entry(struct ms_walk *walk, uint64_t entry)
{
	uint64_t *slot = ms_vec_push(walk->arena.arena, &walk->pool);

	walk->walkers[0]->out_of_memory |= !slot;
	if (slot)
		*slot = entry;
}

/* Take what still waits with each worker. */
static void collect(struct ms_walk *walk)
{
	walk->pool.n = 0;
	for (unsigned i = 0; i < walk->n_walkers; i++) {
		struct walker *w = walk->walkers[i];

		while (w->n_candidates)
			resolve_oldest(w);
		while (w->n_places)
			resolve_place(w, walk->edges);
		for (; w->n_ahead; w->n_ahead--)
			pool_entry(walk, w->ahead[w->first_ahead++ % AHEAD]);
		for (size_t k = 0; k < w->list.n; k++)
			pool_entry(walk, w->list.at[k]);
		w->list.n = 0;
	}
}

static void follow_together(struct ms_walk *walk)
{
	struct ms_workers *workers = walk->options.workers;

	ms_workers_run(workers, walk->stretches.n, read_item, walk);
	walk->stretches.n = 0;
	for (collect(walk); walk->pool.n; collect(walk)) {
		size_t share = walk->pool.n / SHARES / walk->n_walkers;

		walk->share = !share ? 1 : share < MAX_SHARE ? share : MAX_SHARE;
		ms_workers_run(workers, (walk->pool.n + walk->share - 1) / walk->share, follow_item,
		               walk);
	}
}

static void follow_alone(struct ms_walk *walk)
{
	struct walker *w = walk->walkers[0];

	w->budget = INT64_MAX;
	for (size_t i = 0; i < walk->stretches.n; i++) {
		scan_stretch(w, walk->stretches.at[i]);
		drain(w);
	}
	walk->stretches.n = 0;
	drain(w);
}

enum ms_status ms_walk_finish(struct ms_walk *walk, struct ms_error *err)
{
	bool out_of_memory = false;

	if (walk->n_walkers == 1)
		follow_alone(walk);
	else
		follow_together(walk);
	for (unsigned i = 0; i < walk->n_walkers; i++)
		out_of_memory |= walk->walkers[i]->out_of_memory;
	if (out_of_memory)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of blocks to follow");
	return MS_OK;
}

struct ms_walk_count ms_walk_count(const struct ms_walk *walk)
{
	struct ms_walk_count sum = { 0 };

	for (unsigned i = 0; i < walk->n_walkers; i++) {
		sum.blocks += walk->walkers[i]->count.blocks;
		sum.bytes += walk->walkers[i]->count.bytes;
	}
	return sum;
}
