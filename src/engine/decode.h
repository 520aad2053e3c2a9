/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_DECODE_H
#define MS_ENGINE_DECODE_H

/*
 * Step 4: all decoders and annotators, in their order. What no decoder claimed is
 * named here, and here alone.
 */

#include "engine/annotator.h"
#include "engine/decoder.h"

/*
 * Decode with d->decoders, annotate with @annotators (ended by NULL; NULL: none).
 *
 * Returns MS_E_NOMEM; MS_E_UNSUPPORTED, with what is decoded in @err's advice, when no
 * allocator was found.
 */
ms_must_check enum ms_status ms_decode(struct ms_decoding *d,
                                       const struct ms_annotator *const *annotators,
                                       struct ms_error *err);

enum { MS_RIVAL_NAME = MS_NAME_TEXT + MS_RIVAL_TEXT + 4 };

/* "libjemalloc.so.2 (jemalloc 5.1.0)". Returns @ret. */
const char *ms_rival_name(const struct ms_rival *rival, char ret[MS_RIVAL_NAME]);

enum { MS_READS_TEXT = 256 };

/* "glibc 2.26 to 2.43; ...": what @decoders read. Returns @ret. */
const char *ms_decoders_read(const struct ms_decoder *const *decoders, char ret[MS_READS_TEXT]);

#endif
