/* SPDX-License-Identifier: Apache-2.0 */
#include "pyheap.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/decoders.h"
#include "decoded.h"
#include "engine/decode.h"
#include "module.h"

enum {
	PROGRAM = 0x400000,
	DATA = 0x401000,
	DATA_BYTES = 0x4000,
	TABLE = DATA + 0x1fc0, /* over the end of a page */
	POINTER = DATA + 0x3000,
	HEAP = 0x800000,
	ARRAY = HEAP + 0x40,
	HEADER = 48,
	RW = MS_PROT_READ | MS_PROT_WRITE,
};

static const ms_addr ARENAS = UINT64_C(0x7f0000001000);
static const ms_addr APART = UINT64_C(0x400000);

static const struct {
	uint32_t arena;
	uint32_t pool;
	bool behind; /* the array's address stands behind the table */
} versions[] = {
	[PYHEAP_3_9] = { 1 << 18, 1 << 12, false },
	[PYHEAP_3_11] = { 1 << 20, 1 << 14, false },
	[PYHEAP_3_13] = { 1 << 20, 1 << 14, true },
};

static_assert(sizeof(versions) / sizeof(versions[0]) == PYHEAP_VERSIONS, "one row for each");

void pyheap_init(struct pyheap *h)
{
	memset(h, 0, sizeof(*h));
	ms_fake_init(&h->fake);
	h->fake.hides_zeros = true;
}

void pyheap_deinit(struct pyheap *h)
{
	ms_arena_deinit(&h->arena);
	ms_fake_deinit(&h->fake);
}

uint32_t pyheap_pool_bytes(const struct pyheap *h)
{
	return versions[h->version].pool;
}

struct ms_py_pool *pyheap_pool(struct pyheap *h, size_t pool)
{
	return ms_fake_at(&h->fake, h->pools[pool]);
}

struct ms_py_object *pyheap_object(struct pyheap *h, size_t arena)
{
	return ms_fake_at(&h->fake, h->array + arena * sizeof(struct ms_py_object));
}

ms_addr pyheap_block(const struct pyheap *h, size_t number)
{
	return h->blocks[number].at;
}

/* ---- drawing ---- */

static void draw_module(struct pyheap *h)
{
	Elf64_Phdr *phdr =
		elf_write(ms_fake_map(&h->fake, PROGRAM, 0x1000, MS_PROT_READ, "/bin/python"), 2);

	phdr[0] = elf_load(0, 0x1000, PF_R);
	phdr[1] = elf_load(0x1000, DATA_BYTES, PF_R | PF_W);
	(void)ms_fake_map(&h->fake, DATA, DATA_BYTES, RW, "/bin/python");
	(void)ms_fake_map(&h->fake, HEAP, 0x2000, RW, "[heap]");
	h->table = TABLE;
	h->array = ARRAY;
	h->pointer = versions[h->version].behind ? TABLE + 512 : POINTER;
	ms_fake_put(&h->fake, h->pointer, ARRAY);
	for (ms_addr at = TABLE; at < TABLE + 512; at += 16) {
		ms_fake_put(&h->fake, at, at - 16);
		ms_fake_put(&h->fake, at + 8, at - 16);
	}
}

/* Objects without an arena are a chain. */
static void draw_array(struct pyheap *h)
{
	for (size_t i = 0; i + 1 < 16; i++)
		pyheap_object(h, i)->nextarena = ARRAY + (i + 1) * sizeof(struct ms_py_object);
}

static void begin_arena(struct pyheap *h, size_t index)
{
	uint32_t pool = pyheap_pool_bytes(h);
	ms_addr at = ARENAS + index * APART;
	struct ms_py_object *object = pyheap_object(h, index);

	assert(index < PYHEAP_ARENAS);
	(void)ms_fake_map(&h->fake, at, versions[h->version].arena, RW, "");
	object->address = at;
	object->pool_address = ms_align_up(at, pool);
	object->ntotalpools = versions[h->version].arena / pool - (at % pool != 0);
	object->nfreepools = object->ntotalpools;
	object->nextarena = 0;
}

/* Put the pool at the end of its ring. */
static void link_pool(struct pyheap *h, size_t number)
{
	struct ms_py_pool *pool = pyheap_pool(h, number);
	ms_addr head = TABLE + 16 * pool->szidx - 16;
	struct ms_py_pool *first = ms_fake_at(&h->fake, head);
	ms_addr last = first->prevpool;

	pool->nextpool = head;
	pool->prevpool = last;
	((struct ms_py_pool *)ms_fake_at(&h->fake, last))->nextpool = h->pools[number];
	first->prevpool = h->pools[number];
}

static size_t begin_pool(struct pyheap *h, size_t arena, uint32_t bytes)
{
	struct ms_py_object *object = pyheap_object(h, arena);
	struct ms_py_pool *pool;

	assert(h->n_pools < PYHEAP_POOLS && bytes && bytes <= 512 && bytes % 16 == 0);
	h->pools[h->n_pools] = object->pool_address;
	object->pool_address += pyheap_pool_bytes(h);
	object->nfreepools--;
	pool = pyheap_pool(h, h->n_pools);
	pool->arenaindex = (uint32_t)arena;
	pool->szidx = bytes / 16 - 1;
	pool->nextoffset = HEADER;
	pool->maxnextoffset = pyheap_pool_bytes(h) - bytes;
	return h->n_pools++;
}

static void add_block(struct pyheap *h, size_t number, bool used)
{
	struct ms_py_pool *pool = pyheap_pool(h, number);
	uint32_t bytes = (pool->szidx + 1) * 16;
	ms_addr at = h->pools[number] + pool->nextoffset;

	assert(h->n_blocks < PYHEAP_BLOCKS && pool->nextoffset <= pool->maxnextoffset);
	pool->nextoffset += bytes;
	h->blocks[h->n_blocks++] = (struct pyheap_block){ at, bytes, number, used };
	pool->count += used;
	if (used)
		return;
	ms_fake_put(&h->fake, at, pool->freeblock);
	pool->freeblock = at;
}

static void end_pool(struct pyheap *h, size_t arena, size_t number)
{
	struct ms_py_object *object = pyheap_object(h, arena);
	struct ms_py_pool *pool = pyheap_pool(h, number);

	if (pool->count && pool->freeblock) {
		link_pool(h, number);
	} else if (!pool->count) {
		pool->nextpool = object->freepools;
		object->freepools = h->pools[number];
		object->nfreepools++;
	}
}

static const char *draw_pool(struct pyheap *h, size_t arena, const char *at)
{
	char *end;
	size_t pool = begin_pool(h, arena, (uint32_t)strtoul(at, &end, 10));

	for (at = end; *at && strchr("ufe ", *at); at++) {
		if (*at == 'u' || *at == 'f')
			add_block(h, pool, *at == 'u');
		for (int i = 0; *at == 'e' && i < 3; i++)
			add_block(h, pool, false);
	}
	end_pool(h, arena, pool);
	return at;
}

void pyheap_draw(struct pyheap *h, enum pyheap_version version, const char *picture)
{
	const char *at = picture;

	h->version = version;
	draw_module(h);
	draw_array(h);
	for (size_t arena = 0; *at; arena++) {
		at += strspn(at, " ");
		if (*at == '-')
			at++;
		else
			begin_arena(h, arena);
		while (isdigit((unsigned char)*at))
			at = draw_pool(h, arena, at);
		at += strspn(at, " ");
		assert(!*at || *at == ';');
		at += *at == ';';
		h->n_arenas = arena + 1;
	}
}

/* ---- decoding ---- */

static struct ms_range others_memory;

static enum ms_status claim_others(struct ms_decoding *d, struct ms_claim *ret)
{
	return ms_ranges_add(d->arena, &ret->memory, others_memory.begin, others_memory.end)
	               ? MS_OK
	               : MS_E_NOMEM;
}

enum ms_status pyheap_decode(struct pyheap *h)
{
	static const struct ms_decoder other = { .name = "other",
		                                 .reads = "nothing",
		                                 .claim = claim_others };
	static const struct ms_decoder *const decoders[] = { &ms_pymalloc_decoder, &other, NULL };
	struct ms_error err;
	enum ms_status st;

	others_memory = h->others;
	ms_arena_deinit(&h->arena);
	memset(&h->regions, 0, sizeof(h->regions));
	memset(&h->told, 0, sizeof(h->told));
	memset(&h->heaps, 0, sizeof(h->heaps));
	memset(&h->evidence, 0, sizeof(h->evidence));
	memset(&h->warnings, 0, sizeof(h->warnings));
	if (ms_classify(&h->fake.base, &h->arena, &h->regions, &err))
		abort();
	ms_blocks_init(&h->told, &h->fake.base, &h->arena);
	h->decoding = (struct ms_decoding){ .src = &h->fake.base,
		                            .regions = &h->regions,
		                            .arena = &h->arena,
		                            .decoders = decoders,
		                            .ended = h->ended,
		                            .blocks = &h->told,
		                            .heaps = &h->heaps,
		                            .evidence = &h->evidence,
		                            .warnings = &h->warnings };
	st = ms_decode(&h->decoding, NULL, &err);
	return st ? st : ms_blocks_seal(&h->told);
}

static const char *say(struct pyheap *h, const char *what, ms_addr at)
{
	(void)snprintf(h->wrong, sizeof(h->wrong), "%s: %llx", what, (unsigned long long)at);
	return h->wrong;
}

static const char *compare(struct pyheap *h, size_t without)
{
	uint64_t n = 0;
	uint64_t bytes = 0;

	for (size_t i = 0; i < h->n_blocks; i++) {
		const struct pyheap_block *block = &h->blocks[i];
		bool used = block->used && block->pool != without;

		if (ms_blocks_usable(&h->told, block->at) != (used ? block->bytes : 0))
			return say(h, used ? "a block is not told" : "no block, and told",
			           block->at);
		n += used;
		bytes += used ? block->bytes : 0;
	}
	if (h->told.n != n || h->told.bytes != bytes)
		return say(h, "more blocks are told than there are", h->told.n);
	if (h->heaps.n != 1 || h->heaps.at[0].allocations != n ||
	    h->heaps.at[0].allocation_bytes != bytes)
		return say(h, "the heap has other sums than its blocks", n);
	return "";
}

const char *pyheap_try(struct pyheap *h)
{
	if (pyheap_decode(h))
		return say(h, "no heap is found", 0);
	if (!h->heaps.at[0].verified)
		return say(h, h->evidence.at[h->evidence.n - 1].text, 0);
	if (h->decoding.unproved.n)
		return say(h, "not proved", h->decoding.unproved.at[0].begin);
	return compare(h, SIZE_MAX);
}

const char *pyheap_try_without(struct pyheap *h, size_t pool)
{
	const struct ms_ranges *unproved = &h->decoding.unproved;

	if (pyheap_decode(h))
		return say(h, "no heap is found", 0);
	if (h->heaps.at[0].verified)
		return say(h, "it is verified", 0);
	if (unproved->n != 1 || unproved->at[0].begin != h->pools[pool] ||
	    ms_range_len(unproved->at[0]) != pyheap_pool_bytes(h))
		return say(h, "it is not the pool that is roots", unproved->n);
	return compare(h, pool);
}

bool pyheap_says(const struct pyheap *h, const char *text)
{
	return notes_say(&h->evidence, text);
}
