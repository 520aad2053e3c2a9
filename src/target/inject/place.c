/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "target/inject/place.h"

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

enum {
	JMP = 0xe9,
	BREAKPOINT = 0xcc,
	RSP = 4,
	RAX = 0,
	RCX = 1,
	RDX = 2,
	R8 = 8,
	R11 = 11,
	SHORT_JCC = 0x70,
	NEAR_JCC = 0x80,
	LOW_BITS = 7,
	SIGN = 0x80,
};

/* ---- the instruction that stays ---- */

/* lea n(%rsp),%rsp: as add, but flags stay as they are. */
static void undo_by(struct ms_place *place, int32_t n)
{
	static const uint8_t lea[] = { 0x48, 0x8d, 0xa4, 0x24 };

	memcpy(place->undo, lea, sizeof(lea));
	memcpy(place->undo + sizeof(lea), &n, sizeof(n));
	place->n_undo = sizeof(lea) + sizeof(n);
}

static unsigned reg_of(const struct ms_insn *insn, const uint8_t *code)
{
	return ((code[insn->modrm_at] >> 3) & LOW_BITS) | (insn->rex_r ? 8U : 0);
}

static unsigned rm_of(const struct ms_insn *insn, const uint8_t *code)
{
	return (code[insn->modrm_at] & LOW_BITS) | (insn->rex_b ? 8U : 0);
}

static bool is_register(const struct ms_insn *insn, const uint8_t *code)
{
	return code[insn->modrm_at] >> 6 == 3;
}

/* What a function may write before it has read it: nobody sees that it was written twice. */
static bool is_free(unsigned reg, unsigned n_arguments)
{
	switch (reg) {
	case RAX:
		return true;
	case RDX:
		return n_arguments < 3;
	case RCX:
		return n_arguments < 4;
	default:
		return reg >= R8 && reg <= R11;
	}
}

/* test and cmp change flags alone, which no function is given. */
static bool only_compares(const struct ms_insn *insn, const uint8_t *code)
{
	uint8_t opcode = code[insn->opcode_at];

	if ((opcode >= 0x38 && opcode <= 0x3d) || opcode == 0x84 || opcode == 0x85 ||
	    opcode == 0xa8 || opcode == 0xa9)
		return true;
	if (opcode == 0x80 || opcode == 0x81 || opcode == 0x83)
		return (reg_of(insn, code) & LOW_BITS) == 7;
	if (opcode == 0xf6 || opcode == 0xf7)
		return (reg_of(insn, code) & LOW_BITS) == 0;
	return false;
}

static bool only_writes_free(const struct ms_insn *insn, const uint8_t *code, unsigned n_arguments)
{
	uint8_t opcode = code[insn->opcode_at];

	if (opcode >= 0xb8 && opcode <= 0xbf)
		return is_free((opcode & LOW_BITS) | (insn->rex_b ? 8U : 0), n_arguments);
	/* mov and lea to a register; xor of one with itself. */
	if (opcode == 0x8b || opcode == 0x8d)
		return is_free(reg_of(insn, code), n_arguments);
	if (opcode == 0x89 || opcode == 0xc7)
		return is_register(insn, code) && is_free(rm_of(insn, code), n_arguments);
	if (opcode == 0x31 || opcode == 0x33)
		return is_register(insn, code) && rm_of(insn, code) == reg_of(insn, code) &&
		       is_free(rm_of(insn, code), n_arguments);
	return false;
}

/* What takes back the first instruction. Returns false when it cannot be taken back. */
static bool find_undo(const struct ms_insn *insn, const uint8_t *code, unsigned n_arguments,
                      struct ms_place *place)
{
	uint8_t opcode = code[insn->opcode_at];
	int32_t n = 0;

	if (insn->map || insn->vex || insn->kind != MS_INSN_PLAIN || !insn->plain_prefix)
		return false;
	if (opcode >= 0x50 && opcode <= 0x57) {
		undo_by(place, 8);
		return true;
	}
	if ((opcode == 0x83 || opcode == 0x81) && insn->rex_w && is_register(insn, code) &&
	    reg_of(insn, code) == 5 && rm_of(insn, code) == RSP) {
		if (opcode == 0x83)
			n = (code[insn->length - 1] ^ SIGN) - SIGN;
		else
			memcpy(&n, code + insn->length - sizeof(n), sizeof(n));
		/* Below the stack pointer a signal's handler writes over what stands there. */
		if (n <= 0)
			return false;
		undo_by(place, n);
		return true;
	}
	return only_compares(insn, code) || only_writes_free(insn, code, n_arguments);
}

/* ---- the window ---- */

/* Whether an instruction can run elsewhere; a call would leave the address of "elsewhere". */
static bool can_move(const struct ms_insn *insn)
{
	return insn->kind != MS_INSN_CALL && insn->kind != MS_INSN_CALL_OTHER;
}

/* Who calls a function that is one jump finds ours in its place. */
static bool leads_into(const struct ms_place *place, uint64_t aim)
{
	return aim >= place->window && aim < place->end && aim != place->entry;
}

static bool is_branch(const struct ms_insn *insn)
{
	return insn->kind == MS_INSN_JCC || insn->kind == MS_INSN_JMP || insn->kind == MS_INSN_CALL;
}

/* Take instructions from @at on until the jump has room. */
static enum ms_place_verdict take_window(const uint8_t *code, size_t n, size_t at,
                                         struct ms_place *place)
{
	struct ms_insn insn;
	size_t begin = at;

	place->window = place->entry + at;
	while (at - begin < MS_JUMP) {
		if (!ms_insn_read(code + at, n - at, &insn) || !can_move(&insn))
			return MS_PLACE_UNKNOWN;
		if (code[at] == BREAKPOINT)
			return MS_PLACE_CHANGED;
		assert(place->n_insns < MS_PLACE_INSNS);
		at += insn.length;
		place->at[++place->n_insns] = (uint8_t)at;
		if ((insn.kind == MS_INSN_END || insn.kind == MS_INSN_JMP) && at - begin < MS_JUMP)
			return MS_PLACE_TOO_NEAR;
	}
	place->end = place->entry + at;
	memcpy(place->bytes, code, at);
	for (unsigned i = 0; i < place->n_insns; i++) {
		const uint8_t *bytes = code + place->at[i];

		if (!ms_insn_read(bytes, n - place->at[i], &insn))
			return MS_PLACE_UNKNOWN;
		if (is_branch(&insn) &&
		    leads_into(place, ms_insn_aim(&insn, bytes, place->entry + place->at[i])))
			return MS_PLACE_TOO_NEAR;
	}
	return MS_PLACE_FOUND;
}

enum ms_place_verdict ms_place_choose(const uint8_t *code, size_t n, uint64_t entry,
                                      unsigned n_arguments, struct ms_place *ret)
{
	struct ms_place place = { .entry = entry };
	enum ms_place_verdict verdict;
	struct ms_insn first;

	if (!ms_insn_read(code, n, &first))
		return MS_PLACE_UNKNOWN;
	if (code[0] == BREAKPOINT)
		return MS_PLACE_CHANGED;
	bool is_jump = first.kind == MS_INSN_JMP && first.length == MS_JUMP;
	bool is_endbr = first.length == sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64));

	if (is_jump) {
		verdict = take_window(code, n, 0, &place);
	} else {
		if (!is_endbr && !find_undo(&first, code, n_arguments, &place))
			return MS_PLACE_UNKNOWN;
		place.at[++place.n_insns] = first.length;
		verdict = take_window(code, n, first.length, &place);
	}
	if (verdict == MS_PLACE_FOUND)
		*ret = place;
	return verdict;
}

/* ---- the beginning, elsewhere ---- */

bool ms_jump_write(uint64_t from, uint64_t to, uint8_t ret[MS_JUMP])
{
	int64_t distance = (int64_t)(to - (from + MS_JUMP));
	int32_t near = (int32_t)distance;

	if (near != distance)
		return false;
	ret[0] = JMP;
	memcpy(ret + 1, &near, sizeof(near));
	return true;
}

/* A conditional branch of four bytes at @addr to @aim; the condition is in the low four bits. */
static bool write_jcc(uint8_t condition, uint64_t addr, uint64_t aim, uint8_t *out)
{
	out[0] = 0x0f;
	out[1] = NEAR_JCC | (condition & 0xf);
	int64_t distance = (int64_t)(aim - (addr + 6));
	int32_t near = (int32_t)distance;

	memcpy(out + 2, &near, sizeof(near));
	return near == distance;
}

/* One instruction, to run at @addr. Returns its length there, 0 when it cannot reach its aim. */
static size_t move_one(const struct ms_insn *insn, const uint8_t *bytes, uint64_t from,
                       uint64_t addr, uint8_t *out)
{
	uint64_t aim = insn->relative_at ? ms_insn_aim(insn, bytes, from) : 0;

	if (insn->kind == MS_INSN_JMP)
		return ms_jump_write(addr, aim, out) ? MS_JUMP : 0;
	if (insn->kind == MS_INSN_JCC)
		return write_jcc(bytes[insn->opcode_at], addr, aim, out) ? 6 : 0;
	memcpy(out, bytes, insn->length);
	if (insn->relative_at) {
		int64_t distance = (int64_t)(aim - (addr + insn->length));
		int32_t near = (int32_t)distance;

		memcpy(out + insn->relative_at, &near, sizeof(near));
		if (near != distance)
			return 0;
	}
	return insn->length;
}

bool ms_place_move(const struct ms_place *place, uint64_t addr, struct ms_moved *ret)
{
	struct ms_moved moved = { .len = 0 };
	struct ms_insn insn;

	for (unsigned i = 0; i < place->n_insns; i++) {
		const uint8_t *bytes = place->bytes + place->at[i];

		moved.at[i] = (uint8_t)moved.len;
		if (!ms_insn_read(bytes, (size_t)(place->at[place->n_insns] - place->at[i]), &insn))
			return false;
		size_t n = move_one(&insn, bytes, place->entry + place->at[i], addr + moved.len,
		                    moved.bytes + moved.len);
		if (!n)
			return false;
		moved.len += n;
	}
	moved.at[place->n_insns] = (uint8_t)moved.len;
	if (!ms_jump_write(addr + moved.len, place->end, moved.bytes + moved.len))
		return false;
	moved.len += MS_JUMP;
	*ret = moved;
	return true;
}

uint64_t ms_place_moved_pc(const struct ms_place *place, const struct ms_moved *moved,
                           uint64_t addr, uint64_t pc)
{
	for (unsigned i = 0; i < place->n_insns; i++)
		if (pc == place->entry + place->at[i] && pc >= place->window)
			return addr + moved->at[i];
	return 0;
}

/* ---- who else leads there ---- */

bool ms_place_is_led_into(const struct ms_place *place, const uint8_t *code, size_t n,
                          uint64_t addr)
{
	struct ms_insn insn;

	for (size_t at = 0; at < n; at += insn.length) {
		if (!ms_insn_read(code + at, n - at, &insn))
			return true;
		if (is_branch(&insn) && leads_into(place, ms_insn_aim(&insn, code + at, addr + at)))
			return true;
	}
	return false;
}

bool ms_place_find_branch(const struct ms_place *place, const uint8_t *text, size_t n,
                          uint64_t addr, size_t *at)
{
	for (; *at + MS_JUMP <= n; ++*at) {
		const uint8_t *byte = text + *at;
		bool branch = *byte == JMP || *byte == 0xe8 ||
		              ((*byte & 0xf0) == NEAR_JCC && *at && byte[-1] == 0x0f);
		int32_t distance;

		if (!branch)
			continue;
		memcpy(&distance, byte + 1, sizeof(distance));
		if (leads_into(place, addr + *at + MS_JUMP + (uint64_t)(int64_t)distance))
			return true;
	}
	return false;
}

bool ms_place_is_reached(const struct ms_place *place, const uint8_t *text, size_t n, uint64_t addr,
                         size_t n_function)
{
	uint64_t offset = place->entry - addr;
	size_t at = 0;

	if (offset > n || n_function > n - offset)
		return true;
	return ms_place_is_led_into(place, text + offset, n_function, place->entry) ||
	       ms_place_find_branch(place, text, n, addr, &at);
}
