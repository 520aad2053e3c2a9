/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/jemalloc/jemalloc.h"

#include "base/search.h"
#include "base/sort.h"

/*
 * A thread that waits for a lock in jemalloc may have blocks in hand that look used. While it
 * fills a bin of its cache, it writes them into the bin's room and counts them at the end; before
 * that it may wait to give back a slab that it does not need. The maker of a large block knows it
 * by the description of its extent, and may wait to purge others. The thread's registers and stack
 * lead to that bin, or to that description: then the words in the bin's room, or the address in
 * the description, are roots.
 */

enum { STACK_WORDS = 512 }; /* from the wait up to malloc() */

static bool is_lower(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b;
}

static bool hold(struct ms_jemalloc *je, struct ms_je_copy *copy, ms_addr begin, ms_addr end)
{
	copy->held_bytes += end - begin;
	return ms_ranges_add(je->d->arena, &je->d->in_hand, begin, end);
}

/* When @edata describes a large block in use, its word with the address becomes a root. */
static bool hold_large(struct ms_jemalloc *je, struct ms_je_copy *copy, ms_addr edata)
{
	ms_addr at = edata + MS_JE_EDATA_ADDR;
	const struct ms_je_extent *e;

	if (!ms_range_find(&copy->metadata, edata))
		return true;
	e = ms_range_find(&copy->extents, ms_je_word_or_0(je, at));
	return !e || e->edata != edata || ms_je_is_slab(e) || !ms_je_in_use(copy->bits, e->bits) ||
	       hold(je, copy, at, at + MS_JE_WORD);
}

static bool take_words(struct ms_jemalloc *je, struct ms_je_copy *copy, const uint64_t *words,
                       size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t *slot;

		if (words[i] < MS_JE_PAGE || words[i] % MS_JE_WORD)
			continue;
		slot = ms_vec_push(je->d->arena, &copy->waiting_words);
		if (!slot || !hold_large(je, copy, words[i]))
			return false;
		*slot = words[i];
	}
	return true;
}

enum ms_status ms_je_look_in_hands(struct ms_jemalloc *je, const struct ms_claim *claim,
                                   struct ms_je_copy *copy)
{
	uint64_t stack[STACK_WORDS];
	const struct ms_thread *t;

	ms_vec_for_each (t, &je->d->src->threads) {
		size_t n;

		if (ms_claim_in_malloc(je->d, claim, t) != MS_MALLOC_WAITS)
			continue;
		n = ms_source_words(je->d->src, t->sp, stack, STACK_WORDS);
		if (!take_words(je, copy, stack, n) || !take_words(je, copy, t->words, t->n_words))
			return MS_E_NOMEM;
	}
	return ms_sort(je->d->arena, copy->waiting_words.at, copy->waiting_words.n,
	               sizeof(*copy->waiting_words.at), is_lower)
	               ? MS_OK
	               : MS_E_NOMEM;
}

bool ms_je_hold_room(struct ms_jemalloc *je, struct ms_je_copy *copy, struct ms_range bin,
                     struct ms_range room)
{
	size_t at =
		ms_lower_bound(0, copy->waiting_words.n, i, copy->waiting_words.at[i] < bin.begin);

	return at == copy->waiting_words.n || copy->waiting_words.at[at] >= bin.end ||
	       hold(je, copy, room.begin, room.end);
}
