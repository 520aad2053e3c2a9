/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread pointers that no note has: gdb writes none of i386 threads. A thread's control block
 * says where it is, which thread it is of and where its stack is, as engine/libc/ knows it, so
 * that memory is searched for the blocks of these threads.
 */
#include <string.h>

#include "engine/libc/libc.h"
#include "target/arch/arch.h"
#include "target/core/parts.h"

enum { PIECE = 64 * 1024 };

struct searching {
	struct ms_core *core;
	struct ms_collection *frozen;
	uint8_t *piece; /* of PIECE bytes */
	uint32_t left;  /* threads without a pointer */
};

static bool lacks_pointer(const struct ms_frozen_thread *thread)
{
	return thread->stopped && !thread->tp;
}

static bool is_on_stack(const struct ms_libc_ops *ops, const struct ms_libc_bytes *block,
                        const struct ms_frozen_thread *thread)
{
	struct ms_stack_record record;
	size_t at = 0;

	while (ops->next_stack(block, &at, &record))
		if (ms_range_has(record.block, thread->sp))
			return true;
	return false;
}

/* The thread without a pointer that the block is of; NULL: of none. */
static struct ms_frozen_thread *thread_of(const struct searching *s, const struct ms_libc_ops *ops,
                                          const struct ms_libc_bytes *block)
{
	struct ms_frozen_thread *threads = s->frozen->threads;
	struct ms_libc_thread noted = { 0 };

	ops->thread(block, &noted);
	if (noted.over)
		return NULL;
	for (uint32_t i = 0; i < s->frozen->n_threads; i++)
		if (lacks_pointer(&threads[i]) && threads[i].tid == noted.tid)
			return &threads[i];
	/* Where gdb ran in another namespace, ids are others. */
	for (uint32_t i = 0; i < s->frozen->n_threads; i++)
		if (lacks_pointer(&threads[i]) && is_on_stack(ops, block, &threads[i]))
			return &threads[i];
	return NULL;
}

static void give_block(struct searching *s, const struct ms_libc_ops *ops, ms_addr at)
{
	uint8_t room[MS_LIBC_BLOCK_BYTES];
	const struct ms_libc_bytes block = ms_libc_read(&s->core->base, at, room);
	struct ms_frozen_thread *thread = thread_of(s, ops, &block);

	if (!thread)
		return;
	thread->tp = at;
	s->left--;
}

static void search_piece(struct searching *s, ms_addr at, size_t n)
{
	const struct ms_libc_bytes memory = {
		.abi = &s->core->base.abi, .at = at, .bytes = s->piece, .n = n
	};

	for (const struct ms_libc_ops *const *ops = ms_libcs; *ops; ops++)
		for (size_t i = (*ops)->next_block(&memory, 0); i < n && s->left;
		     i = (*ops)->next_block(&memory, i + MS_LIBC_BLOCK_ALIGN))
			give_block(s, *ops, at + i);
}

/* Blocks begin at multiples of their alignment, which pieces do not cut; the first words do. */
static void search_run(struct searching *s, struct ms_range range)
{
	while (range.begin < range.end && s->left) {
		uint64_t len = ms_range_len(range);
		size_t wanted = len < PIECE ? (size_t)len : (size_t)PIECE;
		size_t n = ms_source_read(&s->core->base, range.begin, s->piece, wanted);

		search_piece(s, range.begin, n);
		range.begin += n ? n : s->core->base.abi.page_bytes;
	}
}

/* Where nothing is but zeros there is no block. */
static void search(struct searching *s, struct ms_range range)
{
	struct ms_range run;

	while (s->left && ms_source_present(&s->core->base, range, &run)) {
		search_run(s, run);
		range.begin = run.end;
	}
}

bool ms_core_pointers_find(struct ms_core *core, struct ms_collection *frozen)
{
	struct searching s = { .core = core, .frozen = frozen };
	const struct ms_mapping *map;

	for (uint32_t i = 0; core->layout.arch->pointer_note && i < frozen->n_threads; i++)
		s.left += lacks_pointer(&frozen->threads[i]);
	if (!s.left)
		return true;
	s.piece = ms_arena_alloc(core->arena, PIECE);
	if (!s.piece)
		return false;
	ms_vec_for_each (map, &core->base.mappings)
		if ((map->prot & MS_PROT_WRITE) && !map->shared && !map->file)
			search(&s, map->range);
	if (s.left)
		ms_note_add(core->arena, core->warnings,
		            "the core does not say where %u thread%s thread-local storage: what "
		            "only that points to may be reported as leaked",
		            s.left, s.left > 1 ? "s have their" : " has its");
	return true;
}
