/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/decode.h"

#include <string.h>

#include "engine/loaded/served.h"

struct claims MS_VEC(struct ms_claim); /* one for each decoder, in its order */

static size_t append(char *to, size_t at, const char *text)
{
	size_t len = strnlen(text, MS_READS_TEXT - 1 - at);

	memcpy(to + at, text, len);
	to[at + len] = '\0';
	return at + len;
}

const char *ms_decoders_read(const struct ms_decoder *const *decoders, char ret[MS_READS_TEXT])
{
	size_t at = append(ret, 0, "");

	for (size_t i = 0; decoders[i]; i++)
		at = append(ret, append(ret, at, i ? "; " : ""), decoders[i]->reads);
	return ret;
}

static enum ms_status claim_all(struct ms_decoding *d, struct claims *claims)
{
	const struct ms_decoder *const *decoder;

	for (decoder = d->decoders; *decoder; decoder++) {
		struct ms_claim *claim = ms_vec_push(d->arena, claims);
		enum ms_status st = claim ? (*decoder)->claim(d, claim) : MS_E_NOMEM;

		if (!st && !ms_ranges_tidy(d->arena, &claim->memory))
			st = MS_E_NOMEM;
		if (st)
			return st;
	}
	return MS_OK;
}

/* Say to each claim what the others have. */
static bool share_out(struct ms_decoding *d, struct claims *claims)
{
	const struct ms_claim *other;
	const struct ms_range *r;
	struct ms_claim *claim;

	ms_vec_for_each (claim, claims) {
		ms_vec_for_each (other, claims)
			ms_vec_for_each (r, &other->memory)
				if (other != claim &&
				    !ms_ranges_add(d->arena, &claim->others, r->begin, r->end))
					return false;
		if (!ms_ranges_tidy(d->arena, &claim->others))
			return false;
	}
	return true;
}

/* A malloc that was never called has no leaks; another one, that nothing claimed, may. */
static enum ms_status name_rival(struct ms_decoding *d, const struct claims *claims)
{
	struct MS_VEC(uint32_t) own = { 0 };
	const struct ms_claim *claim;
	const uint32_t *module;
	struct ms_peek peek;

	d->unused = true;
	ms_vec_for_each (claim, claims) {
		if (!claim->state)
			continue;
		d->unused &= claim->unused;
		ms_vec_for_each (module, &claim->modules) {
			uint32_t *slot = ms_vec_push(d->arena, &own);

			if (!slot)
				return MS_E_NOMEM;
			*slot = *module;
		}
	}
	if (!own.n)
		return MS_OK;
	if (!ms_peek_init(&peek, d->src, d->arena))
		return MS_E_NOMEM;
	return ms_served_by(d, &peek, own.at, own.n);
}

typedef enum ms_status step_fn(struct ms_decoding *d, const struct ms_claim *claim);

/* Have every decoder that claimed something take one step. */
static enum ms_status step_all(struct ms_decoding *d, const struct claims *claims, bool settle)
{
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < claims->n && !st; i++) {
		const struct ms_decoder *decoder = d->decoders[i];
		step_fn *step = settle ? decoder->settle : decoder->read;

		if (claims->at[i].state)
			st = step(d, &claims->at[i]);
	}
	return st;
}

static enum ms_status decode_all(struct ms_decoding *d, struct claims *claims)
{
	enum ms_status st = claim_all(d, claims);

	if (!st && !share_out(d, claims))
		st = MS_E_NOMEM;
	if (!st)
		st = name_rival(d, claims);
	if (!st)
		st = step_all(d, claims, false);
	if (!st)
		st = ms_blocks_sort(d->blocks);
	if (!st)
		st = step_all(d, claims, true);
	return st;
}

static enum ms_status nothing_found(const struct ms_decoding *d, struct ms_error *err)
{
	char reads[MS_READS_TEXT];

	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "no allocator that memscan understands was found in the process");
	ms_advise(err, "memscan reads the heap of %s", ms_decoders_read(d->decoders, reads));
	return MS_E_UNSUPPORTED;
}

enum ms_status ms_decode(struct ms_decoding *d, const struct ms_annotator *const *annotators,
                         struct ms_error *err)
{
	struct claims claims = { 0 };
	enum ms_status st = decode_all(d, &claims);

	if (!st && !d->heaps->n)
		return nothing_found(d, err);
	for (; !st && annotators && *annotators; annotators++)
		st = (*annotators)->annotate(d);
	return st ? ms_fail(err, st, "no memory for the table of blocks") : MS_OK;
}
