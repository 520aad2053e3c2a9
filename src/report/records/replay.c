/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What lives: one block an address, and behind it perhaps late ones, the newest first: blocks
 * that had the address before, whose free stands in the file only behind the line that gave
 * the address out again (recording.h). Late blocks do not live. There is one for each call
 * that was held up at that moment.
 */
#include <string.h>

#include "report/records/recording.h"

enum { MOST_LATE = 16 };

/* A step of a replay; @failed is set when memory ran out. */
struct step {
	struct ms_recording_reader *reader;
	struct ms_recording *recording;
	const struct ms_operation *op;
	uint32_t thread;
	bool failed;
};

static struct ms_recorded_block *block_at(const struct step *s, uint32_t i)
{
	return &s->recording->blocks.at[i];
}

/* ---- blocks come and go ---- */

static uint32_t new_block(struct step *s)
{
	struct ms_recording_reader *reader = s->reader;
	struct ms_recorded_blocks *blocks = &s->recording->blocks;
	const struct ms_recorded_block *slot;
	uint32_t i = reader->free_blocks;

	if (i) {
		reader->free_blocks = blocks->at[i].late;
		return i;
	}
	slot = blocks->n < UINT32_MAX ? ms_vec_push(reader->arena, blocks) : NULL;
	s->failed |= !slot;
	return slot ? (uint32_t)(blocks->n - 1) : 0;
}

static void drop_block(struct step *s, uint32_t i)
{
	*block_at(s, i) = (struct ms_recorded_block){ .late = s->reader->free_blocks };
	s->reader->free_blocks = i;
}

static void count_live(struct step *s, const struct ms_recorded_block *block, bool comes)
{
	struct ms_recording *r = s->recording;
	struct ms_recorded_thread *thread = &r->threads.at[block->thread];
	uint64_t one = comes ? 1 : UINT64_MAX; /* -1 */
	uint64_t bytes = comes ? block->size : 0 - block->size;

	r->sizes.at[block->size_index].live_blocks += one;
	thread->live_blocks += one;
	thread->live_bytes += bytes;
	r->end.blocks += one;
	r->end.bytes += bytes;
}

static void set_live(struct step *s, struct ms_recorded_block *block, bool live)
{
	if (block->live == live)
		return;
	block->live = live;
	count_live(s, block, live);
}

/* A chain that is longer than the shortest of those kept. */
static void keep_chain(struct ms_recording *r, const struct ms_recorded_block *block)
{
	size_t i = r->n_chains;

	if (!block->resized)
		return;
	while (i > 0 && r->chains[i - 1].resized < block->resized)
		i--;
	if (i == MS_RECORDING_CHAINS)
		return;
	r->n_chains += r->n_chains < MS_RECORDING_CHAINS;
	memmove(&r->chains[i + 1], &r->chains[i], (r->n_chains - i - 1) * sizeof(*block));
	r->chains[i] = *block;
}

static unsigned age_of(uint64_t ns)
{
	return ns ? 64 - (unsigned)__builtin_clzll(ns) : 0;
}

/* No free of block @i and of those behind it will come. */
static void lose(struct step *s, uint32_t i)
{
	while (i) {
		uint32_t late = block_at(s, i)->late;

		s->recording->lost++;
		keep_chain(s->recording, block_at(s, i));
		drop_block(s, i);
		i = late;
	}
}

/* Whether the operation is of a block that had the address before this one. */
static bool is_before(const struct step *s, const struct ms_recorded_block *block)
{
	if (s->op->timed && block->since_ns)
		return s->op->start_ns < block->since_ns;
	return block->late != 0;
}

/*
 * Take the block that an operation takes back from @address: it lives no longer, and is no
 * longer found there. What had the address before it is lost: the free of that would have
 * begun, and so stand in the file, before this one. 0: the recording has not seen it.
 */
static uint32_t take(struct step *s, ms_addr address)
{
	uint32_t i = (uint32_t)ms_map_find(&s->reader->by_address, address);
	uint32_t newer = 0;

	while (i && is_before(s, block_at(s, i))) {
		newer = i;
		i = block_at(s, i)->late;
	}
	if (!i)
		return 0;
	lose(s, block_at(s, i)->late);
	block_at(s, i)->late = 0;
	if (newer) {
		block_at(s, newer)->late = 0;
		return i;
	}
	set_live(s, block_at(s, i), false);
	ms_map_remove(&s->reader->by_address, address);
	return i;
}

/* Keep as many late blocks as there may be. */
static void trim(struct step *s, uint32_t i)
{
	struct ms_recorded_block *block = block_at(s, i);

	for (int n = s->op->timed ? MOST_LATE : 1; n > 0 && block->late; n--)
		block = block_at(s, block->late);
	lose(s, block->late);
	block->late = 0;
}

/* Block @i had the address before @newer, whose line came first. */
static void place_late(struct step *s, uint32_t i, uint32_t newer)
{
	struct ms_recorded_block *block = block_at(s, i);
	struct ms_recorded_block *before = block_at(s, newer);

	while (before->late && block_at(s, before->late)->since_ns > block->since_ns)
		before = block_at(s, before->late);
	block->late = before->late;
	before->late = i;
	trim(s, newer);
}

/* Put block @i where it says that it is. */
static void place(struct step *s, uint32_t i)
{
	struct ms_recorded_block *block = block_at(s, i);
	struct ms_map *map = &s->reader->by_address;
	uint32_t other = (uint32_t)ms_map_find(map, block->address);
	bool is_newest =
		!other || !block->since_ns || block_at(s, other)->since_ns <= block->since_ns;

	if (!is_newest) {
		place_late(s, i, other);
		return;
	}
	if (other) {
		set_live(s, block_at(s, other), false);
		ms_map_remove(map, block->address);
		block->late = other;
		trim(s, i);
	}
	set_live(s, block, true);
	s->failed |= !ms_map_add(map, s->reader->arena, block->address, i);
}

/* ---- sizes and threads ---- */

static uint32_t size_index(struct step *s, uint64_t size)
{
	struct ms_recorded_sizes *sizes = &s->recording->sizes;
	uint32_t i = (uint32_t)ms_map_find(&s->reader->by_size, size);
	struct ms_recorded_size *slot;

	if (i)
		return i - 1;
	slot = sizes->n < UINT32_MAX - 1 ? ms_vec_push(s->reader->arena, sizes) : NULL;
	if (!slot || !ms_map_add(&s->reader->by_size, s->reader->arena, size, (uint32_t)sizes->n)) {
		s->failed = true;
		return 0;
	}
	slot->size = size;
	return (uint32_t)sizes->n - 1;
}

static uint32_t thread_index(struct step *s)
{
	struct ms_recorded_threads *threads = &s->recording->threads;
	struct ms_recording_reader *reader = s->reader;
	struct ms_recorded_thread *slot;
	uint32_t i = reader->last_thread;

	if (i < threads->n && threads->at[i].tid == s->op->tid)
		return i;
	i = (uint32_t)ms_map_find(&reader->by_tid, s->op->tid);
	if (!i) {
		slot = ms_vec_push(reader->arena, threads);
		i = (uint32_t)threads->n;
		if (!slot || !ms_map_add(&reader->by_tid, reader->arena, s->op->tid, i)) {
			s->failed = true;
			return 0;
		}
		slot->tid = s->op->tid;
	}
	return reader->last_thread = i - 1;
}

/* ---- operations ---- */

/* Block @i has what the operation gave out. */
static void give(struct step *s, uint32_t i)
{
	struct ms_recorded_block *block = block_at(s, i);
	uint32_t size = size_index(s, s->op->size);

	if (s->failed)
		return;
	s->recording->sizes.at[size].allocations++;
	block->address = s->op->address;
	block->size = s->op->size;
	block->since_ns = s->op->end_ns;
	block->thread = s->thread;
	block->size_index = size;
	place(s, i);
}

static void allocate(struct step *s)
{
	struct ms_recorded_thread *thread = &s->recording->threads.at[s->thread];
	uint32_t i;

	if (!s->op->address)
		return;
	i = new_block(s);
	if (!i)
		return;
	*block_at(s, i) = (struct ms_recorded_block){ .born_ns = s->op->end_ns,
		                                      .line = s->reader->line,
		                                      .first_size = s->op->size };
	thread->allocations++;
	thread->allocated_bytes += s->op->size;
	s->recording->allocations++;
	s->recording->allocated_bytes += s->op->size;
	give(s, i);
}

static void release(struct step *s, ms_addr address)
{
	struct ms_recording *r = s->recording;
	const struct ms_recorded_block *block;
	uint32_t i;

	if (!address)
		return;
	r->threads.at[s->thread].frees++;
	i = take(s, address);
	if (!i) {
		r->freed_unseen++;
		return;
	}
	block = block_at(s, i);
	r->freed++;
	r->freed_foreign += block->thread != s->thread;
	if (s->op->timed && block->born_ns) {
		uint64_t born = block->born_ns;

		r->ages[s->op->start_ns > born ? age_of(s->op->start_ns - born) : 0]++;
		r->aged++;
	}
	keep_chain(r, block);
	drop_block(s, i);
}

static void resize(struct step *s)
{
	struct ms_recording *r = s->recording;
	struct ms_recorded_block *block;
	uint32_t i;

	if (!s->op->address)
		return; /* it failed, and the block is where it was */
	i = take(s, s->op->old);
	if (!i) {
		r->freed_unseen++;
		allocate(s);
		return;
	}
	block = block_at(s, i);
	block->resized++;
	r->resized++;
	if (s->op->address != s->op->old) {
		uint64_t copied = block->size < s->op->size ? block->size : s->op->size;

		block->copied_bytes += copied;
		r->copied_bytes += copied;
		r->moved++;
	}
	give(s, i);
}

static void act(struct step *s)
{
	const struct ms_operation *op = s->op;

	switch (op->kind) {
	case MS_OP_MALLOC:
	case MS_OP_CALLOC:
	case MS_OP_MEMALIGN:
		allocate(s);
		break;
	case MS_OP_REALLOC:
		if (!op->old)
			allocate(s);
		else if (op->address || op->size)
			resize(s);
		else
			release(s, op->old);
		break;
	case MS_OP_FREE:
		release(s, op->address);
		break;
	case MS_OP_THREAD_DONE:
		s->recording->threads.at[s->thread].ended = true;
		break;
	case MS_OP_KINDS:
		break;
	}
}

/* Whether the call gave nothing out that it should have. */
static bool has_failed(const struct ms_operation *op)
{
	if (op->address || op->kind == MS_OP_FREE || op->kind == MS_OP_THREAD_DONE)
		return false;
	return op->kind != MS_OP_REALLOC || !op->old || op->size;
}

static void count_call(struct step *s)
{
	const struct ms_operation *op = s->op;
	struct ms_recording *r = s->recording;
	struct ms_recorded_calls *calls = &r->calls[op->kind];

	r->operations++;
	r->threads.at[s->thread].operations++;
	calls->calls++;
	if (has_failed(op))
		calls->failed++;
	else
		calls->bytes += op->size;
	r->asked_bytes += has_failed(op) ? 0 : op->size;
	if (!op->timed)
		return;
	if (!r->timed || op->start_ns < r->first_ns)
		r->first_ns = op->start_ns;
	if (!r->timed || op->end_ns > r->last_ns)
		r->last_ns = op->end_ns;
	r->timed = true;
}

/* When what the operation does is done, for a look at one moment. */
static uint64_t effect_ns(const struct ms_operation *op)
{
	return op->kind == MS_OP_FREE ? op->start_ns : op->end_ns;
}

enum ms_status ms_recording_replay(struct ms_recording_reader *reader,
                                   const struct ms_operation *op, struct ms_error *err)
{
	struct ms_recording *r = reader->recording;
	struct step s = { .reader = reader, .recording = r, .op = op };

	reader->seen = true;
	reader->untimed |= !op->timed && op->kind != MS_OP_THREAD_DONE;
	if (reader->until.what == MS_UNTIL_NS && effect_ns(op) > reader->until.value)
		return MS_OK;
	/* No other sum of bytes is larger. */
	if (!has_failed(op) && op->size > INT64_MAX - r->asked_bytes)
		return ms_fail(err, MS_E_CORRUPT, "the sizes of all records exceed 64 bits");
	s.thread = thread_index(&s);
	if (!s.failed) {
		count_call(&s);
		act(&s);
	}
	if (s.failed)
		return ms_fail(err, MS_E_NOMEM, "no memory for all that lives in the recording");
	r->end.line = reader->line;
	r->end.ns = op->timed ? op->end_ns : r->end.ns;
	if (r->end.bytes > r->peak.bytes || (r->end.bytes == r->peak.bytes && !r->peak.line))
		r->peak = r->end;
	reader->stopped =
		reader->until.what == MS_UNTIL_LINE && reader->line >= reader->until.value;
	return MS_OK;
}

void ms_recording_settle(struct ms_recording_reader *reader)
{
	struct step s = { .reader = reader, .recording = reader->recording };
	struct ms_recorded_block *block;

	ms_vec_for_each (block, &reader->recording->blocks) {
		if (!block->live)
			continue;
		lose(&s, block->late);
		block->late = 0;
		keep_chain(reader->recording, block);
	}
}
