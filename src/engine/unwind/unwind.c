/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/unwind/unwind.h"

#include <string.h>

#include "base/elf/object.h"
#include "base/map.h"
#include "engine/loaded/peek.h"
#include "engine/modules.h"
#include "engine/origins/unloaded.h"
#include "engine/unwind/expression.h"

/* Rows that are remembered; a tenth of a megabyte takes five hundred. */
enum { MOST_ROWS = 1 << 17 };

/*
 * What all stacks together may cost, in bytes of tables that are read one after the other: several
 * times what an honest process's stacks need, and half a second's work. A piece that is read anew
 * takes as long as so many of them, and so does a frame, whose row may be known.
 */
static const uint64_t most_cost = (uint64_t)64 << 20;
enum { COST_OF_PIECE = 512, COST_OF_FRAME = 16 };

/* A frame pointer that is farther away leads to no frame: it is some other number. */
enum { MOST_FRAME_BYTES = 8 << 20 };

/* What a mapping's table is, where it is none. */
enum { NOT_LOOKED = 0, NO_TABLE = 1 };

/* The number of a row that is none. */
enum { NO_ROW = 1, FIRST_ROW = 2 };

struct ms_unwinder {
	struct ms_source *src;
	struct ms_arena *arena;
	struct ms_peek peek;
	ms_addr *tables; /* of each mapping: its .eh_frame_hdr, or one of the above */
	struct MS_VEC(struct ms_row) rows;
	struct ms_map numbers;                  /* of addresses: their rows */
	const struct ms_origins *origins;       /* their unloaded libraries; NULL: none */
	const struct ms_former_tables *formers; /* what these had */
	const struct ms_former_table *former;   /* that of the frame; NULL: it has none */
	uint64_t cost;
	bool whole; /* the last stack */
	bool cut;
};

/* As much of the frame's own table as there is from @addr on; 0: it lies elsewhere. */
static size_t read_former(const struct ms_unwinder *u, ms_addr addr, void *buf, size_t len)
{
	const struct ms_former_table *former = u->former;

	if (!former || !ms_range_has(former->at, addr))
		return 0;
	if (len > former->at.end - addr)
		len = (size_t)(former->at.end - addr);
	memcpy(buf, former->bytes + (addr - former->at.begin), len);
	return len;
}

/* A reader of the modules' memory. */
static size_t read_counted(void *ctx, ms_addr addr, void *buf, size_t len)
{
	struct ms_unwinder *u = ctx;
	const uint64_t before = u->peek.n_reads;
	size_t n;

	u->cost += len;
	if (u->cost > most_cost)
		return 0;
	n = read_former(u, addr, buf, len);
	if (n)
		return n;
	n = ms_peek_read(&u->peek, addr, buf, len);
	u->cost += (u->peek.n_reads - before) * COST_OF_PIECE;
	return n;
}

static struct ms_reader reader(struct ms_unwinder *u)
{
	return (struct ms_reader){ read_counted, u };
}

struct ms_unwinder *ms_unwinder_new(struct ms_source *src, struct ms_arena *arena)
{
	struct ms_unwinder *u = ms_arena_alloc(arena, sizeof(*u));

	if (!u || !ms_peek_init(&u->peek, src, arena))
		return NULL;
	u->src = src;
	u->arena = arena;
	u->tables = ms_arena_alloc(arena, (src->mappings.n + 1) * sizeof(*u->tables));
	return u->tables ? u : NULL;
}

void ms_unwinder_remember(struct ms_unwinder *u, const struct ms_origins *origins,
                          const struct ms_former_tables *tables)
{
	u->origins = origins->formers.n ? origins : NULL;
	u->formers = tables;
}

bool ms_unwinder_was_whole(const struct ms_unwinder *u)
{
	return u->whole;
}

bool ms_unwinder_was_cut(const struct ms_unwinder *u)
{
	return u->cut;
}

bool ms_unwinder_over_budget(const struct ms_unwinder *u)
{
	return u->cost > most_cost;
}

/* ---- rows ---- */

/* Calls of i386 programs to the kernel go through it, and so do signals' handlers back. */
static bool is_vdso(const struct ms_mapping *map)
{
	return strcmp(map->name, "[vdso]") == 0;
}

static const struct ms_mapping *code_at(const struct ms_unwinder *u, ms_addr pc)
{
	const struct ms_mapping *map = ms_range_find(&u->src->mappings, pc);

	return map && map->prot & MS_PROT_EXEC && (!ms_is_kernels(map->name) || is_vdso(map))
	               ? map
	               : NULL;
}

/* Where @pc of stack @number was moved to, if what was there is not any more; else 0. */
static ms_addr moved_from(const struct ms_unwinder *u, ms_addr pc, uint32_t number)
{
	ms_addr moved = u->origins ? ms_unloaded_move(u->origins, pc, number) : pc;

	return moved != pc ? moved : 0;
}

static ms_addr table_of_mapping(struct ms_unwinder *u, const struct ms_mapping *map)
{
	ms_addr *table = &u->tables[map - u->src->mappings.at];
	const struct ms_mapping *first = ms_module_first(&u->src->mappings, map);
	struct ms_object object;

	if (*table != NOT_LOOKED)
		return *table;
	*table = NO_TABLE;
	if ((map->file || is_vdso(map)) &&
	    ms_object_read(reader(u), first->range.begin, u->src->abi.page_bytes, &object) &&
	    object.frame_header > NO_TABLE)
		*table = object.frame_header;
	return *table;
}

/* @map: NULL: of the unloaded library that the frame is in */
static ms_addr table_of(struct ms_unwinder *u, const struct ms_mapping *map)
{
	if (map)
		return table_of_mapping(u, map);
	return u->former ? u->former->at.begin : NO_TABLE;
}

/*
 * The row of @pc, in @ret if there is no memory to keep it; NULL when there is none.
 *
 * @named: how the row is remembered: @pc, or where that was moved to
 */
static const struct ms_row *row_at(struct ms_unwinder *u, const struct ms_mapping *map, ms_addr pc,
                                   ms_addr named, struct ms_row *ret)
{
	uint64_t number = ms_map_find(&u->numbers, named);
	ms_addr table;
	bool found;

	if (number)
		return number == NO_ROW ? NULL : &u->rows.at[number - FIRST_ROW];
	table = table_of(u, map);
	found = table != NO_TABLE && ms_row_find(reader(u), table, u->src->abi.word_bytes, pc, ret);
	if (u->numbers.used < MOST_ROWS) {
		struct ms_row *kept = found ? ms_vec_push(u->arena, &u->rows) : NULL;

		if (kept)
			*kept = *ret;
		if (kept || !found)
			(void)ms_map_add(&u->numbers, u->arena, named,
			                 found ? u->rows.n - 1 + FIRST_ROW : NO_ROW);
	}
	return found ? ret : NULL;
}

/* ---- frames ---- */

static bool knows(const struct ms_kept_stack *s, uint64_t reg)
{
	return reg < MS_ROW_REGISTERS && s->known >> reg & 1;
}

static void set(struct ms_kept_stack *s, unsigned reg, bool known, uint64_t value)
{
	s->known = known ? s->known | 1U << reg : s->known & ~(1U << reg);
	s->registers[reg] = value;
}

static bool find_cfa(struct ms_unwinder *u, const struct ms_row *row, const struct ms_kept_stack *s,
                     uint64_t *ret)
{
	if (row->cfa_register == MS_ROW_BY_EXPRESSION)
		return ms_expression_evaluate(reader(u), (ms_addr)row->cfa_offset, s, NULL, ret);
	if (!knows(s, row->cfa_register))
		return false;
	*ret = s->registers[row->cfa_register] + (uint64_t)row->cfa_offset;
	return true;
}

/* One frame, and where it begins. */
struct frame {
	struct ms_unwinder *u;
	const struct ms_row *row;
	const struct ms_kept_stack *s;
	uint64_t cfa;
};

/* What register @reg is in the caller; false: it is not known. */
static bool find_register(const struct frame *frame, unsigned reg, uint64_t *ret)
{
	const struct ms_kept_stack *s = frame->s;
	uint64_t value = (uint64_t)frame->row->value[reg];
	uint64_t cfa = frame->cfa;
	ms_addr at = 0;

	switch ((enum ms_row_how)frame->row->how[reg]) {
	case MS_ROW_SAME:
		*ret = reg == MS_ROW_RSP ? cfa : s->registers[reg];
		return reg == MS_ROW_RSP || (reg != MS_ROW_RETURN && knows(s, reg));
	case MS_ROW_SAVED:
		return ms_kept_word(s, cfa + value, ret);
	case MS_ROW_SUM:
		*ret = cfa + value;
		return true;
	case MS_ROW_MOVED:
		*ret = knows(s, value) ? s->registers[value] : 0;
		return knows(s, value);
	case MS_ROW_NOWHERE:
		return false;
	case MS_ROW_FOUND:
		return ms_expression_evaluate(reader(frame->u), value, s, &cfa, &at) &&
		       ms_kept_word(s, at, ret);
	case MS_ROW_EVALUATED:
		return ms_expression_evaluate(reader(frame->u), value, s, &cfa, ret);
	}
	return false;
}

/* Whether a word that is wanted at @addr stands behind the bytes that were kept, or in part. */
static bool is_behind(const struct ms_kept_stack *s, ms_addr addr)
{
	return !s->rest && addr >= s->at && addr - s->at + s->word_bytes > s->n;
}

static bool step_by_row(struct ms_unwinder *u, const struct ms_row *row, struct ms_kept_stack *s)
{
	struct frame frame = { .u = u, .row = row, .s = s };
	struct ms_kept_stack caller = *s;

	if (!find_cfa(u, row, s, &frame.cfa))
		return false;
	u->cut = row->how[MS_ROW_RETURN] == MS_ROW_SAVED &&
	         is_behind(s, frame.cfa + (uint64_t)row->value[MS_ROW_RETURN]);
	for (unsigned reg = 0; reg < MS_ROW_REGISTERS; reg++) {
		uint64_t value = 0;
		bool known = find_register(&frame, reg, &value);

		set(&caller, reg, known, value);
	}
	*s = caller;
	return knows(s, MS_ROW_RSP) && knows(s, MS_ROW_RETURN);
}

/* As functions begin that keep one: the caller's, and above it the return address. */
static bool step_by_frame_pointer(struct ms_unwinder *u, struct ms_kept_stack *s)
{
	uint64_t frame = s->registers[MS_ROW_RBP];
	uint64_t word = s->word_bytes;
	uint64_t caller;
	uint64_t back;

	u->cut = knows(s, MS_ROW_RBP) && frame % word == 0 && frame - s->at < MOST_FRAME_BYTES &&
	         is_behind(s, frame + word);
	if (!knows(s, MS_ROW_RBP) || frame % word || frame < s->registers[MS_ROW_RSP] ||
	    !ms_kept_word(s, frame, &caller) || !ms_kept_word(s, frame + word, &back) ||
	    !(code_at(u, back - 1) || moved_from(u, back - 1, s->number)))
		return false;
	s->known = 0;
	set(s, MS_ROW_RBP, true, caller);
	set(s, MS_ROW_RSP, true, frame + 2 * word);
	set(s, MS_ROW_RETURN, true, back);
	return true;
}

/*
 * A call through a bad pointer: where it is has no code, but where it came from was pushed.
 * False when this is no such case.
 */
static bool step_over_bad_call(const struct ms_unwinder *u, struct ms_kept_stack *s)
{
	ms_addr sp = s->registers[MS_ROW_RSP];
	uint64_t back;

	if (!ms_kept_word(s, sp, &back) || !code_at(u, back - 1))
		return false;
	set(s, MS_ROW_RSP, true, sp + s->word_bytes);
	set(s, MS_ROW_RETURN, true, back);
	return true;
}

/*
 * Where the frame at @pc is: its mapping, or u->former.
 *
 * @ret_named: @pc, or where it was moved to, and then there is no mapping
 *
 * False when no code is there.
 */
static bool find_frame(struct ms_unwinder *u, ms_addr pc, uint32_t number,
                       const struct ms_mapping **ret_map, ms_addr *ret_named)
{
	ms_addr moved = moved_from(u, pc, number);

	u->former = moved ? ms_range_find(u->formers, moved) : NULL;
	*ret_map = moved ? NULL : code_at(u, pc);
	*ret_named = moved ? moved : pc;
	return moved || *ret_map;
}

size_t ms_unwind(struct ms_unwinder *u, const struct ms_kept_stack *stack, ms_addr *pcs, size_t max)
{
	struct ms_kept_stack s = *stack;
	bool interrupted = s.interrupted; /* it was not called from where it is */
	bool more = false;
	size_t n = 0;

	s.word_bytes = u->src->abi.word_bytes;
	u->whole = false;
	u->cut = false;
	while (n < max && knows(&s, MS_ROW_RETURN) && knows(&s, MS_ROW_RSP)) {
		ms_addr pc = s.registers[MS_ROW_RETURN] - !interrupted;
		ms_addr sp = s.registers[MS_ROW_RSP];
		const struct ms_mapping *map;
		const struct ms_row *row;
		struct ms_row found;
		ms_addr named;
		bool is_code = find_frame(u, pc, s.number, &map, &named);

		more = false;
		if (!is_code && interrupted) {
			pcs[n++] = pc;
			interrupted = false;
			if (step_over_bad_call(u, &s))
				continue;
		}
		if (!is_code)
			break;
		row = row_at(u, map, pc, named, &found);
		/* The kernel's trampoline was not called either, but is looked up as if. */
		pcs[n++] = row && row->signal ? s.registers[MS_ROW_RETURN] : named;
		interrupted = row && row->signal;
		u->whole = row && row->how[MS_ROW_RETURN] == MS_ROW_NOWHERE;
		more = row ? step_by_row(u, row, &s) : step_by_frame_pointer(u, &s);
		u->cost += COST_OF_FRAME;
		/* a signal's handler may have a stack of its own */
		if (!more || ms_unwinder_over_budget(u) ||
		    (s.registers[MS_ROW_RSP] <= sp && !(interrupted && s.rest)))
			break;
	}
	u->cut |= n == max && more;
	return n;
}
