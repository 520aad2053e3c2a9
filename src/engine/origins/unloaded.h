/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ORIGINS_UNLOADED_H
#define MS_ENGINE_ORIGINS_UNLOADED_H

/*
 * Libraries that stacks were kept of and that were unloaded since. Another one may be at their
 * addresses now, so each gets addresses that no process has, in ms_origins.unloaded, and those
 * of its stacks are moved there. All that names addresses then takes them for another module's.
 */

#include "engine/decoder.h"

/* A library as it was. */
struct ms_former {
	struct ms_range file; /* in memory, from where the file begins to the end of the code */
	uint64_t vaddr;       /* of the begin, as the ELF file has it */
	ms_addr code;         /* in it */
	uint64_t code_offset; /* in the file */
	uint32_t first_stack; /* by number: kept while it was loaded, up to but not end_stack */
	uint32_t end_stack;   /* 0: it was not seen to be gone */
	uint8_t build_id_len; /* 0: not known */
	uint8_t build_id[MS_BUILD_ID_BYTES];
	const char *path;
};

/*
 * Keep @former in d->origins, if it is not loaded as it was. What makes no sense is left out. Of
 * one that was gone, and is loaded again, it is kept that its stacks stay as they are.
 *
 * False without memory.
 */
ms_must_check bool ms_unloaded_add(struct ms_decoding *d, const struct ms_former *former);

/* Move @pc, of the stack of number @stack, if it lies in such a library. */
ms_addr ms_unloaded_move(const struct ms_origins *origins, ms_addr pc, uint32_t stack);

#endif
