/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_MODULES_H
#define MS_SYM_MODULES_H

#include <libelf.h>

#include "sym/elf/debug.h"
#include "sym/elf/table.h"
#include "sym/elf/units.h"
#include "sym/finder.h"

enum { MS_BUILD_ID_TEXT = 2 * 64 + 1 };

/* An ELF file, or the vdso, as it is mapped. */
struct ms_module {
	struct ms_range range; /* first: searched by it */
	const struct ms_mapping *first;
	const struct ms_symbols_call *call;
	struct ms_arena *arena;
	char build_id[MS_BUILD_ID_TEXT];
	struct ms_unit_source units; /* of its debug information */
	struct ms_symbol_table table;
	struct ms_debug debug;
};

struct ms_modules MS_VEC(struct ms_module);

/* List what begins with an ELF header in memory. False without memory. */
bool ms_modules_list(const struct ms_symbols_call *call, struct ms_arena *arena,
                     struct ms_modules *ret);

/*
 * Get at the file of @module: a descriptor that the caller owns; or -1, and then @ret_elf,
 * which the caller owns and whose bytes are the module's, or NULL when there is no way.
 */
int ms_module_elf(struct ms_module *module, Elf **ret_elf);

/* Its number for call->finder. */
uint32_t ms_module_code(const struct ms_module *module);

#endif
