/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_HOLDING_ROWS_H
#define MS_ENGINE_HOLDING_ROWS_H

/*
 * The whole graph: which blocks each block points to, nodes (mappings) among them, reached
 * or not. Blocks are their numbers (blocks.h), and rows stand one behind the other:
 *
 *	first    0 ────── 2 ─ 2 ─────────── 5 …      n + 1 of them (base/offsets.h)
 *	         │        └───┤             │
 *	to       3    7       1   3    12            blocks that 0, 1 and 2 point to
 *
 * A block that is pointed to twice stands once in a row, where it was met first, and a block
 * does not stand in its own. So a row says that there is a pointer, not where.
 *
 * Memory: 4 bytes a block and 4 an entry; while they are gathered 3 MiB at most, and more for
 * a block that points to very many.
 */

#include "base/offsets.h"
#include "base/status.h"
#include "engine/blocks.h"
#include "engine/graph/walk.h"

struct ms_rows {
	const struct ms_blocks *blocks;
	struct ms_walk_options like; /* as they were gathered */
	uint32_t n;
	struct ms_offsets first;
	struct MS_VEC(uint32_t) to;
};

/* What block @i points to: @ret_n blocks. */
static inline const uint32_t *ms_rows_of(const struct ms_rows *rows, uint32_t i, size_t *ret_n)
{
	uint64_t first = ms_offset_at(&rows->first, i);

	*ret_n = (size_t)(ms_offset_at(&rows->first, (size_t)i + 1) - first);
	return rows->to.at + first;
}

/*
 * Gather the rows of sealed @blocks in @arena.
 *
 * @like: what counts as a pointer (pointers.h), and the workers that gather
 * @ret:  written only on MS_OK
 *
 * Returns MS_E_NOMEM.
 * Cost: one read of all that the blocks hold, by address; a random access for each pointer;
 * of which each worker has its part.
 */
ms_must_check enum ms_status ms_rows_gather(const struct ms_blocks *blocks,
                                            const struct ms_walk_options *like,
                                            struct ms_arena *arena, struct ms_rows *ret,
                                            struct ms_error *err);

#endif
