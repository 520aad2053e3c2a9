/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/unwind/expression.h"

#include <string.h>

#include "base/elf/class.h"

enum { WORD = 8, DEEPEST = 16, BITS = 64 };

/* Source: DWARF 4, 7.7.1. */
enum {
	DEREF = 0x06,
	CONST1U = 0x08,
	CONST8S = 0x0f,
	CONSTU = 0x10,
	CONSTS = 0x11,
	DUP = 0x12,
	DROP = 0x13,
	OVER = 0x14,
	PICK = 0x15,
	SWAP = 0x16,
	AND = 0x1a,
	MINUS = 0x1c,
	MUL = 0x1e,
	NEG = 0x1f,
	NOT = 0x20,
	OR = 0x21,
	PLUS = 0x22,
	PLUS_UCONST = 0x23,
	SHL = 0x24,
	SHR = 0x25,
	SHRA = 0x26,
	XOR = 0x27,
	EQ = 0x29,
	GE = 0x2a,
	GT = 0x2b,
	LE = 0x2c,
	LT = 0x2d,
	NE = 0x2e,
	LIT0 = 0x30,
	LIT31 = 0x4f,
	BREG0 = 0x70,
	BREG31 = 0x8f,
	NOP = 0x96,
};

struct evaluation {
	struct ms_row_cursor code;
	const struct ms_kept_stack *kept;
	uint64_t stack[DEEPEST];
	unsigned n;
	bool bad;
};

bool ms_kept_word(const struct ms_kept_stack *stack, ms_addr addr, uint64_t *ret)
{
	uint64_t from = addr - stack->at;

	uint64_t word = 0;

	if (from > stack->n || stack->n - from < stack->word_bytes)
		return stack->rest && ms_source_word(stack->rest, addr, ret);
	memcpy(&word, stack->bytes + from, stack->word_bytes);
	*ret = word;
	return true;
}

static void push(struct evaluation *e, uint64_t value)
{
	if (e->n < DEEPEST)
		e->stack[e->n++] = value;
	else
		e->bad = true;
}

static uint64_t pop(struct evaluation *e)
{
	if (e->n)
		return e->stack[--e->n];
	e->bad = true;
	return 0;
}

/* Number @i from the top. */
static uint64_t peek(struct evaluation *e, uint64_t i)
{
	if (i < e->n)
		return e->stack[e->n - 1 - i];
	e->bad = true;
	return 0;
}

/* A number of 1, 2, 4 or 8 bytes, of which every other kind is signed. */
static uint64_t get_constant(struct evaluation *e, uint64_t op)
{
	unsigned bytes = 1U << (op - CONST1U) / 2;
	unsigned spare = BITS - 8 * bytes;
	uint64_t value = ms_row_get(&e->code, bytes);

	return op % 2 ? (uint64_t)((int64_t)(value << spare) >> spare) : value;
}

static void push_register(struct evaluation *e, uint64_t reg)
{
	uint64_t offset = (uint64_t)ms_row_sleb(&e->code);

	reg = ms_row_register(e->kept->word_bytes, reg);
	if (reg < MS_ROW_REGISTERS && e->kept->known >> reg & 1)
		push(e, e->kept->registers[reg] + offset);
	else
		e->bad = true;
}

static void dereference(struct evaluation *e)
{
	uint64_t word = 0;

	e->bad |= !ms_kept_word(e->kept, ms_elf_address(e->kept->word_bytes, pop(e)), &word);
	push(e, word);
}

/* What puts numbers onto the stack, or changes one. False: it is none of these. */
static bool step_one(struct evaluation *e, uint64_t op)
{
	if (op >= LIT0 && op <= LIT31)
		push(e, op - LIT0);
	else if (op >= BREG0 && op <= BREG31)
		push_register(e, op - BREG0);
	else if (op >= CONST1U && op <= CONST8S)
		push(e, get_constant(e, op));
	else if (op == CONSTU)
		push(e, ms_row_uleb(&e->code));
	else if (op == CONSTS)
		push(e, (uint64_t)ms_row_sleb(&e->code));
	else if (op == DEREF)
		dereference(e);
	else if (op == PLUS_UCONST)
		push(e, pop(e) + ms_row_uleb(&e->code));
	else if (op == NEG)
		push(e, -pop(e));
	else if (op == NOT)
		push(e, ~pop(e));
	else
		return op == NOP;
	return true;
}

static bool step_stack(struct evaluation *e, uint64_t op)
{
	uint64_t below;
	uint64_t top;

	switch (op) {
	case DUP:
		push(e, peek(e, 0));
		return true;
	case DROP:
		(void)pop(e);
		return true;
	case OVER:
		push(e, peek(e, 1));
		return true;
	case PICK:
		push(e, peek(e, ms_row_get(&e->code, 1)));
		return true;
	case SWAP:
		top = pop(e);
		below = pop(e);
		push(e, top);
		push(e, below);
		return true;
	default:
		return false;
	}
}

/* Of @a below @b; comparisons are of signed numbers. False: it is not understood. */
static bool combine(uint64_t op, uint64_t a, uint64_t b, uint64_t *ret)
{
	int64_t x = (int64_t)a;
	int64_t y = (int64_t)b;

	switch (op) {
	case AND:
		*ret = a & b;
		return true;
	case MINUS:
		*ret = a - b;
		return true;
	case MUL:
		*ret = a * b;
		return true;
	case OR:
		*ret = a | b;
		return true;
	case PLUS:
		*ret = a + b;
		return true;
	case SHL:
		*ret = b < BITS ? a << b : 0;
		return true;
	case SHR:
		*ret = b < BITS ? a >> b : 0;
		return true;
	case SHRA:
		b = b < BITS ? b : BITS - 1;
		*ret = a >> b | (x < 0 ? ~(UINT64_MAX >> b) : 0);
		return true;
	case XOR:
		*ret = a ^ b;
		return true;
	case EQ:
		*ret = x == y;
		return true;
	case GE:
		*ret = x >= y;
		return true;
	case GT:
		*ret = x > y;
		return true;
	case LE:
		*ret = x <= y;
		return true;
	case LT:
		*ret = x < y;
		return true;
	case NE:
		*ret = x != y;
		return true;
	default:
		return false;
	}
}

static void step(struct evaluation *e)
{
	uint64_t op = ms_row_get(&e->code, 1);
	uint64_t result = 0;
	uint64_t top;

	if (step_one(e, op) || step_stack(e, op))
		return;
	top = pop(e);
	e->bad |= !combine(op, pop(e), top, &result);
	push(e, result);
}

bool ms_expression_evaluate(struct ms_reader from, ms_addr at, const struct ms_kept_stack *stack,
                            const uint64_t *first, uint64_t *ret)
{
	struct evaluation e = { .kept = stack };
	uint64_t len;

	e.code = (struct ms_row_cursor){ .from = from, .at = at, .end = at + WORD };
	e.code.word_bytes = stack->word_bytes;
	len = ms_row_uleb(&e.code);
	if (e.code.bad || len > MS_ROW_ENTRY_BYTES)
		return false;
	e.code.end = e.code.at + len;
	if (first)
		push(&e, *first);
	while (e.code.at != e.code.end && !e.code.bad && !e.bad)
		step(&e);
	*ret = ms_elf_address(stack->word_bytes, pop(&e));
	return !e.code.bad && !e.bad;
}
