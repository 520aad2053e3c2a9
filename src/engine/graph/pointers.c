/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/pointers.h"

#include "engine/graph/words.h"

enum {
	QUEUE = MS_POINTERS_QUEUE,
	BUFFER = 1 << 18,
	SPARSE_BYTES = 1 << 18, /* blocks from this size on are read by their present pages */
};

struct ms_pointers *ms_pointers_new(const struct ms_blocks *blocks,
                                    const struct ms_walk_options *like, struct ms_arena *arena)
{
	struct ms_pointers *p = ms_arena_alloc(arena, sizeof(*p));

	if (!p)
		return NULL;
	p->buffer = ms_arena_alloc(arena, BUFFER);
	p->blocks = blocks;
	p->abi = &blocks->src->abi;
	p->plain = ms_abi_is_plain(p->abi);
	p->unaligned = like->unaligned;
	p->starts_only = like->starts_only;
	p->mangling = like->mangling;
	ms_lookup_init(&p->lookup, blocks);
	return p->buffer ? p : NULL;
}

/* ---- words ---- */

static void hand_over_oldest(struct ms_pointers *p)
{
	const struct ms_waiting_pointer *w = &p->waiting[p->first_waiting++ % QUEUE];
	struct ms_pointer pointer = { .from = w->from, .at = w->at, .value = w->value };

	p->n_waiting--;
	pointer.to.granule = ms_lookup_hit(p->blocks, w->extent, w->cell, w->value, p->starts_only);
	if (pointer.to.granule == UINT64_MAX)
		return;
	pointer.to.extent = (uint32_t)(w->extent - p->blocks->extents.at);
	p->found(p->ctx, &pointer);
}

static void consider(struct ms_pointers *p, uint64_t from, ms_addr at, uint64_t value)
{
	const struct ms_extent *extent;
	const struct ms_cell *cell;

	if (value - p->lookup.low >= p->lookup.span)
		return;
	extent = ms_lookup_extent(&p->lookup, value);
	if (!extent)
		return;
	if (p->n_waiting == QUEUE)
		hand_over_oldest(p);
	cell = ms_blocks_cell(p->blocks, extent, ms_granule_of(extent, value));
	__builtin_prefetch(cell);
	__builtin_prefetch(&p->blocks->ranks.at[cell - p->blocks->cells.at]);
	p->waiting[(p->first_waiting + p->n_waiting++) % QUEUE] = (struct ms_waiting_pointer){
		.cell = cell, .extent = extent, .value = value, .from = from, .at = at
	};
}

/* The first word, at @at, of @len bytes. */
static void consider_word(struct ms_pointers *p, uint64_t from, ms_addr at, const uint8_t *bytes,
                          size_t len)
{
	ms_addr mangled;

	consider(p, from, at, ms_abi_address(p->abi, ms_abi_word(p->abi, bytes)));
	if (p->mangling.guard && ms_abi_take_mangled(p->abi, bytes, len, p->mangling, &mangled))
		consider(p, from, at, mangled);
}

void ms_pointers_word(struct ms_pointers *p, uint64_t from, uint64_t value)
{
	consider(p, from, 0, ms_abi_address(p->abi, value));
	if (p->mangling.guard && ms_abi_may_be_mangled_alone(p->abi, value, p->mangling))
		consider(p, from, 0,
		         ms_abi_address(p->abi, ms_abi_unmangled(p->abi, value, p->mangling)));
}

void ms_pointers_finish(struct ms_pointers *p)
{
	while (p->n_waiting)
		hand_over_oldest(p);
}

/* ---- memory ---- */

/* The words of @range, whose bytes are at @bytes. */
static void look_at(struct ms_pointers *p, uint64_t from, struct ms_range range,
                    const uint8_t *bytes)
{
	size_t word = p->abi->word_bytes;
	size_t step = p->unaligned ? 1 : word;
	size_t len = (size_t)ms_range_len(range);

	for (size_t i = 0; i + word <= len; i += step) {
		uint64_t value = p->plain ? ms_word_at(bytes + i) : 0;

		/* What is neither an address of a block as it is, nor may be one, is passed over
		 * here. */
		if (!p->plain || value - p->lookup.low < p->lookup.span || ms_may_be_mangled(value))
			consider_word(p, from, range.begin + i, bytes + i, len - i);
	}
}

/* The same for memory that cannot be viewed. */
static void look_at_copied(struct ms_pointers *p, uint64_t from, struct ms_range range)
{
	const uint8_t word = p->abi->word_bytes;
	size_t overlap = (p->unaligned ? word - 1U : 0) + (p->plain ? 0 : word);

	p->window = (struct ms_range){ 0, 0 };
	while (range.begin < range.end) {
		uint64_t left = ms_range_len(range);
		size_t want = left < BUFFER ? (size_t)left : (size_t)BUFFER;
		size_t got = ms_source_read(p->blocks->src, range.begin, p->buffer, want);

		look_at(p, from, (struct ms_range){ range.begin, range.begin + got }, p->buffer);
		if (!got)
			range.begin = ms_align_up(range.begin + 1, p->abi->page_bytes);
		else if (got < want || want == left)
			range.begin += got;
		else
			range.begin += got - overlap;
	}
}

void ms_pointers_range(struct ms_pointers *p, uint64_t from, struct ms_range range)
{
	struct ms_source *src = p->blocks->src;
	struct ms_range run;

	range.begin = ms_align_up(range.begin, p->abi->word_bytes);
	while (range.begin < range.end && ms_source_present(src, range, &run)) {
		const uint8_t *bytes = ms_source_view(src, run.begin, ms_range_len(run));

		if (bytes)
			look_at(p, from, run, bytes);
		else
			look_at_copied(p, from, run);
		range.begin = run.end;
	}
}

/*
 * The bytes of @range of @extent, which is shorter than the buffer. What lies behind it is
 * read with it when that was wanted after the last one, too. A last granule may end behind
 * the extent.
 */
static const uint8_t *copy_of(struct ms_pointers *p, const struct ms_extent *extent,
                              struct ms_range range)
{
	struct ms_range *window = &p->window;

	if (range.begin < window->begin || range.end > window->end) {
		bool in_order = range.begin - window->begin < (uint64_t)2 * BUFFER;

		*window = range;
		if (in_order && range.end < extent->range.end) {
			uint64_t left = extent->range.end - range.begin;

			window->end = range.begin + (left < BUFFER ? left : BUFFER);
		}
		ms_source_fill(p->blocks->src, window->begin, p->buffer,
		               (size_t)ms_range_len(*window));
	}
	return p->buffer + (range.begin - window->begin);
}

void ms_pointers_block(struct ms_pointers *p, uint64_t from, struct ms_block block)
{
	const struct ms_extent *extent = &p->blocks->extents.at[block.extent];
	struct ms_range words = { ms_align_up(ms_block_begin(extent, block.granule),
		                              p->abi->word_bytes),
		                  ms_block_words_end(p->blocks, extent, block.granule) };

	if (words.begin >= words.end)
		return;
	if (ms_range_len(words) >= SPARSE_BYTES)
		ms_pointers_range(p, from, words);
	else if (extent->host)
		look_at(p, from, words, extent->host + (words.begin - extent->range.begin));
	else
		look_at(p, from, words, copy_of(p, extent, words));
}

bool ms_pointers_hit(struct ms_pointers *p, ms_addr addr, struct ms_block *ret)
{
	return ms_lookup_block(&p->lookup, addr, p->starts_only, ret);
}
