/* SPDX-License-Identifier: Apache-2.0 */
#include "regdrawn.h"

#include <stdio.h>
#include <string.h>

#include "alloc/decoders.h"
#include "decoded.h"

#define DATA   UINT64_C(0x200000)
#define HEAP   UINT64_C(0x300000)
#define TABLES UINT64_C(0x400000)
#define STACKS UINT64_C(0x500000)
#define KEPT   UINT64_C(0x600000)
#define SINGLE UINT64_C(0x700000)

enum { DATA_BYTES = 0x2000, HEAP_BYTES = 0x8000, STACKS_BYTES = 0x4000, SINGLE_BYTES = 0x40000 };
enum { SHARDS_AT = 0x400, PAGES_AT = 0x800, DEFERRED_AT = 0xa00, SHARD_BYTES = 64 };
enum { MODULES_AT = 0xc00, PATHS_AT = 0x1000, PATH_BYTES = 128 };
enum {
	TABLE_BYTES = sizeof(struct malloc_debug_table) +
	              REGDRAWN_SLOTS * sizeof(struct malloc_debug_slot)
};

static void map_all(struct regdrawn *r)
{
	enum { RW = MS_PROT_READ | MS_PROT_WRITE };

	(void)ms_fake_map(&r->fake, DATA, DATA_BYTES, RW, r->library);
	(void)ms_fake_map(&r->fake, HEAP, HEAP_BYTES, RW, "");
	(void)ms_fake_map(&r->fake, TABLES, REGDRAWN_SHARDS * TABLE_BYTES, RW, "");
	(void)ms_fake_map(&r->fake, STACKS, STACKS_BYTES, RW, "");
	(void)ms_fake_map(&r->fake, KEPT, 4096, RW, "");
	(void)ms_fake_map(&r->fake, SINGLE, SINGLE_BYTES, RW, "");
}

static void write_registry(struct regdrawn *r)
{
	*r->registry = (struct malloc_debug_registry){
		.magic = { MALLOC_DEBUG_MAGIC_1, MALLOC_DEBUG_MAGIC_2 },
		.version = MALLOC_DEBUG_REGISTRY_VERSION,
		.bytes = sizeof(*r->registry),
		.flags = MALLOC_DEBUG_ALL_BLOCKS,
		.shards = { DATA + SHARDS_AT, REGDRAWN_SHARDS, SHARD_BYTES },
		.slot_bytes = sizeof(struct malloc_debug_slot),
		.stacks_a_page = REGDRAWN_A_PAGE,
		.stack_pages = { DATA + PAGES_AT, REGDRAWN_PAGES, sizeof(uint64_t) },
		.kept = { KEPT, REGDRAWN_KEPT, sizeof(struct malloc_debug_freed) },
		.deferred = { DATA + DEFERRED_AT, REGDRAWN_DEFERRED, sizeof(uint64_t) },
		.modules = { DATA + MODULES_AT, REGDRAWN_MODULES,
		             sizeof(struct malloc_debug_module) },
	};
	for (unsigned i = 0; i < REGDRAWN_SHARDS; i++) {
		ms_addr table = TABLES + i * TABLE_BYTES;

		ms_fake_put(&r->fake, DATA + SHARDS_AT + (uint64_t)i * SHARD_BYTES, table);
		r->tables[i] = ms_fake_at(&r->fake, table);
		r->tables[i]->n_slots = REGDRAWN_SLOTS;
	}
}

void regdrawn_init(struct regdrawn *r)
{
	memset(r, 0, sizeof(*r));
	ms_fake_init(&r->fake);
	r->library = "/usr/lib/libmalloc_debug.so.1 (deleted)";
	r->at = DATA + 0x48;
	r->next_block = HEAP + 16;
	r->next_single = SINGLE + 16;
	r->next_stack = STACKS + 0x800;
	map_all(r);
	r->registry = ms_fake_at(&r->fake, r->at);
	r->pages = ms_fake_at(&r->fake, DATA + PAGES_AT);
	r->deferred = ms_fake_at(&r->fake, DATA + DEFERRED_AT);
	r->kept = ms_fake_at(&r->fake, KEPT);
	r->modules = ms_fake_at(&r->fake, DATA + MODULES_AT);
	write_registry(r);
}

void regdrawn_deinit(struct regdrawn *r)
{
	ms_fake_deinit(&r->fake);
	ms_arena_deinit(&r->arena);
}

ms_addr regdrawn_block(struct regdrawn *r, uint64_t usable)
{
	struct regdrawn_block *block = &r->blocks[r->n_blocks++];

	*block = (struct regdrawn_block){ r->next_block, usable, false };
	r->next_block = ms_align_up(r->next_block + usable + 8, 16);
	return block->begin;
}

ms_addr regdrawn_single(struct regdrawn *r, uint64_t usable)
{
	struct regdrawn_block *block = &r->blocks[r->n_blocks++];

	*block = (struct regdrawn_block){ r->next_single, usable, true };
	r->next_single = ms_align_up(r->next_single + usable, 4096) + 16;
	return block->begin;
}

struct malloc_debug_slot *regdrawn_enter(struct regdrawn *r, ms_addr p, uint64_t size,
                                         uint32_t stack)
{
	size_t nth = r->n_entered++;
	struct malloc_debug_slot *slot =
		(struct malloc_debug_slot *)(void *)(r->tables[nth % REGDRAWN_SHARDS] + 1);

	slot += REGDRAWN_SLOTS - 1 - nth / REGDRAWN_SHARDS;
	*slot = (struct malloc_debug_slot){ .inverted = ~p, .size = size, .stack = stack };
	return slot;
}

uint32_t regdrawn_stack(struct regdrawn *r, uint64_t pc, uint32_t n)
{
	uint32_t i = r->n_stacks++;
	ms_addr page = STACKS + i / REGDRAWN_A_PAGE * REGDRAWN_A_PAGE * sizeof(uint64_t);
	struct malloc_debug_stack *stack = ms_fake_at(&r->fake, r->next_stack);

	r->pages[i / REGDRAWN_A_PAGE] = page;
	ms_fake_put(&r->fake, page + i % REGDRAWN_A_PAGE * sizeof(uint64_t), r->next_stack);
	stack->id = MALLOC_DEBUG_FIRST_STACK + i;
	stack->n = n;
	for (uint32_t k = 0; k < n; k++)
		stack->pc[k] = pc + k;
	r->next_stack += sizeof(*stack) + n * sizeof(uint64_t);
	return stack->id;
}

struct malloc_debug_stack *regdrawn_stack_at(struct regdrawn *r, uint32_t id)
{
	uint32_t i = id - MALLOC_DEBUG_FIRST_STACK;
	const uint64_t *page = ms_fake_at(&r->fake, r->pages[i / REGDRAWN_A_PAGE]);

	return ms_fake_at(&r->fake, page[i % REGDRAWN_A_PAGE]);
}

struct malloc_debug_module *regdrawn_module(struct regdrawn *r, ms_addr code, const char *path)
{
	const uint32_t i = r->n_modules++;
	const ms_addr at = DATA + PATHS_AT + (uint64_t)i * PATH_BYTES;

	memcpy(ms_fake_at(&r->fake, at), path, strlen(path));
	r->modules[i] = (struct malloc_debug_module){ .inverted = ~(code - 4096),
		                                      .code_at = 4096,
		                                      .code_bytes = 4096,
		                                      .code_offset = 4096,
		                                      .path = at,
		                                      .path_len = (uint32_t)strlen(path),
		                                      .first_stack = MALLOC_DEBUG_FIRST_STACK };
	return &r->modules[i];
}

/* As the allocator's decoder has left them. */
static enum ms_status open_blocks(struct regdrawn *r, struct ms_heap *heap)
{
	struct ms_range range = { HEAP + 16, HEAP + HEAP_BYTES };
	enum ms_status st;
	uint32_t extent;

	st = ms_blocks_open(&r->told, range, 4, &extent);
	for (size_t i = 0; i < r->n_blocks && !st; i++)
		if (!r->blocks[i].single)
			st = ms_blocks_put(&r->told, extent, r->blocks[i].begin,
			                   r->blocks[i].usable);
	for (size_t i = 0; i < r->n_blocks && !st; i++) {
		range.begin = r->blocks[i].begin;
		range.end = range.begin + r->blocks[i].usable;
		if (r->blocks[i].single)
			st = ms_blocks_open_single(&r->told, range, MS_EXTENT_HEAP, &extent);
		heap->allocations++;
		heap->allocation_bytes += r->blocks[i].usable;
	}
	return st ? st : ms_blocks_sort(&r->told);
}

static void classify(struct regdrawn *r)
{
	for (uint32_t i = 0; i < r->fake.base.mappings.n; i++) {
		struct ms_region *region = ms_vec_push(&r->arena, &r->regions);

		*region = (struct ms_region){ r->fake.base.mappings.at[i].range, i, 0,
			                      i ? MS_REGION_MEMORY : MS_REGION_GLOBALS };
	}
}

enum ms_status regdrawn_decode(struct regdrawn *r)
{
	struct ms_heap *heap;
	enum ms_status st;

	ms_arena_deinit(&r->arena);
	memset(&r->regions, 0, sizeof(r->regions));
	memset(&r->heaps, 0, sizeof(r->heaps));
	memset(&r->evidence, 0, sizeof(r->evidence));
	memset(&r->warnings, 0, sizeof(r->warnings));
	memset(&r->origins, 0, sizeof(r->origins));
	ms_blocks_init(&r->told, &r->fake.base, &r->arena);
	classify(r);
	r->decoding = (struct ms_decoding){ .src = &r->fake.base,
		                            .regions = &r->regions,
		                            .arena = &r->arena,
		                            .blocks = &r->told,
		                            .heaps = &r->heaps,
		                            .evidence = &r->evidence,
		                            .warnings = &r->warnings,
		                            .origins = &r->origins };
	heap = ms_vec_push(&r->arena, &r->heaps);
	st = open_blocks(r, heap);
	if (r->beside && (heap = ms_vec_push(&r->arena, &r->heaps)))
		*heap = (struct ms_heap){ .beside = true, .allocations = REGDRAWN_BESIDE };
	if (!st)
		st = ms_registry_annotator.annotate(&r->decoding);
	return st ? st : ms_blocks_seal(&r->told);
}

uint64_t regdrawn_size(const struct regdrawn *r, ms_addr p)
{
	const struct ms_extent *e = ms_blocks_extent_of(&r->told, p);

	if (!e || !ms_blocks_begins(&r->told, p))
		return 0;
	return ms_block_size(&r->told, e, ms_granule_of(e, p));
}

uint64_t regdrawn_pc(const struct regdrawn *r, ms_addr p)
{
	const struct ms_origin *origin;

	ms_vec_for_each (origin, &r->origins.blocks)
		if (origin->begin == p)
			return r->origins.pcs.at[r->origins.stacks.at[origin->stack].first];
	return 0;
}

bool regdrawn_says(const struct ms_notes *notes, const char *text)
{
	return notes_say(notes, text);
}

static const char *check_origins(const struct regdrawn *r)
{
	const struct ms_origins *o = &r->origins;
	const struct ms_stack *stack;

	for (size_t i = 0; i < o->blocks.n; i++) {
		if (i && o->blocks.at[i - 1].begin >= o->blocks.at[i].begin)
			return "origins are by address";
		if (!regdrawn_size(r, o->blocks.at[i].begin))
			return "an origin is that of a block";
		if (o->blocks.at[i].stack >= o->stacks.n)
			return "an origin has a stack";
	}
	ms_vec_for_each (stack, &o->stacks)
		if (!stack->n || (uint64_t)stack->first + stack->n > o->pcs.n)
			return "a stack has calls";
	return NULL;
}

/* The block that was drawn around what is told to begin at @begin. */
static const struct regdrawn_block *drawn_at(const struct regdrawn *r, ms_addr begin)
{
	for (size_t i = 0; i < r->n_blocks; i++)
		if (begin - r->blocks[i].begin < r->blocks[i].usable)
			return &r->blocks[i];
	return NULL;
}

static const char *check_block(const struct regdrawn *r, const struct ms_extent *e,
                               uint64_t granule, uint64_t *bytes)
{
	ms_addr begin = ms_block_begin(e, granule);
	const struct regdrawn_block *drawn = drawn_at(r, begin);
	uint64_t size = ms_block_size(&r->told, e, granule);
	uint64_t usable = ms_block_usable(&r->told, e, granule);

	*bytes += size;
	if (!drawn || begin + usable > drawn->begin + drawn->usable)
		return "a block is within that of the allocator";
	return size && size <= usable ? NULL : "a block's size is one that it has";
}

const char *regdrawn_check(const struct regdrawn *r)
{
	const char *wrong = check_origins(r);
	const struct ms_extent *e;
	uint64_t bytes = 0;

	ms_vec_for_each (e, &r->told.extents)
		for (uint64_t g = 0; g < e->n_cells * MS_CELL_GRANULES && !wrong; g++)
			if (ms_blocks_cell(&r->told, e, g)->starts & ms_granule_bit(g))
				wrong = check_block(r, e, g, &bytes);
	if (wrong)
		return wrong;
	if (bytes != r->told.bytes)
		return "the sum of bytes is that of the blocks";
	if (r->heaps.at[0].allocations != r->told.n || r->heaps.at[0].allocation_bytes != bytes)
		return "the heap's sums are those of the blocks";
	return NULL;
}
