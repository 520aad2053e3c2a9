/* SPDX-License-Identifier: Apache-2.0 */
#include "agentdrawn.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/decoders.h"
#include "base/elf/frames.h"
#include "module.h"
#include "target/inject/agent/table.h"

#define MODULE UINT64_C(0x200000)
#define HEAP   UINT64_C(0x300000)
#define TEXT   UINT64_C(0x400000)
#define STACK  UINT64_C(0x7000000)

#define LIAR   UINT64_C(0x20000000)
#define FORMER UINT64_C(0x40000000)

enum { LIAR_CODE_BYTES = 1 << 18, LIAR_ENTRIES = 1 << 21, LIAR_FRAMES = 1 << 20 };
enum { PAGE = 4096, HEAP_BYTES = 0x10000, FUNCTION = 0x100, WORD = 8 };
enum { CODE_AT = PAGE, CODE_BYTES = 4 * PAGE, TABLES_AT = CODE_AT + CODE_BYTES };
enum { RW = MS_PROT_READ | MS_PROT_WRITE, RX = MS_PROT_READ | MS_PROT_EXEC };

/* The tables of the module's functions, one FDE for all of them. Its CIE can be long. */
struct tables {
	struct ms_frame_header header;
	int32_t table[2];
	struct {
		uint32_t len, cie;
		uint8_t version, augmentation[3], code_align, data_align, ra, n, encoding;
		uint8_t instructions[7]; /* the CFA is rsp+16; the return address below it */
	} cie;
	uint8_t room[AGENTDRAWN_ROOM];
	struct {
		uint32_t len, cie;
		int32_t pc;
		uint32_t bytes;
		uint8_t n, nops[3];
	} fde;
};

static_assert(sizeof(struct tables) == 12 + 8 + 24 + AGENTDRAWN_ROOM + 20, "no padding");

static void draw_tables(struct agentdrawn *a, struct tables *t)
{
	int32_t cie = offsetof(struct tables, cie);
	int32_t fde = offsetof(struct tables, fde);
	int32_t code = (int32_t)(MODULE + CODE_AT - a->tables);

	*t = (struct tables){
		.header = { MS_FRAME_VERSION, MS_FRAME_PCREL_SDATA4, MS_FRAME_UDATA4,
		            MS_FRAME_DATAREL_SDATA4, cie - 4, 1 },
		.table = { code, fde },
		.cie = { .len = sizeof(t->cie) - 4,
		         .version = 1,
		         .augmentation = "zR",
		         .code_align = 1,
		         .data_align = 0x78,
		         .ra = 16,
		         .n = 1,
		         .encoding = MS_FRAME_PCREL_SDATA4,
		         .instructions = { 0x0c, 7, 16, 0x90, 1 } },
		.fde = { .len = sizeof(t->fde) - 4,
		         .cie = (uint32_t)(fde + 4 - cie),
		         .pc = code - fde - 8,
		         .bytes = CODE_BYTES },
	};
}

static void draw_module(struct agentdrawn *a)
{
	void *page = ms_fake_map(&a->fake, MODULE, PAGE, MS_PROT_READ, "/bin/p");
	Elf64_Phdr *phdr = elf_write(page, 3);

	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(CODE_AT, CODE_BYTES, PF_R | PF_X);
	phdr[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_vaddr = TABLES_AT };
	(void)ms_fake_map(&a->fake, MODULE + CODE_AT, CODE_BYTES, RX, "/bin/p");
	a->tables = MODULE + TABLES_AT;
	draw_tables(a, ms_fake_map(&a->fake, a->tables, ms_align_up(sizeof(struct tables), PAGE),
	                           MS_PROT_READ, "/bin/p"));
}

/* At pages, as the struct wants to be, which the fake's own memory is not. */
static void map_data(struct agentdrawn *a)
{
	size_t bytes = (size_t)ms_align_up(sizeof(*a->data), PAGE);

	a->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert(a->data != MAP_FAILED);
	(void)ms_fake_map(&a->fake, a->at, bytes, RW, "");
	a->fake.bytes[a->fake.base.mappings.n - 1] = (unsigned char *)a->data;
}

void agentdrawn_init(struct agentdrawn *a)
{
	memset(a, 0, sizeof(*a));
	ms_fake_init(&a->fake);
	draw_module(a);
	(void)ms_fake_map(&a->fake, HEAP, HEAP_BYTES, RW, "");
	a->next_block = HEAP + 16;
	a->text = ms_fake_map(&a->fake, TEXT, MS_AGENT_TEXT_BYTES, RX, "");
	memcpy(a->text, MS_AGENT_TEXT_MAGIC, sizeof(MS_AGENT_TEXT_MAGIC) - 1);
	a->at = TEXT + MS_AGENT_TEXT_BYTES;
	map_data(a);
	memcpy(a->data->magic, MS_AGENT_MAGIC, sizeof(a->data->magic));
	a->data->interval = 4096;
}

void agentdrawn_deinit(struct agentdrawn *a)
{
	(void)munmap(a->data, sizeof(*a->data));
	ms_fake_deinit(&a->fake);
	ms_arena_deinit(&a->arena);
}

ms_addr agentdrawn_block(struct agentdrawn *a, uint64_t usable)
{
	ms_addr begin = a->next_block;

	assert(a->n_blocks < AGENTDRAWN_BLOCKS && begin + usable < HEAP + HEAP_BYTES);
	a->blocks[a->n_blocks].begin = begin;
	a->blocks[a->n_blocks++].usable = usable;
	a->next_block = ms_align_up(begin + usable + 8, 16);
	return begin;
}

ms_addr agentdrawn_code(unsigned function)
{
	return MODULE + CODE_AT + function * FUNCTION + 16;
}

/* Of each call but the innermost there are two words: one of the frame, and where it returns to. */
uint32_t agentdrawn_enter(struct agentdrawn *a, ms_addr block, uint64_t size, const ms_addr *pcs,
                          size_t n)
{
	uint32_t number = ms_agent_reserve(a->data);
	struct ms_agent_record *record;

	assert(number != MS_AGENT_NONE && n < MS_AGENT_STACK / (2 * WORD));
	record = &a->data->records[number];
	record->size = size;
	record->registers[0] = pcs[0] + 1;
	record->registers[1] = STACK;
	record->n_stack = (uint32_t)(n * 2 * WORD);
	memset(record->stack, 0, record->n_stack);
	for (size_t i = 1; i < n; i++) {
		ms_addr back = pcs[i] + 1;

		memcpy(record->stack + (2 * i - 1) * WORD, &back, sizeof(back));
	}
	assert(ms_agent_enter(a->data, block, number));
	return number;
}

static enum ms_status open_blocks(struct agentdrawn *a, struct ms_heap *heap)
{
	struct ms_range range = { HEAP + 16, HEAP + HEAP_BYTES };
	uint32_t extent;
	enum ms_status st = ms_blocks_open(&a->told, range, 4, &extent);

	for (size_t i = 0; i < a->n_blocks && !st; i++) {
		st = ms_blocks_put(&a->told, extent, a->blocks[i].begin, a->blocks[i].usable);
		heap->allocations++;
		heap->allocation_bytes += a->blocks[i].usable;
	}
	return st ? st : ms_blocks_sort(&a->told);
}

enum ms_status agentdrawn_decode(struct agentdrawn *a)
{
	struct ms_heap *heap;
	enum ms_status st;

	ms_arena_deinit(&a->arena);
	memset(&a->heaps, 0, sizeof(a->heaps));
	memset(&a->evidence, 0, sizeof(a->evidence));
	memset(&a->warnings, 0, sizeof(a->warnings));
	memset(&a->origins, 0, sizeof(a->origins));
	ms_blocks_init(&a->told, &a->fake.base, &a->arena);
	a->decoding = (struct ms_decoding){ .src = &a->fake.base,
		                            .arena = &a->arena,
		                            .blocks = &a->told,
		                            .heaps = &a->heaps,
		                            .evidence = &a->evidence,
		                            .warnings = &a->warnings,
		                            .origins = &a->origins };
	heap = ms_vec_push(&a->arena, &a->heaps);
	if (a->preloaded)
		*(struct ms_origin *)ms_vec_push(&a->arena, &a->origins.blocks) =
			(struct ms_origin){ .begin = HEAP };
	st = heap ? open_blocks(a, heap) : MS_E_NOMEM;
	if (!st)
		st = ms_agent_annotator.annotate(&a->decoding);
	return st ? st : ms_blocks_seal(&a->told);
}

static const struct ms_stack *stack_of(const struct agentdrawn *a, ms_addr p)
{
	const struct ms_origin *origin;

	ms_vec_for_each (origin, &a->origins.blocks)
		if (origin->begin == p)
			return &a->origins.stacks.at[origin->stack];
	return NULL;
}

ms_addr agentdrawn_pc(const struct agentdrawn *a, ms_addr p)
{
	const struct ms_stack *stack = stack_of(a, p);

	return stack ? a->origins.pcs.at[stack->first] : 0;
}

size_t agentdrawn_calls(const struct agentdrawn *a, ms_addr p)
{
	const struct ms_stack *stack = stack_of(a, p);

	return stack ? stack->n : 0;
}

static const char *check_stacks(const struct ms_origins *o)
{
	const struct ms_stack *stack;
	const ms_addr *pc;

	ms_vec_for_each (stack, &o->stacks)
		if (!stack->n || (uint64_t)stack->first + stack->n > o->pcs.n)
			return "a stack has calls";
	ms_vec_for_each (pc, &o->pcs)
		if (*pc - (MODULE + CODE_AT) >= CODE_BYTES && *pc - TEXT >= MS_AGENT_TEXT_BYTES &&
		    *pc - (LIAR + PAGE) >= LIAR_CODE_BYTES && !ms_range_find(&o->unloaded, *pc))
			return "a call is made in code";
	for (size_t i = 0; i < o->stacks.n; i++)
		for (size_t k = 0; k < i; k++)
			if (o->stacks.at[i].n == o->stacks.at[k].n &&
			    memcmp(o->pcs.at + o->stacks.at[i].first,
			           o->pcs.at + o->stacks.at[k].first,
			           o->stacks.at[i].n * sizeof(*o->pcs.at)) == 0)
				return "no two stacks are alike";
	return NULL;
}

void agentdrawn_lengthen_tables(struct agentdrawn *a)
{
	struct tables *tables = ms_fake_at(&a->fake, a->tables);

	tables->cie.len += sizeof(tables->room);
}

const char *agentdrawn_check(const struct agentdrawn *a)
{
	const struct ms_origins *o = &a->origins;

	for (size_t i = 0; i < o->blocks.n; i++) {
		if (i && o->blocks.at[i - 1].begin >= o->blocks.at[i].begin)
			return "origins are by address";
		if (!ms_blocks_begins(&a->told, o->blocks.at[i].begin))
			return "an origin is that of a block";
		if (o->blocks.at[i].stack >= o->stacks.n || !o->blocks.at[i].asked)
			return "an origin has a stack, and is a sample";
	}
	if (o->blocks.n > o->sampling.live || o->sampling.live > o->sampling.samples)
		return "of the samples some are live, and of these some have a stack";
	if (a->told.n != a->n_blocks)
		return "the blocks are the allocator's";
	return check_stacks(o);
}

/* Its table has an entry for each few bytes of the code, sorted; frames lie all over it. */
void agentdrawn_add_liar(struct agentdrawn *a)
{
	const ms_addr tables = LIAR + PAGE + LIAR_CODE_BYTES;
	const size_t bytes = sizeof(struct ms_frame_header) + 2 * sizeof(int32_t) * LIAR_ENTRIES;
	Elf64_Phdr *phdr =
		elf_write(ms_fake_map(&a->fake, LIAR, PAGE, MS_PROT_READ, "/bin/liar"), 3);
	struct ms_frame_header *header;
	int32_t *entry;

	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, LIAR_CODE_BYTES, PF_R | PF_X);
	phdr[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_vaddr = PAGE + LIAR_CODE_BYTES };
	(void)ms_fake_map(&a->fake, LIAR + PAGE, LIAR_CODE_BYTES, RX, "/bin/liar");
	header = ms_fake_map(&a->fake, tables, ms_align_up(bytes, PAGE), MS_PROT_READ, "/bin/liar");
	*header = (struct ms_frame_header){ MS_FRAME_VERSION, MS_FRAME_PCREL_SDATA4,
		                            MS_FRAME_UDATA4,  MS_FRAME_DATAREL_SDATA4,
		                            LIAR_FRAMES,      LIAR_ENTRIES };
	entry = (int32_t *)(void *)(header + 1);
	for (int64_t i = 0; i < LIAR_ENTRIES; i++, entry += 2) {
		entry[0] = (int32_t)(i * LIAR_CODE_BYTES / LIAR_ENTRIES - LIAR_CODE_BYTES);
		entry[1] = (int32_t)((i * 7919 * PAGE) % LIAR_FRAMES + PAGE);
	}
}

/* In another part of the table each time. */
ms_addr agentdrawn_liar_code(unsigned number)
{
	assert(number < 1 << 16);
	return LIAR + PAGE + 16 + (number * 40503U % (1 << 16)) * 3;
}

void agentdrawn_link_frames(struct ms_agent_record *record)
{
	record->registers[3] = record->registers[1];
	for (uint32_t at = 0; at < record->n_stack; at += 2 * WORD) {
		uint64_t next = record->registers[1] + at + 2 * WORD;

		memcpy(record->stack + at, &next, sizeof(next));
	}
}

struct ms_agent_module *agentdrawn_unload(struct agentdrawn *a)
{
	struct ms_agent_module *module = &a->data->modules[a->data->n_modules++];

	*module = (struct ms_agent_module){ .begin = FORMER,
		                            .code = FORMER + CODE_AT,
		                            .code_end = FORMER + CODE_AT + CODE_BYTES,
		                            .code_offset = CODE_AT,
		                            .table = FORMER + TABLES_AT,
		                            .path = "/lib/former.so",
		                            .end_unload = ++a->data->n_unloads,
		                            .table_at = a->data->n_tables,
		                            .table_bytes = sizeof(struct tables) };
	memcpy(a->data->tables + module->table_at, ms_fake_at(&a->fake, a->tables),
	       sizeof(struct tables));
	a->data->n_tables += module->table_bytes;
	return module;
}

ms_addr agentdrawn_former_code(unsigned function)
{
	return FORMER + CODE_AT + function * FUNCTION + 16;
}
