/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/libc/libc.h"

#include <assert.h>

struct ms_libc_bytes ms_libc_read(struct ms_source *src, ms_addr at, uint8_t *room)
{
	return (struct ms_libc_bytes){ &src->abi, at, room,
		                       ms_source_read(src, at, room, MS_LIBC_BLOCK_BYTES) };
}

static const struct ms_libc_ops *knows(const struct ms_libc_ops *const *libcs,
                                       const struct ms_libc_bytes *block)
{
	for (; *libcs; libcs++)
		if (block->n && (*libcs)->next_block(block, 0) == 0)
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
	}
	view.mangling.code = &src->mappings;
	return view;
}
