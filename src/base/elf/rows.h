/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_ELF_ROWS_H
#define MS_BASE_ELF_ROWS_H

/*
 * How to get from a frame to its caller's, as the unwind tables of its code have it:
 * .eh_frame through .eh_frame_hdr, x86-64 and i386. A table has a row for each instruction, which
 * says where the caller's registers are; what compilers and assemblers write is understood.
 *
 * It reads tables and no stack, calculates no address and evaluates no expression. The
 * tables are the process's to forge: an entry of more than MS_ROW_ENTRY_BYTES is none.
 *
 * Source: System V ABI, AMD64 supplement, 3.6 and 3.7; LSB, Exception Frames; DWARF 4, 6.4.
 */

#include <stdint.h>

#include "base/reader.h"
#include "base/status.h"

/*
 * DWARF's numbers of registers, as x86-64 has them; the last stands for the return address. Those
 * of i386 are made the same.
 */
enum { MS_ROW_RBX = 3, MS_ROW_RBP = 6, MS_ROW_RSP = 7, MS_ROW_R12 = 12, MS_ROW_RETURN = 16 };

/* Whether it knows the registers of the machine that this is built for. */
#if defined(__x86_64__) || defined(__i386__)
enum { MS_ROW_NATIVE = 1 };
#else
enum { MS_ROW_NATIVE = 0 };
#endif

enum { MS_ROW_REGISTERS = 17, MS_ROW_ENTRY_BYTES = 1 << 16 };

/* Ours for DWARF's number @dwarf where words have so many bytes; MS_ROW_REGISTERS: none. */
uint64_t ms_row_register(uint8_t word_bytes, uint64_t dwarf);

/* In place of a register: the CFA is what an expression gives. */
#define MS_ROW_BY_EXPRESSION UINT64_MAX

/* Where a register of the caller's is; value: of the register in ms_row. */
enum ms_row_how {
	MS_ROW_SAME,      /* still in the register */
	MS_ROW_SAVED,     /* in the word at the CFA + value */
	MS_ROW_SUM,       /* it is the CFA + value */
	MS_ROW_MOVED,     /* in register value */
	MS_ROW_NOWHERE,   /* lost; of the return address: there is no caller */
	MS_ROW_FOUND,     /* in the word at the address that the expression at value gives */
	MS_ROW_EVALUATED, /* it is what the expression at value gives */
};

/* An expression's address is that of its length, a LEB128. */
struct ms_row {
	uint64_t cfa_register; /* the CFA is it + cfa_offset; or MS_ROW_BY_EXPRESSION */
	int64_t cfa_offset;    /* or the expression's address */
	int64_t value[MS_ROW_REGISTERS];
	uint8_t how[MS_ROW_REGISTERS]; /* enum ms_row_how */
	bool signal;                   /* the frame is one that the kernel made */
};

/* Reading a table's bytes in order; what is behind its end reads as 0, and is bad for good. */
struct ms_row_cursor {
	struct ms_reader from;
	ms_addr at;
	ms_addr end;
	bool bad;
	uint8_t word_bytes;
	uint32_t n_window; /* bytes at window_at */
	ms_addr window_at;
	uint8_t window[64];
};

uint64_t ms_row_get(struct ms_row_cursor *c, size_t bytes); /* 8 at most */
uint64_t ms_row_get_register(struct ms_row_cursor *c);
uint64_t ms_row_uleb(struct ms_row_cursor *c);
int64_t ms_row_sleb(struct ms_row_cursor *c);

/* Where the last function begins that does so at or before @pc, by the table at @header; or 0. */
ms_addr ms_row_begin(struct ms_reader from, ms_addr header, ms_addr pc);

/*
 * Find the row of the code at @pc.
 *
 * @header:     an .eh_frame_hdr, in which @pc's module has its table
 * @word_bytes: of its addresses: 4 is i386, 8 x86-64
 * @pc:         in a call, not behind it
 *
 * False, with @ret undefined, when there is none or it is not understood.
 */
ms_must_check bool ms_row_find(struct ms_reader from, ms_addr header, uint8_t word_bytes,
                               ms_addr pc, struct ms_row *ret);

#endif
