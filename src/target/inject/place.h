/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_PLACE_H
#define MS_TARGET_PLACE_H

/*
 * Where a jump can be put into a function, and what stood there, for elsewhere.
 *
 *	entry   push %r12          stays: a uprobe that is set on malloc later steps this
 *	window  mov %rdi,%r12      becomes: jmp glue
 *	        sub $16,%rsp
 *	end     ...
 *
 *	glue    lea 8(%rsp),%rsp   undoes the instruction that stays, then the hook
 *	moved   push %r12          the beginning once more, elsewhere: whoever goes on from
 *	        mov %rdi,%r12      here sees what the function would have seen
 *	        sub $16,%rsp
 *	        jmp end
 *
 * An endbr64 needs no undoing. A function that is one jump alone is replaced whole.
 * Nothing is written here, and no process is known: bytes in, bytes out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/code/insn.h"

enum {
	MS_JUMP = 5,        /* bytes of a jump that leads anywhere within 2 GB */
	MS_PLACE_INSNS = 6, /* one that stays, and at most five of a byte */
	MS_PLACE_UNDO = 8,
	MS_PLACE_BYTES = 2 * MS_INSN_MAX + MS_JUMP,
	MS_PLACE_MOVED = MS_PLACE_INSNS * (MS_INSN_MAX + MS_JUMP) + MS_JUMP,
};

struct ms_place {
	uint64_t entry;
	uint64_t window; /* where the jump goes; behind entry, unless the function is a jump */
	uint64_t end;    /* of the last instruction that the jump overwrites */
	uint8_t bytes[MS_PLACE_BYTES]; /* from entry to end, as they are in the file */
	uint8_t undo[MS_PLACE_UNDO];   /* instructions */
	uint8_t n_undo;
	uint8_t n_insns;
	uint8_t at[MS_PLACE_INSNS + 1]; /* offset of each instruction in bytes, and their end */
};

/* Why a function cannot be diverted. */
enum ms_place_verdict {
	MS_PLACE_FOUND,
	MS_PLACE_UNKNOWN,  /* an instruction is not understood, or cannot be undone or moved */
	MS_PLACE_TOO_NEAR, /* no five bytes that always run one after the other */
	MS_PLACE_CHANGED,  /* a breakpoint or a jump of another tool stands there */
};

/*
 * Choose the place in one function.
 *
 * @code:        n bytes from the function's entry on, as its file has them
 * @n_arguments: how many of %rdi, %rsi, %rdx, %rcx the function is given
 */
enum ms_place_verdict ms_place_choose(const uint8_t *code, size_t n, uint64_t entry,
                                      unsigned n_arguments, struct ms_place *ret);

struct ms_moved {
	uint8_t bytes[MS_PLACE_MOVED];
	size_t len;
	uint8_t at[MS_PLACE_INSNS +
	           1]; /* of each of the place's instructions, then of the jump back */
};

/* Write the beginning anew, to run at @addr. Returns false when something is not within 2 GB. */
bool ms_place_move(const struct ms_place *place, uint64_t addr, struct ms_moved *ret);

/*
 * A thread that stands inside the window: where it goes on in the moved code.
 *
 * @addr: where that was moved to
 *
 * Returns 0 when @pc is at no instruction of the window.
 */
uint64_t ms_place_moved_pc(const struct ms_place *place, const struct ms_moved *moved,
                           uint64_t addr, uint64_t pc);

/* A jump at @from to @to. Returns false beyond 2 GB. */
bool ms_jump_write(uint64_t from, uint64_t to, uint8_t ret[MS_JUMP]);

/* Whether a branch of @code, n bytes of instructions at @addr, leads into the window, or may. */
bool ms_place_is_led_into(const struct ms_place *place, const uint8_t *code, size_t n,
                          uint64_t addr);

/*
 * Find where, from byte @at of @text on, a branch of four bytes into the window may begin. Each
 * byte might be one's first, so that many are none.
 *
 * @at: in/out; written where there is none, too
 */
bool ms_place_find_branch(const struct ms_place *place, const uint8_t *text, size_t n,
                          uint64_t addr, size_t *at);

/*
 * Whether a branch of @text may lead into the window.
 *
 * Instructions are not told from each other: each byte might begin a branch of four
 * bytes. So the answer is yes too often, about once in 40 libraries, never too seldom.
 * Branches of a byte come from the function itself, which is read by @n_function bytes.
 *
 * @text: n bytes at @addr, the function wholly among them
 */
bool ms_place_is_reached(const struct ms_place *place, const uint8_t *text, size_t n, uint64_t addr,
                         size_t n_function);

#endif
