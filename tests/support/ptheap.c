/* SPDX-License-Identifier: Apache-2.0 */
#include "ptheap.h"

#include <assert.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/glibc/layout.h"
#include "ptplaces.h"

/*
 * Where things are. One library's addresses, from its base:
 *
 *	0        break memory, or the main arena's first mapping
 *	PIECES   its further pieces, the last one lowest, then mmapped chunks: all
 *	         one mapping, as the kernel would have it
 *	ARENAS   heaps of other arenas, 64 MiB each, in a process of 32 bits 1 MiB
 *	MODULE   the library: a page of headers, two of data
 *
 * What is below PTHEAP_STORAGE is for words that stand farther from their thread pointer.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 4096,
	MAPPED_BYTES = 1 << 19,
	DATA_BYTES = 2 * PAGE
};

static const ms_addr TLS_BYTES = 0x10000; /* a thread's */
static const ms_addr PIECES = 0x1000000;

/* What depends on how many addresses there are. */
struct distances {
	ms_addr base;
	ms_addr arenas;
	ms_addr module;
};

static const struct distances wide = { 0x100000000000, 0x100000000, 0x200000000 };
static const struct distances narrow = { 0x10000000, 0x4000000, 0x8000000 };

static const uint64_t CACHE_DISTANCE = 0x48;
static const uint64_t LIBC_DISTANCE = 0x100; /* from the first library's word to the second's */
static const uint64_t RANDOM_KEY = 0x6b657920656e6f21;

static const struct ptheap_version versions[] = {
	{ "2.26", 8, 0, 0, 0, false, KEY_NONE, 0x20, 7 },
	{ "2.27", 8, 1, 0, 0, false, KEY_NONE, 0x20, 7 },
	{ "2.31", 8, 1, 0, 1, false, KEY_CACHE, 0x20, 7 },
	{ "2.33", 8, 1, 0, 1, true, KEY_CACHE, 0x20, 7 },
	{ "2.36", 8, 1, 1, 1, true, KEY_RANDOM, 0x30, 7 },
	{ "2.42", 8, 1, 1, 2, true, KEY_RANDOM, 0x30, 7 },
	{ "2.43", 8, 2, 2, 2, true, KEY_RANDOM, 0x30, 16 },
	{ "2.26/32", 4, 0, 0, 0, false, KEY_NONE, 0x18, 7 },
	{ "2.27/32", 4, 1, 0, 0, false, KEY_NONE, 0x18, 7 },
	{ "2.31/32", 4, 1, 0, 1, false, KEY_CACHE, 0x18, 7 },
	{ "2.33/32", 4, 1, 0, 1, true, KEY_CACHE, 0x18, 7 },
	{ "2.36/32", 4, 1, 1, 1, true, KEY_RANDOM, 0x18, 7 },
	{ "2.42/32", 4, 1, 1, 2, true, KEY_RANDOM, 0x18, 7 },
	{ "2.43/32", 4, 2, 2, 2, true, KEY_RANDOM, 0x18, 16 },
};

/* The pen: where the next chunk goes. */
struct pen {
	struct ptheap *h;
	struct ptheap_libc *libc;
	const struct ms_pt_shape *shape;
	const struct distances *distances;
	ms_addr base; /* the library's */
	ms_addr arena;
	bool main;
	ms_addr at;         /* the next chunk */
	ms_addr end;        /* of the piece */
	uint64_t prev_free; /* size of the free chunk before, or 0 */
	ms_addr pieces;     /* the last one is the lowest */
	unsigned int arenas;
	unsigned int threads;
	ms_addr cache;  /* drawn last */
	ms_addr mapped; /* the next mmapped chunk's mapping */
	char owner;
};

/* The fake source, with its reads counted. */
static size_t count_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	struct ptheap *h = (struct ptheap *)src; /* fake is its first member, base of that */

	(void)__atomic_add_fetch(&h->reads, 1, __ATOMIC_RELAXED);
	(void)__atomic_add_fetch(&h->read_bytes, len, __ATOMIC_RELAXED);
	return h->fake_ops->read(src, addr, buf, len);
}

void ptheap_init_tls(struct ptheap *h, uint64_t distance, enum ptheap_tls tls)
{
	ms_addr begin = ms_align_down(PTHEAP_STORAGE - distance, PAGE);

	memset(h, 0, sizeof(*h));
	h->cache_distance = distance;
	h->tls = tls;
	ms_fake_init(&h->fake);
	/* Drawn as x86 has it, whichever machine the test runs on. */
	h->fake.base.abi.tls_above = false;
	h->fake_ops = h->fake.base.ops;
	h->ops = *h->fake_ops;
	h->ops.read = count_read;
	h->fake.base.ops = &h->ops;
	(void)ms_fake_map(&h->fake, begin, PTHEAP_STORAGE - begin + PTHEAP_ARENAS * TLS_BYTES, RW,
	                  "");
}

void ptheap_init(struct ptheap *h)
{
	ptheap_init_tls(h, CACHE_DISTANCE, PTHEAP_TLS_NEAREST);
}

void ptheap_deinit(struct ptheap *h)
{
	ms_arena_deinit(&h->arena);
	ms_fake_deinit(&h->fake);
}

_Noreturn void ptheap_refuse(const char *text, const char *is_no)
{
	(void)fprintf(stderr, "ptheap: \"%s\" is no %s\n", text, is_no);
	abort();
}

uint64_t ptheap_word(const struct ptheap *h, ms_addr addr)
{
	struct ms_source *src = (struct ms_source *)(uintptr_t)&h->fake.base;
	uint64_t word = 0;

	(void)ms_source_word(src, addr, &word);
	return word;
}

const struct ms_pt_shape *ptheap_shape(const struct ptheap *h)
{
	return ms_pt_shape_of(h->libcs[0].version->word);
}

ms_addr ptheap_mem(const struct ptheap *h, const struct ptheap_chunk *chunk)
{
	return chunk->addr + ptheap_shape(h)->header;
}

static ms_addr heap_max(const struct pen *pen)
{
	return pen->h->heap_max ? pen->h->heap_max : pen->shape->heap_max;
}

/* The first chunk not below @addr. */
static ms_addr chunk_from(const struct pen *pen, ms_addr addr)
{
	return ms_align_up(addr + pen->shape->header, MS_ALIGNMENT) - pen->shape->header;
}

static void put(struct pen *pen, ms_addr addr, uint64_t word)
{
	ms_fake_put(&pen->h->fake, addr, word);
}

static void put_int(struct pen *pen, ms_addr addr, uint32_t value)
{
	memcpy(ms_fake_at(&pen->h->fake, addr), &value, sizeof(value));
}

static void add(struct pen *pen, ms_addr addr, uint64_t more)
{
	put(pen, addr, ptheap_word(pen->h, addr) + more);
}

static const struct ms_arena_layout *arena_layout(const struct pen *pen)
{
	return &pen->shape->arenas[pen->libc->version->arena];
}

static const struct ms_par_layout *par_layout(const struct pen *pen)
{
	return &pen->shape->pars[pen->libc->version->par];
}

static const struct ms_tcache_layout *tcache_layout(const struct pen *pen)
{
	return &pen->shape->tcaches[pen->libc->version->tcache];
}

uint64_t ptheap_link_at(const struct ptheap_version *version, ms_addr place, ms_addr to)
{
	return version->safe ? place >> 12 ^ to : to;
}

/* ---- the parts of the process ---- */

/* The fake source wants its maps in address order, so all that the picture needs come first. */
static void map_memory(struct pen *pen, const char *picture)
{
	ms_addr pieces = 0;
	ms_addr heaps = 0;
	uint64_t further;

	for (const char *c = picture; *c; c++) {
		heaps += *c == ';' || (heaps && *c == '|');
		pieces += *c == 't' || *c == '|' ? !heaps : 0;
	}
	if (pieces)
		(void)ms_fake_map(&pen->h->fake, pen->base, PTHEAP_PIECE, RW,
		                  pen->h->n_libcs > 1 ? "" : "[heap]");
	further = (pieces - (pieces > 0)) * PTHEAP_PIECE;
	pen->pieces = pen->mapped = pen->base + PIECES + further;
	if (further || strpbrk(picture, "maAls"))
		(void)ms_fake_map(&pen->h->fake, pen->base + PIECES, further + MAPPED_BYTES, RW,
		                  "");
	for (ms_addr i = 0; i < heaps; i++)
		(void)ms_fake_map(&pen->h->fake,
		                  pen->base + pen->distances->arenas + i * heap_max(pen),
		                  PTHEAP_PIECE, RW, "");
}

/* Where in the page of headers they are. */
enum { BANNER = 512, DYNAMIC = 1024, RELOCATION = 1280, RELOCATED = 1536 };

/* What a library has: a relocation, of a variable amid its thread-local storage. */
static void draw_relocation(struct pen *pen, char *header, uint64_t tls_bytes)
{
	uint64_t word = -pen->h->cache_distance - (pen->h->n_libcs - 1) * LIBC_DISTANCE;
	Elf64_Rela relocation = { RELOCATED, ELF64_R_INFO(0, R_X86_64_TPOFF64),
		                  (int64_t)tls_bytes / 2 };
	Elf64_Dyn dynamic[] = {
		{ .d_tag = DT_SONAME, .d_un.d_val = 1 },
		{ .d_tag = DT_STRTAB, .d_un.d_ptr = pen->base + pen->distances->module + BANNER },
		{ .d_tag = DT_RELA, .d_un.d_ptr = pen->base + pen->distances->module + RELOCATION },
		{ .d_tag = DT_RELASZ, .d_un.d_val = sizeof(relocation) },
	};

	memcpy(header + DYNAMIC, dynamic, sizeof(dynamic));
	memcpy(header + RELOCATION, &relocation, sizeof(relocation));
	memcpy(header + RELOCATED, &word, sizeof(word));
}

/* A program header, in the form of the process. */
static void draw_segment(const struct pen *pen, char *header, size_t i, const Elf64_Phdr *phdr)
{
	const Elf32_Phdr narrow_phdr = { .p_type = phdr->p_type,
		                         .p_flags = phdr->p_flags,
		                         .p_vaddr = (Elf32_Addr)phdr->p_vaddr,
		                         .p_memsz = (Elf32_Word)phdr->p_memsz,
		                         .p_align = (Elf32_Word)phdr->p_align };

	if (pen->shape->word == 8)
		memcpy(header + sizeof(Elf64_Ehdr) + i * sizeof(*phdr), phdr, sizeof(*phdr));
	else
		memcpy(header + sizeof(Elf32_Ehdr) + i * sizeof(narrow_phdr), &narrow_phdr,
		       sizeof(narrow_phdr));
}

static void draw_elf(const struct pen *pen, char *header, uint16_t n)
{
	Elf64_Ehdr ehdr = { .e_ident = ELFMAG,
		            .e_phoff = sizeof(ehdr),
		            .e_phnum = n,
		            .e_phentsize = sizeof(Elf64_Phdr) };
	Elf32_Ehdr narrow_ehdr = { .e_ident = ELFMAG,
		                   .e_phoff = sizeof(narrow_ehdr),
		                   .e_phnum = n,
		                   .e_phentsize = sizeof(Elf32_Phdr) };

	ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	narrow_ehdr.e_ident[EI_CLASS] = ELFCLASS32;
	if (pen->shape->word == 8)
		memcpy(header, &ehdr, sizeof(ehdr));
	else
		memcpy(header, &narrow_ehdr, sizeof(narrow_ehdr));
}

/* An ELF header, one loadable segment, and the banner that tells the version. */
static void draw_module(struct pen *pen)
{
	static const char banner[] = "GNU C Library (Fake GLIBC) stable release version %s.\n";
	bool shared = pen->h->tls == PTHEAP_TLS_RELOCATED;
	const Elf64_Phdr phdr[] = {
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_W,
		  .p_memsz = PAGE + pen->h->data_before + DATA_BYTES },
		{ .p_type = pen->h->tls == PTHEAP_TLS_UNKNOWN ? PT_NOTE : PT_TLS,
		  .p_vaddr = 0x40,
		  .p_align = 0x40,
		  .p_memsz = shared ? 0x80 : pen->h->cache_distance + 2 * PAGE },
		{ .p_type = shared ? PT_DYNAMIC : PT_NOTE, .p_vaddr = DYNAMIC },
	};
	const uint16_t n = sizeof(phdr) / sizeof(phdr[0]);
	const char *name = pen->h->n_libcs == 1 ? "/libc.so.6" : "/other/libc.so.6";
	char *header = ms_fake_map(&pen->h->fake, pen->base + pen->distances->module, PAGE,
	                           MS_PROT_READ, name);

	draw_elf(pen, header, n);
	for (uint16_t i = 0; i < n; i++)
		draw_segment(pen, header, i, &phdr[i]);
	(void)snprintf(header + BANNER, 512, banner, pen->libc->version->name);
	/* Only libraries of 64 bits are drawn with relocations. */
	assert(!shared || pen->shape->word == 8);
	if (shared)
		draw_relocation(pen, header, phdr[1].p_memsz);
	pen->libc->data = pen->base + pen->distances->module + PAGE;
	(void)ms_fake_map(&pen->h->fake, pen->libc->data, pen->h->data_before + DATA_BYTES, RW,
	                  name);
	pen->libc->par = pen->libc->data + pen->h->data_before + 0x80;
	pen->libc->arena = pen->libc->data + pen->h->data_before + 0xa00;
}

/* malloc_par as it is before the first malloc(). */
static void draw_par(struct pen *pen)
{
	const struct ms_par_layout *layout = par_layout(pen);
	ms_addr par = pen->libc->par;
	ms_addr word = pen->shape->word;

	put(pen, par, 0x20000);
	put(pen, par + word, 0x20000);
	put(pen, par + 2 * word, 0x20000);
	put(pen, par + 3 * word, pen->shape->arena_test);
	put_int(pen, par + layout->n_mmaps + 4, 65536);
	put(pen, par + layout->tcache_bins, tcache_layout(pen)->n_bins);
	put(pen, par + layout->tcache_bins + word, 1032);
	put(pen, par + layout->tcache_bins + 2 * word, pen->libc->version->tcache_count);
}

/* An arena with empty bins, in the ring behind the main one. */
static void draw_arena(struct pen *pen, ms_addr arena)
{
	const struct ms_arena_layout *layout = arena_layout(pen);
	ms_addr bins = arena + layout->bins;
	ms_addr next = pen->libc->arena + layout->next;
	ms_addr header = pen->shape->header;

	for (ms_addr bin = bins; bin < bins + MS_BINS * header; bin += header) {
		put(pen, bin, bin - header);
		put(pen, bin + pen->shape->word, bin - header);
	}
	put(pen, arena + layout->top, bins - header);
	put(pen, arena + layout->attached, 1);
	put(pen, arena + layout->next,
	    ptheap_word(pen->h, next) ? ptheap_word(pen->h, next) : arena);
	put(pen, next, arena);
	pen->arena = arena;
	pen->prev_free = 0;
}

/* Up to 2.41 an arena nobody used has nothing but its own address and one attached thread. */
static void draw_unused(struct pen *pen)
{
	const struct ms_arena_layout *layout = arena_layout(pen);

	if (tcache_layout(pen)->counts_free) {
		draw_arena(pen, pen->libc->arena);
		pen->arena = 0;
		return;
	}
	put(pen, pen->libc->arena + layout->next, pen->libc->arena);
	put(pen, pen->libc->arena + layout->attached, 1);
}

static void go_to_piece(struct pen *pen, ms_addr addr)
{
	pen->at = chunk_from(pen, addr);
	pen->end = addr + PTHEAP_PIECE;
	pen->prev_free = 0;
}

static void own(struct pen *pen, uint64_t bytes)
{
	add(pen, pen->arena + arena_layout(pen)->system_mem, bytes);
}

static void draw_main(struct pen *pen)
{
	draw_arena(pen, pen->libc->arena);
	pen->main = true;
	pen->owner = pen->h->n_libcs == 1 ? 'M' : 'N';
	go_to_piece(pen, pen->base);
	put(pen, pen->libc->par + par_layout(pen)->sbrk_base, pen->base);
	if (pen->h->n_libcs > 1)
		put_int(pen, pen->arena + arena_layout(pen)->flags, 2);
	own(pen, PTHEAP_PIECE);
}

/* A heap of an arena of its own; the first holds the arena. */
static void draw_heap(struct pen *pen, ms_addr arena, ms_addr prev)
{
	uint64_t info = pen->libc->version->heap_info;
	ms_addr heap = pen->base + pen->distances->arenas + pen->arenas++ * heap_max(pen);

	go_to_piece(pen, heap);
	pen->h->heaps[pen->h->n_heaps++] = heap;
	if (!arena) {
		arena = heap + info;
		draw_arena(pen, arena);
		pen->h->arenas[pen->h->n_arenas++] = arena;
		info = chunk_from(pen, info + arena_layout(pen)->size);
	}
	put(pen, heap, arena);
	put(pen, heap + pen->shape->word, prev);
	put(pen, heap + 2 * pen->shape->word, PTHEAP_PIECE);
	put(pen, heap + 3 * pen->shape->word, PTHEAP_PIECE);
	pen->at = heap + info;
	own(pen, PTHEAP_PIECE);
}

/* ---- chunks ---- */

static struct ptheap_chunk *note_chunk(struct pen *pen, char kind, ms_addr addr, uint64_t size)
{
	struct ptheap_chunk *chunk = &pen->h->chunks[pen->h->n_chunks++];

	assert(pen->h->n_chunks <= PTHEAP_CHUNKS);
	*chunk = (struct ptheap_chunk){ kind, pen->owner, addr, size, size - pen->shape->word };
	return chunk;
}

static uint64_t size_for(const struct pen *pen, uint64_t request)
{
	uint64_t size = ms_align_up(request + pen->shape->word, MS_ALIGNMENT);

	return size < pen->shape->min_chunk ? pen->shape->min_chunk : size;
}

/* Write the header at pen->at; leaves the pen there. */
static void put_header(struct pen *pen, uint64_t size, uint64_t bits)
{
	if (pen->prev_free)
		put(pen, pen->at, pen->prev_free);
	put(pen, pen->at + pen->shape->word,
	    size | bits | (pen->prev_free ? 0 : (uint64_t)MS_PREV_INUSE));
}

/* A chunk in use, as far as its header tells; returns its mem. */
static ms_addr draw_used(struct pen *pen, char kind, uint64_t request)
{
	uint64_t size = size_for(pen, request);

	assert(pen->end - pen->at >= size + pen->shape->min_chunk);
	put_header(pen, size, pen->main ? 0 : (uint64_t)MS_NON_MAIN);
	(void)note_chunk(pen, kind, pen->at, size);
	pen->prev_free = 0;
	pen->at += size;
	return pen->at - size + pen->shape->header;
}

/* Put the chunk at @chunk at the front of bin @bin of the pen's arena. */
static void link_free(struct pen *pen, ms_addr chunk, uint64_t bin)
{
	ms_addr fd = pen->shape->header;
	ms_addr bk = fd + pen->shape->word;
	ms_addr header = pen->arena + arena_layout(pen)->bins + bin * fd - fd;
	ms_addr first = ptheap_word(pen->h, header + fd);

	put(pen, chunk + fd, first);
	put(pen, chunk + bk, header);
	put(pen, first + bk, chunk);
	put(pen, header + fd, chunk);
}

static void draw_free(struct pen *pen, char kind, uint64_t size)
{
	enum { UNSORTED = 0 };
	/* smallbin_index(): one higher where headers are shorter than what is aligned to */
	uint64_t bin = size / 16 - 1 + (pen->shape->header < MS_ALIGNMENT);

	put_header(pen, size, 0);
	(void)note_chunk(pen, kind, pen->at, size);
	link_free(pen, pen->at, kind == 'b' ? bin : (uint64_t)UNSORTED);
	pen->prev_free = size;
	pen->at += size;
}

static void draw_fast(struct pen *pen, uint64_t request)
{
	ms_addr mem = draw_used(pen, 'q', request);
	uint64_t bin = size_for(pen, request) / pen->shape->header - 2;
	ms_addr head = pen->arena + arena_layout(pen)->fastbins + bin * pen->shape->word;

	assert(bin < arena_layout(pen)->n_fastbins);
	put(pen, mem, ptheap_link_at(pen->libc->version, mem, ptheap_word(pen->h, head)));
	put(pen, head, mem - pen->shape->header);
}

/* The bin of a cache for chunks of @size. */
static uint64_t cache_bin(const struct pen *pen, uint64_t size)
{
	uint64_t bin = (size - pen->shape->min_chunk) / MS_ALIGNMENT;

	if (bin < MS_TCACHE_SMALL_BINS)
		return bin;
	assert(tcache_layout(pen)->n_bins > MS_TCACHE_SMALL_BINS);
	return MS_TCACHE_SMALL_BINS;
}

static void draw_cached(struct pen *pen, uint64_t request)
{
	const struct ms_tcache_layout *layout = tcache_layout(pen);
	ms_addr mem = draw_used(pen, 'c', request);
	uint64_t bin = cache_bin(pen, size_for(pen, request));
	ms_addr head = pen->cache + layout->entries + bin * pen->shape->word;
	ms_addr count = pen->cache + bin * layout->count_bytes;
	uint8_t key = pen->libc->version->key;

	assert(pen->cache);
	put(pen, mem, ptheap_link_at(pen->libc->version, mem, ptheap_word(pen->h, head)));
	if (key)
		put(pen, mem + pen->shape->word, key == KEY_CACHE ? pen->cache : RANDOM_KEY);
	put(pen, head, mem);
	/* Counters never carry into the next one. */
	add(pen, count, layout->counts_free ? UINT64_MAX : 1);
}

ms_addr ptheap_tls_slot(const struct ptheap *h, ms_addr tp, size_t libc)
{
	return tp - h->cache_distance - libc * LIBC_DISTANCE;
}

static void draw_thread(struct pen *pen)
{
	const struct ms_tcache_layout *layout = tcache_layout(pen);
	unsigned int n = pen->threads++;
	ms_addr tp = PTHEAP_STORAGE + (n + 1) * TLS_BYTES - 0x800;

	pen->cache = draw_used(pen, 'T', layout->usable);
	for (unsigned int i = 0; layout->counts_free && i < layout->n_bins; i++)
		add(pen, pen->cache + i * 2, pen->libc->version->tcache_count);
	if (n >= pen->h->fake.base.threads.n)
		(void)ms_fake_thread(&pen->h->fake, (int)n + 1, tp - 0x1000, tp);
	put(pen, ptheap_tls_slot(pen->h, tp, pen->h->n_libcs - 1), pen->cache);
	put(pen, tp + 0x30, 0x1122334455667788);
}

static void draw_top(struct pen *pen)
{
	uint64_t size = pen->end - pen->at;

	put_header(pen, size, 0);
	put(pen, pen->arena + arena_layout(pen)->top, pen->at);
	(void)note_chunk(pen, 't', pen->at, size);
	pen->at = pen->end;
	pen->prev_free = 0;
}

/* As sysmalloc() closes a segment, with @left bytes before it too few for a free chunk. */
static void draw_fence(struct pen *pen, uint64_t left)
{
	const uint64_t header = pen->shape->header;

	put_header(pen, header + (pen->main ? 0 : left), 0);
	pen->at += header + left;
	pen->prev_free = 0;
	if (pen->main && left)
		put(pen, pen->at - pen->shape->word, header | MS_PREV_INUSE);
	put_header(pen, pen->main ? header : 0, 0);
	pen->at += header;
}

/* Bytes of somebody else's behind a fence, none of which looks like a header. */
static void draw_stranger(struct pen *pen, uint64_t len)
{
	draw_fence(pen, 0);
	memset(ms_fake_at(&pen->h->fake, pen->at), 0xa2, len);
	pen->at = chunk_from(pen, pen->at + len);
}

static void draw_next_piece(struct pen *pen)
{
	uint64_t least = pen->shape->min_chunk;
	uint64_t left = ms_align_down(pen->end - pen->at - least, MS_ALIGNMENT);

	if (left >= least)
		draw_free(pen, 'f', left);
	draw_fence(pen, left < least ? left : 0);
	if (!pen->main) {
		draw_heap(pen, pen->arena, ms_align_down(pen->at - 1, heap_max(pen)));
		return;
	}
	put_int(pen, pen->arena + arena_layout(pen)->flags, 2);
	pen->pieces -= PTHEAP_PIECE;
	go_to_piece(pen, pen->pieces);
	own(pen, PTHEAP_PIECE);
}

/* The first @len bytes of break memory are not malloc's. */
static void draw_offset(struct pen *pen, uint64_t len)
{
	pen->at = chunk_from(pen, pen->base + len);
	put(pen, pen->libc->par + par_layout(pen)->sbrk_base, pen->base + len);
	own(pen, -len);
}

/* Count one mmapped chunk of @total bytes. */
static void count_mapped(struct pen *pen, uint64_t total)
{
	const struct ms_par_layout *layout = par_layout(pen);
	uint32_t n = (uint32_t)ptheap_word(pen->h, pen->libc->par + layout->n_mmaps) + 1;

	put_int(pen, pen->libc->par + layout->n_mmaps, n);
	put_int(pen, pen->libc->par + layout->n_mmaps + 8, n);
	add(pen, pen->libc->par + layout->mmapped_mem, total);
	add(pen, pen->libc->par + layout->mmapped_mem + pen->shape->word, total);
}

static void draw_mapped(struct pen *pen, char kind, uint64_t request)
{
	uint64_t extra = par_layout(pen)->mmap_extra;
	const struct ms_pt_shape *shape = pen->shape;
	uint64_t to = kind == 'm' || kind == 'l' ? MS_ALIGNMENT : kind == 'a' ? PAGE : 64;
	uint64_t least = MS_ALIGNMENT - shape->header;
	uint64_t prev = to - shape->header;
	uint64_t total = ms_align_up(prev + request + shape->header + extra, PAGE);
	ms_addr chunk = pen->mapped + prev;
	struct ptheap_chunk *c;

	put(pen, pen->mapped + least, least);
	put(pen, pen->mapped + least + shape->word, (total - least - extra) | MS_IS_MMAPPED);
	put(pen, chunk, prev);
	put(pen, chunk + shape->word, (total - prev - extra) | MS_IS_MMAPPED);
	c = note_chunk(pen, kind, chunk, total - prev - extra);
	c->usable = c->size - (extra ? shape->word : shape->header);
	c->owner = kind == 'l' ? 'l' : 'm';
	pen->mapped += total;
	if (kind != 'l')
		count_mapped(pen, total);
}

static void draw_one(struct pen *pen, char kind, uint64_t n)
{
	switch (kind) {
	case 'u':
		(void)draw_used(pen, kind, n);
		return;
	case 'f':
	case 'b':
		draw_free(pen, kind, size_for(pen, n));
		return;
	case 'c':
		draw_cached(pen, n);
		return;
	case 'q':
		draw_fast(pen, n);
		return;
	case 'T':
		draw_thread(pen);
		return;
	case 't':
		draw_top(pen);
		return;
	case 'x':
		draw_stranger(pen, n);
		return;
	case '|':
		draw_next_piece(pen);
		return;
	case 'o':
		draw_offset(pen, n);
		return;
	case 'm':
	case 'a':
	case 'A':
	case 'l':
		draw_mapped(pen, kind, n);
		return;
	case 's':
		note_chunk(pen, kind, pen->mapped, ms_align_up(n, PAGE))->owner = 's';
		pen->mapped += ms_align_up(n, PAGE);
		return;
	case ';':
		pen->main = false;
		pen->owner = (char)('0' + pen->h->n_arenas);
		draw_heap(pen, 0, 0);
		return;
	}
	ptheap_refuse((char[]){ kind, 0 }, "letter of a picture");
}

/* An arena's part of a picture begins with ";"; before any other letter main's begins. */
static void draw_picture(struct pen *pen, const char *picture)
{
	const char *c = picture;

	while (*(c += strspn(c, " "))) {
		char kind = *c++;
		char *end;
		uint64_t n = strtoull(c, &end, 10);

		if (!pen->arena && !strchr("maAls;", kind))
			draw_main(pen);
		else if (!pen->arena && kind == ';')
			draw_arena(pen, pen->libc->arena);
		draw_one(pen, kind, n);
		c = end;
	}
}

void ptheap_draw(struct ptheap *h, const char *version, const char *picture)
{
	struct ptheap_libc *libc = &h->libcs[h->n_libcs++];
	struct pen pen = { .h = h, .libc = libc };

	assert(h->n_libcs <= PTHEAP_LIBCS);
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		if (!strcmp(version, versions[i].name))
			libc->version = &versions[i];
	if (!libc->version)
		ptheap_refuse(version, "version that is drawn");
	pen.shape = ms_pt_shape_of(libc->version->word);
	pen.distances = libc->version->word == 8 ? &wide : &narrow;
	pen.base = (h->base ? h->base : pen.distances->base) * h->n_libcs;
	h->fake.base.abi.word_bytes = libc->version->word;
	map_memory(&pen, picture);
	draw_module(&pen);
	draw_par(&pen);
	draw_unused(&pen);
	draw_picture(&pen, picture);
}
