/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes are.
 *
 *	segment   ├── in the core ──┼── cut off ──┼── left out ──┤
 *	           data, or holes     of the file   of the file, or zeros
 *
 * A hole of the core's file is never read: a sparse file of terabytes costs no more than its data.
 * What was cut off was different from the file, or it would have been left out.
 */
#include <string.h>

#include "target/core/parts.h"

struct making {
	struct ms_core *core;
	struct ms_core_part last; /* not listed yet: what follows may join it */
};

static bool push_last(struct making *m)
{
	struct ms_core_part *slot;

	if (m->last.range.begin == m->last.range.end)
		return true;
	slot = ms_vec_push(m->core->arena, &m->core->parts);
	if (slot)
		*slot = m->last;
	return slot;
}

static bool joins(const struct ms_core_part *last, const struct ms_core_part *next)
{
	return last->range.end == next->range.begin && last->where == next->where &&
	       last->file == next->file &&
	       (next->where == MS_CORE_ZERO || next->where == MS_CORE_IN_HOLE ||
	        next->where == MS_CORE_NOWHERE || last->at + ms_range_len(last->range) == next->at);
}

static bool add(struct making *m, const struct ms_core_part *part)
{
	if (part->range.begin >= part->range.end)
		return true;
	if (joins(&m->last, part)) {
		m->last.range.end = part->range.end;
		return true;
	}
	if (!push_last(m))
		return false;
	m->last = *part;
	return true;
}

/* All of @range from the file of @cell, as far as that goes; a last page is zeros behind it. */
static bool add_of_file(struct making *m, const struct ms_core_cell *cell,
                        const struct ms_core_file *file, struct ms_range range)
{
	const uint32_t page = m->core->base.abi.page_bytes;
	uint64_t offset = cell->offset + (range.begin - cell->range.begin);
	uint64_t end = ms_align_up(file->len, page);
	uint64_t len = offset < end ? end - offset : 0;
	struct ms_core_part part = {
		.range = range, .at = offset, .file = cell->file, .where = MS_CORE_IN_FILE
	};

	if (len < ms_range_len(range))
		part.range.end = range.begin + len;
	if (!add(m, &part))
		return false;
	part = (struct ms_core_part){ .range = { part.range.end, range.end },
		                      .where = MS_CORE_NOWHERE };
	return add(m, &part);
}

static bool add_left_out(struct making *m, const struct ms_core_cell *cell, struct ms_range range)
{
	const struct ms_core_file *file = ms_core_file_of(m->core, cell);
	struct ms_core_part part = { .range = range, .where = MS_CORE_NOWHERE };

	if (file && file->bytes)
		return add_of_file(m, cell, file, range);
	if (!file && !ms_is_kernels(m->core->base.mappings.at[cell - m->core->cells.at].name))
		part.where = MS_CORE_ZERO;
	return add(m, &part);
}

/* Code and constants are the file's, cut off or not. */
static bool add_cut(struct making *m, const struct ms_core_cell *cell, struct ms_range range)
{
	const struct ms_core_file *file = ms_core_file_of(m->core, cell);
	const struct ms_core_part part = { .range = range, .where = MS_CORE_NOWHERE };

	if (file && file->bytes && !(cell->segment->prot & MS_PROT_WRITE))
		return add_of_file(m, cell, file, range);
	m->core->cut_bytes += ms_range_len(range);
	return add(m, &part);
}

/* All of @range, which is in the core from @at on. */
static bool add_in_core(struct making *m, struct ms_range range, uint64_t at)
{
	const struct ms_ranges *data = &m->core->data;
	const struct ms_range in_core = { at, at + ms_range_len(range) };
	size_t i = ms_range_search(data->at, data->n, sizeof(*data->at), at);
	struct ms_core_part part = { .range = { range.begin, range.begin } };

	for (; i < data->n && data->at[i].begin < in_core.end; i++) {
		struct ms_range found = ms_range_common(data->at[i], in_core);

		part.where = MS_CORE_IN_HOLE;
		part.range.end = range.begin + (found.begin - at);
		if (!add(m, &part))
			return false;
		part.where = MS_CORE_IN_CORE;
		part.range = (struct ms_range){ part.range.end, range.begin + (found.end - at) };
		part.at = found.begin;
		if (!add(m, &part))
			return false;
		part.range.begin = part.range.end;
		part.at = 0;
	}
	part.where = MS_CORE_IN_HOLE;
	part.range.end = range.end;
	return add(m, &part);
}

static bool add_cell(struct making *m, const struct ms_core_cell *cell)
{
	const struct ms_core_segment *segment = cell->segment;
	struct ms_range there;
	struct ms_range all;
	ms_addr cut;

	if (!segment)
		return add_left_out(m, cell, cell->range);
	all = (struct ms_range){ segment->range.begin, segment->range.begin + segment->bytes };
	cut = all.end - segment->cut;
	there = ms_range_common(cell->range, (struct ms_range){ all.begin, cut });
	return add_in_core(m, there, segment->offset + (there.begin - segment->range.begin)) &&
	       add_cut(m, cell, ms_range_common(cell->range, (struct ms_range){ cut, all.end })) &&
	       add_left_out(m, cell,
	                    ms_range_common(cell->range,
	                                    (struct ms_range){ all.end, segment->range.end }));
}

bool ms_core_parts_make(struct ms_core *core)
{
	struct making m = { .core = core };
	const struct ms_core_cell *cell;

	core->parts.n = 0;
	core->cut_bytes = 0;
	ms_vec_for_each (cell, &core->cells)
		if (!add_cell(&m, cell))
			return false;
	return push_last(&m);
}
