/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_DECODERS_H
#define MS_ALLOC_DECODERS_H

/* The allocators that memscan understands. */

#include "engine/annotator.h"
#include "engine/decoder.h"

extern const struct ms_decoder ms_glibc_decoder;
extern const struct ms_decoder ms_mallocng_decoder;
extern const struct ms_decoder ms_oldmalloc_decoder;
extern const struct ms_decoder ms_jemalloc_decoder;
extern const struct ms_decoder ms_tcmalloc_decoder;
extern const struct ms_decoder ms_mimalloc_decoder;
extern const struct ms_decoder ms_pymalloc_decoder;
/* What a preloaded malloc_debug knows. */
extern const struct ms_annotator ms_registry_annotator;
/* What an agent of `memscan attach` knows. */
extern const struct ms_annotator ms_agent_annotator;
/* That mcheck() holds every block. */
extern const struct ms_annotator ms_mcheck_annotator;
/* The sizes that glibc's MALLOC_CHECK_ keeps. */
extern const struct ms_annotator ms_malloc_check_annotator;

/* Every decoder, ended by NULL. */
extern const struct ms_decoder *const ms_decoders[];

/* Every annotator, ended by NULL. */
extern const struct ms_annotator *const ms_annotators[];

#endif
