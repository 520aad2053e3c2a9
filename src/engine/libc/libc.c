/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/libc/libc.h"

#include <assert.h>

/* Where no control block has the secret: the second word of what the kernel gave as random. */
enum { GUARD_AT = 8 };

struct ms_libc_bytes ms_libc_read(struct ms_source *src, ms_addr tp, uint8_t *room)
{
	ms_addr at = ms_libc_from(&src->abi, tp);
	size_t n = ms_source_read(src, at, room, MS_LIBC_BLOCK_BYTES);

	/* A block that is shorter may be the first that is mapped. */
	if (!n && src->abi.tls_above) {
		at = ms_align_up(at, src->abi.page_bytes);
		if (at < tp)
			n = ms_source_read(src, at, room, tp + MS_LIBC_TCB_BYTES - at);
	}
	return (struct ms_libc_bytes){ &src->abi, at, room, n, tp };
}

struct ms_libc_bytes ms_libc_read_found(struct ms_source *src, const struct ms_libc_view *view,
                                        ms_addr at, uint8_t *room)
{
	ms_addr tp = view->tp_offset || !src->abi.tls_above ? at + view->tp_offset : 0;

	return (struct ms_libc_bytes){ &src->abi, at, room,
		                       ms_source_read(src, at, room, MS_LIBC_BLOCK_BYTES), tp };
}

/* Whether the libc knows a block in @block, which begins with it unless storage lies above it. */
static bool has_block(const struct ms_libc_ops *libc, const struct ms_libc_bytes *block)
{
	size_t at = libc->next_block(block, 0);

	return block->abi->tls_above ? at < block->n : at == 0;
}

static const struct ms_libc_ops *knows(const struct ms_libc_ops *const *libcs,
                                       const struct ms_libc_bytes *block)
{
	for (; *libcs; libcs++)
		if (block->n && has_block(*libcs, block))
			return *libcs;
	return NULL;
}

static const struct ms_libc_ops *last(const struct ms_libc_ops *const *libcs)
{
	while (libcs[1])
		libcs++;
	return *libcs;
}

const struct ms_libc_ops *ms_libc_of(const struct ms_libc_ops *const *libcs,
                                     const struct ms_libc_bytes *block)
{
	const struct ms_libc_ops *libc = knows(libcs, block);

	return libc ? libc : last(libcs);
}

/* By the first thread whose block one of them knows. */
static const struct ms_libc_ops *serving(struct ms_source *src,
                                         const struct ms_libc_ops *const *libcs)
{
	const struct ms_libc_ops *libc = NULL;
	uint8_t room[MS_LIBC_BLOCK_BYTES];
	const struct ms_thread *t;

	ms_vec_for_each (t, &src->threads) {
		struct ms_libc_bytes block;

		if (!t->tp)
			continue;
		block = ms_libc_read(src, t->tp, room);
		libc = knows(libcs, &block);
		if (libc)
			return libc;
	}
	return last(libcs);
}

struct ms_libc_view ms_libc_find(struct ms_source *src, const struct ms_libc_ops *const *libcs)
{
	struct ms_libc_view view = { .ops = serving(src, libcs), .layout_known = true };
	uint8_t room[MS_LIBC_BLOCK_BYTES];
	const struct ms_thread *t;
	uint64_t guard;

	assert(view.ops);
	ms_vec_for_each (t, &src->threads) {
		struct ms_libc_thread thread = { 0 };
		struct ms_libc_bytes block;

		if (!t->tp)
			continue;
		block = ms_libc_read(src, t->tp, room);
		view.ops->thread(&block, &thread);
		view.layout_known &= thread.known && thread.tid == t->tid;
		if (!view.mangling.guard)
			view.mangling = thread.mangling;
		if (src->abi.tls_above && !view.tp_offset && has_block(view.ops, &block))
			view.tp_offset = t->tp - block.at - view.ops->next_block(&block, 0);
	}
	if (src->abi.tls_above && src->random &&
	    ms_source_word(src, src->random + GUARD_AT, &guard))
		view.mangling.guard = guard;
	view.mangling.code = &src->mappings;
	return view;
}
