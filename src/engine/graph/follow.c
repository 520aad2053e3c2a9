/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/follow.h"

#include <string.h>

#include "engine/graph/candidates.h"
#include "engine/graph/places.h"

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
 */

enum {
	READ_BYTES = 1 << 18,
	AGAIN_BYTES = 1 << 16,  /* read of a block at a time when its edges were not kept */
	SPARSE_BYTES = 1 << 18, /* blocks from this size on are read by their present pages */
	BYTES_A_BLOCK = 128,    /* that cost as much as following one */
};

/* ---- bytes ---- */

static void scan_any_words(struct walker *w, const uint8_t *bytes, size_t n, size_t len)
{
	const struct ms_abi *abi = w->walk->abi;
	size_t step = w->walk->options.unaligned ? 1 : abi->word_bytes;

	for (size_t i = 0; i < n && i + abi->word_bytes <= len; i += step)
		consider_word(w, bytes + i, len - i);
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

/* Bytes behind a word that must be known, too, to see what it is. */
static size_t behind(const struct ms_walk *walk)
{
	return walk->plain ? 0 : walk->abi->word_bytes;
}

/* The same for memory that is read in pieces of @piece bytes; what is not readable is skipped. */
static void scan_copied(struct walker *w, struct stretch s, size_t piece)
{
	const struct ms_abi *abi = w->walk->abi;
	size_t overlap = (w->walk->options.unaligned ? abi->word_bytes - 1U : 0) + behind(w->walk);

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

void ms_walker_scan(struct walker *w, struct stretch s)
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

/* ---- following by bytes ---- */

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
		ms_walker_scan(w, (struct stretch){ { begin, end }, end });
	if (w->walk->options.visit && extent->kind == MS_EXTENT_HEAP)
		w->walk->options.visit(w->walk->options.visit_ctx, block_of(w, entry));
}

/* ---- following edges ---- */

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
	ms_addr limit = ms_block_words_end(w->walk->blocks, b->extent,
	                                   b->first_cell * MS_CELL_GRANULES + b->first - zero);
	ms_addr end = ms_block_begin(b->extent, (to + 1) * MS_CELL_GRANULES - zero);

	end = end < limit ? end : limit;
	if (begin >= end)
		return;
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
		ms_walker_scan(w, (struct stretch){ part->range, part->limit });
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

void ms_walker_drain(struct walker *w)
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

void ms_walker_settle(struct walker *w)
{
	while (w->n_candidates)
		resolve_oldest(w);
	while (w->n_places)
		resolve_place(w, w->walk->edges);
}
