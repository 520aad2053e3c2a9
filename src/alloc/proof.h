/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_PROOF_H
#define MS_ALLOC_PROOF_H

/* What decoders share: why a heap, or a part of one, is not proved. */

#include "engine/decoder.h"

/* Zeroed: all that was looked at agrees so far. */
struct ms_proof {
	enum ms_doubt doubt;            /* NONE: it is proved */
	char problem[MS_NOTE_TEXT / 2]; /* the first doubt in words */
	uint64_t n;                     /* doubts */
};

/* Note why @proof fails; the first words stay, and the last of enum ms_doubt. */
void ms_proof_doubt(struct ms_proof *proof, enum ms_doubt why, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The first thread that changes the heap of @claim's allocator; NULL: none does. */
const struct ms_thread *ms_proof_changer(const struct ms_decoding *d, const struct ms_claim *claim);

/*
 * Doubt @proof if there is a @changer: what that thread has taken off a list, and not yet given
 * to the program or put back, looks used.
 */
void ms_proof_doubt_changer(struct ms_proof *proof, const struct ms_thread *changer);

#endif
