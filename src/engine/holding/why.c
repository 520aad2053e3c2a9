/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/why.h"

#include <string.h>

#include "engine/holding/ways.h"
#include "engine/loaded/aims.h"
#include "engine/modules.h"
#include "engine/origins/origins.h"

static enum ms_status no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for the answer");
}

/* ---- chains ---- */

/* Of a long chain the middle is left out. */
static bool write_steps(struct ms_why *why, const struct ms_chain *chain,
                        struct ms_answer_chain *ret)
{
	struct ms_findings *answer = &why->report->answer;
	size_t n = chain->steps.n;
	uint64_t omitted = n > MS_ANSWER_STEPS ? n - MS_ANSWER_STEPS : 0;

	ret->length = n;
	ret->first = (uint32_t)answer->steps.n;
	for (size_t i = 0; i < n; i++) {
		struct ms_answer_step *step;

		if (omitted && i == MS_ANSWER_STEPS / 2)
			i += omitted;
		step = ms_vec_push(why->decoding->arena, &answer->steps);
		if (!step)
			return false;
		*step = ms_subject_step(why, chain->steps.at[i].block);
		step->offset = chain->steps.at[i].offset;
		step->omitted = omitted && i == MS_ANSWER_STEPS / 2 + omitted ? omitted : 0;
		ret->n++;
	}
	return true;
}

static bool write_chain(struct ms_why *why, struct ms_subject *subject,
                        const struct ms_chain *chain)
{
	struct ms_findings *answer = &why->report->answer;
	struct ms_answer_chain *slot = ms_vec_push(why->decoding->arena, &answer->chains);

	if (!slot)
		return false;
	if (!subject->n_chains++)
		subject->first_chain = (uint32_t)answer->chains.n - 1;
	slot->root = ms_subject_spot(why, &chain->root);
	return write_steps(why, chain, slot);
}

static enum ms_status find_nearest(struct ms_why *why, struct ms_subject *subject,
                                   struct ms_block block, struct ms_error *err)
{
	struct ms_chain chain;
	enum ms_status st = ms_chains_find(&why->chains, block, &chain, err);

	if (st)
		return st;
	subject->more = ms_chains_more(&why->chains, &chain);
	return write_chain(why, subject, &chain) ? MS_OK : no_memory(err);
}

static enum ms_status find_all(struct ms_why *why, struct ms_subject *subject,
                               struct ms_block block, struct ms_error *err)
{
	const struct ms_chain *chain;
	struct ms_ways ways;
	enum ms_status st = ms_ways_find(&why->chains, block, MS_ANSWER_CHAINS, &ways, err);

	if (st)
		return st;
	subject->roots = ways.roots;
	ms_vec_for_each (chain, &ways.nearest)
		if (!write_chain(why, subject, chain))
			return no_memory(err);
	subject->more = ways.nearest.n && ms_chains_more(&why->chains, ways.nearest.at);
	return MS_OK;
}

/* ---- what points to a block that no root leads to ---- */

static bool points_to(const struct ms_rows *rows, uint32_t from, uint32_t to)
{
	size_t n;
	const uint32_t *row = ms_rows_of(rows, from, &n);

	for (size_t k = 0; k < n; k++)
		if (row[k] == to)
			return true;
	return false;
}

static enum ms_status find_holders(struct ms_why *why, struct ms_subject *subject,
                                   struct ms_block block, struct ms_error *err)
{
	const struct ms_blocks *blocks = why->decoding->blocks;
	struct ms_findings *answer = &why->report->answer;
	uint32_t wanted = ms_block_number(blocks, block);

	subject->first_holder = (uint32_t)answer->steps.n;
	for (uint32_t i = 0; i < why->rows.n; i++) {
		struct ms_block holder;
		struct ms_answer_step *step;

		if (!points_to(&why->rows, i, wanted) || subject->holders++ >= MS_ANSWER_STEPS)
			continue;
		holder = ms_block_numbered(blocks, i);
		step = ms_vec_push(why->decoding->arena, &answer->steps);
		if (!step)
			return no_memory(err);
		*step = ms_subject_step(why, holder);
		(void)ms_chains_between(&why->chains, holder, block, &step->offset);
		subject->n_holders++;
	}
	return MS_OK;
}

/* ---- the thread that asks, if it is one of the process ---- */

/* Of its frames the part that is a root; empty when there is none. */
static struct ms_range asking_frames(const struct ms_why *why)
{
	const struct ms_range *asking = &why->question->asking;
	const struct ms_range *live;

	ms_vec_for_each (live, &why->roots->stacks.live)
		if (ms_range_has(*live, asking->begin) && asking->begin < asking->end)
			return (struct ms_range){ asking->begin, asking->end < live->end
				                                         ? asking->end
				                                         : live->end };
	return (struct ms_range){ 0, 0 };
}

/* What only its frames point to is reachable, and yet lost perhaps: all of it is said. */
static enum ms_status take_aside(struct ms_why *why, struct ms_subject *subject,
                                 struct ms_error *err)
{
	struct ms_chain chain = { .steps = { 0 } };

	if (!ms_chains_find_aside(&why->chains, &chain))
		return MS_OK;
	subject->standing = MS_STANDS_REACHABLE;
	subject->by_asker = true;
	return write_chain(why, subject, &chain) ? MS_OK : no_memory(err);
}

static enum ms_status answer_subject(struct ms_why *why, size_t i, struct ms_error *err)
{
	struct ms_subject *subject = &why->report->answer.subjects.at[i];
	struct ms_range asking = asking_frames(why);
	enum ms_status st;
	bool aside;

	if (!ms_subject_is_node(subject))
		return MS_OK;
	aside = asking.end && ms_chains_held(&why->chains, why->blocks[i]);
	if (aside)
		ms_chains_set_aside(&why->chains, asking, why->blocks[i]);
	if (!ms_chains_held(&why->chains, why->blocks[i])) {
		st = find_holders(why, subject, why->blocks[i], err);
		return st || !aside ? st : take_aside(why, subject, err);
	}
	subject->standing = MS_STANDS_REACHABLE;
	return why->question->all ? find_all(why, subject, why->blocks[i], err)
	                          : find_nearest(why, subject, why->blocks[i], err);
}

/* ---- the files of the addresses that symbols are looked for ---- */

/* Zero-filled data has a mapping without a file: it is listed as a part of the file before it. */
static bool add_zeroed(struct ms_codes *codes, struct ms_arena *arena,
                       const struct ms_mapping *mapping)
{
	size_t at = ms_range_search(codes->at, codes->n, sizeof(*codes->at), mapping->range.begin);
	struct ms_code entry;

	if (!at || (at < codes->n && codes->at[at].range.begin < mapping->range.end))
		return true;
	entry = codes->at[at - 1];
	entry.range = mapping->range;
	entry.prot = mapping->prot;
	if (!ms_vec_reserve(arena, codes, codes->n + 1))
		return false;
	codes->n++;
	memmove(&codes->at[at + 1], &codes->at[at], (codes->n - 1 - at) * sizeof(entry));
	codes->at[at] = entry;
	return true;
}

static bool tell_files(struct ms_why *why)
{
	struct ms_source *src = why->decoding->src;
	struct ms_arena *arena = why->decoding->arena;
	struct ms_pcs *wanted = &why->report->pcs;
	struct ms_pcs pcs = *wanted;
	const struct ms_origin_teller teller = { .src = src,
		                                 .arena = arena,
		                                 .report = why->report };
	const ms_addr *at;

	*wanted = (struct ms_pcs){ 0 };
	ms_vec_for_each (at, &pcs) {
		const struct ms_region *region = ms_region_of(why->roots->regions, *at);
		ms_addr *slot = ms_vec_push(arena, wanted);

		if (!slot)
			return false;
		*slot = region ? ms_module_begin(why->roots->regions, region->module) : *at;
	}
	if (!ms_origin_tell_code(&teller))
		return false;
	*wanted = pcs;
	ms_vec_for_each (at, &pcs) {
		const struct ms_mapping *mapping = ms_range_find(&src->mappings, *at);

		if (mapping && !mapping->file && !add_zeroed(&why->report->code, arena, mapping))
			return false;
	}
	return true;
}

enum ms_status ms_why_list_files(struct ms_why *why, struct ms_error *err)
{
	return tell_files(why) ? MS_OK : no_memory(err);
}

enum ms_status ms_why_answer(struct ms_why *why, struct ms_error *err)
{
	enum ms_status st = ms_rows_gather(why->decoding->blocks, &why->like, why->decoding->arena,
	                                   &why->rows, err);

	st = st ? st
	        : ms_chains_walk(&why->rows, why->roots, why->decoding->arena, &why->chains, err);
	why->aimer = ms_aimer_new(why->decoding->blocks, why->roots->regions, why->decoding->arena);
	if (!st &&
	    (!why->aimer || !ms_peek_init(&why->peek, why->decoding->src, why->decoding->arena)))
		st = no_memory(err);
	st = st ? st : ms_subjects_find(why, err);
	for (size_t i = 0; !st && i < why->report->answer.subjects.n; i++)
		st = answer_subject(why, i, err);
	return st ? st : ms_why_list_files(why, err);
}

/* ---- what marks say of those that are not reachable ---- */

bool ms_why_is_open(const struct ms_why *why)
{
	const struct ms_subject *subject;

	ms_vec_for_each (subject, &why->report->answer.subjects)
		if (subject->standing == MS_STANDS_LEAKED)
			return true;
	return false;
}

void ms_why_judge(struct ms_why *why, enum ms_reason reason)
{
	for (size_t i = 0; i < why->report->answer.subjects.n; i++) {
		struct ms_subject *subject = &why->report->answer.subjects.at[i];

		if (subject->standing != MS_STANDS_LEAKED ||
		    !ms_block_is_marked(why->decoding->blocks, why->blocks[i]))
			continue;
		subject->standing = MS_STANDS_POSSIBLE;
		subject->reason = (uint8_t)reason;
	}
}
