/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_INSN_H
#define MS_TARGET_INSN_H

/*
 * How long an x86-64 instruction is, and whether it depends on where it stands.
 *
 * That is all which moving the beginning of a function takes, and finding its branches. No
 * names of instructions and no operands; what compilers do not make of C (far calls, x87,
 * changed address sizes, loops) is not understood, and so not moved.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MS_INSN_MAX = 15 };

enum ms_insn_kind {
	MS_INSN_PLAIN,
	MS_INSN_JCC,        /* a conditional branch, relative */
	MS_INSN_JMP,        /* a relative jump */
	MS_INSN_CALL,       /* a relative call */
	MS_INSN_END,        /* what follows is not reached: ret, an indirect jump, a trap */
	MS_INSN_CALL_OTHER, /* an indirect call */
};

struct ms_insn {
	uint8_t length;
	uint8_t opcode_at;    /* of the last byte of the opcode */
	uint8_t modrm_at;     /* 0: there is none */
	uint8_t relative_at;  /* where the branch's distance or the %rip displacement is; 0: none */
	uint8_t relative_len; /* 1 or 4 */
	bool rex_w;
	bool rex_r;
	bool rex_b;
	bool plain_prefix; /* no prefix but REX */
	uint8_t map;       /* 0: one byte; 1: 0f; 2: 0f 38; 3: 0f 3a; +VEX where vex is set */
	bool vex;
	enum ms_insn_kind kind;
};

/*
 * Read one instruction.
 *
 * @bytes: n of them, foreign
 *
 * Returns false when it is not understood, or longer than n.
 * Cost:    at most 15 bytes are read.
 * Source:  Intel's manual, volume 2, appendix A (opcode maps), and chapter 2.
 */
bool ms_insn_read(const uint8_t *bytes, size_t n, struct ms_insn *ret);

/* Where a branch leads, or what a %rip-relative operand means, of the instruction at @at. */
uint64_t ms_insn_aim(const struct ms_insn *insn, const uint8_t *bytes, uint64_t at);

#endif
