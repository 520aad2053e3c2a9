/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/musl/oldmalloc.h"

/*
 * `mal` is a map of the bins that are not empty, and the bins. An empty bin that was used
 * points to itself twice, as if it were a chunk:
 *
 *	│ map │ lock head tail │ lock head tail │ …
 *	  8      8    8    8
 *
 * Such a pair of words is looked for; all 64 bins around it must be empty or lead to a chunk
 * that leads back, as the map says.
 */

enum {
	WORD = 8,
	PAIR = 16,
	FIRST_HEAD = 16,   /* in `mal` */
	BIN = 24,          /* from one bin to the next */
	BIN_AS_CHUNK = 16, /* below its head */
	NEXT = 16,         /* in a chunk */
	PREVIOUS = 24,
};

static uint64_t word_at(const uint8_t *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

/* The word at @addr, or 0 when it cannot be read. */
static uint64_t word_of(struct ms_old *old, ms_addr addr)
{
	uint64_t word;

	return ms_peek_read(&old->peek, addr, &word, sizeof(word)) == sizeof(word) ? word : 0;
}

static ms_addr bin_at(ms_addr mal, unsigned i)
{
	return mal + FIRST_HEAD + (ms_addr)i * BIN - BIN_AS_CHUNK;
}

/* Whether `mal` is at @mal, by its @bytes. */
static bool is_mal(struct ms_old *old, ms_addr mal, const uint8_t *bytes)
{
	uint64_t map = word_at(bytes, 0);

	if (!map)
		return false;
	for (unsigned i = 0; i < MS_OLD_BINS; i++) {
		ms_addr head = word_at(bytes, FIRST_HEAD + (size_t)i * BIN);
		ms_addr tail = word_at(bytes, FIRST_HEAD + (size_t)i * BIN + WORD);
		bool empty = head == bin_at(mal, i) || !head;

		if (empty ? head != tail : !tail || tail == bin_at(mal, i))
			return false;
		if (empty == (map >> i & 1))
			return false;
	}
	for (; map; map &= map - 1) {
		unsigned i = (unsigned)__builtin_ctzll(map);

		if (word_of(old, word_at(bytes, FIRST_HEAD + (size_t)i * BIN) + PREVIOUS) !=
		    bin_at(mal, i))
			return false;
	}
	return true;
}

/* Whether an empty bin's head is at @at, by the @bytes there. */
static bool is_pair(ms_addr at, const uint8_t *bytes)
{
	return word_at(bytes, 0) == at - BIN_AS_CHUNK && word_at(bytes, WORD) == at - BIN_AS_CHUNK;
}

/* `mal` of which the pair at @pair is a bin. */
static bool take_mal(struct ms_old *old, const struct ms_region *region, struct ms_window *window,
                     ms_addr pair)
{
	for (unsigned i = 0; i < MS_OLD_BINS; i++) {
		ms_addr mal = pair - FIRST_HEAD - (ms_addr)i * BIN;
		const uint8_t *bytes = ms_window_at(window, mal, MS_OLD_BYTES);

		if (!bytes || !is_mal(old, mal, bytes))
			continue;
		old->data = region;
		old->at = mal;
		old->bin_map = word_at(bytes, 0);
		for (unsigned k = 0; k < MS_OLD_BINS; k++)
			old->heads[k] = word_at(bytes, FIRST_HEAD + (size_t)k * BIN);
		/* The lock of the heap is where another bin's would be. */
		for (unsigned k = 0; k <= MS_OLD_BINS; k++)
			old->locked |= (uint32_t)word_at(bytes, WORD + (size_t)k * BIN) != 0;
		return true;
	}
	return false;
}

static bool search(struct ms_old *old, const struct ms_region *region, struct ms_range data)
{
	struct ms_range rest = data;
	struct ms_window window;
	struct ms_range run;

	ms_window_init(&window, old->d->src, data, old->buffer);
	for (; ms_source_present(old->d->src, rest, &run); rest.begin = run.end)
		for (ms_addr at = run.begin; at < run.end; at += WORD) {
			const uint8_t *bytes = ms_window_at(&window, at, PAIR);

			if (!bytes)
				break;
			if (is_pair(at, bytes) && take_mal(old, region, &window, at))
				return true;
		}
	return false;
}

enum ms_status ms_old_locate(struct ms_old *old)
{
	struct ms_data data;

	for (size_t i = 0; !old->data && ms_next_data(old->d->src, old->d->regions, &i, &data);)
		(void)search(old, data.region, data.range);
	return MS_OK;
}

static bool is_free(const struct ms_old *old, ms_addr chunk)
{
	size_t i = ms_lower_bound(0, old->free.n, k, old->free.at[k] < chunk);

	return i < old->free.n && old->free.at[i] == chunk;
}

/* Follow a ring; how many chunks it has. */
static uint64_t follow(struct ms_old *old, unsigned bin)
{
	ms_addr before = bin_at(old->at, bin);
	ms_addr at = old->heads[bin];
	uint64_t n = 0;

	for (; at != bin_at(old->at, bin); at = word_of(old, at + NEXT)) {
		if (!is_free(old, at) || word_of(old, at + PREVIOUS) != before || n > old->free.n) {
			ms_proof_doubt(&old->proof, MS_DOUBT_DAMAGED, "bin %u breaks at 0x%llx",
			               bin, (unsigned long long)at);
			break;
		}
		before = at;
		n++;
	}
	return n;
}

void ms_old_check_bins(struct ms_old *old)
{
	uint64_t map = old->bin_map;
	uint64_t n = 0;

	for (; map && !old->proof.doubt; map &= map - 1)
		n += follow(old, (unsigned)__builtin_ctzll(map));
	if (n != old->free.n)
		ms_proof_doubt(&old->proof, MS_DOUBT_DISAGREES,
		               "%zu chunks are free, and %llu in bins", old->free.n,
		               (unsigned long long)n);
}
