/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf/rows.h"

#include <string.h>

#include "base/elf/frames.h"

/* How a pointer is written, beside those of frames.h; its format is in the low bits. */
enum { ENC_ABSOLUTE = 0x00, ENC_FORMAT = 0x07 };

enum { ENTRY = 8, STATES = 8, INSTRUCTION = 0xc0, OPERAND = 0x3f };

/* The two high bits, with an operand in the six low ones; or a byte of its own. */
enum {
	ADVANCE = 0x40,
	OFFSET = 0x80,
	RESTORE = 0xc0,
	NOP = 0x00,
	ADVANCE1 = 0x02,
	ADVANCE2 = 0x03,
	ADVANCE4 = 0x04,
	OFFSET_EXTENDED = 0x05,
	RESTORE_EXTENDED = 0x06,
	UNDEFINED = 0x07,
	SAME_VALUE = 0x08,
	REGISTER = 0x09,
	REMEMBER = 0x0a,
	RESTORE_STATE = 0x0b,
	DEF_CFA = 0x0c,
	DEF_CFA_REGISTER = 0x0d,
	DEF_CFA_OFFSET = 0x0e,
	DEF_CFA_EXPRESSION = 0x0f,
	EXPRESSION = 0x10,
	OFFSET_EXTENDED_SF = 0x11,
	DEF_CFA_SF = 0x12,
	DEF_CFA_OFFSET_SF = 0x13,
	VAL_OFFSET = 0x14,
	VAL_OFFSET_SF = 0x15,
	VAL_EXPRESSION = 0x16,
	GNU_ARGS_SIZE = 0x2e,
};

struct cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool augmented;
	bool signal;
	struct ms_row_cursor instructions;
};

struct machine {
	const struct cie *cie;
	struct ms_row row;
	struct ms_row first; /* what the CIE says */
	struct ms_row remembered[STATES];
	unsigned n_remembered;
	ms_addr at; /* the code's address that the row begins with */
};

/* ---- reading ---- */

static bool fill_window(struct ms_row_cursor *c, size_t bytes)
{
	uint64_t left = c->end - c->at;
	size_t want = left < sizeof(c->window) ? (size_t)left : sizeof(c->window);

	c->window_at = c->at;
	c->n_window = (uint32_t)c->from.read(c->from.ctx, c->at, c->window, want);
	return c->n_window >= bytes;
}

uint64_t ms_row_get(struct ms_row_cursor *c, size_t bytes)
{
	uint64_t value = 0;
	uint64_t skipped = c->at - c->window_at;

	if (c->bad || c->end - c->at < bytes)
		c->bad = true;
	else if (skipped > c->n_window || c->n_window - skipped < bytes)
		c->bad = !fill_window(c, bytes);
	if (c->bad)
		return 0;
	memcpy(&value, c->window + (c->at - c->window_at), bytes);
	c->at += bytes;
	return value;
}

static void skip(struct ms_row_cursor *c, uint64_t bytes)
{
	if (c->bad || c->end - c->at < bytes)
		c->bad = true;
	else
		c->at += bytes;
}

static uint64_t get_leb(struct ms_row_cursor *c, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint64_t byte;

	do {
		byte = ms_row_get(c, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && (byte & 0x40) && shift < 64)
		value |= ~UINT64_C(0) << shift;
	return value;
}

uint64_t ms_row_uleb(struct ms_row_cursor *c)
{
	return get_leb(c, false);
}

int64_t ms_row_sleb(struct ms_row_cursor *c)
{
	return (int64_t)get_leb(c, true);
}

/*
 * Source: System V ABI, i386 supplement, table 2.14; .eh_frame has esp and ebp as that says, not
 * the other way round as Darwin's.
 */
uint64_t ms_row_register(uint8_t word_bytes, uint64_t dwarf)
{
	enum { RAX, RDX, RCX, RSI = 4, RDI };
	static const uint8_t ours[] = { RAX,        RCX, RDX, MS_ROW_RBX,   MS_ROW_RSP,
		                        MS_ROW_RBP, RSI, RDI, MS_ROW_RETURN };

	if (word_bytes == sizeof(uint64_t))
		return dwarf < MS_ROW_REGISTERS ? dwarf : MS_ROW_REGISTERS;
	return dwarf < sizeof(ours) ? ours[dwarf] : MS_ROW_REGISTERS;
}

uint64_t ms_row_get_register(struct ms_row_cursor *c)
{
	return ms_row_register(c->word_bytes, ms_row_uleb(c));
}

/* Any numbers: those that are too large for a product make one that fits nothing. */
static int64_t times(int64_t a, int64_t b)
{
	int64_t product;

	return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t get_offset32(struct ms_row_cursor *c)
{
	return (int32_t)(uint32_t)ms_row_get(c, 4);
}

/* A pointer to code; another encoding than the usual two is bad. */
static ms_addr get_code_pointer(struct ms_row_cursor *c, uint8_t encoding)
{
	ms_addr from = c->at;

	if (encoding == MS_FRAME_PCREL_SDATA4)
		return from + (ms_addr)get_offset32(c);
	if (encoding != ENC_ABSOLUTE)
		c->bad = true;
	return ms_row_get(c, c->word_bytes);
}

static void skip_encoded(struct ms_row_cursor *c, uint8_t encoding)
{
	const uint8_t bytes[] = { c->word_bytes, 0, 2, 4, 8 };
	unsigned format = encoding & (unsigned)ENC_FORMAT;

	if (format >= sizeof(bytes) || !bytes[format])
		c->bad = true;
	else
		skip(c, bytes[format]);
}

/* Of a CIE or an FDE: what follows its length. */
static struct ms_row_cursor entry_at(struct ms_reader from, ms_addr address, uint8_t word_bytes)
{
	struct ms_row_cursor c = {
		.from = from, .at = address, .end = address + 4, .word_bytes = word_bytes
	};
	uint64_t length;

	c.bad = c.end < address;
	length = ms_row_get(&c, 4);
	if (length > MS_ROW_ENTRY_BYTES || c.at + length < c.at)
		c.bad = true;
	c.end = c.at + length;
	return c;
}

/* ---- finding ---- */

static bool read_header(struct ms_reader from, ms_addr header, uint64_t *ret_n)
{
	struct ms_frame_header head;

	if (!ms_read_all(from, header, &head, sizeof(head)) || !ms_frame_is_searchable(&head))
		return false;
	*ret_n = head.count;
	return true;
}

/* Of the sorted table, both from the header on. */
struct entry {
	int32_t pc;
	int32_t fde;
};

/* The last that begins at or before @pc; false for none. */
static bool search(struct ms_reader from, ms_addr header, ms_addr pc, struct entry *ret)
{
	ms_addr table = header + sizeof(struct ms_frame_header);
	uint64_t low = 0;
	uint64_t n;

	if (!read_header(from, header, &n))
		return false;
	while (n) {
		if (!ms_read_all(from, table + (low + n / 2) * ENTRY, ret, sizeof(*ret)))
			return false;
		if (header + (ms_addr)(int64_t)ret->pc <= pc) {
			low += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return low && ms_read_all(from, table + (low - 1) * ENTRY, ret, sizeof(*ret));
}

/* The FDE that the table has for @pc; 0 for none. */
static ms_addr fde_of(struct ms_reader from, ms_addr header, ms_addr pc)
{
	struct entry entry;

	return search(from, header, pc, &entry) ? header + (ms_addr)(int64_t)entry.fde : 0;
}

ms_addr ms_row_begin(struct ms_reader from, ms_addr header, ms_addr pc)
{
	struct entry entry;

	return search(from, header, pc, &entry) ? header + (ms_addr)(int64_t)entry.pc : 0;
}

static void read_augmentation(struct ms_row_cursor *c, const char *letters, struct cie *ret)
{
	uint64_t length = ms_row_uleb(c);
	ms_addr end = c->at + length;

	for (const char *letter = letters + 1; *letter; letter++) {
		if (*letter == 'R')
			ret->encoding = (uint8_t)ms_row_get(c, 1);
		else if (*letter == 'P')
			skip_encoded(c, (uint8_t)ms_row_get(c, 1));
		else if (*letter == 'L')
			(void)ms_row_get(c, 1);
		else if (*letter == 'S')
			ret->signal = true;
		else
			c->bad = true;
	}
	if (c->at > end || end > c->end)
		c->bad = true;
	c->at = end;
}

static bool read_cie(struct ms_reader from, ms_addr address, uint8_t word_bytes, struct cie *ret)
{
	struct ms_row_cursor c = entry_at(from, address, word_bytes);
	char letters[8] = "";
	uint64_t version;
	uint64_t back;

	if (ms_row_get(&c, 4) != 0)
		return false;
	version = ms_row_get(&c, 1);
	for (size_t i = 0; i < sizeof(letters); i++) {
		letters[i] = (char)ms_row_get(&c, 1);
		if (!letters[i])
			break;
	}
	if ((version != 1 && version != 3) || letters[sizeof(letters) - 1])
		return false;
	ret->encoding = ENC_ABSOLUTE;
	ret->code_align = ms_row_uleb(&c);
	ret->data_align = ms_row_sleb(&c);
	back = version == 1 ? ms_row_get(&c, 1) : ms_row_uleb(&c);
	if (ms_row_register(word_bytes, back) != MS_ROW_RETURN)
		return false;
	ret->augmented = letters[0] == 'z';
	if (ret->augmented)
		read_augmentation(&c, letters, ret);
	else if (letters[0])
		return false;
	ret->instructions = c;
	return !c.bad;
}

/* ---- the instructions ---- */

static void set(struct ms_row *row, uint64_t reg, enum ms_row_how how, int64_t value)
{
	if (reg >= MS_ROW_REGISTERS)
		return;
	row->how[reg] = (uint8_t)how;
	row->value[reg] = value;
}

static void restore(struct machine *m, uint64_t reg)
{
	if (reg < MS_ROW_REGISTERS)
		set(&m->row, reg, m->first.how[reg], m->first.value[reg]);
}

static void remember(struct machine *m, struct ms_row_cursor *c)
{
	if (m->n_remembered < STATES)
		m->remembered[m->n_remembered++] = m->row;
	else
		c->bad = true;
}

static void recall(struct machine *m, struct ms_row_cursor *c)
{
	if (m->n_remembered)
		m->row = m->remembered[--m->n_remembered];
	else
		c->bad = true;
}

/* The address of the expression at @c, which is passed over. */
static int64_t get_expression(struct ms_row_cursor *c)
{
	ms_addr at = c->at;

	skip(c, ms_row_uleb(c));
	return (int64_t)at;
}

/* Where the CFA is. False when the instruction is about something else. */
static bool step_cfa(struct machine *m, struct ms_row_cursor *c, uint64_t code)
{
	int64_t factor = 1;

	if (code == DEF_CFA_SF || code == DEF_CFA_OFFSET_SF)
		factor = m->cie->data_align;
	switch (code) {
	case DEF_CFA:
	case DEF_CFA_SF:
		m->row.cfa_register = ms_row_get_register(c);
		break;
	case DEF_CFA_REGISTER:
		m->row.cfa_register = ms_row_get_register(c);
		return true;
	case DEF_CFA_OFFSET:
	case DEF_CFA_OFFSET_SF:
		break;
	case DEF_CFA_EXPRESSION:
		m->row.cfa_register = MS_ROW_BY_EXPRESSION;
		m->row.cfa_offset = get_expression(c);
		return true;
	default:
		return false;
	}
	m->row.cfa_offset = factor == 1 ? (int64_t)ms_row_uleb(c) : times(ms_row_sleb(c), factor);
	return true;
}

/* Where registers are. */
static void step_register(struct machine *m, struct ms_row_cursor *c, uint64_t code)
{
	int64_t align = m->cie->data_align;
	uint64_t reg = ms_row_get_register(c);

	switch (code) {
	case OFFSET_EXTENDED:
		set(&m->row, reg, MS_ROW_SAVED, times((int64_t)ms_row_uleb(c), align));
		break;
	case OFFSET_EXTENDED_SF:
		set(&m->row, reg, MS_ROW_SAVED, times(ms_row_sleb(c), align));
		break;
	case VAL_OFFSET:
		set(&m->row, reg, MS_ROW_SUM, times((int64_t)ms_row_uleb(c), align));
		break;
	case VAL_OFFSET_SF:
		set(&m->row, reg, MS_ROW_SUM, times(ms_row_sleb(c), align));
		break;
	case RESTORE_EXTENDED:
		restore(m, reg);
		break;
	case UNDEFINED:
		set(&m->row, reg, MS_ROW_NOWHERE, 0);
		break;
	case SAME_VALUE:
		set(&m->row, reg, MS_ROW_SAME, 0);
		break;
	case REGISTER:
		set(&m->row, reg, MS_ROW_MOVED, (int64_t)ms_row_get_register(c));
		break;
	case EXPRESSION:
		set(&m->row, reg, MS_ROW_FOUND, get_expression(c));
		break;
	case VAL_EXPRESSION:
		set(&m->row, reg, MS_ROW_EVALUATED, get_expression(c));
		break;
	default:
		c->bad = true;
	}
}

static void step(struct machine *m, struct ms_row_cursor *c)
{
	uint64_t code = ms_row_get(c, 1);
	uint64_t operand = code & OPERAND;
	uint64_t reg = ms_row_register(c->word_bytes, operand);

	switch (code & INSTRUCTION) {
	case ADVANCE:
		m->at += operand * m->cie->code_align;
		return;
	case OFFSET:
		set(&m->row, reg, MS_ROW_SAVED, times((int64_t)ms_row_uleb(c), m->cie->data_align));
		return;
	case RESTORE:
		restore(m, reg);
		return;
	default:
		break;
	}
	if (code == NOP)
		return;
	if (code == ADVANCE1 || code == ADVANCE2)
		m->at += ms_row_get(c, (size_t)code - 1) * m->cie->code_align;
	else if (code == ADVANCE4)
		m->at += ms_row_get(c, 4) * m->cie->code_align;
	else if (code == REMEMBER)
		remember(m, c);
	else if (code == RESTORE_STATE)
		recall(m, c);
	else if (code == GNU_ARGS_SIZE)
		(void)ms_row_uleb(c);
	else if (!step_cfa(m, c, code))
		step_register(m, c, code);
}

/* Until the row that @pc is in. */
static bool run(struct machine *m, struct ms_row_cursor c, ms_addr pc)
{
	struct ms_row row = m->row;

	while (!c.bad && m->at <= pc) {
		row = m->row;
		if (c.at == c.end)
			break;
		step(m, &c);
		if (m->at <= pc)
			row = m->row;
	}
	m->row = row;
	return !c.bad;
}

bool ms_row_find(struct ms_reader from, ms_addr header, uint8_t word_bytes, ms_addr pc,
                 struct ms_row *ret)
{
	ms_addr fde = fde_of(from, header, pc);
	struct ms_row_cursor c = entry_at(from, fde, word_bytes);
	ms_addr id = c.at;
	struct machine m = { .row = { .cfa_register = MS_ROW_BY_EXPRESSION } };
	struct cie cie = { .signal = false };
	ms_addr begin;
	uint64_t bytes;

	if (!fde || !read_cie(from, id - ms_row_get(&c, 4), word_bytes, &cie))
		return false;
	begin = get_code_pointer(&c, cie.encoding);
	bytes = ms_row_get(&c, cie.encoding == ENC_ABSOLUTE ? word_bytes : 4);
	if (cie.augmented)
		skip(&c, ms_row_uleb(&c));
	if (c.bad || pc - begin >= bytes)
		return false;
	m.cie = &cie;
	m.at = begin;
	m.row.signal = cie.signal;
	if (!run(&m, cie.instructions, pc))
		return false;
	m.first = m.row;
	m.at = begin;
	if (!run(&m, c, pc))
		return false;
	*ret = m.row;
	return true;
}
