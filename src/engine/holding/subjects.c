/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/holding/why.h"
#include "engine/loaded/aims.h"
#include "engine/loaded/callbacks.h"

/* ---- describing ---- */

/* What a block in use has is its own; in a leak an earlier block may have left it. */
static ms_addr callback_of(struct ms_why *why, struct ms_block block,
                           const struct ms_answer_step *step, ms_addr *begin)
{
	const struct ms_regions *regions = why->roots->regions;
	const struct ms_aimed leak = { step->address, step->size, 1, NULL };
	struct ms_aims aims;

	if (!why->aimer || ms_chains_held(&why->chains, block))
		return ms_callback_of(&why->peek, regions, step->address, step->size, begin);
	ms_aims_find(why->aimer, &leak, &aims);
	return ms_aims_callback(&aims, &why->peek, regions, begin);
}

static void describe_callback(struct ms_why *why, struct ms_block block,
                              struct ms_answer_step *step)
{
	const struct ms_mapping *mapping;
	ms_addr begin;
	ms_addr at = callback_of(why, block, step, &begin);

	if (!at)
		return;
	step->callback = ms_subject_address(why, at);
	step->callback_offset = at - begin;
	mapping = ms_range_find(&why->decoding->src->mappings, begin);
	if (mapping)
		(void)strncpy(step->name, mapping->name, sizeof(step->name) - 1);
}

static void describe_block(struct ms_why *why, struct ms_block block, struct ms_answer_step *step)
{
	uint32_t type = ms_types_of_block(why->types, step->address, step->size);

	step->type = ms_types_report(why->types, type, why->report);
	ms_types_preview(why->types, type, step->address, step->text);
	if (type == MS_TYPE_UNKNOWN || ms_types_at(why->types, type)->how == MS_HOW_DEBUG)
		describe_callback(why, block, step);
}

struct ms_answer_step ms_subject_step(struct ms_why *why, struct ms_block block)
{
	const struct ms_blocks *blocks = why->decoding->blocks;
	const struct ms_extent *extent = &blocks->extents.at[block.extent];
	struct ms_answer_step step = { .address = ms_block_begin(extent, block.granule),
		                       .size = ms_block_size(blocks, extent, block.granule) };

	step.mapping = extent->kind == MS_EXTENT_MAPPING;
	if (step.mapping)
		(void)strncpy(step.name, blocks->src->mappings.at[extent->mapping].name,
		              sizeof(step.name) - 1);
	else
		describe_block(why, block, &step);
	return step;
}

/* ---- an address ---- */

/* What is known of memory at @subject->asked that is a root, of that kind. */
static void place_in_root(struct ms_why *why, struct ms_subject *subject, enum ms_root_kind kind)
{
	struct ms_root root = { .range = { subject->asked, subject->asked + 1 }, .kind = kind };
	struct ms_root_name name = ms_root_name(why->roots, &root, subject->asked);

	subject->standing = MS_STANDS_ROOT;
	subject->spot = ms_subject_spot(why, &name);
}

/* The block that ends before @subject->asked, if its extent has one. */
static void place_in_heap(struct ms_why *why, struct ms_subject *subject)
{
	const struct ms_blocks *blocks = why->decoding->blocks;
	const struct ms_extent *extent = ms_range_find(&blocks->extents, subject->asked);
	uint64_t granule = UINT64_MAX;

	subject->standing = MS_STANDS_FREE;
	if (extent && extent->kind == MS_EXTENT_HEAP)
		granule = ms_block_start(blocks, extent, ms_granule_of(extent, subject->asked));
	if (granule == UINT64_MAX || ms_block_begin(extent, granule) > subject->asked)
		return;
	subject->self = ms_subject_step(
		why, (struct ms_block){ (uint32_t)(extent - blocks->extents.at), granule });
}

static void place_in_mapping(struct ms_why *why, struct ms_subject *subject)
{
	const struct ms_source *src = why->roots->src;
	const struct ms_region *region = ms_region_of(why->roots->regions, subject->asked);
	const struct ms_mapping *mapping;

	if (!region) {
		subject->standing = MS_STANDS_NOWHERE;
		return;
	}
	mapping = ms_region_mapping(src, region);
	if (region->kind == MS_REGION_GLOBALS || region->kind == MS_REGION_BRK) {
		place_in_root(why, subject, MS_ROOT_GLOBALS);
		if (!(mapping->prot & MS_PROT_WRITE) && region->kind == MS_REGION_GLOBALS)
			subject->standing = MS_STANDS_CODE;
		return;
	}
	subject->standing = MS_STANDS_MAPPED;
	subject->spot.kind = MS_ROOT_UNPROVED;
	subject->spot.at = subject->asked;
	subject->spot.offset = (int64_t)(subject->asked - mapping->range.begin);
	(void)strncpy(subject->spot.name, mapping->name, sizeof(subject->spot.name) - 1);
}

static bool is_in(const struct ms_ranges *ranges, ms_addr at)
{
	const struct ms_range *r;

	ms_vec_for_each (r, ranges)
		if (ms_range_has(*r, at))
			return true;
	return false;
}

/* A mapping that is a node of the graph; @ret is set then. */
static bool is_node(const struct ms_blocks *blocks, ms_addr at, struct ms_block *ret)
{
	const struct ms_extent *extent = ms_range_find(&blocks->extents, at);

	if (!extent || extent->kind != MS_EXTENT_MAPPING)
		return false;
	*ret = (struct ms_block){ (uint32_t)(extent - blocks->extents.at), 0 };
	return true;
}

static void place_elsewhere(struct ms_why *why, struct ms_subject *subject)
{
	const struct ms_stacks *stacks = &why->roots->stacks;
	ms_addr at = subject->asked;

	if (is_in(&stacks->live, at))
		place_in_root(why, subject, MS_ROOT_STACK);
	else if (is_in(&stacks->whole, at))
		subject->standing = MS_STANDS_DEAD;
	else if (is_in(&why->decoding->unproved, at) || is_in(&why->decoding->in_hand, at))
		place_in_root(why, subject, MS_ROOT_UNPROVED);
	else if (is_in(&why->decoding->owned, at) || is_in(&why->decoding->own_words, at) ||
	         ms_range_find(&why->decoding->blocks->extents, at))
		place_in_heap(why, subject);
	else
		place_in_mapping(why, subject);
}

static void take_node(struct ms_why *why, struct ms_subject *subject, struct ms_block block)
{
	subject->standing = MS_STANDS_LEAKED;
	subject->self = ms_subject_step(why, block);
}

static bool find_address(struct ms_why *why)
{
	struct ms_subject *subject =
		ms_vec_push(why->decoding->arena, &why->report->answer.subjects);
	ms_addr at = why->question->address;

	if (!subject)
		return false;
	subject->asked = at;
	if (ms_pointers_hit(why->chains.pointers, at, &why->blocks[0]) ||
	    is_node(why->decoding->blocks, at, &why->blocks[0]))
		take_node(why, subject, why->blocks[0]);
	else
		place_elsewhere(why, subject);
	return true;
}

/* ---- a type ---- */

struct by_type {
	struct ms_why *why;
	uint32_t types; /* the highest number met */
	uint32_t last;  /* the number that was compared last, and whether it is the one wanted */
	bool is_wanted;
	uint64_t sizes[MS_ANSWER_SUBJECTS];
	size_t n;
};

static bool is_wanted(struct by_type *t, uint32_t type)
{
	const char *wanted = t->why->question->type;

	if (type == t->last)
		return t->is_wanted;
	if (type > t->types)
		t->types = type;
	t->last = type;
	t->is_wanted =
		type != MS_TYPE_UNKNOWN && !strcmp(ms_types_at(t->why->types, type)->name, wanted);
	return t->is_wanted;
}

/* The largest, of those the first by address. */
static void keep_largest(struct by_type *t, struct ms_block block, uint64_t size)
{
	size_t i;

	if (t->n == MS_ANSWER_SUBJECTS && size <= t->sizes[t->n - 1])
		return;
	if (t->n < MS_ANSWER_SUBJECTS)
		t->n++;
	for (i = t->n - 1; i > 0 && t->sizes[i - 1] < size; i--) {
		t->sizes[i] = t->sizes[i - 1];
		t->why->blocks[i] = t->why->blocks[i - 1];
	}
	t->sizes[i] = size;
	t->why->blocks[i] = block;
}

static void look_at_block(struct by_type *t, uint32_t number)
{
	const struct ms_blocks *blocks = t->why->decoding->blocks;
	struct ms_answer_facts *facts = &t->why->report->answer.facts;
	struct ms_block block = ms_block_numbered(blocks, number);
	const struct ms_extent *extent = &blocks->extents.at[block.extent];
	uint64_t size = ms_block_size(blocks, extent, block.granule);

	if (extent->kind != MS_EXTENT_HEAP ||
	    !is_wanted(t, ms_types_of_block(t->why->types, ms_block_begin(extent, block.granule),
	                                    size)))
		return;
	facts->of_type++;
	facts->of_type_held += ms_chains_held(&t->why->chains, block);
	keep_largest(t, block, size);
}

/* ---- types that resemble one that there is not ---- */

enum { LONGEST = 128, MOST_COMPARED = 4096, NOT_NEAR = UINT32_MAX };

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* How many letters are to be changed, added or left out (Levenshtein), by row. */
static uint32_t edits(const char *a, const char *b)
{
	uint32_t row[LONGEST + 1];
	size_t n = strnlen(b, LONGEST);

	for (uint32_t k = 0; k <= n; k++)
		row[k] = k;
	for (uint32_t i = 0; i < LONGEST && a[i]; i++) {
		uint32_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t k = 1; k <= n; k++) {
			uint32_t above = row[k];

			row[k] = least(diagonal + (lower(a[i]) != lower(b[k - 1])),
			               least(above, row[k - 1]) + 1);
			diagonal = above;
		}
	}
	return row[n];
}

/* Whether @name has @part in it, in capitals or not. */
static bool contains(const char *name, const char *part)
{
	for (; *name; name++) {
		size_t i = 0;

		while (part[i] && lower(name[i]) == lower(part[i]))
			i++;
		if (!part[i])
			return true;
	}
	return false;
}

/* The lower the nearer. */
static uint32_t unlikeness(const char *name, const char *wanted)
{
	uint32_t n = edits(name, wanted);

	if (contains(name, wanted))
		return 1;
	return n <= strlen(wanted) / 3 + 1 ? n + 1 : NOT_NEAR;
}

struct suggestions {
	uint32_t types[MS_ANSWER_TYPES];
	uint32_t unlike[MS_ANSWER_TYPES];
	size_t n;
};

static void suggest(struct suggestions *s, uint32_t type, uint32_t unlike)
{
	size_t i;

	if (s->n == MS_ANSWER_TYPES && unlike >= s->unlike[s->n - 1])
		return;
	if (s->n < MS_ANSWER_TYPES)
		s->n++;
	for (i = s->n - 1; i > 0 && s->unlike[i - 1] > unlike; i--) {
		s->unlike[i] = s->unlike[i - 1];
		s->types[i] = s->types[i - 1];
	}
	s->types[i] = type;
	s->unlike[i] = unlike;
}

static void suggest_types(struct by_type *t)
{
	struct ms_answer_facts *facts = &t->why->report->answer.facts;
	struct suggestions s = { .n = 0 };

	for (uint32_t type = 1; type <= t->types; type++) {
		const struct ms_type *known = ms_types_at(t->why->types, type);
		const char *name = known->name;
		uint32_t unlike;

		/* One that holders say is no answer for who wants to know what types there are. */
		if (!*name || (ms_type_is_own(known) && facts->known_types++ >= MOST_COMPARED))
			continue;
		unlike = unlikeness(name, t->why->question->type);
		if (unlike != NOT_NEAR || ms_type_is_own(known))
			suggest(&s, type, unlike);
	}
	facts->near = s.n && s.unlike[0] != NOT_NEAR;
	for (size_t i = 0; i < s.n; i++)
		if (!facts->near || s.unlike[i] != NOT_NEAR)
			(void)ms_types_report(t->why->types, s.types[i], t->why->report);
}

static bool find_type(struct ms_why *why)
{
	struct by_type t = { .why = why };

	for (uint32_t i = 0; i < why->rows.n; i++)
		look_at_block(&t, i);
	for (size_t i = 0; i < t.n; i++) {
		struct ms_subject *subject =
			ms_vec_push(why->decoding->arena, &why->report->answer.subjects);

		if (!subject)
			return false;
		take_node(why, subject, why->blocks[i]);
	}
	if (!t.n)
		suggest_types(&t);
	return true;
}

enum ms_status ms_subjects_find(struct ms_why *why, struct ms_error *err)
{
	bool found = why->question->kind == MS_ASKED_TYPE ? find_type(why) : find_address(why);

	return found ? MS_OK : ms_fail(err, MS_E_NOMEM, "no memory for the answer");
}
