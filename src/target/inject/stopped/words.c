/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the stack pointer up to the thread's control block, or to the end of the mapping. On a
 * stack of the program's own, for a coroutine, that may be all of a heap; no stack is larger
 * than what is read of it.
 *
 * A handler that runs on a signal stack leaves the stack that it interrupted out of this way;
 * the kernel's frame says where that is.
 */
#include "target/inject/stopped/words.h"

#include "engine/signal_frame.h"
#include "target/arch/arch.h"
#include "target/room.h"

enum { PIECE_WORDS = 4096, MOST_BYTES = 16 << 20, MOST_STACKS = 8 };

/* What of a thread's stacks is looked through. */
struct look {
	const struct ms_range *ranges;
	size_t n_ranges;
	const struct ms_frozen_thread *thread;
	ms_addr begins[MOST_STACKS]; /* where to look yet */
	size_t n;
	bool found;
};

static bool is_wanted(const struct look *look, uint64_t word)
{
	for (size_t i = 0; i < look->n_ranges; i++)
		if (ms_range_has(look->ranges[i], word))
			return true;
	return false;
}

/* Another stack, whose use begins at @sp. One that lies in what is looked through is looked at
 * twice. */
static void add_stack(struct look *look, ms_addr sp)
{
	for (size_t i = 0; i < look->n; i++)
		if (look->begins[i] == sp)
			return;
	if (look->n < MOST_STACKS)
		look->begins[look->n++] = sp;
	else
		look->found = true; /* deeper than anyone nests: rather than to say no */
}

static void look_at(struct look *look, const uint64_t *words, size_t n, ms_addr at)
{
	const struct ms_signal_layout *layout = &ms_native_arch.abi.signal_frame;
	ms_addr interrupted;

	for (size_t i = 0; i < n && !look->found; i++) {
		look->found = is_wanted(look, words[i]);
		if (i + layout->words <= n && ms_signal_frame_at(layout, words + i, at + 8 * i,
		                                                 look->thread->sp, &interrupted))
			add_stack(look, interrupted);
	}
}

static void look_from(struct look *look, ms_addr sp)
{
	const size_t overlap = ms_native_arch.abi.signal_frame.words;
	uint64_t words[PIECE_WORDS];
	ms_addr at = ms_align_down(sp, 8);
	ms_addr end = at + MOST_BYTES;

	if (look->thread->tp > at && look->thread->tp < end)
		end = ms_align_down(look->thread->tp, 8);
	while (at < end && !look->found) {
		size_t len = end - at < sizeof(words) ? (size_t)(end - at) : sizeof(words);
		size_t n = ms_room_read(look->thread->tid, at, words, len) / 8;

		look_at(look, words, n, at);
		if (n < PIECE_WORDS)
			return;
		at += 8 * (n - overlap);
	}
}

pid_t ms_words_find(const struct ms_collection *frozen, const struct ms_range *ranges, size_t n)
{
	for (uint32_t i = 0; i < frozen->n_threads; i++) {
		struct look look = { .ranges = ranges,
			             .n_ranges = n,
			             .thread = &frozen->threads[i] };

		add_stack(&look, look.thread->sp);
		for (size_t k = 0; k < look.n && !look.found; k++)
			look_from(&look, look.begins[k]);
		if (look.found)
			return frozen->threads[i].tid;
	}
	return 0;
}
