/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/musl/mallocng.h"
#include "alloc/window.h"
#include "base/sort.h"

/*
 * A group is a header of 16 bytes and slots of one length. Each slot's own header lies in the
 * last 4 bytes before it, which are those of the slot, or the group's header, in front:
 *
 *	descriptor │ active │ header │ slot 0 …            │ header │ slot 1 …
 *	 8 bytes     1 byte   4        stride - 4            4
 *
 *	header     │ wide: 1 │ reserved: 3 bits, index: 5 │ offset: 2 bytes │
 *
 * offset is how far the block is from slot 0, in units of 16 bytes; reserved is how many bytes
 * behind the block are none of its own, 5 when only the last 4 bytes of the slot say it, and 6
 * when the slot holds another group. A block may begin later than its slot; then the slot's
 * header has reserved 7 and offset says how much later, and another header lies in front of
 * the block.
 */

enum {
	HEADER = 4,
	HEADERS = 8, /* with the wide offset in front */
	INDEX_BITS = 5,
	INDEX = (1 << INDEX_BITS) - 1,
	RESERVED_BEHIND = 5,
	RESERVED_GROUP = 6,
	LATER = 7 << INDEX_BITS,
	FREED = 255, /* of a block whose free() has begun */
	ACTIVE = 8,
	MAX_DEPTH = 16, /* a group is shorter than the slot that it lies in by half as a rule */
};

enum kind { KIND_BLOCK, KIND_GROUP, KIND_PASSING, KIND_DAMAGED };

/* What a slot in use holds. */
struct slot {
	struct ms_range range; /* with the header of the next */
	ms_addr at;
	uint64_t size;
	enum kind kind;
};

struct header {
	uint8_t wide;
	uint8_t index; /* and reserved */
	uint16_t offset;
	uint32_t far; /* the offset, when wide */
};

struct putting {
	struct ms_ng *ng;
	struct ms_ng_context *c;
	struct ms_window window;
	uint32_t extent;
	unsigned depth;
};

/* ---- which groups lie in no other ---- */

static bool outer_before(const void *a, const void *b)
{
	return ((const struct ms_range *)a)->begin < ((const struct ms_range *)b)->begin;
}

static bool is_outer(const struct ms_ng_group *g)
{
	return g->at && (g->map_bytes || !g->freeable);
}

enum ms_status ms_ng_plan(struct ms_ng *ng, struct ms_ng_context *c)
{
	size_t kept = 0;

	for (uint32_t i = 0; i < c->groups.n; i++) {
		struct ms_ng_outer *outer;

		if (!is_outer(&c->groups.at[i]))
			continue;
		outer = ms_vec_push(ng->d->arena, &c->outer);
		if (!outer)
			return MS_E_NOMEM;
		*outer = (struct ms_ng_outer){ ms_ng_range(&c->groups.at[i]), i };
	}
	if (!ms_sort(ng->d->arena, c->outer.at, c->outer.n, sizeof(c->outer.at[0]), outer_before))
		return MS_E_NOMEM;
	for (size_t i = 0; i < c->outer.n; i++) {
		struct ms_ng_outer outer = c->outer.at[i];

		if (!ms_regions_cover(ng->d->regions, outer.range) ||
		    (kept && c->outer.at[kept - 1].range.end > outer.range.begin)) {
			ms_proof_doubt(&c->proof, MS_DOUBT_DAMAGED,
			               "the group at 0x%llx is not mapped, or overlaps another",
			               (unsigned long long)outer.range.begin);
			continue;
		}
		c->group_bytes += ms_range_len(outer.range);
		c->outer.at[kept++] = outer;
	}
	c->outer.n = kept;
	return MS_OK;
}

/* ---- a slot ---- */

static bool read_header(struct putting *p, ms_addr at, struct header *ret)
{
	const uint8_t *bytes = ms_window_at(&p->window, at - HEADERS, HEADERS);

	if (!bytes)
		return false;
	memcpy(&ret->far, bytes, sizeof(ret->far));
	ret->wide = bytes[HEADER];
	ret->index = bytes[HEADER + 1];
	memcpy(&ret->offset, bytes + HEADER + 2, sizeof(ret->offset));
	return true;
}

/* free() empties the header before it takes the lock. */
static bool is_freed(const struct header *h)
{
	return h->index == FREED && !h->wide && !h->offset;
}

/* malloc() fills it when it has left the lock. */
static bool is_passing(const struct header *h)
{
	return is_freed(h) || (!h->index && !h->wide && !h->offset);
}

/* Whether @h is in front of a block at @at, in slot @index of @group. */
static bool is_its_header(const struct header *h, const struct ms_ng_group *group, unsigned index,
                          ms_addr at)
{
	uint64_t offset = (at - group->at - MS_NG_UNIT) / MS_NG_UNIT;

	if ((h->index & INDEX) != index || h->index >= LATER)
		return false;
	return h->wide ? !h->offset && h->far == offset && offset > UINT16_MAX
	               : h->offset == offset;
}

/*
 * The header of a block that begins later than its slot. What aligned_alloc() moved far is
 * noted only by its last 16 bits.
 */
static bool find_later(struct putting *p, const struct ms_ng_group *group, unsigned index,
                       struct slot *slot, struct header *h)
{
	const uint64_t step = (UINT64_C(1) << 16) * MS_NG_UNIT;
	ms_addr at = slot->range.begin + h->offset * (uint64_t)MS_NG_UNIT;

	if (at == slot->range.begin)
		at += step;
	for (; at < slot->range.end - HEADER; at += step)
		if (read_header(p, at, h) && (is_its_header(h, group, index, at) || is_freed(h))) {
			slot->at = at;
			return true;
		}
	return false;
}

/* How many bytes of the slot behind the block are none of the block's; false if that is absurd. */
static bool read_reserved(struct putting *p, const struct slot *slot, const struct header *h,
                          uint64_t *ret)
{
	ms_addr end = slot->range.end - MS_NG_TAIL;
	const uint8_t *bytes;
	uint32_t behind;

	*ret = h->index >> INDEX_BITS;
	if (*ret < RESERVED_BEHIND)
		return *ret <= end - slot->at;
	bytes = ms_window_at(&p->window, end - RESERVED_BEHIND, RESERVED_BEHIND);
	if (!bytes)
		return false;
	memcpy(&behind, bytes + 1, sizeof(behind));
	*ret = behind;
	return behind >= RESERVED_BEHIND && behind <= end - slot->at && !bytes[0];
}

static struct slot read_slot(struct putting *p, const struct ms_ng_group *group, unsigned index)
{
	uint64_t stride = ms_ng_stride(group);
	ms_addr begin = group->at + MS_NG_UNIT + index * stride;
	struct slot slot = { { begin, begin + stride }, begin, 0, KIND_DAMAGED };
	struct header h;
	uint64_t reserved;

	if (!read_header(p, begin, &h) ||
	    (h.index == LATER && !find_later(p, group, index, &slot, &h)))
		return slot;
	if (!is_its_header(&h, group, index, slot.at)) {
		slot.kind = is_passing(&h) ? KIND_PASSING : KIND_DAMAGED;
	} else if (h.index >> INDEX_BITS == RESERVED_GROUP) {
		slot.kind = KIND_GROUP;
	} else if (read_reserved(p, &slot, &h, &reserved)) {
		slot.kind = KIND_BLOCK;
		slot.size = slot.range.end - MS_NG_TAIL - slot.at - reserved;
		/* A block of no bytes is one all the same. */
		slot.size += !slot.size;
	}
	return slot;
}

/* ---- a group ---- */

static enum ms_status put_group(struct putting *p, struct ms_ng_group *group);

/* The group leads back to its descriptor, and no slot is in use that was never handed out. */
static bool check_header(struct putting *p, const struct ms_ng_group *group)
{
	const uint8_t *bytes = ms_window_at(&p->window, group->at, MS_NG_UNIT);
	uint32_t used = ms_ng_all_slots(group) & ~(group->avail | group->freed);
	uint64_t word;

	if (bytes) {
		memcpy(&word, bytes, sizeof(word));
		if (word == group->descriptor && !(used >> (bytes[ACTIVE] & INDEX) >> 1))
			return true;
	}
	ms_proof_doubt(&p->c->proof, MS_DOUBT_DAMAGED,
	               "the group at 0x%llx does not fit its descriptor 0x%llx",
	               (unsigned long long)group->at, (unsigned long long)group->descriptor);
	return false;
}

/* The group in @slot. */
static struct ms_ng_group *nested_in(struct putting *p, const struct slot *slot)
{
	const uint8_t *bytes = ms_window_at(&p->window, slot->at, MS_NG_UNIT);
	struct ms_ng_group *group = NULL;
	uint64_t word;
	uint32_t index;

	if (bytes) {
		memcpy(&word, bytes, sizeof(word));
		if (ms_ng_index(p->c, word, &index))
			group = &p->c->groups.at[index];
	}
	if (group && group->at == slot->at && !is_outer(group) && !group->reached &&
	    ms_ng_range(group).end <= slot->range.end && p->depth < MAX_DEPTH)
		return group;
	ms_proof_doubt(&p->c->proof, MS_DOUBT_DAMAGED, "the slot at 0x%llx does not hold a group",
	               (unsigned long long)slot->at);
	return NULL;
}

static enum ms_status put_nested(struct putting *p, const struct slot *slot)
{
	struct ms_ng_group *group = nested_in(p, slot);
	enum ms_status st;

	if (!group)
		return MS_OK;
	group->reached = true;
	p->c->n_nested++;
	p->depth++;
	st = put_group(p, group);
	p->depth--;
	return st;
}

/* Note what has no blocks: false when it has. */
static bool note_blockless(struct putting *p, const struct slot *slot, bool *ret_ok)
{
	struct ms_ng_context *c = p->c;

	*ret_ok = true;
	if (slot->kind == KIND_PASSING)
		*ret_ok = ms_ranges_add(p->ng->d->arena, &c->passing, slot->range.begin,
		                        slot->range.end);
	if (slot->kind == KIND_DAMAGED)
		ms_proof_doubt(&c->proof, MS_DOUBT_DAMAGED,
		               "the header of the slot at 0x%llx is damaged",
		               (unsigned long long)slot->range.begin);
	return slot->kind == KIND_PASSING || slot->kind == KIND_DAMAGED;
}

static void count_block(struct ms_ng_context *c, uint64_t size)
{
	c->n_blocks++;
	c->block_bytes += size;
}

static enum ms_status put_slot(struct putting *p, const struct slot *slot)
{
	bool ok;

	if (note_blockless(p, slot, &ok))
		return ok ? MS_OK : MS_E_NOMEM;
	if (slot->kind == KIND_GROUP)
		return put_nested(p, slot);
	count_block(p->c, slot->size);
	return ms_blocks_put(p->ng->d->blocks, p->extent, slot->at, slot->size);
}

static enum ms_status put_group(struct putting *p, struct ms_ng_group *group)
{
	uint32_t used = ms_ng_all_slots(group) & ~(group->avail | group->freed);
	enum ms_status st = MS_OK;

	if (!check_header(p, group))
		return MS_OK;
	for (; used && !st; used &= used - 1) {
		struct slot slot = read_slot(p, group, (unsigned)__builtin_ctz(used));

		st = put_slot(p, &slot);
	}
	return st;
}

/* ---- an outer group ---- */

/* A block that has a mapping of its own can be long: one granule will do. */
static enum ms_status put_single(struct putting *p, const struct slot *slot)
{
	struct ms_blocks *blocks = p->ng->d->blocks;
	struct ms_range range = { slot->at, slot->at + slot->size };
	enum ms_status st = ms_blocks_open_single(blocks, range, MS_EXTENT_HEAP, &p->extent);

	if (st)
		return st;
	count_block(p->c, slot->size);
	blocks->extents.at[p->extent].group = p->c->group;
	return MS_OK;
}

static enum ms_status put_many(struct putting *p, struct ms_ng_group *group)
{
	/* Blocks begin at every other granule, but no word behind a block's end is taken for its.
	 */
	enum { SHIFT = 3 };
	struct ms_blocks *blocks = p->ng->d->blocks;
	struct ms_range range = ms_ng_range(group);
	enum ms_status st = ms_blocks_open(blocks, range, SHIFT, &p->extent);

	if (st)
		return st;
	blocks->extents.at[p->extent].group = p->c->group;
	st = put_group(p, group);
	if (!blocks->extents.at[p->extent].n)
		ms_blocks_cancel(blocks, p->extent);
	return st;
}

static enum ms_status put_outer(struct putting *p, struct ms_ng_group *group)
{
	struct slot slot;

	if ((group->avail | group->freed) == ms_ng_all_slots(group))
		return check_header(p, group), MS_OK;
	if (group->last)
		return put_many(p, group);
	slot = read_slot(p, group, 0);
	if (slot.kind != KIND_BLOCK)
		return put_many(p, group);
	return check_header(p, group) ? put_single(p, &slot) : MS_OK;
}

enum ms_status ms_ng_put_blocks(struct ms_ng *ng, struct ms_ng_context *c)
{
	struct putting p = { .ng = ng, .c = c };
	const struct ms_ng_group *group;
	const struct ms_ng_outer *outer;
	enum ms_status st = MS_OK;
	uint32_t n_inner = 0;

	for (outer = c->outer.at; outer && outer < c->outer.at + c->outer.n && !st; outer++) {
		ms_window_init(&p.window, ng->d->src, outer->range, ng->buffer);
		st = put_outer(&p, &c->groups.at[outer->index]);
	}
	ms_vec_for_each (group, &c->groups)
		n_inner += group->at && !is_outer(group);
	if (n_inner != c->n_nested)
		ms_proof_doubt(&c->proof, MS_DOUBT_DISAGREES,
		               "%u groups lie in others, and %u were found", n_inner, c->n_nested);
	return st;
}
