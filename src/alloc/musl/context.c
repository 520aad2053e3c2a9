/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/musl/mallocng.h"
#include "alloc/window.h"
#include "base/sort.h"

/*
 * __malloc_context lies in the data of the C library or of a static program, and is known by
 * its first word, a secret that is random, with which the page of metadata that it points to
 * begins as well.
 */

/* Offsets in struct malloc_context, where the size of pages is a constant (x86_64). */
enum {
	SECRET = 0,
	INIT_DONE = 8,
	FREE_HEAD = 16,
	UNUSED = 24,
	N_UNUSED = 32,
	FIRST_AREA = 56,
	LAST_AREA = 64,
	ACTIVE = 80,
	USAGE = ACTIVE + 8 * MS_NG_CLASSES,
	WORD = 8,
};

/* In struct meta_area and struct meta. */
enum {
	AREA_NEXT = 8,
	AREA_N = 16,
	PREVIOUS = 0,
	NEXT = 8,
	GROUP = 16,
	AVAIL = 24,
	FREED = 28,
	FLAGS = 32,
};

static const uint16_t class_units[MS_NG_CLASSES] = {
	1,   2,   3,   4,    5,    6,    7,    8,    9,    10,   12,   15,   18,   20,   25,   31,
	36,  42,  50,  63,   72,   84,   102,  127,  146,  170,  204,  255,  292,  340,  409,  511,
	584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
};

static uint64_t word_at(const uint8_t *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

static uint32_t half_at(const uint8_t *bytes, size_t offset)
{
	uint32_t half;

	memcpy(&half, bytes + offset, sizeof(half));
	return half;
}

uint64_t ms_ng_stride(const struct ms_ng_group *group)
{
	if (!group->last && group->map_bytes)
		return group->map_bytes - MS_NG_UNIT;
	return MS_NG_UNIT * (uint64_t)class_units[group->class];
}

struct ms_range ms_ng_range(const struct ms_ng_group *group)
{
	uint64_t bytes = group->map_bytes
	                         ? group->map_bytes
	                         : MS_NG_UNIT + (group->last + UINT64_C(1)) * ms_ng_stride(group);

	return (struct ms_range){ group->at, group->at + bytes };
}

/* ---- descriptors ---- */

bool ms_ng_index(const struct ms_ng_context *c, ms_addr addr, uint32_t *ret)
{
	ms_addr page = ms_align_down(addr, MS_NG_AREA_BYTES);
	size_t i = ms_lower_bound(0, c->areas.n, k, c->areas.at[k].at < page);
	uint64_t offset = addr - page - MS_NG_AREA_HEADER;

	if (i == c->areas.n || c->areas.at[i].at != page || offset % MS_NG_DESCRIPTOR_BYTES ||
	    offset / MS_NG_DESCRIPTOR_BYTES >= MS_NG_AREA_DESCRIPTORS)
		return false;
	*ret = c->areas.at[i].first + (uint32_t)(offset / MS_NG_DESCRIPTOR_BYTES);
	return *ret < c->groups.n;
}

static struct ms_ng_group group_from(ms_addr at, const uint8_t *bytes)
{
	uint64_t flags = word_at(bytes, FLAGS);

	return (struct ms_ng_group){
		.descriptor = at,
		.previous = word_at(bytes, PREVIOUS),
		.next = word_at(bytes, NEXT),
		.at = word_at(bytes, GROUP),
		.avail = half_at(bytes, AVAIL),
		.freed = half_at(bytes, FREED),
		.last = flags & 0x1f,
		.freeable = flags >> 5 & 1,
		.class = flags >> 6 & 0x3f,
		.map_bytes = flags >> 12 << 12,
	};
}

/* Whether the group can be what its descriptor says. */
static bool is_sane(const struct ms_ng_group *g)
{
	struct ms_range range;

	if (g->class >= MS_NG_CLASSES &&
	    (g->class != MS_NG_CLASS_NONE || g->last || !g->map_bytes || !g->freeable))
		return false;
	range = ms_ng_range(g);
	return !(g->at % (g->map_bytes ? MS_NG_AREA_BYTES : MS_NG_UNIT)) &&
	       range.end > range.begin && !(g->avail & g->freed) &&
	       !((g->avail | g->freed) & ~ms_ng_all_slots(g)) &&
	       MS_NG_UNIT + (g->last + UINT64_C(1)) * ms_ng_stride(g) <= ms_range_len(range);
}

/* How many of the descriptors in @area are or were in use. */
static uint32_t n_used(const struct ms_ng_context *c, ms_addr area)
{
	return MS_NG_AREA_DESCRIPTORS - (area == c->last_area ? (uint32_t)c->n_unused : 0);
}

static enum ms_status add_area(struct ms_ng *ng, struct ms_ng_context *c, const uint8_t *bytes,
                               ms_addr at)
{
	struct ms_ng_area *area = ms_vec_push(ng->d->arena, &c->areas);

	if (!area)
		return MS_E_NOMEM;
	*area = (struct ms_ng_area){ at, (uint32_t)c->groups.n };
	for (uint32_t i = 0; i < n_used(c, at); i++) {
		size_t offset = MS_NG_AREA_HEADER + (size_t)i * MS_NG_DESCRIPTOR_BYTES;
		struct ms_ng_group *group = ms_vec_push(ng->d->arena, &c->groups);
		ms_addr descriptor;

		if (!group)
			return MS_E_NOMEM;
		descriptor = at + offset;
		*group = group_from(descriptor, bytes + offset);
		if (group->at && !is_sane(group)) {
			ms_proof_doubt(&c->proof, MS_DOUBT_DAMAGED,
			               "the descriptor 0x%llx contradicts itself",
			               (unsigned long long)descriptor);
			group->at = 0;
		}
		c->n_groups += group->at != 0;
	}
	return MS_OK;
}

static bool area_before(const void *a, const void *b)
{
	return ((const struct ms_ng_area *)a)->at < ((const struct ms_ng_area *)b)->at;
}

/* Read the page of metadata at @at; false when it is none. */
static bool read_area(const struct ms_ng *ng, const struct ms_ng_context *c, ms_addr at,
                      uint8_t bytes[MS_NG_AREA_BYTES])
{
	return !(at % MS_NG_AREA_BYTES) &&
	       ms_source_read(ng->d->src, at, bytes, MS_NG_AREA_BYTES) == MS_NG_AREA_BYTES &&
	       word_at(bytes, SECRET) == c->secret &&
	       half_at(bytes, AREA_N) == MS_NG_AREA_DESCRIPTORS;
}

/* Follow the pages of metadata from the first to the last, which is the last one. */
static enum ms_status read_areas(struct ms_ng *ng, struct ms_ng_context *c)
{
	uint8_t bytes[MS_NG_AREA_BYTES];
	enum ms_status st = MS_OK;
	ms_addr seen = 0; /* one of those before: a list that comes back to it never ends */
	ms_addr last = 0;

	for (ms_addr at = c->first_area; at && !st; at = word_at(bytes, AREA_NEXT)) {
		if (last == c->last_area || at == seen || !read_area(ng, c, at, bytes)) {
			ms_proof_doubt(&c->proof, MS_DOUBT_DAMAGED,
			               "the list of pages of metadata breaks at 0x%llx",
			               (unsigned long long)at);
			break;
		}
		if (!(c->areas.n & (c->areas.n - 1)))
			seen = at;
		st = add_area(ng, c, bytes, at);
		last = at;
	}
	if (last != c->last_area)
		ms_proof_doubt(&c->proof, MS_DOUBT_DAMAGED,
		               "the last page of metadata is not found");
	if (!st &&
	    !ms_sort(ng->d->arena, c->areas.at, c->areas.n, sizeof(c->areas.at[0]), area_before))
		st = MS_E_NOMEM;
	return st;
}

/* ---- the context ---- */

/* Cheap: it is asked of every word of every module's data. */
static bool may_be_context(const uint8_t *bytes)
{
	uint64_t first = word_at(bytes, FIRST_AREA);

	return half_at(bytes, INIT_DONE) == 1 && first && !(first % MS_NG_AREA_BYTES) &&
	       word_at(bytes, SECRET) && word_at(bytes, N_UNUSED) <= MS_NG_AREA_DESCRIPTORS;
}

static bool is_context(struct ms_ng *ng, const uint8_t *bytes)
{
	ms_addr last = word_at(bytes, LAST_AREA);
	uint8_t area[AREA_N + 4];

	return last && !(last % MS_NG_AREA_BYTES) &&
	       ms_peek_read(&ng->peek, word_at(bytes, FIRST_AREA), area, sizeof(area)) ==
	               sizeof(area) &&
	       word_at(area, SECRET) == word_at(bytes, SECRET) &&
	       half_at(area, AREA_N) == MS_NG_AREA_DESCRIPTORS;
}

static enum ms_status add_context(struct ms_ng *ng, const struct ms_region *region, ms_addr at,
                                  const uint8_t *bytes)
{
	struct ms_ng_context *c = ms_vec_push(ng->d->arena, &ng->contexts);

	if (!c)
		return MS_E_NOMEM;
	*c = (struct ms_ng_context){
		.data = region,
		.at = at,
		.secret = word_at(bytes, SECRET),
		.free_head = word_at(bytes, FREE_HEAD),
		.unused = word_at(bytes, UNUSED),
		.n_unused = word_at(bytes, N_UNUSED),
		.first_area = word_at(bytes, FIRST_AREA),
		.last_area = word_at(bytes, LAST_AREA),
		.group = ms_blocks_new_group(ng->d->blocks),
	};
	memcpy(c->active, bytes + ACTIVE, sizeof(c->active));
	memcpy(c->usage, bytes + USAGE, sizeof(c->usage));
	return read_areas(ng, c);
}

static enum ms_status search(struct ms_ng *ng, const struct ms_region *region,
                             struct ms_window *window, struct ms_range run)
{
	enum ms_status st = MS_OK;

	for (ms_addr at = run.begin; at < run.end && !st; at += WORD) {
		const uint8_t *bytes = ms_window_at(window, at, MS_NG_CONTEXT_BYTES);

		if (!bytes)
			break;
		if (may_be_context(bytes) && is_context(ng, bytes)) {
			st = add_context(ng, region, at, bytes);
			at += MS_NG_CONTEXT_BYTES - WORD;
		}
	}
	return st;
}

enum ms_status ms_ng_locate(struct ms_ng *ng)
{
	enum ms_status st = MS_OK;
	struct ms_data data;

	for (size_t i = 0; !st && ms_next_data(ng->d->src, ng->d->regions, &i, &data);) {
		struct ms_range rest = data.range;
		struct ms_window window;
		struct ms_range run;

		ms_window_init(&window, ng->d->src, rest, ng->buffer);
		while (!st && ms_source_present(ng->d->src, rest, &run)) {
			st = search(ng, data.region, &window, run);
			rest.begin = run.end;
		}
	}
	return st;
}
