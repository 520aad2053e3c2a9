/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_UNWIND_EXPRESSION_H
#define MS_ENGINE_UNWIND_EXPRESSION_H

/*
 * DWARF expressions as unwind tables have them: of PLTs, frames that were aligned, signals'
 * frames. There are no loops in those, so branches are not understood.
 */

#include "base/elf/rows.h"
#include "engine/unwind/unwind.h"

/* The word at @addr of a stack that was kept; false when it was not. */
bool ms_kept_word(const struct ms_kept_stack *stack, ms_addr addr, uint64_t *ret);

/*
 * Evaluate the expression whose length is at @at.
 *
 * @stack: its registers and bytes of a word; what is dereferenced
 * @first: what stands on the expression's own stack at the begin; NULL: nothing
 *
 * False when it is not understood, or asks for what is not known.
 */
ms_must_check bool ms_expression_evaluate(struct ms_reader from, ms_addr at,
                                          const struct ms_kept_stack *stack, const uint64_t *first,
                                          uint64_t *ret);

#endif
