/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/decode.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "engine/loaded/served.h"
#include "engine/mapping.h"

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
		if (decoders[i]->reads)
			at = append(ret, append(ret, at, at ? ", " : ""), decoders[i]->reads);
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
	struct ms_claim *claim;

	ms_vec_for_each (claim, claims) {
		ms_vec_for_each (other, claims)
			if (other != claim &&
			    !ms_ranges_add_all(d->arena, &claim->others, &other->memory))
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
	if (!ms_peek_init(&peek, d->src, d->arena))
		return MS_E_NOMEM;
	return ms_served_by(d, &peek, own.at, own.n);
}

static bool has_module(const struct ms_claim *claim, uint32_t wanted)
{
	const uint32_t *module;

	ms_vec_for_each (module, &claim->modules)
		if (*module == wanted)
			return true;
	return false;
}

/* The module that has @addr, if one has. */
static bool module_of(const struct ms_decoding *d, ms_addr addr, uint32_t *ret)
{
	const struct ms_region *region = ms_region_of(d->regions, addr);

	if (!region || region->kind != MS_REGION_GLOBALS)
		return false;
	*ret = region->module;
	return true;
}

/* Whether all instructions around @code are that: the module is an allocator and nothing else. */
static bool is_all_code(const struct ms_decoding *d, struct ms_range code)
{
	const struct ms_region *region = ms_region_of(d->regions, code.begin);
	struct ms_range mapping = ms_region_mapping(d->src, region)->range;

	return mapping.begin == code.begin && mapping.end == code.end;
}

/* How many anchors @claim has in @module; false when the code of one of them was not found. */
static bool are_anchors_known(const struct ms_decoding *d, const struct ms_claim *claim,
                              uint32_t module, uint32_t *ret)
{
	uint32_t found;

	*ret = 0;
	for (uint32_t i = 0; i < claim->anchors.n; i++) {
		struct ms_range anchor = claim->anchors.at[i];

		if (!module_of(d, anchor.begin, &found) || found != module)
			continue;
		if (!ms_anchors_have(&d->src->anchors, anchor))
			return false;
		++*ret;
	}
	return true;
}

/*
 * Whether the code of @claim's allocator was found in @module. Of what was found there, an
 * allocator that has anchors knows its own by them: the rest may be another one's.
 */
static bool is_code_in(const struct ms_decoding *d, const struct ms_claim *claim, uint32_t module)
{
	const struct ms_source *src = d->src;
	size_t n_exported = src->n_malloc_code - src->n_linked_code;
	bool by_anchors = claim->anchors.n > 0;
	uint32_t n_known;
	uint32_t found;

	for (size_t i = 0; i < n_exported; i++)
		if (module_of(d, src->malloc_code[i].begin, &found) && found == module &&
		    (!by_anchors || is_all_code(d, src->malloc_code[i])))
			return true;
	/* More than there is room for are not all known. */
	return claim->anchors.n < MS_ANCHORS && are_anchors_known(d, claim, module, &n_known) &&
	       n_known;
}

/* Whether code of malloc's was found in each of @claim's modules, or was not looked for. */
static bool is_code_known(const struct ms_decoding *d, const struct ms_claim *claim)
{
	const uint32_t *module;

	if (!d->src->n_malloc_code)
		return true;
	ms_vec_for_each (module, &claim->modules)
		if (!is_code_in(d, claim, *module))
			return false;
	return true;
}

enum ms_in_malloc ms_claim_in_malloc(const struct ms_decoding *d, const struct ms_claim *claim,
                                     const struct ms_thread *thread)
{
	uint32_t module;

	if (thread->in_malloc == MS_MALLOC_OUT) {
		if ((!thread->runs && !thread->may_wait) || is_code_known(d, claim))
			return MS_MALLOC_OUT;
		return thread->runs ? MS_MALLOC_WORKS : MS_MALLOC_WAITS;
	}
	if (thread->malloc_at && module_of(d, thread->malloc_at, &module) && claim->modules.n &&
	    !has_module(claim, module))
		return MS_MALLOC_OUT;
	return (enum ms_in_malloc)thread->in_malloc;
}

/* Tell whoever scans again where to look for code. */
static void tell_anchors(struct ms_decoding *d, const struct claims *claims)
{
	const struct ms_claim *claim;

	ms_vec_for_each (claim, claims)
		for (uint32_t i = 0; i < claim->anchors.n; i++)
			(void)ms_anchors_add(&d->anchors, claim->anchors.at[i]);
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
		tell_anchors(d, claims);
	if (!st)
		st = step_all(d, claims, false);
	if (!st)
		st = ms_blocks_sort(d->blocks);
	if (!st)
		st = step_all(d, claims, true);
	return st;
}

const char *ms_rival_name(const struct ms_rival *rival, char ret[MS_RIVAL_NAME])
{
	bool known = rival->what[0];

	(void)snprintf(ret, MS_RIVAL_NAME, "%s%s%s%s", rival->name, known ? " (" : "", rival->what,
	               known ? ")" : "");
	return ret;
}

/* Whether a program's interpreter is there, and the C library that it is to load is not. */
static bool is_loading(const struct ms_source *src)
{
	bool interpreter = false;
	const struct ms_mapping *mapping;

	ms_vec_for_each (mapping, &src->mappings) {
		const char *name = ms_file_name(mapping->name);

		if (!mapping->file)
			continue;
		if (ms_name_begins(name, "libc.so") || ms_name_begins(name, "libc-2") ||
		    ms_name_begins(name, "ld-musl"))
			return false;
		interpreter |= ms_is_interpreter(mapping);
	}
	return interpreter;
}

static enum ms_status nothing_found(const struct ms_decoding *d, struct ms_error *err)
{
	const char *how = d->rival.serves ? "; it allocates with " : "; it has ";
	char reads[MS_READS_TEXT];
	char name[MS_RIVAL_NAME];

	if (is_loading(d->src)) {
		(void)ms_fail(err, MS_E_BUSY,
		              "the process loads its program: it has no C library yet");
		ms_advise(err, "try again in a moment");
		return MS_E_BUSY;
	}
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "no allocator that memscan reads was found in the process%s%s",
	              d->rival.name[0] ? how : "", ms_rival_name(&d->rival, name));
	ms_advise(
		err,
		"memscan reads the heap of %s in the versions that README lists; for another one use its own profiler",
		ms_decoders_read(d->decoders, reads));
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
