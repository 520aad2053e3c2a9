/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With a number beside them, in the 16 bits that no address needs: above them (Boost's lock-free
 * queues and stacks, which count in it) or below, the address shifted. Only the begin of a block
 * counts, and no address below 4 GiB.
 */
#include <string.h>

#include "engine/graph/hidden_form.h"

enum { WORD = MS_HIDDEN_WORD, LANES = MS_HIDDEN_LANES, TAG = 16 /* bits */ };

/* Of a zone's addresses the part above 32 bits, and how much larger that of its last is. */
struct parts {
	uint16_t high[MS_HIDDEN_ZONES];
	uint16_t span[MS_HIDDEN_ZONES];
	unsigned n;
};

static struct parts parts_of(const struct ms_hidden *h)
{
	struct parts ret = { .n = h->n_zones };

	for (unsigned i = 0; i < h->n_zones; i++) {
		ret.high[i] = (uint16_t)(h->zones[i].begin >> 32);
		ret.span[i] = (uint16_t)(((h->zones[i].end - 1) >> 32) - (h->zones[i].begin >> 32));
	}
	return ret;
}

/* One word, at @bytes + @i in @p, of which it is not known that it has no number. */
static void consider(struct ms_hidden *h, struct ms_hidden_seeker *k,
                     const struct ms_hidden_piece *p, const uint8_t *bytes, size_t i)
{
	uint64_t value;
	ms_addr below;

	memcpy(&value, bytes + i, sizeof(value));
	below = value << TAG >> TAG;
	if (below != value && ms_hidden_in_zones(h, below))
		ms_hidden_say_begin(h, k, p, p->range.begin + i, below);
	if (ms_hidden_in_zones(h, value >> TAG))
		ms_hidden_say_begin(h, k, p, p->range.begin + i, value >> TAG);
}

typedef uint16_t quarters __attribute__((vector_size(LANES)));
typedef uint64_t words __attribute__((vector_size(LANES)));

/* Whether one of the words in the LANES bytes at @at may be an address with a number beside. */
static bool may_have_tag(const struct parts *parts, const uint8_t *at)
{
	static const quarters above = { 0, 0, 0xffff, 0, 0, 0, 0xffff, 0 };
	static const quarters below = { 0, 0, 0, 0xffff, 0, 0, 0, 0xffff };
	static const words upper = { ~(UINT64_MAX >> TAG), ~(UINT64_MAX >> TAG) };
	quarters here;
	quarters hits = { 0 };
	quarters tagged;
	uint64_t both[2];

	memcpy(&here, at, sizeof(here));
	for (unsigned i = 0; i < parts->n; i++)
		hits |= (quarters)(here - parts->high[i] <= parts->span[i]);
	tagged = (quarters)(((words)here & upper) != 0);
	hits &= (tagged & above) | below;
	memcpy(both, &hits, sizeof(both));
	return both[0] | both[1];
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const struct parts parts = parts_of(h);
	uint64_t n = ms_range_len(p->range);
	size_t i = 0;

	if (p->code)
		return;
	for (; i + LANES <= n; i += LANES)
		if (may_have_tag(&parts, bytes + i)) {
			consider(h, k, p, bytes, i);
			consider(h, k, p, bytes, i + WORD);
		}
	for (; i + WORD <= n; i += WORD)
		consider(h, k, p, bytes, i);
}

const struct ms_hidden_form ms_numbered_form = {
	.name = "numbered",
	.reason = MS_REASON_TAGGED,
	.wide = true,
	.look = look,
};
