/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_FRAMES_CFI_H
#define MS_SHIM_FRAMES_CFI_H

/*
 * How to get from a frame to its caller's in this process, by the unwind tables of the code
 * that runs (base/elf/rows.h): the rule of ordinary functions, x86-64. For all else the
 * answer is that a full unwinder is needed.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/range.h"

enum ms_cfi_kind {
	MS_CFI_OTHER, /* a full unwinder is needed */
	MS_CFI_END,   /* there is no caller */
	MS_CFI_RSP,   /* the CFA is so many bytes above the stack pointer */
	MS_CFI_RBP,   /* above the frame pointer */
};

/* The return address is always in the word below the CFA. */
struct ms_cfi_rule {
	enum ms_cfi_kind kind;
	int32_t cfa; /* bytes */
	int32_t rbp; /* where the caller's is, from the CFA; 0: it is still in its register */
};

/*
 * @module: the mapped bytes that may be read
 * @header: its .eh_frame_hdr
 * @pc:     in a call, not behind it
 */
struct ms_cfi_rule ms_cfi_find(struct ms_range module, uintptr_t header, uintptr_t pc);

#endif
