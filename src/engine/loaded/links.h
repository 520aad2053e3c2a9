/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_LINKS_H
#define MS_ENGINE_LOADED_LINKS_H

/*
 * What the loader has loaded, in the order in which it looks up symbols. The program's
 * dynamic section has the loader's list (DT_DEBUG); a static program has none.
 */

#include "engine/loaded/peek.h"
#include "engine/mapping.h"

/* A program or library. */
struct ms_link {
	ms_addr bias; /* added to the addresses in its file */
	ms_addr dynamic;
};

struct ms_links MS_VEC(struct ms_link);

/* Fill @ret with the list, the program first; empty when there is none. False without memory. */
ms_must_check bool ms_links_read(struct ms_peek *peek, const struct ms_regions *regions,
                                 struct ms_arena *arena, struct ms_links *ret);

#endif
