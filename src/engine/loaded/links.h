/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_LINKS_H
#define MS_ENGINE_LOADED_LINKS_H

/*
 * What the loader has loaded, in the order in which it looks up symbols, and what each
 * object defines; read from the process's memory, with no file opened. The program's
 * dynamic section has the loader's list (DT_DEBUG); a static program has none.
 */

#include "engine/loaded/peek.h"
#include "engine/mapping.h"

/* A program or library. */
struct ms_link {
	ms_addr bias; /* added to the addresses in its file */
	ms_addr dynamic;
	/* Where its tables are, after ms_link_open(); 0: it has none. */
	ms_addr symbols;
	ms_addr strings;
	ms_addr gnu_hash;
};

struct ms_links MS_VEC(struct ms_link);

/* Fill @ret with the list, the program first; empty when there is none. False without memory. */
ms_must_check bool ms_links_read(struct ms_peek *peek, const struct ms_regions *regions,
                                 struct ms_arena *arena, struct ms_links *ret);

/* Find the tables of @link, for what follows. */
void ms_link_open(struct ms_peek *peek, struct ms_link *link);

/* The address of the function @name if @link defines it and shows it to others, or 0. */
ms_addr ms_link_function(struct ms_peek *peek, const struct ms_link *link, const char *name);

/* Whether @link wants the symbol @name from others. */
bool ms_link_imports(struct ms_peek *peek, const struct ms_link *link, const char *name);

#endif
