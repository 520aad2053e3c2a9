/* SPDX-License-Identifier: Apache-2.0 */
#include "jeheap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/decoders.h"
#include "decoded.h"
#include "engine/decode.h"
#include "module.h"

enum {
	PAGE = 4096,
	RW = MS_PROT_READ | MS_PROT_WRITE,
	TABLE = 0x1008, /* in the data; from here on all that is not aligned in truth, too */
	INFOS = 0x9100,
	ROOT = 0xa018,
	DATA_BYTES = 0x20b000,
	BASE_BYTES = 0x800000,
	BASE = 0xc0, /* in its block */
	ARENA = 0x10000,
	EDATA = 0x60000,
	LEAVES = 0x1000c0, /* the table of leaves, where there is one */
	LEAF = LEAVES + 0x100000,
	HEAP_BYTES = 0x200000,
	CACHE_BYTES = 0x3000,
	STACK_INDEX = 40, /* the class of a cache's stacks: 28,672 bytes */
	STACK_EACH = 16,  /* pointers of a bin */
	BINS = 41,
	BIN_BYTES = 24,
	TDATA_INDEX = 5,
};

static const ms_addr MODULE = 0x7f0000000000;
static const ms_addr BASES = 0x7f1000000000;
/* Not at the begin of what a leaf is about. */
static const ms_addr HEAP = 0x7f2004000000;
static const ms_addr THREADS = 0x7f3000000000;

/* The test itself is wrong. */
__attribute__((noreturn)) static void no_such(const char *what, const char *name)
{
	(void)fprintf(stderr, "jeheap: there is no %s %s\n", what, name);
	abort();
}

/* What is being drawn. */
struct pen {
	struct jeheap *h;
	ms_addr leaf;
	ms_addr at; /* the next free page of the heap */
	uint32_t arena;
	ms_addr heads[JEHEAP_CACHES][BINS]; /* what is cached is from here on */
};

static void put(const struct pen *pen, ms_addr addr, uint64_t value)
{
	ms_fake_put(&pen->h->fake, addr, value);
}

static void add(const struct pen *pen, ms_addr addr, uint64_t value)
{
	uint64_t old = 0;

	(void)ms_source_word(&pen->h->fake.base, addr, &old);
	put(pen, addr, old + value);
}

static uint32_t index_of(uint64_t bytes)
{
	uint32_t index = 0;

	while (ms_je_class_bytes(index) < bytes)
		index++;
	assert(ms_je_class_bytes(index) == bytes);
	return index;
}

/* ---- what is always there ---- */

static void draw_module(struct pen *pen)
{
	struct jeheap *h = pen->h;
	char *page = ms_fake_map(&h->fake, MODULE, PAGE, MS_PROT_READ, "/lib/libfake.so");

	elf_write(page, 1)[0] = elf_load(0, PAGE + DATA_BYTES, PF_R | PF_W);
	(void)ms_fake_map(&h->fake, MODULE + PAGE, DATA_BYTES, RW, "/lib/libfake.so");
	h->table = MODULE + PAGE + TABLE;
	h->root = MODULE + PAGE + ROOT;
	for (uint32_t i = 0; i < MS_JE_BINS; i++) {
		ms_addr info = MODULE + PAGE + INFOS + i * 40u;
		uint64_t bytes = ms_je_class_bytes(i);
		uint64_t slab = PAGE;

		while (slab % bytes)
			slab += PAGE;
		put(pen, info, bytes);
		put(pen, info + 8, slab);
		put(pen, info + 16, slab / bytes | UINT64_C(1) << 32);
	}
}

static void draw_arena(struct pen *pen, uint32_t ind)
{
	struct jeheap *h = pen->h;
	const struct ms_je_layout *layout = h->layout;
	ms_addr block = BASES + (uint64_t)ind * BASE_BYTES;

	h->bases[ind] = block + BASE;
	h->arenas[ind] = block + ARENA;
	h->n_arenas++;
	put(pen, block, BASE_BYTES);
	put(pen, h->bases[ind], ind);
	put(pen, h->bases[ind] + layout->base_blocks, block);
	put(pen, h->arenas[ind] + layout->arena_base, h->bases[ind]);
	if (layout->arena_ind)
		put(pen, h->arenas[ind] + layout->arena_ind, ind);
	put(pen, h->table + ind * 8u, h->arenas[ind]);
	for (uint32_t i = 0; layout->bins_are_pointers && i < MS_JE_BINS; i++)
		put(pen, h->arenas[ind] + layout->arena_bins + i * 8u,
		    h->arenas[ind] + 0x20000 + i * (uint64_t)layout->bin_bytes);
}

static ms_addr bin_of(const struct jeheap *h, uint32_t arena, uint32_t index)
{
	ms_addr first =
		h->arenas[arena] + (h->layout->bins_are_pointers ? 0x20000 : h->layout->arena_bins);

	return first + index * (uint64_t)h->layout->bin_bytes;
}

/* ---- extents ---- */

enum named { NAMED_ENDS, NAMED_ALL };

/* What a leaf says of @e, whose description begins with @bits. */
static void draw_entry(const struct pen *pen, const struct jeheap_extent *e, uint64_t bits,
                       ms_addr at)
{
	const struct ms_je_bits *b = pen->h->layout->bits;
	uint64_t slab = ms_je_field(bits, MS_JE_SLAB_BIT, 1);
	uint64_t flags = slab;

	if (b->leaf_state)
		flags |= (uint64_t)ms_je_field(bits, b->state, b->state_bits) << 2;
	if (pen->h->tree->entry_words == 1) {
		put(pen, at, e->edata | (uint64_t)e->index << 48 | flags);
		return;
	}
	put(pen, at, e->edata);
	put(pen, at + 8, b->leaf_state ? e->index << 5 | flags : e->index | slab << 32);
}

static struct jeheap_extent *draw_extent(struct pen *pen, uint64_t pages, uint64_t bits,
                                         enum named named)
{
	struct jeheap *h = pen->h;
	const struct ms_je_bits *b = h->layout->bits;
	struct jeheap_extent *e = &h->extents[h->n_extents++];

	assert(h->n_extents <= JEHEAP_EXTENTS);
	*e = (struct jeheap_extent){ .edata = BASES + EDATA + h->n_extents * MS_JE_EDATA_BYTES,
		                     .word = pen->leaf + pen->at / PAGE % h->tree->leaf_entries *
		                                                 8 * h->tree->entry_words,
		                     .begin = pen->at,
		                     .pages = pages,
		                     .arena = pen->arena,
		                     .index = ms_je_field(bits, b->class_, MS_JE_CLASS_BITS) };
	put(pen, e->edata, bits | pen->arena);
	put(pen, e->edata + MS_JE_EDATA_ADDR, pen->at);
	put(pen, e->edata + MS_JE_EDATA_SIZE, pages * PAGE | 7);
	for (uint64_t i = 0; i < pages; i++)
		if (named == NAMED_ALL || i == 0 || i == pages - 1)
			draw_entry(pen, e, bits, e->word + i * 8 * h->tree->entry_words);
	pen->at += pages * PAGE;
	return e;
}

static uint64_t bits_of(const struct pen *pen, uint32_t index, bool slab, uint64_t nfree,
                        enum ms_je_state state)
{
	const struct ms_je_bits *b = pen->h->layout->bits;

	return (uint64_t)index << b->class_ | (uint64_t)slab << MS_JE_SLAB_BIT | nfree << b->nfree |
	       (uint64_t)state << b->state;
}

static void count_pages(const struct pen *pen, uint64_t pages)
{
	add(pen, pen->h->arenas[pen->arena] + pen->h->layout->arena_nactive, pages);
}

static void add_live(const struct pen *pen, ms_addr begin, uint64_t bytes)
{
	struct jeheap *h = pen->h;

	assert(h->n_live < JEHEAP_BLOCKS);
	h->live[h->n_live++] = (struct jeheap_block){ begin, bytes };
}

static void cache(struct pen *pen, size_t number, uint32_t index, ms_addr block)
{
	pen->heads[number][index] -= 8;
	put(pen, pen->heads[number][index], block);
}

static void draw_slab(struct pen *pen, uint64_t bytes, const char *regions, size_t n_drawn)
{
	uint32_t index = index_of(bytes);
	uint64_t pages = 1;
	uint64_t bitmap[MS_JE_BITMAP_WORDS] = { 0 };
	uint64_t n;
	uint64_t used = 0;
	struct jeheap_extent *e;
	ms_addr stats;

	while (pages * PAGE % bytes)
		pages++;
	n = pages * PAGE / bytes;
	assert(n_drawn <= n);
	for (uint64_t i = 0; i < n; i++) {
		char kind = i < n_drawn ? regions[i] : '.';
		ms_addr at = pen->at + i * bytes;

		if (kind == '.')
			bitmap[i / 64] |= UINT64_C(1) << i % 64;
		else
			used++;
		if (kind == 'u')
			add_live(pen, at, bytes);
		else if (kind != '.')
			cache(pen, kind == 'm', index, at);
	}
	e = draw_extent(pen, pages, bits_of(pen, index, true, n - used, MS_JE_ACTIVE), NAMED_ALL);
	for (size_t i = 0; i < MS_JE_BITMAP_WORDS; i++)
		put(pen, e->edata + MS_JE_EDATA_BITMAP + i * 8,
		    i <= (n - 1) / 64 ? bitmap[i]
		                      : 0x5555); /* jemalloc leaves these as they were */
	count_pages(pen, pages);
	stats = bin_of(pen->h, pen->arena, index) + pen->h->layout->bin_stats;
	add(pen, stats + MS_JE_BIN_NMALLOC, used + 5);
	add(pen, stats + MS_JE_BIN_NDALLOC, 5);
	add(pen, stats + MS_JE_BIN_CURREGS, used);
	add(pen, stats + MS_JE_BIN_CURSLABS, 1);
}

/* Returns the block; moved about in its first page as jemalloc does. */
static ms_addr draw_large(struct pen *pen, uint64_t bytes)
{
	const struct ms_je_layout *layout = pen->h->layout;
	uint32_t index = index_of(bytes);
	ms_addr stats = pen->h->arenas[pen->arena] + layout->arena_large_stats +
	                (index - MS_JE_BINS) * (uint64_t)layout->large_stats_bytes;
	ms_addr block = pen->at + 0x40 * (pen->h->n_extents % 3);
	struct jeheap_extent *e = draw_extent(
		pen, bytes / PAGE + 1, bits_of(pen, index, false, 0, MS_JE_ACTIVE), NAMED_ENDS);

	put(pen, e->edata + MS_JE_EDATA_ADDR, block);
	count_pages(pen, e->pages);
	add(pen, stats, 3);
	add(pen, stats + 8, 2);
	return block;
}

/* ---- caches ---- */

static void draw_bin(const struct pen *pen, size_t number, uint32_t i, ms_addr begin, ms_addr end)
{
	const struct jeheap *h = pen->h;
	ms_addr head = pen->heads[number][i];

	ms_addr bin = h->caches[number] +
	              (i < MS_JE_BINS ? h->layout->small_bins + i * BIN_BYTES
	                              : h->layout->large_bins + (i - MS_JE_BINS) * BIN_BYTES);
	if (h->layout->counted) {
		put(pen, bin, (end - head) / 8 << 32);
		put(pen, bin + 16, end);
		return;
	}
	put(pen, bin, head);
	put(pen, bin + 16,
	    (head & 0xffff) | (begin & 0xffff) << 16 | (end & 0xffff) << 32 |
	            (h->layout->tells_max ? (uint64_t)STACK_EACH << 48 : 0));
}

static void link_ring(const struct pen *pen)
{
	const struct jeheap *h = pen->h;
	const struct ms_je_layout *layout = h->layout;

	for (size_t i = 0; i < JEHEAP_CACHES; i++) {
		put(pen, h->rings[i] + layout->list_link, h->rings[1 - i]);
		put(pen, h->rings[i] + layout->list_link + 8, h->rings[1 - i]);
		put(pen, h->rings[i] + layout->list_arena, h->arenas[0]);
		if (layout->counted)
			continue;
		put(pen, h->rings[i] + layout->list_stack, h->stacks[i]);
		put(pen, h->rings[i] + layout->list_tcache, h->caches[i]);
		put(pen, h->caches[i], h->rings[i]);
	}
	put(pen, h->arenas[0] + layout->arena_tcaches, h->rings[0]);
}

/* The stacks of the thread's cache and of the program's, which is behind its stacks. */
static void place_caches(struct pen *pen)
{
	struct jeheap *h = pen->h;

	for (size_t i = 0; i < JEHEAP_CACHES; i++) {
		uint64_t bytes = ms_je_class_bytes(STACK_INDEX);
		ms_addr at;

		h->stacks[i] = draw_large(pen, bytes);
		add(pen, h->arenas[0] + h->layout->arena_internal, bytes);
		h->caches[i] = i ? h->stacks[i] + 0x4000 : THREADS + 0x1000;
		h->rings[i] = h->layout->counted ? h->caches[i] : h->caches[i] + 0x1000;
		at = h->stacks[i] + (h->layout->counted ? 0 : 8);
		for (uint32_t k = 0; k < BINS; k++)
			pen->heads[i][k] = at += STACK_EACH * 8;
	}
}

static void finish_caches(const struct pen *pen)
{
	const struct jeheap *h = pen->h;

	for (size_t i = 0; i < JEHEAP_CACHES; i++) {
		ms_addr at = h->stacks[i];

		if (!h->layout->counted) {
			put(pen, at, 0x7a7a7a7a7a7a7a7a);
			at += 8;
		}
		for (uint32_t k = 0; k < BINS; k++, at += STACK_EACH * 8)
			draw_bin(pen, i, k, at, at + STACK_EACH * 8);
		if (!h->layout->counted)
			put(pen, at, h->layout->behind);
	}
	link_ring(pen);
}

/* ---- the picture ---- */

static void draw_token(struct pen *pen, const char *token, size_t len)
{
	char *end;
	uint64_t n = strtoull(token + 1, &end, 10);
	ms_addr block;

	switch (*token) {
	case ';':
		pen->arena++;
		draw_arena(pen, pen->arena);
		break;
	case 's':
		draw_slab(pen, n, end + 1, len - (size_t)(end + 1 - token));
		break;
	case 'l':
		block = draw_large(pen, n);
		add_live(pen, block, n);
		break;
	case 'k':
		block = draw_large(pen, n);
		cache(pen, 0, index_of(n), block);
		break;
	case 'd':
		(void)draw_extent(pen, n, bits_of(pen, 13, true, 3, MS_JE_DIRTY), NAMED_ENDS);
		break;
	case 'h':
		(void)draw_extent(pen, n, bits_of(pen, MS_JE_CLASSES, false, 0, MS_JE_ACTIVE),
		                  NAMED_ENDS);
		break;
	default:
		no_such("letter", token);
	}
}

static const struct ms_je_layout *layout_of(const char *version)
{
	for (size_t i = 0; i < ms_je_n_layouts; i++)
		if (ms_name_begins(version, ms_je_layouts[i].version))
			return &ms_je_layouts[i];
	no_such("version", version);
}

static void draw_tree(struct pen *pen)
{
	const struct ms_je_tree *tree = pen->h->tree;
	ms_addr at = pen->h->root + (HEAP >> tree->root_shift) * 8;

	if (tree->table_words) {
		put(pen, at, BASES + LEAVES);
		at = BASES + LEAVES + (HEAP >> tree->leaf_shift) % tree->table_words * 8;
	}
	put(pen, at, pen->leaf);
}

void jeheap_draw(struct jeheap *h, const char *version, const char *picture)
{
	struct pen pen = { .h = h, .leaf = BASES + LEAF, .at = HEAP };

	memset(h, 0, sizeof(*h));
	ms_fake_init(&h->fake);
	h->fake.hides_zeros = true;
	h->layout = layout_of(version);
	h->tree = &ms_je_trees[strstr(version, " wide") != NULL];
	draw_module(&pen);
	(void)ms_fake_map(&h->fake, BASES, JEHEAP_ARENAS * (size_t)BASE_BYTES, RW, "");
	(void)ms_fake_map(&h->fake, HEAP, HEAP_BYTES, RW, "");
	(void)ms_fake_map(&h->fake, THREADS, CACHE_BYTES, RW, "");
	draw_tree(&pen);
	draw_arena(&pen, 0);
	place_caches(&pen);
	while (*picture) {
		size_t len = strcspn(picture, " ");

		draw_token(&pen, picture, len);
		picture += len + strspn(picture + len, " ");
	}
	finish_caches(&pen);
}

/* A static program with thread-local storage: a thread has it in the CACHE_BYTES at @begin. */
static void draw_storage(struct jeheap *h, ms_addr begin)
{
	enum { ALIGN = 64 };
	ms_addr tp = h->fake.base.abi.tls_above ? begin - ALIGN : begin + CACHE_BYTES;
	Elf64_Phdr *phdr = elf_write((void *)h->fake.bytes[0], 2);

	assert(h->fake.base.mappings.at[0].range.begin == MODULE);
	phdr[0] = elf_load(0, PAGE + DATA_BYTES, PF_R | PF_W);
	phdr[1] = (Elf64_Phdr){ .p_type = PT_TLS, .p_memsz = CACHE_BYTES, .p_align = ALIGN };
	(void)ms_fake_thread(&h->fake, 1, begin, tp);
}

void jeheap_uncount(struct jeheap *h, bool own)
{
	const struct ms_je_layout *layout = h->layout;
	const uint64_t bytes = ms_je_class_bytes(STACK_INDEX);

	for (uint32_t arena = 0; arena < h->n_arenas; arena++) {
		for (uint32_t i = 0; i < MS_JE_BINS; i++)
			for (uint32_t at = 0; at <= MS_JE_BIN_CURSLABS; at += 8)
				ms_fake_put(&h->fake, bin_of(h, arena, i) + layout->bin_stats + at,
				            0);
		for (uint64_t i = 0; i < MS_JE_CLASSES - MS_JE_BINS; i++)
			for (uint32_t at = 0; at < 2; at++)
				ms_fake_put(&h->fake,
				            h->arenas[arena] + layout->arena_large_stats +
				                    i * layout->large_stats_bytes + at * 8,
				            0);
		ms_fake_put(&h->fake, h->arenas[arena] + layout->arena_internal, 0);
		ms_fake_put(&h->fake, h->arenas[arena] + layout->arena_tcaches, 0);
	}
	draw_storage(h, THREADS);
	if (own)
		return;
	ms_fake_put(&h->fake, h->stacks[1], 0);
	h->live[h->n_live++] = (struct jeheap_block){ h->stacks[1], bytes };
}

void jeheap_deinit(struct jeheap *h)
{
	ms_arena_deinit(&h->arena);
	ms_fake_deinit(&h->fake);
}

/* ---- places ---- */

static ms_addr field_of(const char *field, const char *const *names, const uint64_t *offsets)
{
	for (size_t i = 0; names[i]; i++)
		if (!strcmp(field, names[i]))
			return offsets[i];
	no_such("field", field);
}

static ms_addr arena_place(const struct jeheap *h, unsigned n, const char *field)
{
	static const char *const names[] = { "nactive", "internal", "tcaches", "base", NULL };
	const struct ms_je_layout *l = h->layout;
	const uint64_t offsets[] = { l->arena_nactive, l->arena_internal, l->arena_tcaches,
		                     l->arena_base };

	if (!strncmp(field, "lock", 4))
		return h->arenas[n] + l->arena_locks[field[4] - '0'] + l->lock_held;
	return h->arenas[n] + field_of(field, names, offsets);
}

static ms_addr cache_place(const struct jeheap *h, unsigned n, unsigned index, unsigned word)
{
	const struct ms_je_layout *l = h->layout;

	return h->caches[n] + 8 * (uint64_t)word +
	       (index < MS_JE_BINS ? l->small_bins + index * (uint64_t)BIN_BYTES
	                           : l->large_bins + (index - MS_JE_BINS) * (uint64_t)BIN_BYTES);
}

static ms_addr bin_place(const struct jeheap *h, unsigned n, unsigned index, const char *field)
{
	static const char *const names[] = { "nmalloc", "curregs", "curslabs", "lock", NULL };
	const struct ms_je_layout *l = h->layout;
	const uint64_t offsets[] = { l->bin_stats + MS_JE_BIN_NMALLOC,
		                     l->bin_stats + MS_JE_BIN_CURREGS,
		                     l->bin_stats + MS_JE_BIN_CURSLABS, l->lock_held };

	return bin_of(h, n, index) + field_of(field, names, offsets);
}

ms_addr jeheap_place(const struct jeheap *h, const char *name)
{
	static const char *const in_edata[] = { "bits", "addr", "size", "bitmap", NULL };
	static const uint64_t edata_offsets[] = { 0, MS_JE_EDATA_ADDR, MS_JE_EDATA_SIZE,
		                                  MS_JE_EDATA_BITMAP };
	static const char *const in_base[] = { "ind", "blocks", "hooks", NULL };
	static const char *const in_ring[] = { "next", "prev", "arena", NULL };
	const struct ms_je_layout *l = h->layout;
	const uint64_t base_offsets[] = { 0, l->base_blocks, l->base_hooks[0] };
	const uint64_t ring_offsets[] = { l->list_link, l->list_link + 8u, l->list_arena };
	char field[16] = "";
	unsigned n;
	unsigned index;
	unsigned word;

	if (sscanf(name, "edata%u.%15s", &n, field) == 2)
		return h->extents[n].edata + field_of(field, in_edata, edata_offsets);
	if (sscanf(name, "word%u.%u", &n, &index) == 2)
		return h->extents[n].word + index * 8u * h->tree->entry_words;
	if (sscanf(name, "said%u.%u", &n, &index) == 2)
		return h->extents[n].word + index * 16u + 8;
	if (sscanf(name, "root%u", &n) == 1)
		return h->root + (h->extents[n].begin >> h->tree->root_shift) * 8;
	if (sscanf(name, "leaves%u", &n) == 1)
		return BASES + LEAVES +
		       (h->extents[n].begin >> h->tree->leaf_shift) % h->tree->table_words * 8;
	if (sscanf(name, "arena%u.%15s", &n, field) == 2)
		return arena_place(h, n, field);
	if (sscanf(name, "bin%u.%u.%15s", &n, &index, field) == 3)
		return bin_place(h, n, index, field);
	if (sscanf(name, "large%u.%u", &n, &index) == 2)
		return h->arenas[n] + l->arena_large_stats +
		       (index - MS_JE_BINS) * (uint64_t)l->large_stats_bytes;
	if (sscanf(name, "base%u.%15s", &n, field) == 2)
		return h->bases[n] + field_of(field, in_base, base_offsets);
	if (sscanf(name, "ring%u.%15s", &n, field) == 2)
		return h->rings[n] + field_of(field, in_ring, ring_offsets);
	if (sscanf(name, "cache%u.%u.%u", &n, &index, &word) == 3)
		return cache_place(h, n, index, word);
	if (sscanf(name, "stack%u", &n) == 1)
		return h->stacks[n];
	no_such("place", name);
}

static void break_one(struct jeheap *h, const char *damage)
{
	char name[32];
	char op[4];
	long long value;
	uint64_t old;
	ms_addr place;

	if (sscanf(damage, "%31s %3s %lli", name, op, &value) != 3)
		no_such("damage", damage);
	place = jeheap_place(h, name);
	if (!ms_source_word(&h->fake.base, place, &old))
		no_such("memory at", name);
	if (*op == '+')
		old += (uint64_t)value;
	else if (*op == '-')
		old -= (uint64_t)value;
	else if (*op == '^')
		old ^= (uint64_t)value;
	else
		old = (uint64_t)value;
	ms_fake_put(&h->fake, place, old);
}

void jeheap_break(struct jeheap *h, const char *damage)
{
	while (damage) {
		break_one(h, damage);
		damage = strchr(damage, ',');
		if (damage)
			damage++;
	}
}

/* ---- decoding ---- */

enum ms_status jeheap_decode(struct jeheap *h)
{
	static const struct ms_decoder *const decoders[] = { &ms_jemalloc_decoder, NULL };

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

static const struct jeheap_block *drawn_at(const struct jeheap *h, ms_addr begin)
{
	for (size_t i = 0; i < h->n_live; i++)
		if (h->live[i].begin == begin)
			return &h->live[i];
	return NULL;
}

/* False, and h->wrong, when a block is told that was not drawn. */
static bool none_false(struct jeheap *h)
{
	for (uint32_t i = 0; i < ms_blocks_numbers(&h->blocks); i++) {
		struct ms_block b = ms_block_numbered(&h->blocks, i);
		const struct ms_extent *e = &h->blocks.extents.at[b.extent];
		const struct jeheap_block *drawn = drawn_at(h, ms_block_begin(e, b.granule));
		uint64_t usable = ms_block_usable(&h->blocks, e, b.granule);

		if (drawn && drawn->bytes == usable)
			continue;
		(void)snprintf(h->wrong, sizeof(h->wrong), "%llx of %llu bytes is told",
		               (unsigned long long)ms_block_begin(e, b.granule),
		               (unsigned long long)usable);
		return false;
	}
	return true;
}

static bool try_once(struct jeheap *h)
{
	h->wrong[0] = '\0';
	if (jeheap_decode(h) != MS_OK) {
		(void)snprintf(h->wrong, sizeof(h->wrong), "it fails");
		return false;
	}
	return none_false(h);
}

static void say_first_note(struct jeheap *h)
{
	const struct ms_note *note;

	ms_vec_for_each (note, &h->evidence)
		if (strstr(note->text, "not proved")) {
			(void)snprintf(h->wrong, sizeof(h->wrong), "%s", note->text);
			return;
		}
	(void)snprintf(h->wrong, sizeof(h->wrong), "%llu of %zu blocks, %zu heaps",
	               (unsigned long long)h->blocks.n, h->n_live, h->found.n);
}

const char *jeheap_try(struct jeheap *h)
{
	for (int i = 0; i < 2; i++) {
		h->fake.no_view = i;
		if (!try_once(h))
			return h->wrong;
		if (jeheap_is_verified(h) && h->blocks.n == h->n_live)
			continue;
		say_first_note(h);
		return h->wrong;
	}
	return h->wrong;
}

const char *jeheap_doubt(struct jeheap *h)
{
	if (try_once(h) && jeheap_is_verified(h))
		(void)snprintf(h->wrong, sizeof(h->wrong), "it is verified");
	return h->wrong;
}

bool jeheap_is_verified(const struct jeheap *h)
{
	const struct ms_heap *heap;

	ms_vec_for_each (heap, &h->found)
		if (!heap->verified)
			return false;
	return h->found.n;
}

bool jeheap_says(const struct jeheap *h, const char *text)
{
	return notes_say(&h->evidence, text);
}
