/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/strict/tails.h"

#include "engine/graph/words.h"

enum { WORD = sizeof(uint64_t), PIECE = 4096 };

/* ---- claims ---- */

static struct ms_tail *tail_of(struct ms_tails *tails, uint32_t number)
{
	uint64_t i = ms_map_find(&tails->of, (uint64_t)number + 1);

	return i ? &tails->all.at[i - 1] : NULL;
}

/* Two deques with one part share the words of a map, so that theirs cannot be added. */
static void join(struct ms_tail *tail, const struct ms_tail_claim *claim)
{
	struct ms_tail_claim *all = &tail->least;

	tail->doubtful |= all->of != claim->of || claim->of == MS_TAIL_DEQUE;
	all->back = claim->back > all->back ? claim->back : all->back;
	all->words += claim->words;
}

void ms_tails_claim(struct ms_tails *tails, const struct ms_tail_claim *claim)
{
	struct ms_tail *tail = tail_of(tails, claim->number);

	if (tail) {
		join(tail, claim);
		return;
	}
	tail = ms_vec_push(tails->arena, &tails->all);
	if (tail)
		*tail = (struct ms_tail){ .least = *claim };
	tails->failed |= !tail || !ms_map_add(&tails->of, tails->arena, (uint64_t)claim->number + 1,
	                                      tails->all.n);
}

void ms_tails_note(struct ms_tails *tails, struct ms_lookup *lookup, ms_addr at, ms_addr value)
{
	struct ms_block block;
	struct ms_tail *tail;

	if (!ms_lookup_block(lookup, value, false, &block))
		return;
	tail = tail_of(tails, ms_block_number(lookup->blocks, block));
	/* What a block has of itself does not keep it. */
	if (tail && at - tail->least.begin >= tail->least.usable)
		tail->seen++;
}

/* ---- the judgement ---- */

struct verdict {
	uint64_t pointers;
	bool in_use;
	bool any; /* something other than zeros */
};

static bool is_hidden(const struct ms_tail_claim *tail, ms_addr addr)
{
	uint64_t offset = addr - tail->begin;

	return offset < tail->usable && (offset < tail->front || offset >= tail->back);
}

static void look_at_word(const struct ms_tails_judge *judge, const struct ms_tail_claim *tail,
                         uint64_t value, struct verdict *ret)
{
	struct ms_block found;

	ret->any |= value != 0;
	ret->pointers += ms_lookup_begin(judge->lookup, value, &found);
	if (tail->of == MS_TAIL_VECTOR)
		ret->in_use |= is_hidden(tail, value) || judge->is_code(judge->ctx, value);
}

/* The words of [@begin, @end); what is in one with bytes in use is never a pointer alone. */
static void look_at(const struct ms_tails_judge *judge, const struct ms_tail_claim *tail,
                    struct ms_range range, struct verdict *ret)
{
	uint8_t bytes[PIECE];

	range.begin = ms_align_up(range.begin, WORD);
	for (; range.begin < range.end; range.begin += PIECE) {
		uint64_t left = ms_range_len(range);
		size_t n = left < PIECE ? (size_t)left : (size_t)PIECE;

		ms_source_fill(judge->lookup->blocks->src, range.begin, bytes, n);
		for (size_t i = 0; i + WORD <= n; i += WORD)
			look_at_word(judge, tail, ms_word_at(bytes + i), ret);
	}
}

static bool is_whole(const struct ms_tail *tail)
{
	return !tail->doubtful && tail->seen == tail->least.words &&
	       tail->least.front <= tail->least.back && tail->least.back <= tail->least.usable;
}

/* Hide a tail that has anything in it. */
static bool hide(struct ms_tails *tails, const struct ms_tails_judge *judge,
                 const struct ms_tail_claim *tail)
{
	const struct ms_range front = { tail->begin, tail->begin + tail->front };
	const struct ms_range back = { tail->begin + tail->back, tail->begin + tail->usable };
	struct verdict verdict = { 0 };

	look_at(judge, tail, front, &verdict);
	look_at(judge, tail, back, &verdict);
	if (verdict.in_use || !verdict.any)
		return true;
	tails->sums.containers[tail->of]++;
	tails->sums.pointers += verdict.pointers;
	tails->sums.bytes += ms_range_len(front) + ms_range_len(back);
	return ms_ranges_add(tails->arena, &tails->hidden, front.begin, front.end) &&
	       ms_ranges_add(tails->arena, &tails->hidden, back.begin, back.end);
}

enum ms_status ms_tails_judge(struct ms_tails *tails, const struct ms_tails_judge *judge)
{
	const struct ms_tail *tail;

	ms_vec_for_each (tail, &tails->all)
		if (is_whole(tail))
			tails->failed |= !hide(tails, judge, &tail->least);
	tails->failed |= !ms_ranges_tidy(tails->arena, &tails->hidden);
	return tails->failed ? MS_E_NOMEM : MS_OK;
}

void ms_tails_warn(const struct ms_tails_sums *sums, bool wide, struct ms_arena *arena,
                   struct ms_notes *warnings)
{
	uint64_t all = 0;

	for (size_t i = 0; i < MS_TAIL_KINDS; i++)
		all += sums->containers[i];
	if (!wide)
		ms_note_add(
			arena, warnings,
			"--strict-containers has no effect: what containers leave unused in programs with "
			"such words are not known");
	else
		ms_note_add(arena, warnings,
		            "--strict-containers: %llu pointers in %llu unused bytes of "
		            "%llu containers (vectors %llu, strings %llu, parts of deques %llu) "
		            "keep nothing alive",
		            (unsigned long long)sums->pointers, (unsigned long long)sums->bytes,
		            (unsigned long long)all,
		            (unsigned long long)sums->containers[MS_TAIL_VECTOR],
		            (unsigned long long)sums->containers[MS_TAIL_STRING],
		            (unsigned long long)sums->containers[MS_TAIL_DEQUE]);
}
