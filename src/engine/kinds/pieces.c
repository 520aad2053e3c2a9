/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/pieces.h"

#include "engine/graph/words.h"

enum {
	PIECE_BYTES = 1 << 16,
	AHEAD = 16, /* pieces that are looked into while as many are shown */
	SETS = 2,
	BEFORE = MS_KIND_BEFORE * (int)MS_KIND_WORD,
	BEHIND = MS_KIND_BEHIND * (int)MS_KIND_WORD,
	BUFFER = BEFORE + PIECE_BYTES + BEHIND + 2 * (int)MS_KIND_WORD,
	SPARSE_BYTES = 1 << 18, /* memory from this size on is read by its present pages */
	BATCH = 64,             /* words: bits of one number */
	LATER = 16,             /* words until one is looked at whose cell was fetched */
};

/* One run through all pieces. */
struct run {
	const struct ms_pieces *pieces;
	ms_piece_show *show;
	struct ms_piece_found found[SETS][AHEAD];
	struct ms_lookup *lookups[MS_WORKERS_MAX];
	size_t first; /* of the pieces that are looked into now; those before it are shown */
};

/* A worker that looks into a piece. */
struct looking {
	const struct ms_pieces *pieces;
	const struct ms_blocks *blocks;
	struct ms_source *src;
	struct ms_piece_found *found;
	struct ms_lookup *lookup;
	ms_addr base;                        /* of what is in the buffer */
	ms_addr ahead;                       /* up to there it is read at once */
	size_t read;                         /* bytes of it that are there */
	struct ms_piece_word waiting[LATER]; /* for their cells */
	uint32_t n_waiting, first_waiting;
};

/* ---- bytes ---- */

/* The bytes of @range, which begins in the piece or just before it. */
static const uint8_t *bytes_of(struct looking *l, struct ms_range range, bool sparse)
{
	size_t offset = (size_t)(range.begin - l->base);
	size_t len = (size_t)ms_range_len(range);
	const uint8_t *view = ms_source_view(l->src, range.begin, len);
	uint8_t *buffer = l->found->buffer;

	if (view)
		return view;
	if (sparse) {
		ms_source_fill(l->src, range.begin, buffer + offset, len);
	} else if (offset + len > l->read) {
		size_t end = (size_t)(l->ahead - l->base);

		end = end > offset + len ? end : offset + len;
		ms_source_fill(l->src, l->base + l->read, buffer + l->read, end - l->read);
		l->read = end;
	}
	return buffer + offset;
}

/* ---- words ---- */

struct ms_kind_spot ms_piece_spot(const struct ms_kinds *k, const struct ms_piece_word *word)
{
	const struct ms_range *memory = &word->memory;
	struct ms_kind_spot spot = { .at = word->at,
		                     .bytes = word->bytes,
		                     .before = (size_t)((word->at - memory->begin) / k->word),
		                     .behind = (size_t)((memory->end - word->at) / k->word),
		                     .word = (uint8_t)k->word,
		                     .offset = word->offset,
		                     .owner_offset = word->at - memory->begin };

	if (spot.before > MS_KIND_BEFORE)
		spot.before = MS_KIND_BEFORE;
	if (spot.behind > MS_KIND_BEHIND)
		spot.behind = MS_KIND_BEHIND;
	spot.to =
		(struct ms_kind_block){ .begin = ms_kind_word_of(k, word->bytes, 0) - word->offset,
		                        .usable = word->usable,
		                        .number = word->number };
	return spot;
}

/* Whether it points to a block, and something may come of it. */
static bool is_wanted(struct looking *l, struct ms_piece_word *word)
{
	const struct ms_kinds *k = l->pieces->k;
	const ms_addr value = ms_kind_word_of(k, word->bytes, 0);
	const uint32_t header = (uint32_t)(MS_KIND_COW * k->word);
	struct ms_kind_block to;
	struct ms_kind_spot spot;

	if (!l->pieces->may)
		return true;
	if (!ms_kinds_begin(l->lookup, value, &to)) {
		word->offset = header;
		if (!k->cxx || !ms_kinds_begin(l->lookup, value - header, &to))
			return false;
	}
	word->number = to.number;
	word->usable = to.usable;
	spot = ms_piece_spot(k, word);
	return l->pieces->may(k, &spot);
}

static void look_at_oldest(struct looking *l)
{
	struct ms_piece_found *found = l->found;
	struct ms_piece_word *word = &l->waiting[l->first_waiting++ % LATER];
	struct ms_piece_word *slot;

	l->n_waiting--;
	if (!is_wanted(l, word))
		return;
	slot = ms_vec_push(&found->arena, &found->words);
	found->out_of_memory |= !slot;
	if (slot)
		*slot = *word;
}

static void fetch(const struct looking *l, ms_addr value)
{
	const struct ms_extent *extent = ms_lookup_extent(l->lookup, value);
	const struct ms_cell *cell;

	if (!extent)
		return;
	cell = ms_blocks_cell(l->blocks, extent, ms_granule_of(extent, value));
	__builtin_prefetch(cell);
	__builtin_prefetch(&l->blocks->ranks.at[cell - l->blocks->cells.at]);
}

static void add_word(struct looking *l, const struct ms_piece_word *word)
{
	if (l->n_waiting == LATER)
		look_at_oldest(l);
	l->waiting[(l->first_waiting + l->n_waiting++) % LATER] = *word;
	fetch(l, ms_kind_word_of(l->pieces->k, word->bytes, 0));
}

/* As ms_words_between(). */
static uint64_t words_between(const struct looking *l, const uint8_t *bytes, size_t n)
{
	const struct ms_kinds *k = l->pieces->k;
	uint64_t found = 0;
	uint64_t all = 0;

	if (k->word == MS_KIND_WORD)
		return ms_words_between(bytes, n, l->lookup->low, l->lookup->span, &all);
	for (size_t i = 0; i < n; i++)
		found |= (uint64_t)(ms_kind_word_of(k, bytes, i) - l->lookup->low < l->lookup->span)
		         << i;
	return found;
}

/* The words of @range, a part of the memory of @like, whose bytes are at @bytes. */
static void look_at_words(struct looking *l, struct ms_range range, const uint8_t *bytes,
                          struct ms_piece_word like)
{
	const uint64_t bytes_each = l->pieces->k->word;
	size_t n = (size_t)(ms_range_len(range) / bytes_each);

	for (size_t i = 0; i < n; i += BATCH) {
		const uint8_t *at = bytes + i * bytes_each;
		uint64_t left = words_between(l, at, n - i < BATCH ? n - i : (size_t)BATCH);

		for (; left; left &= left - 1) {
			size_t word = (size_t)__builtin_ctzll(left);

			like.at = range.begin + (i + word) * bytes_each;
			like.bytes = at + word * bytes_each;
			add_word(l, &like);
		}
	}
}

/* With some words around it, for holders that the piece cuts. */
static void look_at_range(struct looking *l, struct ms_range range,
                          const struct ms_piece_word *like, bool sparse)
{
	struct ms_range around = { range.begin - BEFORE, range.end + BEHIND };

	around = ms_range_common(around, like->memory);
	look_at_words(l, range, bytes_of(l, around, sparse) + (range.begin - around.begin), *like);
}

/* The words of @memory that begin in the piece. */
static void look_at_memory(struct looking *l, struct ms_range memory, uint32_t holder)
{
	const uint64_t word = l->pieces->k->word;
	struct ms_piece_word like = { .memory = memory, .holder = holder };
	struct ms_range rest = l->found->piece->range;
	struct ms_range present;

	like.memory.begin = ms_align_up(memory.begin, word);
	like.memory.end = ms_align_down(memory.end, word);
	rest.begin = ms_align_up(rest.begin, word);
	rest.end = ms_align_up(rest.end, word);
	rest = ms_range_common(rest, like.memory);
	if (rest.begin >= rest.end)
		return;
	if (ms_range_len(like.memory) < SPARSE_BYTES) {
		look_at_range(l, rest, &like, false);
		return;
	}
	while (rest.begin < rest.end && ms_source_present(l->src, rest, &present)) {
		present.end = ms_align_down(present.end, word);
		look_at_range(l, present, &like, true);
		rest.begin = present.end > rest.begin ? present.end : rest.end;
	}
}

/* ---- blocks ---- */

static void look_at_block(struct looking *l, const struct ms_extent *extent, uint64_t granule,
                          uint32_t number)
{
	const struct ms_cell *cell = ms_blocks_cell(l->blocks, extent, granule);
	ms_addr begin = ms_block_begin(extent, granule);

	if (!l->pieces->k->whole && (cell->marks & ms_granule_bit(granule)))
		return;
	look_at_memory(
		l, (struct ms_range){ begin, begin + ms_block_usable(l->blocks, extent, granule) },
		number);
}

/* The block that the piece's first byte may be in, and those that begin behind it. */
static void look_at_blocks(struct looking *l)
{
	const struct ms_piece *piece = l->found->piece;
	const struct ms_extent *extent = &l->blocks->extents.at[piece->extent];
	uint64_t first = ms_granule_of(extent, piece->range.begin);
	uint64_t last = ms_granule_of(extent, piece->range.end - 1);
	uint64_t start = ms_block_start(l->blocks, extent, first);
	uint32_t number = extent->first;

	if (start != UINT64_MAX) {
		number = ms_block_number(l->blocks, (struct ms_block){ piece->extent, start });
		look_at_block(l, extent, start, number++);
	}
	for (uint64_t i = first / MS_CELL_GRANULES; i <= last / MS_CELL_GRANULES; i++) {
		uint64_t left = l->blocks->cells.at[extent->cell0 + i].starts;

		if (i == first / MS_CELL_GRANULES)
			left &= ~(ms_granule_bit(first) | (ms_granule_bit(first) - 1));
		if (i == last / MS_CELL_GRANULES)
			left &= ms_granule_bit(last) | (ms_granule_bit(last) - 1);
		for (; left; left &= left - 1)
			look_at_block(l, extent,
			              i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left),
			              number++);
	}
}

/* ---- a run ---- */

static void look_into(const struct run *run, unsigned worker, struct ms_piece_found *found)
{
	const struct ms_kinds *k = run->pieces->k;
	struct looking l = { .pieces = run->pieces,
		             .blocks = k->blocks,
		             .src = k->src,
		             .found = found,
		             .lookup = run->lookups[worker],
		             .base = ms_align_down(found->piece->range.begin, MS_KIND_WORD),
		             .ahead = found->piece->range.end + BEHIND };

	found->words.n = 0;
	l.base = l.base < BEFORE ? 0 : l.base - BEFORE;
	if (l.ahead > found->piece->memory.end)
		l.ahead = found->piece->memory.end;
	if (found->piece->extent != MS_PIECE_NO_BLOCK)
		look_at_blocks(&l);
	else
		look_at_memory(&l, found->piece->memory, MS_PIECE_NO_BLOCK);
	while (l.n_waiting)
		look_at_oldest(&l);
}

/* The set of those from @first on. */
static struct ms_piece_found *set_of(struct run *run, size_t first)
{
	return run->found[first / AHEAD % SETS];
}

static size_t n_from(const struct run *run, size_t first)
{
	size_t left = run->pieces->all.n - first;

	return first >= run->pieces->all.n ? 0 : left < AHEAD ? left : (size_t)AHEAD;
}

static void show_before(struct run *run)
{
	size_t first = run->first - AHEAD;

	for (size_t i = 0; i < n_from(run, first); i++)
		run->show(run->pieces->k, &set_of(run, first)[i]);
}

/* The first item shows what was found before, and the others are the next pieces. */
static void do_item(void *ctx, unsigned worker, size_t item)
{
	struct run *run = ctx;

	if (item)
		look_into(run, worker, &set_of(run, run->first)[item - 1]);
	else if (run->first)
		show_before(run);
}

static bool is_well(const struct run *run)
{
	bool well = true;

	for (size_t i = 0; i < SETS; i++)
		for (size_t k = 0; k < AHEAD; k++)
			well &= !run->found[i][k].out_of_memory;
	return well;
}

static bool begin_run(struct run *run, struct ms_arena *arena)
{
	const struct ms_pieces *pieces = run->pieces;
	size_t most = pieces->all.n < AHEAD ? pieces->all.n : (size_t)AHEAD;
	bool ok = true;

	for (size_t i = 0; i < SETS * most; i++) {
		struct ms_piece_found *found = &run->found[i / most][i % most];

		found->buffer = ms_arena_alloc(arena, BUFFER);
		ok &= found->buffer != NULL;
	}
	for (unsigned i = 0; i < ms_workers_count(pieces->workers); i++) {
		run->lookups[i] = ms_arena_alloc(arena, sizeof(*run->lookups[i]));
		if (!run->lookups[i])
			return false;
		ms_lookup_init(run->lookups[i], pieces->k->blocks);
	}
	return ok;
}

bool ms_pieces_show(const struct ms_pieces *pieces, ms_piece_show *show)
{
	struct ms_arena passing = { 0 };
	struct run *run = ms_arena_alloc(&passing, sizeof(*run));
	bool ok = run;

	if (ok) {
		run->pieces = pieces;
		run->show = show;
		ok = begin_run(run, &passing);
	}
	/* One round more, in which the last are shown. */
	for (size_t first = 0; ok && first < pieces->all.n + AHEAD; first += AHEAD) {
		run->first = first;
		for (size_t i = 0; i < n_from(run, first); i++)
			set_of(run, first)[i].piece = &pieces->all.at[first + i];
		ms_workers_run(pieces->workers, 1 + n_from(run, first), do_item, run);
		ok = is_well(run);
	}
	for (size_t i = 0; run && i < (size_t)SETS * AHEAD; i++)
		ms_arena_deinit(&run->found[i / AHEAD][i % AHEAD].arena);
	ms_arena_deinit(&passing);
	return ok;
}

/* ---- the list ---- */

struct listing {
	struct ms_pieces *pieces;
	bool ok;
};

/* The pieces of @range, a part of the memory of @whole: one at least. */
static void cut(struct listing *l, struct ms_range range, struct ms_piece whole)
{
	do {
		struct ms_piece *piece = ms_vec_push(&l->pieces->k->passing, &l->pieces->all);
		uint64_t left = range.end - range.begin;

		l->ok &= piece != NULL;
		if (!piece)
			return;
		*piece = whole;
		piece->range = range;
		range.begin += left < PIECE_BYTES ? left : PIECE_BYTES;
		piece->range.end = range.begin;
	} while (range.begin < range.end);
}

/* What large memory has of pages alone. */
static void cut_present(struct listing *l, struct ms_piece whole)
{
	struct ms_range rest = whole.memory;
	struct ms_range present;

	if (ms_range_len(whole.memory) < SPARSE_BYTES) {
		cut(l, whole.memory, whole);
		return;
	}
	while (rest.begin < rest.end && ms_source_present(l->pieces->k->src, rest, &present)) {
		cut(l, present, whole);
		rest.begin = present.end;
	}
}

static void list_extent(struct listing *l, const struct ms_extent *extent)
{
	const struct ms_blocks *blocks = l->pieces->k->blocks;
	struct ms_piece whole = { .memory = extent->range,
		                  .extent = (uint32_t)(extent - blocks->extents.at) };

	if (extent->shift == MS_SINGLE_SHIFT)
		cut_present(l, whole);
	else
		cut(l, whole.memory, whole);
}

static void list_root(void *ctx, const struct ms_root *root)
{
	struct ms_piece whole = { .memory = root->range,
		                  .extent = MS_PIECE_NO_BLOCK,
		                  .value = root->value };

	if (root->range.end <= root->range.begin)
		whole.memory.end = whole.memory.begin;
	cut_present(ctx, whole);
}

bool ms_pieces_list(struct ms_pieces *pieces, bool roots_too)
{
	const struct ms_blocks *blocks = pieces->k->blocks;
	struct listing l = { pieces, true };
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &blocks->extents)
		if (extent->kind == MS_EXTENT_HEAP && ms_range_len(extent->range))
			list_extent(&l, extent);
	if (!roots_too)
		return l.ok;
	ms_roots_visit(pieces->k->roots, list_root, &l);
	ms_vec_for_each (extent, &blocks->extents)
		if (extent->kind == MS_EXTENT_MAPPING)
			list_root(&l, &(struct ms_root){ .range = extent->range });
	return l.ok;
}
