/* SPDX-License-Identifier: Apache-2.0 */
#include "tcheap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/decoders.h"
#include "base/page.h"
#include "engine/decode.h"
#include "module.h"

/*
 * Where things are. In the heap, from its begin: structures of spans, caches, stack traces,
 * a leaf of the page map; then pages. In the library: a page of headers, one of code, then data.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	SPANS = 0,
	CACHES = 0x20000,
	TRACES = 0x30000,
	LEAF = 0x40000,
	PAGES = 0x400000,
	PAGES_BYTES = 0x200000,
	GAP_PAGES = 4,

	/* In the data. */
	BATCHES = 0x100,
	SIZES = BATCHES + 4 * MS_TC_CLASSES,
	CLASS_PAGES = SIZES + 4 * MS_TC_CLASSES,
	HEAPS = 0x1000, /* steal from, count, first */
	FIRST_TRACE = 0x1100,
	ALLOCATORS = 0x1200, /* of stack traces, then of spans */
	CENTRALS = 0x2000,
	ROOT = 0x30010,
	BEHIND_ROOT = 0x40 + 0x3000, /* the counters, but for bytes of the root */
	DATA_BYTES = 0x140000,
};

static const ms_addr HEAP = 0x555500000000;
static const ms_addr MODULE = 0x7f0000000000;

/* A test's own mistake. */
_Noreturn static void refuse(const char *text)
{
	(void)fprintf(stderr, "tcheap: \"%s\" cannot be drawn\n", text);
	abort();
}

/* ---- bytes ---- */

static void put_bytes(struct tcheap *h, ms_addr addr, unsigned int width, uint64_t value)
{
	memcpy(ms_fake_at(&h->fake, addr), &value, width);
}

static uint64_t get_bytes(const struct tcheap *h, ms_addr addr, unsigned int width)
{
	struct ms_source *src = (struct ms_source *)(uintptr_t)&h->fake.base;
	uint64_t value = 0;

	(void)ms_source_read(src, addr, &value, width);
	return value;
}

static void put(struct tcheap *h, ms_addr addr, uint64_t value)
{
	put_bytes(h, addr, 8, value);
}

static uint64_t get(const struct tcheap *h, ms_addr addr)
{
	return get_bytes(h, addr, 8);
}

static void add(struct tcheap *h, ms_addr addr, uint64_t more)
{
	put(h, addr, get(h, addr) + more);
}

/* ---- size classes: 8, all multiples of 16 to 1024, powers of two to 256 KiB ---- */

enum { N_CLASSES = 1 + 1 + 64 + 8 };

static uint64_t size_of(uint32_t class)
{
	if (class < 2)
		return class * 8;
	return class < 66 ? (class - 1) * 16 : UINT64_C(2048) << (class - 66);
}

static uint64_t pages_of(const struct tcheap *h, uint32_t class)
{
	uint64_t pages = size_of(class) >> h->page_shift;

	return pages ? pages : class > 0;
}

static uint32_t class_of(uint64_t size, const char *text)
{
	for (uint32_t i = 1; i < N_CLASSES; i++)
		if (size_of(i) == size)
			return i;
	refuse(text);
}

/* Usable bytes of what is asked for. */
static uint64_t nallocx(const struct tcheap *h, uint64_t bytes)
{
	for (uint32_t i = 1; i < N_CLASSES; i++)
		if (size_of(i) >= bytes)
			return size_of(i);
	return ms_align_up(bytes, UINT64_C(1) << h->page_shift);
}

/* ---- places ---- */

static unsigned int leaf_bits(const struct tcheap *h)
{
	return (MS_TC_ADDRESS_BITS - h->page_shift + 1u) / 2;
}

static uint64_t root_bytes(const struct tcheap *h)
{
	return UINT64_C(8) << (MS_TC_ADDRESS_BITS - h->page_shift - leaf_bits(h));
}

static ms_addr entry_at(const struct tcheap *h, uint64_t page)
{
	return HEAP + LEAF + 8 * (page & ((UINT64_C(1) << leaf_bits(h)) - 1));
}

static ms_addr central_at(const struct tcheap *h, uint32_t class)
{
	return h->data + CENTRALS + class * sizeof(struct ms_tc_central);
}

static ms_addr cache_at(uint32_t thread)
{
	return HEAP + CACHES + thread * sizeof(struct ms_tc_raw_cache);
}

static ms_addr stats_at(const struct tcheap *h)
{
	return h->data + ROOT + root_bytes(h) + BEHIND_ROOT;
}

ms_addr tcheap_at(const struct tcheap *h, enum tc_place place, uint32_t index)
{
	switch (place) {
	case TC_SPAN:
		return h->spans[index].at;
	case TC_ENTRY:
		return entry_at(h, h->spans[index].page);
	case TC_OBJECT:
		return h->objects[index].addr;
	case TC_CENTRAL:
		return central_at(h, h->spans[index].class);
	case TC_CACHE:
		return cache_at(index);
	case TC_CACHED:
		return cache_at(0) + h->spans[index].class * sizeof(struct ms_tc_list);
	case TC_HEAPS:
		return h->data + HEAPS;
	case TC_STATS:
		return stats_at(h);
	case TC_SIZES:
		return h->data + SIZES + 4 * index;
	case TC_PAGES:
		return h->data + CLASS_PAGES + 8 * index;
	case TC_ROOT:
		return h->data + ROOT + 8 * index;
	case TC_ALLOCATOR:
		return h->data + ALLOCATORS + sizeof(struct ms_tc_allocator);
	case TC_TRACE:
		return HEAP + TRACES + index * sizeof(struct ms_tc_trace);
	}
	abort();
}

void tcheap_set(struct tcheap *h, enum tc_place place, uint32_t index, size_t offset,
                unsigned int width, uint64_t value)
{
	put_bytes(h, tcheap_at(h, place, index) + offset, width, value);
}

uint64_t tcheap_get(const struct tcheap *h, enum tc_place place, uint32_t index, size_t offset,
                    unsigned int width)
{
	return get_bytes(h, tcheap_at(h, place, index) + offset, width);
}

/* ---- drawing ---- */

void tcheap_init(struct tcheap *h)
{
	memset(h, 0, sizeof(*h));
	h->page_shift = 13;
	ms_fake_init(&h->fake);
}

void tcheap_deinit(struct tcheap *h)
{
	ms_arena_deinit(&h->arena);
	ms_fake_deinit(&h->fake);
}

static void draw_sizes(struct tcheap *h)
{
	for (uint32_t i = 1; i < N_CLASSES; i++) {
		put_bytes(h, h->data + BATCHES + 4 * i, 4, TCHEAP_BATCH);
		put_bytes(h, h->data + SIZES + 4 * i, 4, size_of(i));
		put(h, h->data + CLASS_PAGES + 8 * i, pages_of(h, i));
	}
}

static void draw_ring(struct tcheap *h, ms_addr head)
{
	put(h, head + offsetof(struct ms_tc_raw_span, next), head);
	put(h, head + offsetof(struct ms_tc_raw_span, prev), head);
}

static void draw_centrals(struct tcheap *h)
{
	for (uint32_t i = 0; i < N_CLASSES; i++) {
		ms_addr at = central_at(h, i);

		put(h, at + offsetof(struct ms_tc_central, class), i);
		draw_ring(h, at + offsetof(struct ms_tc_central, empty));
		draw_ring(h, at + offsetof(struct ms_tc_central, nonempty));
		put_bytes(h, at + offsetof(struct ms_tc_central, cache_size), 4, 16);
		put_bytes(h, at + offsetof(struct ms_tc_central, max_cache_size), 4, MS_TC_SLOTS);
	}
}

static void draw_cache(struct tcheap *h, uint32_t thread, size_t link_at)
{
	ms_addr at = cache_at(thread);

	for (uint32_t i = 0; i < N_CLASSES; i++)
		put_bytes(h,
		          at + i * sizeof(struct ms_tc_list) +
		                  offsetof(struct ms_tc_list, object_bytes),
		          4, size_of(i));
	/* The first one is the latest. */
	put(h, at + link_at, thread ? cache_at(thread - 1) : 0);
	put(h, at + link_at + 8, thread + 1 < h->n_caches ? cache_at(thread + 1) : 0);
}

static void draw_caches(struct tcheap *h, const char *version)
{
	size_t link_at =
		offsetof(struct ms_tc_raw_cache, rest) + (strcmp(version, "2.10") ? 0 : 16);

	for (uint32_t i = 0; i < h->n_caches; i++)
		draw_cache(h, i, link_at);
	put(h, h->data + HEAPS, cache_at(0));
	put_bytes(h, h->data + HEAPS + 8, 4, h->n_caches);
	put(h, h->data + HEAPS + 16, cache_at(h->n_caches - 1));
}

/* Free @object into the list of @thread's cache. */
static void put_into_cache(struct tcheap *h, uint32_t thread, uint32_t class, ms_addr object)
{
	ms_addr list = cache_at(thread) + class * sizeof(struct ms_tc_list);
	ms_addr length = list + offsetof(struct ms_tc_list, length);
	ms_addr bytes = cache_at(thread) + offsetof(struct ms_tc_raw_cache, bytes);

	put(h, object, get(h, list));
	put(h, list, object);
	put_bytes(h, length, 4, get_bytes(h, length, 4) + 1);
	put_bytes(h, bytes, 4, get_bytes(h, bytes, 4) + size_of(class));
}

/* A slot is filled from its tail on; what is in one only half is not used yet. */
static void put_into_slot(struct tcheap *h, uint32_t class, ms_addr object)
{
	ms_addr central = central_at(h, class);
	ms_addr used = central + offsetof(struct ms_tc_central, used_slots);
	uint64_t n = get_bytes(h, used, 4);
	ms_addr slot =
		central + offsetof(struct ms_tc_central, slots) + n * sizeof(struct ms_tc_slot);

	put(h, object, get(h, slot));
	if (get(h, slot))
		put_bytes(h, used, 4, n + 1);
	else
		put(h, slot + offsetof(struct ms_tc_slot, tail), object);
	put(h, slot, object);
}

static struct tcheap_span *draw_span(struct tcheap *h, uint64_t *page, uint64_t pages,
                                     uint32_t class)
{
	struct tcheap_span *span = &h->spans[h->n_spans];

	assert(h->n_spans < TCHEAP_SPANS && pages);
	/* The first two were never used, the third is free. */
	*span = (struct tcheap_span){ .at = HEAP + SPANS +
		                            (h->n_spans + 3) * sizeof(struct ms_tc_raw_span),
		                      .page = *page,
		                      .pages = pages,
		                      .class = class };
	h->n_spans++;
	*page += pages;
	put(h, span->at + offsetof(struct ms_tc_raw_span, start), span->page);
	put(h, span->at + offsetof(struct ms_tc_raw_span, length), pages);
	put_bytes(h, span->at + offsetof(struct ms_tc_raw_span, class), 1, class);
	for (uint64_t i = 0; i < pages; i++)
		if (class || !i || i + 1 == pages)
			put(h, entry_at(h, span->page + i), span->at);
	add(h, stats_at(h) + offsetof(struct ms_tc_stats, system), pages << h->page_shift);
	return span;
}

static void number_object(struct tcheap *h, char kind, ms_addr addr, uint64_t usable)
{
	assert(h->n_objects < TCHEAP_OBJECTS);
	h->objects[h->n_objects++] = (struct tcheap_object){ kind, addr, usable };
}

/* Link @span into its class's ring. */
static void draw_into_central(struct tcheap *h, const struct tcheap_span *span, uint64_t n_free)
{
	ms_addr central = central_at(h, span->class);
	ms_addr head = central + (n_free ? offsetof(struct ms_tc_central, nonempty)
	                                 : offsetof(struct ms_tc_central, empty));
	ms_addr next = get(h, head + offsetof(struct ms_tc_raw_span, next));

	put(h, span->at + offsetof(struct ms_tc_raw_span, next), next);
	put(h, span->at + offsetof(struct ms_tc_raw_span, prev), head);
	put(h, next + offsetof(struct ms_tc_raw_span, prev), span->at);
	put(h, head + offsetof(struct ms_tc_raw_span, next), span->at);
	add(h, central + offsetof(struct ms_tc_central, n_spans), 1);
	add(h, central + offsetof(struct ms_tc_central, n_free), n_free);
}

/* What becomes of one object; true when it is free in its span. */
static bool draw_object(struct tcheap *h, uint32_t class, char kind, ms_addr at)
{
	if (kind == 's')
		put_into_slot(h, class, at);
	else if (kind >= '0' && kind <= '9')
		put_into_cache(h, (uint32_t)(kind - '0'), class, at);
	else if (kind != 'u' && kind != 'f')
		refuse("an object");
	return kind == 'f';
}

static void draw_objects(struct tcheap *h, uint64_t *page, uint32_t class, const char *kinds)
{
	struct tcheap_span *span = draw_span(h, page, pages_of(h, class), class);
	ms_addr at = span->page << h->page_shift;
	ms_addr end = (span->page + span->pages) << h->page_shift;
	ms_addr objects = span->at + offsetof(struct ms_tc_raw_span, objects);
	uint64_t n_free = 0;
	uint64_t n = 0;

	for (; at + size_of(class) <= end; at += size_of(class), n++) {
		char kind = *kinds == '*' ? 'u' : *kinds && *kinds != ' ' ? *kinds++ : 'f';

		if (n < 32)
			number_object(h, kind, at, size_of(class));
		else if (kind == 'u')
			refuse("so many used objects");
		if (!draw_object(h, class, kind, at))
			continue;
		put(h, at, get(h, objects));
		put(h, objects, at);
		n_free++;
	}
	put_bytes(h, span->at + offsetof(struct ms_tc_raw_span, refcount), 2, n - n_free);
	draw_into_central(h, span, n_free);
}

static void draw_pages(struct tcheap *h, uint64_t *page, char kind, const char *text)
{
	char *end;
	uint64_t pages = strtoull(text, &end, 10);
	struct tcheap_span *span = draw_span(h, page, pages, 0);
	ms_addr flags = span->at + offsetof(struct ms_tc_raw_span, flags);
	uint64_t bytes = pages << h->page_shift;
	ms_addr stats = stats_at(h);

	if (kind == 'n') {
		put_bytes(h, flags, 1, MS_TC_NORMAL);
		add(h, stats + offsetof(struct ms_tc_stats, free), bytes);
	} else if (kind == 'r') {
		put_bytes(h, flags, 1, MS_TC_RETURNED);
		add(h, stats + offsetof(struct ms_tc_stats, unmapped), bytes);
	} else if (kind == 'S') {
		ms_addr trace = tcheap_at(h, TC_TRACE, 63 - h->n_sampled++);

		bytes = strtoull(end + 1, NULL, 10);
		put_bytes(h, flags, 1, 4);
		put(h, span->at + offsetof(struct ms_tc_raw_span, objects), trace);
		put(h, trace, bytes);
		bytes = nallocx(h, bytes);
	} else if (kind != 'L') {
		refuse(text - 1);
	}
	if (kind == 'S' || kind == 'L')
		number_object(h, 'u', span->page << h->page_shift, bytes);
}

static void draw_growth(struct tcheap *h)
{
	ms_addr grown = stats_at(h) + offsetof(struct ms_tc_stats, n_grown);
	ms_addr trace = tcheap_at(h, TC_TRACE, (uint32_t)get(h, grown));

	add(h, grown, 1);
	put(h, trace, PAGE);
	put(h, trace + offsetof(struct ms_tc_trace, next), get(h, h->data + FIRST_TRACE));
	put(h, h->data + FIRST_TRACE, trace);
}

static void draw_allocator(struct tcheap *h, ms_addr at, ms_addr area, uint64_t used)
{
	put(h, at + offsetof(struct ms_tc_allocator, area), area + used);
	put(h, at + offsetof(struct ms_tc_allocator, avail), MS_TC_AREA - used);
}

static void draw_allocators(struct tcheap *h)
{
	const uint64_t span = sizeof(struct ms_tc_raw_span);
	ms_addr traces = h->data + ALLOCATORS;
	ms_addr spans = traces + sizeof(struct ms_tc_allocator);

	draw_allocator(h, traces, HEAP + TRACES, 64 * sizeof(struct ms_tc_trace));
	draw_allocator(h, spans, HEAP + SPANS, (h->n_spans + 3) * span);
	put(h, spans + offsetof(struct ms_tc_allocator, free), HEAP + SPANS + 2 * span);
	put_bytes(h, spans + offsetof(struct ms_tc_allocator, inuse), 4, h->n_spans + 2);
}

static void draw_memory(struct tcheap *h, const char *version)
{
	uint64_t data_bytes = ms_align_up(h->data_before + (uint64_t)DATA_BYTES, PAGE);
	Elf64_Phdr *phdr;
	char *page;

	(void)ms_fake_map(&h->fake, HEAP, PAGES + PAGES_BYTES, RW, "[heap]");
	page = ms_fake_map(&h->fake, MODULE, PAGE, MS_PROT_READ, "/lib/libtcmalloc.so");
	(void)ms_fake_map(&h->fake, MODULE + PAGE, PAGE, MS_PROT_READ | MS_PROT_EXEC,
	                  "/lib/libtcmalloc.so");
	phdr = elf_write(page, 2);
	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(2 * PAGE, data_bytes, PF_R | PF_W);
	(void)sprintf(page + 1024, "gperftools %s", version);
	(void)ms_fake_map(&h->fake, MODULE + 2 * PAGE, data_bytes, RW, "/lib/libtcmalloc.so");
	h->data = MODULE + 2 * PAGE + h->data_before;
}

/* The first long run of zeros in mapping @i, and how long it is; 0: there is none. */
static uint64_t find_zeros(const struct tcheap *h, size_t i, uint64_t *begin)
{
	enum { LONG = 0x10000 };
	uint64_t len = ms_range_len(h->fake.base.mappings.at[i].range);

	*begin = 0;
	for (uint64_t at = 0; at < len; at += PAGE) {
		if (ms_is_zero(h->fake.bytes[i] + at, PAGE))
			continue;
		if (at - *begin >= LONG)
			return at - *begin;
		*begin = at + PAGE;
	}
	return len - *begin >= LONG ? len - *begin : 0;
}

static void hide_zeros(struct tcheap *h)
{
	for (size_t i = 0; i < h->fake.base.mappings.n; i++) {
		ms_addr begin = h->fake.base.mappings.at[i].range.begin;
		uint64_t zeros;
		uint64_t n = find_zeros(h, i, &zeros);

		if (zeros && n) {
			(void)ms_fake_split(&h->fake, begin + zeros);
			continue;
		}
		if (n && begin + n < h->fake.base.mappings.at[i].range.end)
			(void)ms_fake_split(&h->fake, begin + n);
		h->fake.absent[i] = n;
	}
}

static void draw_token(struct tcheap *h, uint64_t *page, const char *token)
{
	const char *colon = strchr(token, ':');

	if (*token == '|') {
		*page += GAP_PAGES;
		draw_growth(h);
	} else if (*token >= '0' && *token <= '9' && colon) {
		draw_objects(h, page, class_of(strtoull(token, NULL, 10), token), colon + 1);
	} else {
		draw_pages(h, page, *token, token + 1);
	}
	assert(*page << h->page_shift <= HEAP + PAGES + PAGES_BYTES);
}

/* As many as the highest thread has that an object says it is cached by. */
static uint32_t count_caches(const char *picture)
{
	bool objects = false; /* behind a colon; a sampled block's bytes stand behind = */
	uint32_t n = 1;

	for (; *picture; picture++) {
		objects = *picture == ':' || (objects && *picture != ' ');
		if (objects && *picture >= '0' && *picture <= '9' && *picture - '0' >= (int)n)
			n = (uint32_t)(*picture - '0') + 1;
	}
	return n;
}

void tcheap_draw(struct tcheap *h, const char *version, const char *picture)
{
	uint64_t page = (HEAP + PAGES) >> h->page_shift;
	ms_addr stats;

	draw_memory(h, version);
	h->n_caches = count_caches(picture);
	draw_sizes(h);
	draw_centrals(h);
	draw_caches(h, version);
	put(h, h->data + ROOT + 8 * (page >> leaf_bits(h)), HEAP + LEAF);
	draw_growth(h);
	while (*picture) {
		draw_token(h, &page, picture);
		picture += strcspn(picture, " ");
		picture += strspn(picture, " ");
	}
	draw_allocators(h);
	stats = stats_at(h);
	put(h, stats + offsetof(struct ms_tc_stats, committed),
	    get(h, stats) - get(h, stats + offsetof(struct ms_tc_stats, unmapped)));
	if (h->sparse)
		hide_zeros(h);
}

/* ---- decoding ---- */

static void forget(struct tcheap *h)
{
	static const struct ms_decoder *const decoders[] = { &ms_tcmalloc_decoder, NULL };

	ms_arena_deinit(&h->arena);
	memset(&h->regions, 0, sizeof(h->regions));
	memset(&h->found, 0, sizeof(h->found));
	memset(&h->evidence, 0, sizeof(h->evidence));
	memset(&h->warnings, 0, sizeof(h->warnings));
	ms_blocks_init(&h->blocks, &h->fake.base, &h->arena);
	h->decoding = (struct ms_decoding){ .src = &h->fake.base,
		                            .regions = &h->regions,
		                            .arena = &h->arena,
		                            .decoders = decoders,
		                            .blocks = &h->blocks,
		                            .heaps = &h->found,
		                            .evidence = &h->evidence,
		                            .warnings = &h->warnings };
}

enum ms_status tcheap_decode(struct tcheap *h)
{
	enum ms_status st;

	forget(h);
	st = ms_classify(&h->fake.base, &h->arena, &h->regions, &h->err);
	if (!st)
		st = ms_decode(&h->decoding, NULL, &h->err);
	if (!st && !ms_ranges_tidy(&h->arena, &h->decoding.owned))
		st = MS_E_NOMEM;
	if (!st)
		st = ms_blocks_sort(&h->blocks);
	if (!st)
		st = ms_blocks_seal(&h->blocks);
	return st;
}

static bool has(const struct ms_ranges *ranges, ms_addr addr)
{
	return ms_range_find(ranges, addr) != NULL;
}

bool tcheap_is_owned(const struct tcheap *h, ms_addr addr)
{
	return has(&h->decoding.owned, addr);
}

/* Usable bytes of the sealed block that begins at @addr; 0: none does. */
static uint64_t told_bytes(const struct tcheap *h, ms_addr addr)
{
	const struct ms_extent *e = ms_blocks_extent_of(&h->blocks, addr);
	uint64_t granule;

	if (!e)
		return 0;
	granule = ms_granule_of(e, addr);
	if (ms_block_begin(e, granule) != addr ||
	    !(ms_blocks_cell(&h->blocks, e, granule)->starts & ms_granule_bit(granule)))
		return 0;
	return ms_block_usable(&h->blocks, e, granule);
}

static bool evidence_has(const struct tcheap *h, const char *text)
{
	const struct ms_note *note;

	ms_vec_for_each (note, &h->evidence)
		if (strstr(note->text, text))
			return true;
	return false;
}

static bool object_is_right(struct tcheap *h, size_t i, bool verified)
{
	const struct tcheap_object *o = &h->objects[i];
	uint64_t want = verified && o->kind == 'u' ? o->usable : 0;

	if (told_bytes(h, o->addr) == want &&
	    (verified || (has(&h->decoding.unproved, o->addr) &&
	                  has(&h->decoding.unproved, o->addr + o->usable - 1))))
		return true;
	(void)snprintf(h->wrong, sizeof(h->wrong), "object %zu (%c) is told with %llu bytes%s", i,
	               o->kind, (unsigned long long)told_bytes(h, o->addr),
	               want ? "" : ", or is not handed over");
	return false;
}

static bool is_as_drawn(struct tcheap *h, const char *says)
{
	const struct ms_heap *heap = h->found.at;
	bool verified = !*says;
	uint64_t n_used = 0;

	if (h->found.n != 1 || heap->verified != verified) {
		(void)snprintf(h->wrong, sizeof(h->wrong), "%zu heaps; %s", h->found.n,
		               h->evidence.n ? h->evidence.at[h->evidence.n - 1].text : "");
		return false;
	}
	for (size_t i = 0; i < h->n_objects; i++) {
		n_used += verified && h->objects[i].kind == 'u';
		if (!object_is_right(h, i, verified))
			return false;
	}
	if (h->blocks.n != n_used || heap->allocations != n_used ||
	    heap->allocation_bytes != h->blocks.bytes)
		(void)snprintf(h->wrong, sizeof(h->wrong), "%llu blocks, %llu in the heap's sum",
		               (unsigned long long)h->blocks.n,
		               (unsigned long long)heap->allocations);
	else if (!evidence_has(h, says))
		(void)snprintf(h->wrong, sizeof(h->wrong), "it says: %.200s",
		               h->evidence.at[h->evidence.n - 1].text);
	else
		return true;
	return false;
}

const char *tcheap_try(struct tcheap *h, const char *says)
{
	h->wrong[0] = '\0';
	for (int no_view = 0; no_view < 2; no_view++) {
		h->fake.no_view = no_view;
		if (tcheap_decode(h))
			(void)snprintf(h->wrong, sizeof(h->wrong), "%.250s", h->err.text);
		else if (is_as_drawn(h, says))
			continue;
		break;
	}
	return h->wrong;
}
