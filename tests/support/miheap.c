/* SPDX-License-Identifier: Apache-2.0 */
#include "miheap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/decoders.h"
#include "decoded.h"
#include "engine/decode.h"
#include "module.h"

static const ms_addr MODULE = 0x100000000;
static const ms_addr MAP = 0x200000000;
static const ms_addr LIST = 0x200210000; /* of the map: one for all pages */
static const ms_addr HEAPS = 0x300000000;
static const ms_addr MEMORY = 0x20000000000;

enum {
	HEAP_BYTES = 0x2000,
	DATA = 0x1000, /* where in the module its data begins, */
	ROOT = 0x1010, /* the word that leads to the page map, */
	TLD = 0x1100,  /* what the first thread has, and its heap: at HEAP + where its table is */
	HEAP = 0x1800,
	DATA_BYTES = 0x4000,
	HUGE = 16 << 20,
	ARENA_SLICES = 128,
	META = 0x1000, /* 3.6: in the arena's first slice, descriptions */
	META_BYTES = 128,
};

static const uint64_t COOKIE = 0x5ca1ab1e0ddba11f;

/* Sizes of blocks, by queues, in words. */
static const uint64_t sizes[] = {
	1,      1,      2,      3,      4,      5,      6,      7,     8,      10,     12,
	14,     16,     20,     24,     28,     32,     40,     48,    56,     64,     80,
	96,     112,    128,    160,    192,    224,    256,    320,   384,    448,    512,
	640,    768,    896,    1024,   1280,   1536,   1792,   2048,  2560,   3072,   3584,
	4096,   5120,   6144,   7168,   8192,   10240,  12288,  14336, 16384,  20480,  24576,
	28672,  32768,  40960,  49152,  57344,  65536,  81920,  98304, 114688, 131072, 163840,
	196608, 229376, 262144, 327680, 393216, 458752, 524288, 16385, 16386
};

static_assert(sizeof(sizes) / sizeof(sizes[0]) == MS_MI_QUEUES, "all queues");

void miheap_init(struct miheap *h)
{
	memset(h, 0, sizeof(*h));
	ms_fake_init(&h->fake);
	h->fake.hides_zeros = true;
}

void miheap_deinit(struct miheap *h)
{
	ms_fake_deinit(&h->fake);
	ms_arena_deinit(&h->arena);
}

static void put(struct miheap *h, ms_addr at, unsigned bytes, uint64_t value)
{
	memcpy(ms_fake_at(&h->fake, at), &value, bytes);
}

static void put_word(struct miheap *h, ms_addr at, uint64_t value)
{
	put(h, at, MS_MI_WORD, value);
}

static uint64_t get(struct miheap *h, ms_addr at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, ms_fake_at(&h->fake, at), bytes);
	return value;
}

static void put_field(struct miheap *h, ms_addr at, struct ms_mi_field field, uint64_t value)
{
	put(h, at + field.at, field.bytes, value);
}

/* ---- the module and its heaps ---- */

static void draw_table(struct miheap *h, ms_addr heap)
{
	const struct ms_mi_heap_layout *l = &h->layout->heap;

	for (size_t i = 0; i < MS_MI_QUEUES; i++)
		put_word(h, heap + l->queues + i * l->queue_bytes + l->queue_size,
		         sizes[i] * MS_MI_WORD);
}

static void draw_module(struct miheap *h)
{
	unsigned char *page = ms_fake_map(&h->fake, MODULE, DATA, MS_PROT_READ, "/lib/own.so");
	Elf64_Phdr *phdr = elf_write(page, 2);

	phdr[0] = elf_load(0, DATA, PF_R);
	phdr[1] = elf_load(DATA, DATA_BYTES, PF_R | PF_W);
	ms_fake_map(&h->fake, MODULE + DATA, DATA_BYTES, MS_PROT_READ | MS_PROT_WRITE,
	            "/lib/own.so");
	h->heaps[h->n_heaps++] = MODULE + HEAP;
	draw_table(h, MODULE + HEAP);
	if (h->layout->map.is_there) {
		put_word(h, MODULE + ROOT, h->map);
		return;
	}
	put_word(h, MODULE + HEAP, MODULE + TLD);
	put_word(h, MODULE + TLD + h->layout->tld.backing, MODULE + HEAP);
	put_word(h, MODULE + HEAP + h->layout->heap.cookie, COOKIE);
}

static void draw_heap(struct miheap *h)
{
	ms_addr heap = HEAPS + (h->n_heaps - 1) * HEAP_BYTES;

	assert(h->n_heaps < MIHEAP_HEAPS);
	h->heaps[h->n_heaps++] = heap;
	draw_table(h, heap);
	for (unsigned i = 0; h->layout->heap.keys && i < 2; i++)
		put_word(h, heap + h->layout->heap.keys + i * MS_MI_WORD,
		         0x1234567 * h->n_heaps + i);
}

/* ---- links ---- */

static uint64_t encode(ms_addr to, ms_addr null, const uint64_t keys[2])
{
	uint64_t x = (to ? to : null) ^ keys[1];
	unsigned by = keys[0] % 64;

	return (by ? x << by | x >> (64 - by) : x) + keys[0];
}

static void keys_at(struct miheap *h, ms_addr at, uint64_t ret[2])
{
	ret[0] = get(h, at, MS_MI_WORD);
	ret[1] = get(h, at + MS_MI_WORD, MS_MI_WORD);
}

/* What a block of the page or heap at @null, which has its keys at @keys_at, links by to @to. */
static uint64_t link_of(struct miheap *h, ms_addr null, ms_addr at, ms_addr to)
{
	uint64_t keys[2];

	if (!h->layout->page.keys)
		return to;
	keys_at(h, at, keys);
	return encode(to, null, keys);
}

static uint64_t page_link(struct miheap *h, const struct miheap_page *page, ms_addr to)
{
	return link_of(h, page->at, page->at + h->layout->page.keys, to);
}

static ms_addr block_at(const struct miheap_page *page, size_t i)
{
	return page->start + i * page->block_bytes;
}

/* ---- pages ---- */

static size_t count(const struct miheap_page *page, const char *letters)
{
	size_t n = 0;

	for (const char *c = page->blocks; *c; c++)
		n += strchr(letters, *c) != NULL;
	return n;
}

/* Link the blocks of @letter; returns the first of the list. */
static ms_addr draw_list(struct miheap *h, const struct miheap_page *page, char letter)
{
	ms_addr head = 0;

	for (size_t i = 0; page->blocks[i]; i++) {
		if (page->blocks[i] != letter)
			continue;
		put_word(h, block_at(page, i), page_link(h, page, head));
		head = block_at(page, i);
	}
	return head;
}

static void draw_delayed(struct miheap *h, const struct miheap_page *page)
{
	ms_addr list = page->heap + h->layout->heap.delayed;

	for (size_t i = 0; page->blocks[i]; i++) {
		if (page->blocks[i] != 'd')
			continue;
		put_word(h, block_at(page, i),
		         link_of(h, page->heap, page->heap + h->layout->heap.keys,
		                 get(h, list, MS_MI_WORD)));
		put_word(h, list, block_at(page, i));
	}
}

/* Behind each block what the keys make of its address, but for a byte, and that all of it was asked
 * for. */
static void draw_padding(struct miheap *h, const struct miheap_page *page)
{
	const uint8_t padding = h->layout->page.padding;

	for (size_t i = 0; padding && page->blocks[i]; i++)
		put_word(h, block_at(page, i + 1) - padding,
		         page_link(h, page, block_at(page, i)) & 0xffffff00);
}

static void draw_page(struct miheap *h, struct miheap_page *page)
{
	const struct ms_mi_page_layout *l = &h->layout->page;
	uint64_t room = (page->area + page->slices * MS_MI_SLICE - page->start) / page->block_bytes;
	uint64_t size = page->block_bytes;

	if (l->block_size.bytes == 4 && size >= MS_MI_HUGE_BLOCK)
		size = MS_MI_HUGE_BLOCK;
	for (unsigned i = 0; l->keys && i < 2; i++)
		put_word(h, page->at + l->keys + i * MS_MI_WORD,
		         0x9e3779b97f4a7c15 * (page->at + i));
	draw_padding(h, page);
	put_field(h, page->at, l->capacity, strlen(page->blocks));
	put_field(h, page->at, l->reserved, room);
	put_field(h, page->at, l->used, count(page, "uxd"));
	put_field(h, page->at, l->block_size, size);
	put_word(h, page->at + l->free, draw_list(h, page, 'f'));
	put_word(h, page->at + l->local_free, draw_list(h, page, 'l'));
	put_word(h, page->at + l->thread_free, draw_list(h, page, 'x') | 1);
	put_word(h, page->at + l->heap, page->heap);
	if (l->start)
		put_word(h, page->at + l->start, page->start);
	if (l->offset.bytes)
		put_field(h, page->at, l->offset, (page->start - page->at) / l->offset_unit);
	if (l->memory)
		put_word(h, page->at + l->memory, MEMORY);
	if (h->layout->heap.delayed && page->heap)
		draw_delayed(h, page);
	if (h->layout->heap.page_count && page->heap)
		put_word(h, page->heap + h->layout->heap.page_count,
		         get(h, page->heap + h->layout->heap.page_count, MS_MI_WORD) + 1);
}

/* Pages of a heap and size link to one another. */
static void draw_queues(struct miheap *h)
{
	const uint16_t next = h->layout->page.next;

	for (size_t i = 0; i < h->n_pages; i++)
		for (size_t k = i + 1; k < h->n_pages; k++) {
			if (!h->pages[i].heap || h->pages[i].heap != h->pages[k].heap ||
			    h->pages[i].block_bytes != h->pages[k].block_bytes)
				continue;
			put_word(h, h->pages[i].at + next, h->pages[k].at);
			put_word(h, h->pages[k].at + next + MS_MI_WORD, h->pages[i].at);
			break;
		}
}

/* ---- 2.x ---- */

static ms_addr slice_at(const struct miheap *h, ms_addr segment, uint64_t i)
{
	return segment + h->layout->segment.slices + i * h->layout->segment.slice_bytes;
}

static void put_slices(struct miheap *h, ms_addr segment, uint64_t i, uint64_t n, uint64_t size)
{
	ms_addr at = slice_at(h, segment, i);

	put(h, at + h->layout->segment.slice_count, 4, n);
	put_field(h, at, h->layout->page.block_size, size);
	if (n < 2 || i + n > MS_MI_SEGMENT_SLICES)
		return;
	at = slice_at(h, segment, i + n - 1);
	put(h, at + h->layout->segment.slice_offset, 4, (n - 1) * h->layout->segment.slice_bytes);
}

static void draw_segment(struct miheap *h, ms_addr at, uint64_t slices)
{
	const struct ms_mi_segment_layout *l = &h->layout->segment;
	uint64_t entries = slices < MS_MI_SEGMENT_SLICES ? slices : MS_MI_SEGMENT_SLICES;

	ms_fake_map(&h->fake, at, slices * MS_MI_SLICE, MS_PROT_READ | MS_PROT_WRITE, "");
	put_word(h, at + l->cookie, at ^ COOKIE);
	put_word(h, at + l->slices_n, slices);
	put_word(h, at + l->info_slices, 1);
	put_word(h, at + l->entries, entries);
	put_slices(h, at, 0, 1, MS_MI_SLICE);
}

/* Versions that keep where the first block is may have it anywhere. */
static uint64_t gap_for(const struct miheap *h, uint64_t block_bytes)
{
	if (h->layout->page.start)
		return block_bytes <= 1024 ? 3 * block_bytes : 0;
	if (h->layout->segment.gap == MS_MI_GAP_FIXED)
		return block_bytes <= 1024 ? 384 : 0;
	if (block_bytes <= 64)
		return 3 * block_bytes;
	return block_bytes <= 512 ? block_bytes : 0;
}

static void place_in_segments(struct miheap *h)
{
	ms_addr next = h->segment + MS_MI_SEGMENT;
	uint64_t slice = 1;

	draw_segment(h, h->segment, MS_MI_SEGMENT_SLICES);
	for (size_t i = 0; i < h->n_pages; i++) {
		struct miheap_page *page = &h->pages[i];
		ms_addr segment = page->block_bytes > HUGE ? next : h->segment;
		uint64_t first = page->block_bytes > HUGE ? 1 : slice;

		if (segment == next) {
			draw_segment(h, segment, page->slices + 1);
			next = ms_align_up(next + (page->slices + 1) * MS_MI_SLICE, MS_MI_SEGMENT);
		} else {
			slice += page->slices;
		}
		page->at = slice_at(h, segment, first);
		page->area = segment + first * MS_MI_SLICE;
		page->start = page->area + gap_for(h, page->block_bytes);
		put_slices(h, segment, first, page->slices, page->block_bytes);
		put_word(h, segment + h->layout->segment.used,
		         get(h, segment + h->layout->segment.used, MS_MI_WORD) + 1);
	}
	if (slice < MS_MI_SEGMENT_SLICES)
		put_slices(h, h->segment, slice, MS_MI_SEGMENT_SLICES - slice, 0);
}

/* ---- 3.x ---- */

static ms_addr map_entry(ms_addr addr)
{
	return LIST + (addr >> 16) % MS_MI_MAP_SLICES * MS_MI_WORD;
}

static void place_in_arena(struct miheap *h)
{
	uint64_t slice = 1;

	ms_fake_map(&h->fake, MEMORY, (uint64_t)ARENA_SLICES * MS_MI_SLICE,
	            MS_PROT_READ | MS_PROT_WRITE, "");
	put_word(h, MEMORY, MEMORY);
	put_word(h, MEMORY + MS_MI_WORD, (uint64_t)ARENA_SLICES * MS_MI_SLICE);
	put_word(h, MEMORY + h->layout->map.arena_slices, ARENA_SLICES);
	put_word(h, h->map + h->layout->map.header + (MEMORY >> 29) * MS_MI_WORD, LIST);
	for (size_t i = 0; i < h->n_pages; i++) {
		struct miheap_page *page = &h->pages[i];
		bool apart = h->layout->page.offset.bytes;

		page->area = MEMORY + slice * MS_MI_SLICE;
		page->at = apart ? MEMORY + META + i * META_BYTES : page->area;
		page->start = page->area + (apart ? 0x40 : 0x80);
		for (uint64_t k = 0; k < page->slices; k++)
			put_word(h, map_entry(page->area + k * MS_MI_SLICE), page->at);
		slice += page->slices;
		assert(slice <= ARENA_SLICES);
	}
}

/* ---- the picture ---- */

static uint64_t slices_for(const struct miheap *h, uint64_t block_bytes)
{
	uint64_t page = block_bytes <= 8192 ? MS_MI_SLICE : 8 * (uint64_t)MS_MI_SLICE;

	if (block_bytes > page / 4)
		page = ms_align_up(block_bytes + (h->layout->map.is_there ? 0x80 : 0), MS_MI_SLICE);
	return page / MS_MI_SLICE;
}

static void read_picture(struct miheap *h, const char *picture)
{
	ms_addr heap = MODULE + HEAP;
	char text[512];

	(void)snprintf(text, sizeof(text), "%s", picture);
	for (char *rest = text, *word; (word = strtok_r(rest, " ", &rest));) {
		struct miheap_page *page = &h->pages[h->n_pages];

		if (*word == '|' || *word == '!') {
			if (*word == '|')
				draw_heap(h);
			heap = *word == '|' ? h->heaps[h->n_heaps - 1] : 0;
			continue;
		}
		assert(h->n_pages < MIHEAP_PAGES);
		page->block_bytes = strtoull(word, &word, 10);
		page->heap = heap;
		page->slices = slices_for(h, page->block_bytes);
		(void)snprintf(page->blocks, sizeof(page->blocks), "%s", word + (*word == ':'));
		h->n_pages++;
	}
}

static const struct ms_mi_layout *layout_named(const char *version)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++)
		if (!strcmp(ms_mi_layouts[i].versions, version))
			return &ms_mi_layouts[i];
	assert(false && "a version that there is");
	return NULL;
}

void miheap_draw(struct miheap *h, const char *version, const char *picture)
{
	h->layout = layout_named(version);
	h->segment = MEMORY;
	h->map = h->layout->map.is_there ? MAP : 0;
	draw_module(h);
	if (h->map) {
		ms_fake_map(&h->fake, MAP,
		            h->layout->map.header + (uint64_t)MS_MI_MAP_ENTRIES * MS_MI_WORD,
		            MS_PROT_READ | MS_PROT_WRITE, "");
		ms_fake_map(&h->fake, LIST, (size_t)MS_MI_MAP_SLICES * MS_MI_WORD,
		            MS_PROT_READ | MS_PROT_WRITE, "");
	}
	ms_fake_map(&h->fake, HEAPS, (size_t)MIHEAP_HEAPS * HEAP_BYTES,
	            MS_PROT_READ | MS_PROT_WRITE, "");
	read_picture(h, picture);
	if (h->map)
		place_in_arena(h);
	else
		place_in_segments(h);
	for (size_t i = 0; i < h->n_pages; i++)
		draw_page(h, &h->pages[i]);
	draw_queues(h);
}

/* ---- damage ---- */

static ms_addr page_place(const struct miheap *h, const struct miheap_page *page, const char *field,
                          unsigned *bytes)
{
	const struct ms_mi_page_layout *l = &h->layout->page;
	const struct {
		const char *name;
		struct ms_mi_field field;
	} fields[] = {
		{ "capacity", l->capacity },
		{ "reserved", l->reserved },
		{ "used", l->used },
		{ "size", l->block_size },
		{ "free", { l->free, MS_MI_WORD } },
		{ "local", { l->local_free, MS_MI_WORD } },
		{ "thread", { l->thread_free, MS_MI_WORD } },
		{ "heap", { l->heap, MS_MI_WORD } },
		{ "next", { l->next, MS_MI_WORD } },
		{ "prev", { (uint16_t)(l->next + MS_MI_WORD), MS_MI_WORD } },
		{ "key", { l->keys, MS_MI_WORD } },
		{ "start", l->start ? (struct ms_mi_field){ l->start, MS_MI_WORD } : l->offset },
		{ "", { 0, MS_MI_WORD } },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, field)) {
			*bytes = fields[i].field.bytes;
			return page->at + fields[i].field.at;
		}
	assert(false && "a field of a page");
	return 0;
}

static ms_addr segment_place(const struct miheap *h, const char *field)
{
	const struct ms_mi_segment_layout *l = &h->layout->segment;
	const struct {
		const char *name;
		uint16_t at;
	} fields[] = { { "used", l->used },       { "cookie", l->cookie },
		       { "slices", l->slices_n }, { "info", l->info_slices },
		       { "entries", l->entries }, { "", 0 } };

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, field))
			return h->segment + fields[i].at;
	assert(false && "a field of a segment");
	return 0;
}

static ms_addr slice_place(const struct miheap *h, unsigned long n, const char *field,
                           unsigned *bytes)
{
	ms_addr at = slice_at(h, h->segment, n);

	*bytes = 4;
	if (!strcmp(field, "count"))
		return at + h->layout->segment.slice_count;
	if (!strcmp(field, "offset"))
		return at + h->layout->segment.slice_offset;
	return at + h->layout->page.block_size.at;
}

static ms_addr heap_place(const struct miheap *h, unsigned long n, const char *field)
{
	const struct ms_mi_heap_layout *l = &h->layout->heap;

	assert(n < h->n_heaps);
	if (!strcmp(field, "delayed"))
		return h->heaps[n] + l->delayed;
	if (!strcmp(field, "count"))
		return h->heaps[n] + l->page_count;
	if (!strcmp(field, "key"))
		return h->heaps[n] + l->keys;
	return h->heaps[n];
}

ms_addr miheap_place(const struct miheap *h, const char *name, unsigned *ret_bytes)
{
	const char *dot = strchr(name, '.');
	const char *field = dot ? dot + 1 : "";
	unsigned long n = strtoul(name + strcspn(name, "0123456789."), NULL, 10);

	*ret_bytes = MS_MI_WORD;
	if (!strncmp(name, "page", 4))
		return page_place(h, &h->pages[n], field, ret_bytes);
	if (!strncmp(name, "block", 5))
		return block_at(&h->pages[n], strtoul(field, NULL, 10));
	if (!strncmp(name, "segment", 7))
		return segment_place(h, field);
	if (!strcmp(name, "huge.slices"))
		return h->segment + MS_MI_SEGMENT + h->layout->segment.slices_n;
	if (!strcmp(name, "arena.size"))
		return MEMORY + MS_MI_WORD;
	if (!strcmp(name, "huge.count")) {
		*ret_bytes = 4;
		return slice_at(h, h->segment + MS_MI_SEGMENT, 1) + h->layout->segment.slice_count;
	}
	if (!strncmp(name, "size", 4))
		return h->heaps[0] + h->layout->heap.queues + n * h->layout->heap.queue_bytes +
		       h->layout->heap.queue_size;
	if (!strncmp(name, "slice", 5))
		return slice_place(h, n, field, ret_bytes);
	if (!strncmp(name, "heap", 4))
		return heap_place(h, n, field);
	if (!strncmp(name, "map", 3))
		return map_entry(h->pages[0].area + n * MS_MI_SLICE);
	if (!strcmp(name, "list"))
		return h->map + h->layout->map.header + (MEMORY >> 29) * MS_MI_WORD;
	if (!strcmp(name, "queue"))
		return h->heaps[0] + h->layout->heap.queues;
	assert(!strcmp(name, "root"));
	return h->map ? MODULE + ROOT : MODULE + HEAP;
}

void miheap_break(struct miheap *h, const char *damage)
{
	char place[32];
	char op[4];
	char value[32];
	int len;

	while (sscanf(damage, " %31s %3s %31[^, ]%n", place, op, value, &len) == 3) {
		unsigned bytes;
		unsigned ignored;
		ms_addr at = miheap_place(h, place, &bytes);
		uint64_t number = strchr("-0123456789", *value) ? strtoull(value, NULL, 0)
		                                                : miheap_place(h, value, &ignored);

		if (!strcmp(op, "->"))
			number = page_link(h, &h->pages[strtoul(place + 5, NULL, 10)], number);
		put(h, at, bytes, *op == '+' ? get(h, at, bytes) + number : number);
		damage += len;
		damage += strspn(damage, ", ");
	}
	assert(!*damage);
}

/* ---- what is told ---- */

enum ms_status miheap_decode(struct miheap *h)
{
	static const struct ms_decoder *const decoders[] = { &ms_mimalloc_decoder, NULL };

	h->decoding = (struct ms_decoding){ .src = &h->fake.base,
		                            .regions = &h->regions,
		                            .arena = &h->arena,
		                            .decoders = decoders,
		                            .blocks = &h->blocks,
		                            .heaps = &h->found,
		                            .evidence = &h->evidence,
		                            .warnings = &h->warnings };
	return decode_drawn(&h->decoding, &h->regions, &h->err);
}

const char *miheap_told(struct miheap *h)
{
	char *text = ms_arena_resize(&h->arena, NULL, (h->blocks.n + 1) * 40);
	char *to = text;

	for (uint32_t i = 0; i < ms_blocks_numbers(&h->blocks); i++) {
		struct ms_block block = ms_block_numbered(&h->blocks, i);
		const struct ms_extent *e = &h->blocks.extents.at[block.extent];

		to += sprintf(to, "%llx:%llu ",
		              (unsigned long long)ms_block_begin(e, block.granule),
		              (unsigned long long)ms_block_size(&h->blocks, e, block.granule));
	}
	return text;
}

static bool is_unproved(const struct miheap *h, ms_addr addr)
{
	const struct ms_range *r;

	ms_vec_for_each (r, &h->decoding.unproved)
		if (ms_range_has(*r, addr))
			return true;
	return false;
}

static bool is_lost(size_t page, const char *lost)
{
	return *lost == '*' || (page < 10 && strchr(lost, '0' + (char)page));
}

static const char *wrong_with(struct miheap *h, size_t i, const char *lost, uint64_t *n)
{
	const struct miheap_page *page = &h->pages[i];
	const char *told = miheap_told(h);

	if (is_unproved(h, page->start) != is_lost(i, lost))
		return is_lost(i, lost) ? "not handed over" : "not proved";
	for (size_t k = 0; page->blocks[k]; k++) {
		bool wanted = page->blocks[k] == 'u' && !is_lost(i, lost);
		char text[64];

		(void)snprintf(text, sizeof(text), "%llx:%llu ",
		               (unsigned long long)block_at(page, k),
		               (unsigned long long)page->block_bytes - h->layout->page.padding);
		*n += wanted;
		if ((strstr(told, text) != NULL) != wanted)
			return wanted ? "not told" : "told";
	}
	return NULL;
}

static bool is_as_drawn(struct miheap *h, const char *lost)
{
	const bool verified = h->found.n && h->found.at[0].verified;
	uint64_t n = 0;

	for (size_t i = 0; i < h->n_pages; i++) {
		const char *wrong = wrong_with(h, i, lost, &n);

		if (!wrong)
			continue;
		(void)snprintf(h->wrong, sizeof(h->wrong), "page%zu is %s: %.180s", i, wrong,
		               miheap_told(h));
		return false;
	}
	if (verified == (*lost != '\0'))
		(void)snprintf(h->wrong, sizeof(h->wrong), "%sverified", *lost ? "" : "not ");
	else if (n != h->blocks.n || h->found.at[0].allocations != n ||
	         h->found.at[0].allocation_bytes != h->blocks.bytes)
		(void)snprintf(h->wrong, sizeof(h->wrong), "more told than drawn: %.200s",
		               miheap_told(h));
	else
		return true;
	return false;
}

const char *miheap_try(struct miheap *h, const char *lost)
{
	h->wrong[0] = '\0';
	for (int no_view = 0; no_view < 2; no_view++) {
		h->fake.no_view = no_view;
		if (miheap_decode(h))
			(void)snprintf(h->wrong, sizeof(h->wrong), "%s", h->err.text);
		else if (is_as_drawn(h, lost))
			continue;
		break;
	}
	return h->wrong;
}

bool miheap_says(const struct miheap *h, const char *text)
{
	return notes_say(&h->evidence, text);
}
