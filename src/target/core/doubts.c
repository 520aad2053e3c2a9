/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is missing, and whether it could hold pointers.
 *
 * The kernel leaves out what nobody has written to: then the file's own bytes are in memory, or
 * zeros, and neither points to the heap. It also omits what a program or its user asks it to: by
 * MADV_DONTDUMP, by coredump_filter (kinds of shared memory, mostly), by RLIMIT_CORE. Such
 * memory looks the same. So writable memory counts as possibly written to, save where a
 * program's or library's own data is, which hardly anyone withholds.
 */
#include <inttypes.h>
#include <string.h>

#include "base/elf/object.h"
#include "base/file.h"
#include "base/page.h"
#include "target/core/parts.h"

enum { MOST_NAMED = 8, NAME_SHOWN = 80, KIB = 1024 };

struct finding {
	struct ms_core *core;
	struct ms_object object; /* the program or library that was seen last */
	uint32_t object_file;    /* its cells' file; 0 before any */
	uint64_t withheld_bytes; /* private memory without a file */
	uint64_t shared_bytes;
	const char *shared_name;
};

/* Whether @range is data of the object that was seen last. */
static bool is_objects(const struct finding *f, struct ms_range range)
{
	const uint32_t page = f->core->base.abi.page_bytes;

	return f->object_file && range.begin >= f->object.span.begin &&
	       range.end <= ms_align_up(f->object.data_end, page);
}

static bool doubt(struct finding *f, struct ms_range range, uint64_t *count)
{
	if (count)
		*count += ms_range_len(range);
	return ms_ranges_add(f->core->arena, &f->core->base.unseen, range.begin, range.end);
}

/* Whether all of @range is in the core, and zeros. */
static bool is_zeros(const struct ms_core *core, struct ms_range range)
{
	size_t i = ms_range_search(core->parts.at, core->parts.n, sizeof(*core->parts.at),
	                           range.begin);

	for (; i < core->parts.n && core->parts.at[i].range.begin < range.end; i++) {
		const struct ms_core_part *part = &core->parts.at[i];
		struct ms_range common = ms_range_common(part->range, range);

		if (part->where != MS_CORE_IN_HOLE &&
		    (part->where != MS_CORE_IN_CORE ||
		     !ms_is_zero(core->bytes + part->at + (common.begin - part->range.begin),
		                 (size_t)ms_range_len(common))))
			return false;
	}
	return true;
}

/*
 * Where gdb cannot read it leaves zeros, and warns on its terminal alone. What a process has
 * used has some other byte.
 */
static bool is_unread(const struct ms_core *core, const struct ms_core_cell *cell)
{
	return core->layout.by_debugger && is_zeros(core, cell->range);
}

/* The part of a cell that no byte of is in the core, though it was not cut off. */
static struct ms_range left_out(const struct ms_core *core, const struct ms_core_cell *cell)
{
	struct ms_range range = cell->range;

	if (is_unread(core, cell))
		return range;
	if (cell->segment)
		range.begin = cell->segment->range.begin + cell->segment->bytes;
	return ms_range_common(cell->range, range);
}

static bool look_at_left_out(struct finding *f, const struct ms_core_cell *cell,
                             const struct ms_mapping *map)
{
	const struct ms_core_file *file = ms_core_file_of(f->core, cell);
	struct ms_range range = left_out(f->core, cell);
	/* Where a program or library cannot be recognised, nor can its data. */
	bool head_missing = file && file->code && !file->bytes && file->head == cell->range.begin &&
	                    range.begin == file->head;

	if (f->core->layout.complete || range.begin == range.end || ms_is_kernels(map->name) ||
	    ms_is_device(map->name))
		return true;
	if (head_missing)
		return doubt(f, range, NULL);
	if (!(map->prot & MS_PROT_WRITE) || is_objects(f, range))
		return true;
	if (!file)
		return doubt(f, range, &f->withheld_bytes);
	if (file->bytes)
		return true;
	f->shared_name = file->path;
	return doubt(f, range, &f->shared_bytes);
}

static bool look_at_cut(struct finding *f, const struct ms_core_cell *cell)
{
	const struct ms_core_segment *segment = cell->segment;
	ms_addr end = segment ? segment->range.begin + segment->bytes : 0;
	struct ms_range cut = { end - (segment ? segment->cut : 0), end };
	const struct ms_core_part *part;

	cut = ms_range_common(cell->range, cut);
	if (cut.begin == cut.end)
		return true;
	part = ms_range_find(&f->core->parts, cut.begin);
	return (part && part->where == MS_CORE_IN_FILE) || doubt(f, cut, NULL);
}

static void look_for_object(struct finding *f, const struct ms_core_cell *cell)
{
	struct ms_object object;

	/* A page of the file's begin may be mapped for each of its segments. */
	if (!cell->file || cell->offset ||
	    (cell->file == f->object_file && cell->range.begin <= f->object.last_head) ||
	    !ms_object_read(ms_source_reader(&f->core->base), cell->range.begin,
	                    f->core->base.abi.page_bytes, &object))
		return;
	f->object = object;
	f->object_file = cell->file;
}

/* ---- warnings ---- */

static void count_missing(struct ms_core *core)
{
	const struct ms_core_cell *cell;

	ms_vec_for_each (cell, &core->cells) {
		struct ms_core_file *file = cell->file ? &core->files.at[cell->file - 1] : NULL;

		if (file && !file->bytes && file->state > MS_CORE_FILE_DATA)
			file->missing_bytes += ms_range_len(left_out(core, cell));
	}
}

static const char *why_missing(const struct ms_core_file *file)
{
	return file->state == MS_CORE_FILE_OTHER ? "the file is another build"
	                                         : "there is no such file, or it is not "
	                                           "readable by everyone";
}

static void warn_of_files(struct ms_core *core)
{
	const struct ms_core_file *file;
	size_t n = 0;

	ms_vec_for_each (file, &core->files) {
		const char *path = ms_file_end(file->path, NAME_SHOWN);

		if (file->state == MS_CORE_FILE_UNPROVED)
			ms_note_add(core->arena, core->warnings,
			            "%s was read, but nothing in the core says that it is the same "
			            "build",
			            path);
		if (!file->missing_bytes || n++ >= MOST_NAMED)
			continue;
		ms_note_add(core->arena, core->warnings,
		            "%" PRIu64 " KiB of %s are not in the core, and %s%s",
		            file->missing_bytes / KIB, path, why_missing(file),
		            file->program ? " (give it with --exe)" : " (--root DIR says where)");
	}
	if (n > MOST_NAMED)
		ms_note_add(core->arena, core->warnings,
		            "the same is true of %zu other files: types and functions in them are "
		            "not known",
		            n - MOST_NAMED);
}

static void warn(const struct finding *f)
{
	struct ms_core *core = f->core;

	if (core->cut_bytes)
		ms_note_add(core->arena, core->warnings,
		            "the core is cut off: %" PRIu64 " KiB of memory are missing at its end",
		            (core->cut_bytes + KIB - 1) / KIB);
	if (core->layout.damaged)
		ms_note_add(core->arena, core->warnings,
		            "some of the core's notes make no sense: threads or the names of files "
		            "may be missing");
	if (f->withheld_bytes)
		ms_note_add(core->arena, core->warnings,
		            "%" PRIu64 " KiB of memory that the program may have written to are "
		            "not in the core: never used, or withheld (MADV_DONTDUMP, gdb)",
		            f->withheld_bytes / KIB);
	if (f->shared_bytes)
		ms_note_add(core->arena, core->warnings,
		            "%" PRIu64 " KiB of files or shared memory that the program may have "
		            "written to are not in the core (coredump_filter), as %s",
		            f->shared_bytes / KIB, ms_file_end(f->shared_name, NAME_SHOWN / 2));
	warn_of_files(core);
}

bool ms_core_doubts_find(struct ms_core *core)
{
	struct finding f = { .core = core };

	for (size_t i = 0; i < core->cells.n; i++) {
		const struct ms_core_cell *cell = &core->cells.at[i];

		look_for_object(&f, cell);
		if (!look_at_cut(&f, cell) ||
		    !look_at_left_out(&f, cell, &core->base.mappings.at[i]))
			return false;
	}
	count_missing(core);
	warn(&f);
	return ms_ranges_tidy(core->arena, &core->base.unseen);
}
