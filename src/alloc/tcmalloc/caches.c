/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/tcmalloc/tcmalloc.h"

/*
 * Threads' caches. One shows itself by the sizes of the classes, which stand in its lists one
 * after the other. Caches are linked, and the data has three words for that: the cache to
 * steal from next, how many there are, and the first one. So neither a cache that was given
 * back nor the wrong place of the links is taken for the list.
 */

enum { MOST_STEPS = 1 << 18 }; /* so many caches are looked at in the search */

/* Where a cache has the address of the next one, and behind it that of the one before. */
static const uint32_t link_places[] = {
	offsetof(struct ms_tc_raw_cache, rest) + 16, /* to 2.10 */
	offsetof(struct ms_tc_raw_cache, rest),      /* in 2.16 */
};

static bool is_cache(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy, ms_addr addr)
{
	for (uint32_t i = 0; i < copy->n_classes; i++) {
		struct ms_tc_list list;

		if (!ms_tc_read(tc, addr + i * sizeof(list), &list, sizeof(list)) ||
		    list.object_bytes < 0 || (uint64_t)list.object_bytes != copy->classes[i].bytes)
			return false;
	}
	return true;
}

/* How many caches are linked at @place from @first on; 0: they are no list. */
static uint32_t length_of(const struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr first,
                          uint32_t place)
{
	ms_addr before = 0;
	uint32_t n = 0;

	for (ms_addr at = first; at; n++) {
		uint64_t links[2];

		if (copy->cache_steps++ == MOST_STEPS || !is_cache(tc, copy, at) ||
		    !ms_tc_read(tc, at + place, links, sizeof(links)) || links[1] != before)
			return 0;
		before = at;
		at = links[0];
	}
	return n;
}

/* Whether @addr is one of the caches linked from @first on, which are a list. */
static bool is_linked(const struct ms_tcmalloc *tc, ms_addr first, uint32_t place, ms_addr addr)
{
	ms_addr at = first;

	while (at && at != addr)
		at = ms_tc_word(tc, at + place);
	return at == addr;
}

/* The word at @at is the list's, if what stands in front of it is the rest. */
static bool is_first_cache(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at,
                           uint64_t word)
{
	struct {
		uint64_t steal_from; /* one of the caches, or none */
		uint32_t n;
		uint32_t unused;
	} front;

	if (copy->cache_steps > MOST_STEPS || !is_cache(tc, copy, word) ||
	    !ms_tc_read(tc, at - sizeof(front), &front, sizeof(front)))
		return false;
	for (size_t i = 0; i < sizeof(link_places) / sizeof(link_places[0]); i++) {
		uint32_t n = length_of(tc, copy, word, link_places[i]);

		if (!n || n != front.n || !is_linked(tc, word, link_places[i], front.steal_from))
			continue;
		copy->first_cache = word;
		copy->link_at = link_places[i];
		return true;
	}
	return false;
}

enum ms_status ms_tc_find_caches(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	if (!ms_tc_find_word(tc, copy, is_first_cache)) {
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "the list of threads' caches was not found");
		return MS_OK;
	}
	for (ms_addr at = copy->first_cache; at; at = ms_tc_word(tc, at + copy->link_at)) {
		ms_addr *slot = ms_vec_push(tc->d->arena, &copy->caches);

		if (!slot)
			return MS_E_NOMEM;
		*slot = at;
	}
	return MS_OK;
}

static void take_cache(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at)
{
	int32_t counted = -1;
	uint64_t bytes = 0;

	(void)ms_tc_read(tc, at + offsetof(struct ms_tc_raw_cache, bytes), &counted,
	                 sizeof(counted));
	for (uint32_t i = 1; i < copy->n_classes && !copy->proof.doubt; i++) {
		struct ms_tc_chain chain = { .class = i };
		struct ms_tc_list list = { 0 };
		uint64_t n;

		(void)ms_tc_read(tc, at + i * sizeof(list), &list, sizeof(list));
		chain.head = list.head;
		chain.n = list.length;
		n = ms_tc_take_chain(tc, copy, &chain);
		bytes += n * copy->classes[i].bytes;
		copy->cached.n += n;
		if (n != list.length)
			ms_proof_doubt(
				&copy->proof, MS_DOUBT_DISAGREES,
				"a thread's cache counts %u blocks of %llu bytes, but has %llu",
				list.length, (unsigned long long)copy->classes[i].bytes,
				(unsigned long long)n);
	}
	copy->cached.bytes += bytes;
	if (counted < 0 || bytes != (uint64_t)counted)
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "a thread's cache counts %d bytes, but has %llu", counted,
		               (unsigned long long)bytes);
}

void ms_tc_take_caches(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	const ms_addr *at;

	ms_vec_for_each (at, &copy->caches)
		if (!copy->proof.doubt)
			take_cache(tc, copy, *at);
}
