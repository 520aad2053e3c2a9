/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_DECODED_H
#define MS_TESTS_DECODED_H

/* What a decoder makes of a heap that a test drew. */

#include "engine/decoder.h"

/*
 * Forget what was decoded before, all that is in d->arena; classify, decode, and put the
 * blocks in order. That no allocator is found is no failure.
 *
 * @regions: d->regions, to be filled
 *
 * Returns MS_E_NOMEM.
 */
enum ms_status decode_drawn(struct ms_decoding *d, struct ms_regions *regions,
                            struct ms_error *err);

/* Whether a note has @text in it. */
bool notes_say(const struct ms_notes *notes, const char *text);

#endif
