/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/relative.h"
#include "engine/graph/slots.h"
#include "fake.h"

/*
 * A heap of chunks as malloc makes them, one behind the other; of each block the test
 * says whether it is marked. Then distances are stored in it, and what they mark is
 * compared in every way there is to get at the bytes.
 */
enum {
	HEAP = 0x10000000,
	HEAP_BYTES = 1 << 22,
	MAX_BLOCKS = 1 << 16,
	HEADER = 16, /* before the first block */
	LOST = 1,    /* of block.kind */
	KEPT = 2,    /* nothing but a distance keeps it */
};

struct block {
	ms_addr begin;
	uint64_t usable;
	uint8_t kind; /* 0: marked from the start */
};

struct heap {
	struct ms_fake fake;
	struct ms_blocks blocks;
	struct block at[MAX_BLOCKS];
	size_t n;
	ms_addr end;
	struct ms_relative_kept kept;
	uint64_t limit;
};

static void heap_init(struct heap *h)
{
	memset(h, 0, sizeof(*h));
	ms_fake_init(&h->fake);
	ms_fake_map(&h->fake, HEAP, HEAP_BYTES, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	h->end = HEAP + HEADER;
}

/* malloc(@size); its index. */
static size_t add(struct heap *h, uint64_t size, uint8_t kind)
{
	uint64_t chunk = (size + 8 + 15) & ~UINT64_C(15);

	if (chunk < 32)
		chunk = 32;
	cr_assert(h->n < MAX_BLOCKS && h->end + chunk <= HEAP + HEAP_BYTES);
	h->at[h->n] = (struct block){ h->end, chunk - 8, kind };
	h->end += chunk;
	return h->n++;
}

static void put(struct heap *h, size_t block, uint64_t offset, uint64_t value)
{
	ms_fake_put(&h->fake, h->at[block].begin + offset, value);
}

/* In block @from, at @offset, how far it is to block @to from the block or from the word. */
static void point(struct heap *h, size_t from, uint64_t offset, size_t to, enum ms_slot_base base)
{
	put(h, from, offset,
	    h->at[to].begin - h->at[from].begin - (base == MS_BASE_WORD ? offset : 0));
}

static bool is_marked(const struct heap *h, size_t i)
{
	const struct ms_extent *e = ms_blocks_extent_of(&h->blocks, h->at[i].begin);
	uint64_t granule = ms_granule_of(e, h->at[i].begin);

	return ms_blocks_cell(&h->blocks, e, granule)->marks & ms_granule_bit(granule);
}

static void build(struct heap *h)
{
	uint32_t extent = 0;

	ms_blocks_init(&h->blocks, &h->fake.base, &h->fake.arena);
	cr_assert(!ms_blocks_open(&h->blocks, (struct ms_range){ HEAP + HEADER, HEAP + HEAP_BYTES },
	                          4, &extent));
	for (size_t i = 0; i < h->n; i++)
		cr_assert(!ms_blocks_put(&h->blocks, extent, h->at[i].begin, h->at[i].usable));
	cr_assert(!ms_blocks_sort(&h->blocks) && !ms_blocks_seal(&h->blocks));
	for (size_t i = 0; i < h->n; i++) {
		const struct ms_extent *e = ms_blocks_extent_of(&h->blocks, h->at[i].begin);
		uint64_t granule = ms_granule_of(e, h->at[i].begin);

		if (!h->at[i].kind)
			ms_blocks_cell(&h->blocks, e, granule)->marks |= ms_granule_bit(granule);
	}
}

static void search_with(struct heap *h, unsigned n_workers)
{
	struct ms_relative_options options = { .limit = h->limit };
	struct ms_error err;

	build(h);
	memset(&h->kept, 0, sizeof(h->kept));
	cr_assert(!ms_workers_start(n_workers, &options.workers, &err));
	cr_assert(!ms_relative_mark(&h->blocks, &options, &h->kept, &err));
	ms_workers_stop(options.workers);
}

/* Search; with a view and without, alone and together, which must mark the same. */
static void search(struct heap *h)
{
	static bool marked[MAX_BLOCKS];

	h->fake.no_view = false;
	search_with(h, 1);
	for (size_t i = 0; i < h->n; i++)
		marked[i] = is_marked(h, i);
	h->fake.no_view = true;
	for (unsigned n = 1; n <= 3; n += 2) {
		uint64_t allocations = h->kept.allocations;

		search_with(h, n);
		cr_expect_eq(h->kept.allocations, allocations);
		for (size_t i = 0; i < h->n; i++)
			cr_assert_eq(is_marked(h, i), marked[i], "block %zu, %u workers", i, n);
	}
}

static size_t count_marked(const struct heap *h, uint8_t kind)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += h->at[i].kind == kind && is_marked(h, i);
	return n;
}

static size_t count(const struct heap *h, uint8_t kind)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += h->at[i].kind == kind;
	return n;
}

static uint64_t state;

static uint64_t any(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % below;
}

/* ---- patterns of fontconfig ---- */

/* A pattern with an array of 16 and one value, as FcPatternCreate() and FcPatternAdd() make. */
static size_t add_pattern(struct heap *h, uint64_t spare)
{
	size_t pattern = add(h, 24 + spare, 0);
	size_t text = add(h, 9, KEPT);
	size_t value = add(h, 32, KEPT);
	size_t array = add(h, 256, KEPT);

	put(h, pattern, 0, UINT64_C(16) << 32 | 1);
	point(h, pattern, 8, array, MS_BASE_BLOCK);
	put(h, pattern, 16, 1);
	put(h, array, 0, UINT64_C(0x7f0000000001));
	put(h, array, 8, h->at[value].begin);
	put(h, value, 16, h->at[text].begin);
	return pattern;
}

Test(relative, knows_a_pattern_of_fontconfig_by_itself)
{
	struct heap *h = malloc(sizeof(*h));

	heap_init(h);
	(void)add_pattern(h, 0);
	(void)add_pattern(h, 16);
	(void)add(h, 256, LOST);
	search(h);
	cr_expect_eq(count_marked(h, KEPT), 6);
	cr_expect_eq(count_marked(h, LOST), 0);
	cr_expect_eq(h->kept.allocations, 6);
	cr_expect_eq(h->kept.bytes, 2 * (24 + 40 + 264));
	cr_expect(!h->kept.limited);
	ms_fake_deinit(&h->fake);
	free(h);
}

/* The same where each size has an extent of its own, with granules of @shift and more. */
static size_t mark_sized(uint64_t pattern_bytes, uint8_t shift, const char *library)
{
	struct heap *h = malloc(sizeof(*h));
	const struct {
		ms_addr at;
		uint64_t bytes;
		uint8_t shift;
	} sized[] = { { HEAP, pattern_bytes, shift },
		      { HEAP + 0x10000, 256, 8 },
		      { HEAP + 0x20000, 32, 5 } };
	struct ms_relative_options options = { 0 };
	struct ms_error err;
	size_t marked;

	heap_init(h);
	ms_fake_map(&h->fake, HEAP + 2 * HEAP_BYTES, 0x1000, MS_PROT_READ, library);
	ms_blocks_init(&h->blocks, &h->fake.base, &h->fake.arena);
	for (size_t i = 0; i < 3; i++) {
		struct ms_range range = { sized[i].at, sized[i].at + 8 * sized[i].bytes };
		uint32_t extent;

		cr_assert(!ms_blocks_open(&h->blocks, range, sized[i].shift, &extent));
		for (size_t k = 0; k < 8; k++)
			cr_assert(!ms_blocks_put(&h->blocks, extent,
			                         sized[i].at + k * sized[i].bytes, sized[i].bytes));
	}
	cr_assert(!ms_blocks_sort(&h->blocks) && !ms_blocks_seal(&h->blocks));
	for (size_t k = 0; k < 8; k++) {
		ms_addr pattern = HEAP + k * pattern_bytes;
		ms_addr array = HEAP + 0x10000 + k * 256;

		ms_fake_put(&h->fake, pattern, UINT64_C(16) << 32 | 1);
		ms_fake_put(&h->fake, pattern + 8, array - pattern);
		ms_fake_put(&h->fake, array, 1);
		ms_fake_put(&h->fake, array + 8, HEAP + 0x20000 + k * 32);
	}
	h->blocks.cells.at[0].marks = h->blocks.cells.at[0].starts;
	cr_assert(!ms_relative_mark(&h->blocks, &options, &h->kept, &err));
	marked = h->kept.allocations;
	ms_fake_deinit(&h->fake);
	free(h);
	return marked;
}

Test(relative, knows_a_pattern_of_any_allocator)
{
	static const char library[] = "/usr/lib/libfontconfig.so.1";

	cr_expect_eq(mark_sized(24, 3, library), 16);
	cr_expect_eq(mark_sized(32, 5, library), 16);
	cr_expect_eq(mark_sized(48, 3, library), 16);
	cr_expect_eq(mark_sized(56, 3, library), 0);
	cr_expect_eq(mark_sized(32, 5, "/usr/lib/libother.so.1"), 0);
}

struct damage {
	char title[40];
	uint64_t block; /* behind the pattern's own */
	uint64_t offset;
	uint64_t value;
};

static struct damage damages[] = {
	{ "no value", 0, 0, UINT64_C(16) << 32 },
	{ "more values than room", 0, 0, UINT64_C(16) << 32 | 17 },
	{ "an array too short", 0, 0, UINT64_C(18) << 32 | 1 },
	{ "an array too long", 0, 0, UINT64_C(14) << 32 | 1 },
	{ "room for 2^32 - 1", 0, 0, UINT64_MAX },
	{ "no array", 0, 8, 0 },
	{ "into the array", 0, 8, 32 + 32 + 48 + 16 },
	{ "out of memory", 0, 8, UINT64_C(1) << 40 },
	{ "an element without a kind", 3, 0, 0 },
	{ "an element without a value", 3, 8, 0 },
	{ "an element with half a value", 3, 8, HEAP + HEADER + 32 + 8 },
};

ParameterizedTestParameters(relative, takes_nothing_else_for_a_pattern)
{
	return cr_make_param_array(struct damage, damages, sizeof(damages) / sizeof(damages[0]));
}

ParameterizedTest(struct damage *d, relative, takes_nothing_else_for_a_pattern)
{
	struct heap *h = malloc(sizeof(*h));
	size_t pattern;

	heap_init(h);
	pattern = add_pattern(h, 0);
	put(h, pattern + d->block, d->offset, d->value);
	search(h);
	cr_expect_eq(h->kept.allocations, 0, "%s", d->title);
	ms_fake_deinit(&h->fake);
	free(h);
}

/* ---- slots ---- */

/* What is between @n pairs of a holder and its target, so that no two are equally far. */
struct pairs {
	char title[48];
	enum ms_slot_base base;
	unsigned int n;
	unsigned int gaps; /* multiples of 16 bytes; 0: pairs lie close, each like the other */
	unsigned int kept; /* of n */
};

static struct pairs pairs_cases[] = {
	{ "relative to the block", MS_BASE_BLOCK, 60, 1, 60 },
	{ "relative to the word", MS_BASE_WORD, 60, 1, 60 },
	{ "too few", MS_BASE_BLOCK, 14, 1, 0 },
	{ "all at one distance", MS_BASE_BLOCK, 400, 0, 0 },
	{ "multiples of 32 bytes only", MS_BASE_WORD, 60, 2, 0 },
};

ParameterizedTestParameters(relative, believes_pointers_by_what_they_lead_to)
{
	return cr_make_param_array(struct pairs, pairs_cases,
	                           sizeof(pairs_cases) / sizeof(pairs_cases[0]));
}

ParameterizedTest(struct pairs *c, relative, believes_pointers_by_what_they_lead_to)
{
	struct heap *h = malloc(sizeof(*h));

	heap_init(h);
	for (unsigned int i = 0; i < c->n; i++) {
		size_t holder = add(h, 72, 0);
		size_t target;

		if (c->gaps)
			(void)add(h, 1096 + 16 * (uint64_t)i * c->gaps, 0);
		target = add(h, 104, KEPT);
		point(h, holder, 40, target, c->base);
	}
	/* Marked blocks, so that not all are alike. */
	for (unsigned int i = 0; i < 1000; i++)
		(void)add(h, 24, 0);
	search(h);
	cr_expect_eq(count_marked(h, KEPT), c->kept, "%s: %zu", c->title, count_marked(h, KEPT));
	ms_fake_deinit(&h->fake);
	free(h);
}

/* Of four bytes, in the other order; each target lies before its holder. */
Test(relative, believes_short_words_with_a_sign)
{
	struct heap *h = malloc(sizeof(*h));

	heap_init(h);
	h->fake.base.abi =
		(struct ms_abi){ .page_bytes = 16384, .word_bytes = 4, .big_endian = true };
	for (unsigned int i = 0; i < 60; i++) {
		size_t target = add(h, 104, KEPT);
		size_t holder;

		(void)add(h, 1096 + 16 * (uint64_t)i, 0);
		holder = add(h, 72, 0);
		point(h, holder, 44, target, MS_BASE_WORD);
	}
	for (unsigned int i = 0; i < 1000; i++)
		(void)add(h, 24, 0);
	search(h);
	cr_expect_eq(count_marked(h, KEPT), 60, "%zu", count_marked(h, KEPT));
	ms_fake_deinit(&h->fake);
	free(h);
}

/* The list's first nodes are in a table; of the others each is kept by the one before. */
Test(relative, follows_what_is_kept_to_the_end)
{
	struct heap *h = malloc(sizeof(*h));
	size_t last[40];
	size_t lost;

	heap_init(h);
	state = 11;
	for (unsigned int i = 0; i < 40; i++)
		last[i] = add(h, 40, 0);
	for (unsigned int i = 0; i < 2000; i++) {
		size_t list = any(40);
		size_t gap = add(h, 24 + 16 * any(20), 0);
		size_t node = add(h, 40, KEPT);

		(void)gap;
		point(h, last[list], 8, node, MS_BASE_WORD);
		last[list] = node;
	}
	/* An ordinary pointer, and a list that hangs on nothing. */
	put(h, last[0], 16, h->at[add(h, 3000, KEPT)].begin);
	lost = add(h, 40, LOST);
	point(h, lost, 8, add(h, 40, LOST), MS_BASE_WORD);
	search(h);
	cr_expect_eq(count_marked(h, KEPT), 2001);
	cr_expect_eq(count_marked(h, LOST), 0);
	ms_fake_deinit(&h->fake);
	free(h);
}

/* All but the roots is unmarked; each node's text is the block behind it. Boost's null is 1. */
Test(relative, knows_pointers_where_they_keep_nearly_everything)
{
	struct heap *h = malloc(sizeof(*h));
	size_t nodes[3000];
	size_t lost;

	heap_init(h);
	state = 5;
	for (size_t i = 0; i < 3000; i++) {
		size_t text;

		nodes[i] = add(h, 40, i < 8 ? 0 : KEPT);
		put(h, nodes[i], 0, 1);
		put(h, nodes[i], 8, 1);
		put(h, nodes[i], 16, any(1000));
		text = add(h, 10 + any(100), KEPT);
		point(h, nodes[i], 24, text, MS_BASE_WORD);
		while (i >= 8) {
			size_t parent = nodes[any(i)];
			uint64_t side = 8 * any(2);
			uint64_t *at = ms_fake_at(&h->fake, h->at[parent].begin + side);

			if (*at != 1)
				continue;
			point(h, parent, side, nodes[i], MS_BASE_WORD);
			break;
		}
	}
	lost = add(h, 40, LOST);
	point(h, lost, 0, add(h, 40, LOST), MS_BASE_WORD);
	search(h);
	cr_expect_eq(count_marked(h, KEPT), count(h, KEPT));
	cr_expect_eq(count_marked(h, LOST), 0);
	ms_fake_deinit(&h->fake);
	free(h);
}

Test(relative, says_when_it_has_not_looked_at_all)
{
	struct heap *h = malloc(sizeof(*h));

	heap_init(h);
	(void)add_pattern(h, 0);
	for (unsigned int i = 0; i < 2000; i++)
		(void)add(h, 1000, 0);
	(void)add_pattern(h, 0);
	h->limit = 1 << 20;
	search(h);
	cr_expect(h->kept.limited);
	cr_expect_eq(count_marked(h, KEPT), 3);
	h->limit = 0;
	search(h);
	cr_expect(!h->kept.limited);
	cr_expect_eq(count_marked(h, KEPT), 6);
	ms_fake_deinit(&h->fake);
	free(h);
}

Test(relative, reads_nothing_where_all_is_marked)
{
	struct heap *h = malloc(sizeof(*h));

	heap_init(h);
	(void)add(h, 24, 0);
	h->fake.no_view = true;
	search_with(h, 1);
	cr_expect_eq(h->fake.reads, 0);
	ms_fake_deinit(&h->fake);
	free(h);
}

/* ---- numbers ---- */

/* Each is what some field of real programs holds: sizes, counts, offsets, hashes, … */
static uint64_t number(struct heap *h, size_t holder, unsigned int kind, uint64_t constant)
{
	uint64_t chunk = h->at[holder].usable + 8;

	switch (kind) {
	case 0:
		return constant;
	case 1:
		return chunk * (1 + any(4));
	case 2:
		return h->at[holder].usable;
	case 3:
		return holder;
	case 4:
		return holder * 16;
	case 5:
		return holder * chunk;
	case 6:
		return UINT64_C(1) << any(22);
	case 7:
		return 4096 * any(1024);
	case 8:
		return any(h->end - HEAP);
	case 9:
		return any(h->end - HEAP) & ~UINT64_C(15);
	case 10:
		return any(UINT64_C(1) << 32);
	case 11:
		return (uint64_t)-1 - any(64);
	case 12:
		return (uint64_t)-16 * any(4096);
	case 13:
		return constant * any(64);
	case 14: /* how far it is to any place in the heap */
		return HEAP + (any(h->end - HEAP) & ~UINT64_C(15)) - h->at[holder].begin;
	default:
		return 16 * any(64);
	}
}

enum { NUMBERS = 16, TYPES = 6, FIELDS = 4 };

/*
 * Structs of a few types, each with fields of one kind of number; some blocks are lost.
 * True when these are one stretch of equal blocks.
 */
static bool draw_numbers(struct heap *h)
{
	uint64_t sizes[TYPES];
	unsigned int kinds[TYPES][FIELDS];
	uint64_t constants[TYPES][FIELDS];
	unsigned int order = (unsigned int)any(4);
	uint64_t lost = 1 + any(90); /* of a hundred */
	size_t n = 200 + any(4000);

	for (unsigned int t = 0; t < TYPES; t++) {
		sizes[t] = 24 + 16 * any(any(2) ? 3 : 20);
		for (unsigned int f = 0; f < FIELDS; f++) {
			kinds[t][f] = (unsigned int)any(NUMBERS);
			constants[t][f] = any(2) ? 16 * any(64) : 32 * any(16);
		}
	}
	for (size_t i = 0; i < n; i++) {
		size_t t = order == 1 ? i % TYPES : order == 2 ? i * TYPES / n : any(TYPES);
		bool is_lost = order == 0   ? any(100) < lost
		               : order == 1 ? t == 1 || t == 4
		               : order == 2 ? t == 2
		                            : i % (1 + lost / 8) == 0;

		(void)add(h, sizes[t], is_lost ? LOST : 0);
	}
	for (size_t i = 0; i < n; i++) {
		size_t t = 0;

		while (t + 1 < TYPES &&
		       ((sizes[t] + 8 + 15) & ~UINT64_C(15)) - 8 != h->at[i].usable)
			t++;
		for (unsigned int f = 0; f < FIELDS && 8 * f + 8 <= h->at[i].usable; f++)
			put(h, i, 8 * (uint64_t)f, number(h, i, kinds[t][f], constants[t][f]));
	}
	return order == 2;
}

/*
 * RELATIVE_HEAPS asks for more heaps. What is left: a stretch of equal blocks that is lost
 * as a whole, into which byte offsets lead that are, with their holders' own places, just
 * as far apart as its blocks.
 */
Test(relative, hides_no_leak_behind_numbers, .timeout = 3600)
{
	const char *asked = getenv("RELATIVE_HEAPS");
	unsigned long heaps = asked ? strtoul(asked, NULL, 10) : 500;
	struct heap *h = malloc(sizeof(*h));
	uint64_t lost[2] = { 0 };
	uint64_t hidden[2] = { 0 };

	for (unsigned long i = 1; i <= heaps; i++) {
		bool stretch;

		state = i * UINT64_C(0x9e3779b97f4a7c15);
		heap_init(h);
		stretch = draw_numbers(h);
		h->fake.no_view = false;
		search_with(h, 1);
		lost[stretch] += count(h, LOST);
		hidden[stretch] += count_marked(h, LOST);
		ms_fake_deinit(&h->fake);
	}
	for (int i = 0; asked && i < 2; i++)
		printf("%s: %llu of %llu leaks hidden\n", i ? "stretches" : "others",
		       (unsigned long long)hidden[i], (unsigned long long)lost[i]);
	cr_expect(lost[0] > heaps * 100 && lost[1] > heaps * 10);
	cr_expect_leq(hidden[0] * 2000, lost[0], "%llu", (unsigned long long)hidden[0]);
	cr_expect_leq(hidden[1] * 100, lost[1], "%llu", (unsigned long long)hidden[1]);
	free(h);
}
