/* SPDX-License-Identifier: Apache-2.0 */

/* What the decoder makes of a drawn heap, held against the picture. */

#include "ptheap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/decoders.h"
#include "alloc/glibc/layout.h"
#include "alloc/glibc/ptmalloc.h"
#include "base/workers.h"
#include "decoded.h"
#include "engine/decode.h"
#include "ptplaces.h"

enum { SMALLEST_PART = 1024, MOST_WORKERS = 5 };

static void prepare(struct ptheap *h)
{
	h->decoding = (struct ms_decoding){ .src = &h->fake.base,
		                            .regions = &h->regions,
		                            .arena = &h->arena,
		                            .workers = h->workers,
		                            .blocks = &h->blocks,
		                            .heaps = &h->found,
		                            .evidence = &h->evidence,
		                            .warnings = &h->warnings };
}

static uint64_t cut_bytes;

static enum ms_status claim_in_parts(struct ms_decoding *d, struct ms_claim *ret)
{
	return ms_pt_claim(d, cut_bytes, ret);
}

enum ms_status ptheap_decode(struct ptheap *h)
{
	static const struct ms_decoder *const whole[] = { &ms_glibc_decoder, NULL };
	struct ms_decoder cut = ms_glibc_decoder;
	const struct ms_decoder *const in_parts[] = { &cut, NULL };

	prepare(h);
	cut.claim = claim_in_parts;
	cut_bytes = h->part_bytes;
	h->decoding.decoders = cut_bytes ? in_parts : whole;
	return decode_drawn(&h->decoding, &h->regions, &h->err);
}

/* Room for "begin:usable " of @n blocks. */
static char *new_text(struct ptheap *h, uint64_t n)
{
	return ms_arena_resize(&h->arena, NULL, (n + 1) * 40);
}

static char *tell_block(char *to, ms_addr begin, uint64_t usable)
{
	return to +
	       sprintf(to, "%llx:%llu ", (unsigned long long)begin, (unsigned long long)usable);
}

const char *ptheap_told(struct ptheap *h)
{
	char *text = new_text(h, h->blocks.n);
	char *to = text;
	const struct ms_extent *e;

	ms_vec_for_each (e, &h->blocks.extents)
		for (uint64_t cell = 0; cell < e->n_cells; cell++)
			for (uint64_t left = h->blocks.cells.at[e->cell0 + cell].starts; left;
			     left &= left - 1) {
				uint64_t granule =
					cell * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

				to = tell_block(to, ms_block_begin(e, granule),
				                ms_block_size(&h->blocks, e, granule));
			}
	return text;
}

/* Whether the chunk was told as it is drawn; none of another size begins there. */
static bool is_told(const struct ptheap *h, const char *told, const struct ptheap_chunk *chunk)
{
	char text[48];

	(void)tell_block(text, ptheap_mem(h, chunk), chunk->usable);
	return strstr(told, text) != NULL;
}

static bool is_lost(const struct ptheap_chunk *chunk, const char *lost)
{
	return strchr(lost, chunk->owner);
}

/* What is wrong with how @chunk was told, or NULL. */
static const char *wrong_with(const struct ptheap *h, const char *told,
                              const struct ptheap_chunk *chunk, const char *lost)
{
	bool in_use = strchr("umaA", chunk->kind);
	bool unproved = ptheap_is_unproved(h, ptheap_mem(h, chunk));

	if (is_told(h, told, chunk) != (in_use && !is_lost(chunk, lost)))
		return in_use && !is_lost(chunk, lost) ? "not told" : "told";
	if (unproved && !is_lost(chunk, lost))
		return "not proved";
	if (!unproved && memchr(lost, chunk->owner, strcspn(lost, "~")))
		return "not handed over";
	return NULL;
}

/* The heaps' sums are those of the blocks. */
static bool sums_agree(const struct ptheap *h)
{
	uint64_t n = 0;
	uint64_t bytes = 0;

	for (size_t i = 0; i < h->found.n; i++) {
		n += h->found.at[i].allocations;
		bytes += h->found.at[i].allocation_bytes;
	}
	return n == h->blocks.n && bytes == h->blocks.bytes;
}

/* Compare what was told with the picture; false, and h->wrong filled, where they differ. */
static bool is_as_drawn(struct ptheap *h, const char *lost)
{
	const char *told = ptheap_told(h);
	uint64_t n = 0;

	for (size_t i = 0; i < h->n_chunks; i++) {
		const struct ptheap_chunk *chunk = &h->chunks[i];
		const char *wrong = wrong_with(h, told, chunk, lost);

		n += strchr("umaA", chunk->kind) && !is_lost(chunk, lost);
		if (!wrong)
			continue;
		(void)snprintf(h->wrong, sizeof(h->wrong), "chunk%zu (%c) is %s", i, chunk->kind,
		               wrong);
		return false;
	}
	if (n != h->blocks.n)
		(void)snprintf(h->wrong, sizeof(h->wrong), "more told than drawn: %.200s", told);
	else if (!sums_agree(h))
		(void)snprintf(h->wrong, sizeof(h->wrong), "sums are not those of the blocks");
	else
		return true;
	return false;
}

/* Decode by @n workers. They stay: to start them takes longer than what they do. */
static enum ms_status decode_by(struct ptheap *h, unsigned int n, uint64_t part_bytes)
{
	static struct ms_workers *kept[MOST_WORKERS + 1];
	enum ms_status st = MS_OK;

	assert(n <= MOST_WORKERS);
	if (n > 1 && !kept[n])
		st = ms_workers_start(n, &kept[n], &h->err);
	h->workers = kept[n];
	h->part_bytes = part_bytes;
	if (!st)
		st = ptheap_decode(h);
	h->workers = NULL;
	h->part_bytes = 0;
	return st;
}

/* A way of decoding that must make no difference. */
struct manner {
	bool no_view;
	unsigned int n_workers;
	uint64_t part_bytes;
};

static bool decode_and_compare(struct ptheap *h, const struct manner *how, const char *lost)
{
	enum ms_status st;

	h->fake.no_view = how->no_view;
	st = decode_by(h, how->n_workers, how->part_bytes);
	if (st)
		(void)snprintf(h->wrong, sizeof(h->wrong), "%s", h->err.text);
	else if (ptheap_is_verified(h) == (*lost != '\0'))
		(void)snprintf(h->wrong, sizeof(h->wrong), "%sverified", *lost ? "" : "not ");
	else
		return is_as_drawn(h, lost);
	return false;
}

/* All that was told, for people and for programs, in one text. */
static char *account_of(struct ptheap *h)
{
	const char *told = ptheap_told(h);
	size_t len = strlen(told) + h->evidence.n * sizeof(struct ms_note) +
	             h->decoding.unproved.n * 64 + 64;
	char *text = calloc(len, 1);
	char *to = text;
	const struct ms_note *note;
	const struct ms_range *r;

	assert(text);
	to += sprintf(to, "%s\n%llu bytes\n", told, (unsigned long long)h->blocks.bytes);
	ms_vec_for_each (note, &h->evidence)
		to += sprintf(to, "%s\n", note->text);
	ms_vec_for_each (r, &h->decoding.unproved)
		to += sprintf(to, "not proved: %llx-%llx\n", (unsigned long long)r->begin,
		              (unsigned long long)r->end);
	return text;
}

const char *ptheap_try(struct ptheap *h, const char *lost)
{
	static const struct manner manners[] = {
		{ true, 1, 0 }, { false, 1, 0 }, { true, 2, SMALLEST_PART }, { false, 5, 4096 }
	};
	char *first = NULL;

	for (size_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
		bool fine = decode_and_compare(h, &manners[i], lost);
		char *account = fine ? account_of(h) : NULL;

		if (fine && first && strcmp(first, account) != 0)
			(void)snprintf(h->wrong, sizeof(h->wrong), "manner %zu makes a difference",
			               i);
		else if (fine)
			h->wrong[0] = '\0';
		if (!first)
			first = account;
		else
			free(account);
		if (h->wrong[0])
			break;
	}
	free(first);
	return h->wrong;
}

char *ptheap_account(struct ptheap *h, unsigned int n_workers, uint64_t part_bytes)
{
	enum ms_status st;

	h->fake.no_view = true;
	st = decode_by(h, n_workers, part_bytes);
	assert(!st);
	return account_of(h);
}

bool ptheap_says(const struct ptheap *h, const char *text)
{
	return notes_say(&h->evidence, text);
}

bool ptheap_is_unproved(const struct ptheap *h, ms_addr addr)
{
	const struct ms_range *r;

	ms_vec_for_each (r, &h->decoding.unproved)
		if (ms_range_has(*r, addr))
			return true;
	return false;
}

bool ptheap_is_verified(const struct ptheap *h)
{
	bool verified = h->found.n > 0;

	for (size_t i = 0; i < h->found.n; i++)
		verified &= h->found.at[i].verified;
	return verified;
}
