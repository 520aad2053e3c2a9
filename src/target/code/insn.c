/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Length by table: a letter for each opcode says what follows it. Everything that has no
 * letter is refused, so that a mistake in the tables can only be one that is written here.
 */
#include <assert.h>
#include <string.h>

#include "target/code/insn.h"

/*
 * .  not understood          -  nothing follows         m  ModRM
 * b  a byte                  w  two bytes               z  four bytes, two behind a 66
 * B  ModRM and a byte        Z  ModRM and z             v  z, or eight bytes with REX.W
 * 8  ModRM; a byte if /0 /1  f  ModRM; z if /0 /1       j  distance of a byte
 * J  distance of four bytes  p  a prefix
 */
static const char one_byte[] =
	/* 00 */ "mmmmbz..mmmmbz.."
		 /* 10 */ "mmmmbz..mmmmbz.."
		 /* 20 */ "mmmmbzp.mmmmbzp."
		 /* 30 */ "mmmmbzp.mmmmbzp."
		 /* 40 */ "pppppppppppppppp"
		 /* 50 */ "----------------"
		 /* 60 */ "...mppp.zZbB...."
		 /* 70 */ "jjjjjjjjjjjjjjjj"
		 /* 80 */ "BZ.Bmmmmmmmm.m.."
		 /* 90 */ "----------......"
		 /* a0 */ "....----bz------"
		 /* b0 */ "bbbbbbbbvvvvvvvv"
		 /* c0 */ "BBw-..BZ.-..-..."
		 /* d0 */ "mmmm............"
		 /* e0 */ "........JJ.j...."
		 /* f0 */ "p.pp-.8f......mm";

static const char two_bytes[] =
	/* 00 */ ".m...-.....-.m.."
		 /* 10 */ "mmmmmmmmmmmmmmmm"
		 /* 20 */ "........mmmmmmmm"
		 /* 30 */ ".-.............."
		 /* 40 */ "mmmmmmmmmmmmmmmm"
		 /* 50 */ "mmmmmmmmmmmmmmmm"
		 /* 60 */ "mmmmmmmmmmmmmmmm"
		 /* 70 */ "BBBBmmm-....mmmm"
		 /* 80 */ "JJJJJJJJJJJJJJJJ"
		 /* 90 */ "mmmmmmmmmmmmmmmm"
		 /* a0 */ "..-mBm.....mBmmm"
		 /* b0 */ "mm.m..mmm.Bmmmmm"
		 /* c0 */ "mmBmBBBm--------"
		 /* d0 */ "mmmmmmmmmmmmmmmm"
		 /* e0 */ "mmmmmmmmmmmmmmmm"
		 /* f0 */ "mmmmmmmmmmmmmmm.";

static_assert(sizeof(one_byte) == 257 && sizeof(two_bytes) == 257, "a letter for each opcode");

enum { OPERAND_SIZE = 0x66, REX = 0x40, VEX3 = 0xc4, VEX2 = 0xc5, NO_OPCODE = 0, SIGN = 0x80 };

struct reader {
	const uint8_t *bytes;
	size_t n;
	size_t at;
	bool narrow; /* there was a 66 */
	struct ms_insn insn;
};

/* The bytes that a memory operand takes behind its ModRM. */
static bool skip_operand(struct reader *in)
{
	if (in->at >= in->n)
		return false;
	in->insn.modrm_at = (uint8_t)in->at;

	uint8_t modrm = in->bytes[in->at++];
	unsigned mod = modrm >> 6, rm = modrm & 7;

	if (mod == 3)
		return true;
	if (rm == 4) {
		if (in->at >= in->n)
			return false;
		if ((in->bytes[in->at++] & 7) == 5 && mod == 0)
			in->at += 4;
	} else if (rm == 5 && mod == 0) {
		in->insn.relative_at = (uint8_t)in->at;
		in->insn.relative_len = 4;
		in->at += 4;
	}
	in->at += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	return true;
}

static void skip_distance(struct reader *in, uint8_t len)
{
	in->insn.relative_at = (uint8_t)in->at;
	in->insn.relative_len = len;
	in->at += len;
}

/* What follows the opcode, as its letter says. */
static bool skip_rest(struct reader *in, char letter)
{
	size_t z = in->narrow ? 2 : 4;
	bool has_modrm = strchr("mBZ8f", letter);

	if (letter == '.' || letter == 'p' || (has_modrm && !skip_operand(in)))
		return false;
	bool tested = has_modrm && ((in->bytes[in->insn.modrm_at] >> 3) & 7) < 2;

	switch (letter) {
	case 'b':
	case 'B':
		in->at += 1;
		break;
	case 'w':
		in->at += 2;
		break;
	case 'z':
	case 'Z':
		in->at += z;
		break;
	case 'v':
		in->at += in->insn.rex_w ? 8 : z;
		break;
	case '8':
		in->at += tested ? 1 : 0;
		break;
	case 'f':
		in->at += tested ? z : 0;
		break;
	case 'j':
	case 'J':
		/* AMD's processors and Intel's differ on a 66 here. */
		if (in->narrow)
			return false;
		skip_distance(in, letter == 'j' ? 1 : 4);
		break;
	default:
		break;
	}
	return true;
}

static void skip_prefixes(struct reader *in)
{
	in->insn.plain_prefix = true;
	for (; in->at < in->n && one_byte[in->bytes[in->at]] == 'p'; in->at++) {
		uint8_t byte = in->bytes[in->at];

		if ((byte & 0xf0) == REX) {
			in->insn.rex_w = byte & 8;
			in->insn.rex_r = byte & 4;
			in->insn.rex_b = byte & 1;
			/* REX stands last: a prefix behind it would undo it. */
			in->at++;
			return;
		}
		in->narrow |= byte == OPERAND_SIZE;
		in->insn.plain_prefix = false;
	}
}

/* Behind c4 or c5: the bits that stand for prefixes and map, then the opcode. */
static bool read_vex(struct reader *in, uint8_t first, uint8_t *ret_opcode)
{
	size_t more = first == VEX3 ? 2 : 1;

	if (in->narrow || in->at + more >= in->n)
		return false;
	in->insn.vex = true;
	in->insn.plain_prefix = false;
	in->insn.map = first == VEX3 ? in->bytes[in->at] & 0x1f : 1;
	in->at += more;
	*ret_opcode = in->bytes[in->at++];
	return in->insn.map >= 1 && in->insn.map <= 3;
}

/* Read up to the opcode's last byte. */
static bool read_opcode(struct reader *in, uint8_t *ret_opcode)
{
	skip_prefixes(in);
	if (in->at >= in->n)
		return false;
	uint8_t opcode = in->bytes[in->at++];

	if (opcode == VEX2 || opcode == VEX3)
		return read_vex(in, opcode, ret_opcode);
	if (opcode == 0x0f) {
		if (in->at >= in->n)
			return false;
		opcode = in->bytes[in->at++];
		in->insn.map = 1;
		if (opcode == 0x38 || opcode == 0x3a) {
			if (in->at >= in->n)
				return false;
			in->insn.map = opcode == 0x38 ? 2 : 3;
			opcode = in->bytes[in->at++];
		}
	}
	*ret_opcode = opcode;
	return true;
}

static enum ms_insn_kind kind_of(const struct reader *in, uint8_t opcode)
{
	const struct ms_insn *insn = &in->insn;

	if (insn->vex)
		return MS_INSN_PLAIN;
	if (insn->map == 1) {
		if ((opcode & 0xf0) == 0x80)
			return MS_INSN_JCC;
		return opcode == 0x0b ? MS_INSN_END : MS_INSN_PLAIN;
	}
	if (insn->map)
		return MS_INSN_PLAIN;
	if ((opcode & 0xf0) == 0x70)
		return MS_INSN_JCC;
	switch (opcode) {
	case 0xe8:
		return MS_INSN_CALL;
	case 0xe9:
	case 0xeb:
		return MS_INSN_JMP;
	case 0xc2:
	case 0xc3:
	case 0xcc:
	case 0xf4:
		return MS_INSN_END;
	case 0xff:
		switch ((in->bytes[insn->modrm_at] >> 3) & 7) {
		case 2:
		case 3:
			return MS_INSN_CALL_OTHER;
		case 4:
		case 5:
			return MS_INSN_END;
		}
		return MS_INSN_PLAIN;
	}
	return MS_INSN_PLAIN;
}

static char letter_of(const struct ms_insn *insn, uint8_t opcode)
{
	switch (insn->map) {
	case 0:
		return one_byte[opcode];
	case 1:
		if (insn->vex && (opcode & 0xf0) == 0x80)
			return '.';
		return two_bytes[opcode];
	case 2:
		return 'm';
	default:
		return 'B';
	}
}

bool ms_insn_read(const uint8_t *bytes, size_t n, struct ms_insn *ret)
{
	struct reader in = { .bytes = bytes, .n = n < MS_INSN_MAX ? n : MS_INSN_MAX };
	uint8_t opcode = NO_OPCODE;

	if (!read_opcode(&in, &opcode))
		return false;
	in.insn.opcode_at = (uint8_t)(in.at - 1);
	if (!skip_rest(&in, letter_of(&in.insn, opcode)) || in.at > in.n)
		return false;
	in.insn.length = (uint8_t)in.at;
	in.insn.kind = kind_of(&in, opcode);
	*ret = in.insn;
	return true;
}

uint64_t ms_insn_aim(const struct ms_insn *insn, const uint8_t *bytes, uint64_t at)
{
	int32_t distance = 0;

	if (insn->relative_len == 1)
		distance = (bytes[insn->relative_at] ^ SIGN) - SIGN;
	else
		memcpy(&distance, bytes + insn->relative_at, sizeof(distance));
	return at + insn->length + (uint64_t)(int64_t)distance;
}
