/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_RIVALS_H
#define MS_ENGINE_LOADED_RIVALS_H

/*
 * Allocators by what everybody can see of them: the name of a library's file, texts among
 * a module's constants, names that were given to memory. It knows no structure of any, and
 * not whose malloc the program calls: served.h does.
 */

#include "engine/decoder.h"

/* Whether a library's file of this name, the last part of its path, is an allocator's. */
bool ms_rival_is_file(const char *name);

/*
 * Which allocator has its texts in @module (ms_region.module), with its version where these
 * say it: "jemalloc 5.1.0", "scudo"; "" when there are none that are known.
 */
void ms_rival_in(const struct ms_decoding *d, uint32_t module, char ret[MS_RIVAL_TEXT]);

/*
 * Fill in d->rival with an allocator that is in the process, whoever calls it: by a file's
 * name, then by a name of memory; leave it alone when there is none.
 *
 * @own: modules of decoded allocators, n_own of them
 */
void ms_rival_find(struct ms_decoding *d, const uint32_t *own, size_t n_own);

#endif
