/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/cfi.h"

#include <stdbool.h>
#include <string.h>

#include "shim/pointer.h"

/* DWARF numbers of the registers. */
enum { RBP = 6, RSP = 7, RETURN = 16 };

/* How a pointer is written: of these, the ones that linkers and compilers use. */
enum {
	ENC_UDATA4 = 0x03,
	ENC_ABSOLUTE = 0x00,
	ENC_PCREL_SDATA4 = 0x1b,
	ENC_DATAREL_SDATA4 = 0x3b,
	ENC_FORMAT = 0x0f,
};

enum { WORD = 8, STATES = 8, INSTRUCTION = 0xc0, OPERAND = 0x3f };

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
	VAL_EXPRESSION = 0x16,
	GNU_ARGS_SIZE = 0x2e,
};

/* Reading stops at the end for good. */
struct reader {
	uintptr_t at;
	uintptr_t end;
	bool bad;
};

enum how { SAME, SAVED, NOWHERE, OTHERWISE };

struct saved {
	enum how how;
	int64_t offset; /* of where it is from the CFA */
};

/* A row of the table that a function's instructions describe. */
struct row {
	uint64_t cfa_register; /* a number that no register has: by an expression */
	int64_t cfa_offset;
	struct saved rbp;
	struct saved ra;
	bool odd; /* something else than these is not as usual */
};

struct cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool augmented;
	struct reader instructions;
};

struct machine {
	const struct cie *cie;
	struct row row;
	struct row first; /* what the CIE says */
	struct row remembered[STATES];
	unsigned n_remembered;
	uintptr_t at; /* the code's address that the row begins with */
};

/* ---- reading ---- */

static uint64_t get(struct reader *r, size_t bytes)
{
	uint64_t value = 0;

	if (r->bad || r->end - r->at < bytes) {
		r->bad = true;
		return 0;
	}
	memcpy(&value, ms_pointer(r->at), bytes);
	r->at += bytes;
	return value;
}

static void skip(struct reader *r, uint64_t bytes)
{
	if (r->bad || r->end - r->at < bytes)
		r->bad = true;
	else
		r->at += bytes;
}

static uint64_t get_leb(struct reader *r, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint64_t byte;

	do {
		byte = get(r, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && (byte & 0x40) && shift < 64)
		value |= ~UINT64_C(0) << shift;
	return value;
}

static uint64_t uleb(struct reader *r)
{
	return get_leb(r, false);
}

static int64_t sleb(struct reader *r)
{
	return (int64_t)get_leb(r, true);
}

/* Any numbers: those that are too large for a product make one that fits nothing. */
static int64_t times(int64_t a, int64_t b)
{
	int64_t product;

	return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t get_offset32(struct reader *r)
{
	return (int32_t)(uint32_t)get(r, 4);
}

/* A pointer to code; another encoding than the usual two is bad. */
static uintptr_t get_code_pointer(struct reader *r, uint8_t encoding)
{
	uintptr_t from = r->at;

	if (encoding == ENC_PCREL_SDATA4)
		return from + (uintptr_t)get_offset32(r);
	if (encoding != ENC_ABSOLUTE)
		r->bad = true;
	return (uintptr_t)get(r, WORD);
}

static void skip_encoded(struct reader *r, uint8_t encoding)
{
	static const uint8_t bytes[] = { 8, 0, 2, 4, 8 };
	unsigned format = encoding & 7U;

	if (format >= sizeof(bytes) || !bytes[format])
		r->bad = true;
	else
		skip(r, bytes[format]);
}

/* Of a CIE or an FDE: what follows its length. */
static struct reader entry_at(struct ms_range module, uintptr_t address)
{
	struct reader r = { address, module.end, address < module.begin || address > module.end };
	uint64_t length = get(&r, 4);

	if (length == UINT32_MAX || r.end - r.at < length)
		r.bad = true;
	r.end = r.at + length;
	return r;
}

/* ---- finding ---- */

/* The FDE that the sorted table has for @pc; 0 for none. */
static uintptr_t search(struct ms_range module, uintptr_t header, uintptr_t pc)
{
	struct reader r = { header, module.end, header < module.begin || header > module.end };
	uint64_t encodings = get(&r, 4);
	uint64_t low = 0;
	uint64_t n;

	(void)get(&r, 4); /* where .eh_frame is */
	n = get(&r, 4);
	if (encodings != (1U | (uint32_t)ENC_PCREL_SDATA4 << 8 | (uint32_t)ENC_UDATA4 << 16 |
	                  (uint32_t)ENC_DATAREL_SDATA4 << 24) ||
	    r.bad || (r.end - r.at) / WORD < n)
		return 0;
	/* the last of those that begin at or before pc */
	while (n) {
		struct reader middle = { r.at + (low + n / 2) * WORD, r.end, false };

		if (header + (uintptr_t)get_offset32(&middle) <= pc) {
			low += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	if (!low)
		return 0;
	r.at += (low - 1) * WORD + WORD / 2;
	return header + (uintptr_t)get_offset32(&r);
}

/* 'S', a signal's frame, is among what is not understood. */
static void read_augmentation(struct reader *r, const char *letters, struct cie *ret)
{
	uint64_t length = uleb(r);
	uintptr_t end = r->at + length;

	for (const char *letter = letters + 1; *letter; letter++) {
		if (*letter == 'R')
			ret->encoding = (uint8_t)get(r, 1);
		else if (*letter == 'P')
			skip_encoded(r, (uint8_t)get(r, 1));
		else if (*letter == 'L')
			(void)get(r, 1);
		else
			r->bad = true;
	}
	if (r->at > end || end > r->end)
		r->bad = true;
	r->at = end;
}

static bool read_cie(struct ms_range module, uintptr_t address, struct cie *ret)
{
	struct reader r = entry_at(module, address);
	char letters[8] = "";
	uint64_t version;

	if (get(&r, 4) != 0)
		return false;
	version = get(&r, 1);
	for (size_t i = 0; i < sizeof(letters); i++) {
		letters[i] = (char)get(&r, 1);
		if (!letters[i])
			break;
	}
	if ((version != 1 && version != 3) || letters[sizeof(letters) - 1])
		return false;
	*ret = (struct cie){ .encoding = ENC_ABSOLUTE };
	ret->code_align = uleb(&r);
	ret->data_align = sleb(&r);
	if ((version == 1 ? get(&r, 1) : uleb(&r)) != RETURN)
		return false;
	ret->augmented = letters[0] == 'z';
	if (ret->augmented)
		read_augmentation(&r, letters, ret);
	else if (letters[0])
		return false;
	ret->instructions = r;
	return !r.bad;
}

/* ---- the instructions ---- */

static void set(struct row *row, uint64_t reg, enum how how, int64_t offset)
{
	struct saved saved = { how, offset };

	if (reg == RBP)
		row->rbp = saved;
	else if (reg == RETURN)
		row->ra = saved;
	else if (reg == RSP)
		row->odd = true;
}

static void restore(struct machine *m, uint64_t reg)
{
	if (reg == RBP)
		m->row.rbp = m->first.rbp;
	else if (reg == RETURN)
		m->row.ra = m->first.ra;
}

static void remember(struct machine *m, struct reader *r)
{
	if (m->n_remembered < STATES)
		m->remembered[m->n_remembered++] = m->row;
	else
		r->bad = true;
}

static void recall(struct machine *m, struct reader *r)
{
	if (m->n_remembered)
		m->row = m->remembered[--m->n_remembered];
	else
		r->bad = true;
}

/* Where the CFA is. False when the instruction is about something else. */
static bool step_cfa(struct machine *m, struct reader *r, uint64_t code)
{
	int64_t factor = 1;

	if (code == DEF_CFA_SF || code == DEF_CFA_OFFSET_SF)
		factor = m->cie->data_align;
	switch (code) {
	case DEF_CFA:
	case DEF_CFA_SF:
		m->row.cfa_register = uleb(r);
		break;
	case DEF_CFA_REGISTER:
		m->row.cfa_register = uleb(r);
		return true;
	case DEF_CFA_OFFSET:
	case DEF_CFA_OFFSET_SF:
		break;
	case DEF_CFA_EXPRESSION:
		m->row.cfa_register = UINT64_MAX;
		skip(r, uleb(r));
		return true;
	default:
		return false;
	}
	m->row.cfa_offset = factor == 1 ? (int64_t)uleb(r) : times(sleb(r), factor);
	return true;
}

/* Where registers are. */
static void step_register(struct machine *m, struct reader *r, uint64_t code)
{
	uint64_t reg = uleb(r);

	switch (code) {
	case OFFSET_EXTENDED:
		set(&m->row, reg, SAVED, times((int64_t)uleb(r), m->cie->data_align));
		break;
	case OFFSET_EXTENDED_SF:
		set(&m->row, reg, SAVED, times(sleb(r), m->cie->data_align));
		break;
	case RESTORE_EXTENDED:
		restore(m, reg);
		break;
	case UNDEFINED:
		set(&m->row, reg, NOWHERE, 0);
		break;
	case SAME_VALUE:
		set(&m->row, reg, SAME, 0);
		break;
	case EXPRESSION:
	case VAL_EXPRESSION:
		set(&m->row, reg, OTHERWISE, 0);
		skip(r, uleb(r));
		break;
	default:
		r->bad = true;
	}
}

static void step(struct machine *m, struct reader *r)
{
	uint64_t code = get(r, 1);
	uint64_t reg = code & OPERAND;

	switch (code & INSTRUCTION) {
	case ADVANCE:
		m->at += reg * m->cie->code_align;
		return;
	case OFFSET:
		set(&m->row, reg, SAVED, times((int64_t)uleb(r), m->cie->data_align));
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
		m->at += get(r, code - 1) * m->cie->code_align;
	else if (code == ADVANCE4)
		m->at += get(r, 4) * m->cie->code_align;
	else if (code == REMEMBER)
		remember(m, r);
	else if (code == RESTORE_STATE)
		recall(m, r);
	else if (code == GNU_ARGS_SIZE)
		(void)uleb(r);
	else if (!step_cfa(m, r, code))
		step_register(m, r, code);
}

/* Until the row that @pc is in. */
static bool run(struct machine *m, struct reader r, uintptr_t pc)
{
	struct row row = m->row;

	while (!r.bad && m->at <= pc) {
		row = m->row;
		if (r.at == r.end)
			break;
		step(m, &r);
		if (m->at <= pc)
			row = m->row;
	}
	m->row = row;
	return !r.bad;
}

static bool fits(int64_t offset)
{
	return offset > -(1 << 17) && offset < 1 << 17 && offset % WORD == 0;
}

static struct ms_cfi_rule rule_of(const struct row *row)
{
	struct ms_cfi_rule rule = { MS_CFI_OTHER, 0, 0 };

	if (row->ra.how == NOWHERE) {
		rule.kind = MS_CFI_END;
		return rule;
	}
	if (row->odd || row->ra.how != SAVED || row->ra.offset != -WORD || !fits(row->cfa_offset) ||
	    !fits(row->rbp.offset) || row->rbp.how > SAVED ||
	    (row->rbp.how == SAVED && !row->rbp.offset))
		return rule;
	if (row->cfa_register != RSP && row->cfa_register != RBP)
		return rule;
	rule.kind = row->cfa_register == RSP ? MS_CFI_RSP : MS_CFI_RBP;
	rule.cfa = (int32_t)row->cfa_offset;
	rule.rbp = (int32_t)row->rbp.offset;
	return rule;
}

struct ms_cfi_rule ms_cfi_find(struct ms_range module, uintptr_t header, uintptr_t pc)
{
	static const struct ms_cfi_rule other = { MS_CFI_OTHER, 0, 0 };
	uintptr_t fde = search(module, header, pc);
	struct reader r = entry_at(module, fde);
	struct machine m = { .row = { .cfa_register = UINT64_MAX } };
	uintptr_t id = r.at;
	struct cie cie;
	uintptr_t begin;
	uint64_t bytes;

	if (!fde || !read_cie(module, id - (uintptr_t)get(&r, 4), &cie))
		return other;
	begin = get_code_pointer(&r, cie.encoding);
	bytes = cie.encoding == ENC_ABSOLUTE ? get(&r, WORD) : get(&r, 4);
	if (cie.augmented)
		skip(&r, uleb(&r));
	if (r.bad || pc - begin >= bytes)
		return other;
	m.cie = &cie;
	m.at = begin;
	if (!run(&m, cie.instructions, pc))
		return other;
	m.first = m.row;
	m.at = begin;
	return run(&m, r, pc) ? rule_of(&m.row) : other;
}
