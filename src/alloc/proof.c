/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/proof.h"

#include <stdarg.h>
#include <stdio.h>

void ms_proof_doubt(struct ms_proof *proof, enum ms_doubt why, const char *fmt, ...)
{
	va_list args;

	proof->n++;
	if (proof->doubt < why)
		proof->doubt = why;
	if (proof->problem[0])
		return;
	va_start(args, fmt);
	(void)vsnprintf(proof->problem, sizeof(proof->problem), fmt, args);
	va_end(args);
}

const struct ms_thread *ms_proof_changer(const struct ms_decoding *d, const struct ms_claim *claim)
{
	const struct ms_thread *t;

	ms_vec_for_each (t, &d->src->threads)
		if (ms_claim_in_malloc(d, claim, t) == MS_MALLOC_WORKS)
			return t;
	return NULL;
}

void ms_proof_doubt_changer(struct ms_proof *proof, const struct ms_thread *changer)
{
	if (changer)
		ms_proof_doubt(proof, MS_DOUBT_CHANGES, "thread %d is inside malloc",
		               (int)changer->tid);
}
