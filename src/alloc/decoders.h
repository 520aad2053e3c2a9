/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_DECODERS_H
#define MS_ALLOC_DECODERS_H

/* The allocators that memscan understands. */

#include "engine/decoder.h"

extern const struct ms_decoder ms_glibc_decoder;
/* After the others, of whose blocks it says more: what a preloaded malloc_debug knows. */
extern const struct ms_decoder ms_registry_decoder;

/* Every decoder, ended by NULL. */
extern const struct ms_decoder *const ms_decoders[];

#endif
