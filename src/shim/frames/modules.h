/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_FRAMES_MODULES_H
#define MS_SHIM_FRAMES_MODULES_H

/* What is mapped where in this process, and the names of its functions. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/range.h"
#include "elf/files.h"

struct ms_shim_module {
	struct ms_range range; /* of one mapping */
	uint64_t offset;       /* of the mapping in the file */
	uint64_t elf_offset;   /* where in the file its ELF image begins */
	uint64_t inode;        /* 0: no file */
	const char *name;      /* a path, [a name], or empty */
};

struct ms_shim_modules MS_VEC(struct ms_shim_module);

enum { MS_SYMBOL_NAME = 512 };

/* Where an address is. */
struct ms_place {
	const struct ms_shim_module *module; /* NULL: nowhere */
	uint64_t pc;                         /* as the ELF file counts */
	uint64_t offset;                     /* from the beginning of the function */
	char function[MS_SYMBOL_NAME];       /* demangled when the program can; or empty */
};

/* What was looked up, kept: many stacks have few addresses. */
struct ms_places {
	struct ms_arena arena;
	struct ms_shim_modules modules;
	struct ms_elf_files files; /* of the modules */
	struct ms_map kept;        /* addresses of struct ms_place */
};

/* The process's modules as they are now. */
void ms_places_init(struct ms_places *places);
void ms_places_deinit(struct ms_places *places);

/* Where @pc is; good until the next call. */
const struct ms_place *ms_places_find(struct ms_places *places, uint64_t pc);

/* Read /proc/self/maps. Without memory, or without /proc, the list is short or empty. */
void ms_shim_modules_read(struct ms_arena *arena, struct ms_shim_modules *ret);

/* Find @pc in the modules and their files. */
void ms_place_find(struct ms_places *places, uint64_t pc, struct ms_place *ret);

#endif
