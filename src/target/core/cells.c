/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of a process by its core. The kernel writes a segment for each, also for those
 * that it leaves out; gdb leaves such away, but lists their files. Neither says which mapping
 * is the program's break or the first stack: that shows by what they hold.
 */
#include <elf.h>
#include <string.h>

#include "base/elf/object.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/sort.h"
#include "target/arch/arch.h"
#include "target/core/parts.h"

/* From the end of a program to its break, which begins at random. Source: arch_randomize_brk(). */
static const uint64_t MAX_BRK_GAP = (uint64_t)1 << 30;

static const ms_addr KERNEL_HALF = (uint64_t)1 << 63;

/* ---- cells ---- */

static bool add_cell(struct ms_core *core, struct ms_range range,
                     const struct ms_core_segment *segment, const struct ms_core_mapped *mapped)
{
	struct ms_core_cell *cell = ms_vec_push(core->arena, &core->cells);

	if (!cell)
		return false;
	*cell = (struct ms_core_cell){ .range = range, .segment = segment };
	if (mapped) {
		cell->offset = mapped->offset + (range.begin - mapped->range.begin);
		cell->file = (uint32_t)(mapped - core->layout.mapped.at) + 1;
	}
	return true;
}

/* Where @range has to be cut next, from @at on: at the bounds of mapped files. */
static ms_addr next_cut(const struct ms_core *core, ms_addr at, ms_addr end,
                        const struct ms_core_mapped **ret)
{
	size_t i = ms_range_search(core->layout.mapped.at, core->layout.mapped.n,
	                           sizeof(*core->layout.mapped.at), at);
	const struct ms_core_mapped *mapped;

	*ret = NULL;
	if (i == core->layout.mapped.n)
		return end;
	mapped = &core->layout.mapped.at[i];
	if (mapped->range.begin >= end)
		return end;
	if (mapped->range.begin > at)
		return mapped->range.begin;
	*ret = mapped;
	return mapped->range.end < end ? mapped->range.end : end;
}

static bool cut_segments(struct ms_core *core)
{
	const struct ms_core_segment *segment;

	ms_vec_for_each (segment, &core->layout.segments) {
		struct ms_range left = segment->range;

		while (left.begin < left.end) {
			const struct ms_core_mapped *mapped;
			ms_addr to = next_cut(core, left.begin, left.end, &mapped);

			if (!add_cell(core, (struct ms_range){ left.begin, to }, segment, mapped))
				return false;
			left.begin = to;
		}
	}
	return true;
}

/* What of mapped files is in no segment. */
static bool add_files_alone(struct ms_core *core)
{
	const struct ms_core_mapped *mapped;
	struct ms_ranges covered = { 0 };
	const struct ms_core_segment *segment;

	ms_vec_for_each (segment, &core->layout.segments)
		if (!ms_ranges_add(core->arena, &covered, segment->range.begin, segment->range.end))
			return false;
	if (!ms_ranges_tidy(core->arena, &covered))
		return false;
	ms_vec_for_each (mapped, &core->layout.mapped) {
		struct ms_range rest = mapped->range;
		struct ms_range gap;

		while (ms_range_next_gap(&rest, &covered, &gap))
			if (!add_cell(core, gap, NULL, mapped))
				return false;
	}
	return true;
}

static bool begins_before(const void *a, const void *b)
{
	return ((const struct ms_range *)a)->begin < ((const struct ms_range *)b)->begin;
}

/* ---- files ---- */

/* The number of the file @path, from 1 on; 0 without memory. */
static uint32_t file_number(struct ms_core *core, struct ms_map *known, const char *path)
{
	const uint64_t key = ms_hash(MS_HASH_BASIS, path, strlen(path)) | 1;
	uint32_t number = (uint32_t)ms_map_find(known, key);
	struct ms_core_file *file;

	/* Of two paths with one hash the second is a file of its own each time. */
	if (number && !strcmp(core->files.at[number - 1].path, path))
		return number;
	file = ms_vec_push(core->arena, &core->files);
	if (!file || (!number && !ms_map_add(known, core->arena, key, core->files.n)))
		return 0;
	file->path = path;
	return (uint32_t)core->files.n;
}

static bool list_files(struct ms_core *core)
{
	struct ms_map known = { 0 };
	struct ms_core_cell *cell;

	ms_vec_for_each (cell, &core->cells) {
		struct ms_core_file *file;

		if (!cell->file)
			continue;
		cell->file = file_number(core, &known, core->layout.mapped.at[cell->file - 1].path);
		if (!cell->file)
			return false;
		file = &core->files.at[cell->file - 1];
		if (!cell->offset && !file->head)
			file->head = cell->range.begin;
		file->code |= cell->segment && (cell->segment->prot & MS_PROT_EXEC);
	}
	return true;
}

/* ---- mappings ---- */

/* Memory that processes share has such names; other shared memory is not known as such. */
static bool is_shared(const char *name)
{
	return ms_name_begins(name, "/dev/zero") || ms_name_begins(name, "/memfd:") ||
	       ms_name_begins(name, "/SYSV") || ms_name_begins(name, "/dev/shm/");
}

static bool list_mappings(struct ms_core *core)
{
	const struct ms_core_cell *cell;

	ms_vec_for_each (cell, &core->cells) {
		const struct ms_core_file *file = ms_core_file_of(core, cell);
		struct ms_mapping *map = ms_vec_push(core->arena, &core->base.mappings);

		if (!map)
			return false;
		*map = (struct ms_mapping){
			.range = cell->range,
			.prot = cell->segment ? cell->segment->prot : MS_PROT_READ,
			.name = "",
		};
		if (!file)
			continue;
		map->file = true;
		map->name = file->path;
		map->offset = cell->offset;
		map->inode = cell->file; /* a number that no other file here has */
		map->shared = is_shared(file->path);
	}
	return true;
}

bool ms_core_cells_make(struct ms_core *core)
{
	ms_addr program;

	if (!cut_segments(core) || !add_files_alone(core) ||
	    !ms_sort(core->arena, core->cells.at, core->cells.n, sizeof(*core->cells.at),
	             begins_before) ||
	    !list_files(core) || !list_mappings(core))
		return false;
	program = ms_core_program(core);
	if (program)
		core->files
			.at[core->cells
		                    .at[ms_range_search(core->cells.at, core->cells.n,
		                                        sizeof(*core->cells.at), program)]
		                    .file -
		            1]
			.program = true;
	return true;
}

static struct ms_mapping *mapping_at(struct ms_core *core, ms_addr at)
{
	return at ? ms_range_find(&core->base.mappings, at) : NULL;
}

ms_addr ms_core_program(const struct ms_core *core)
{
	ms_addr entry = ms_core_auxv_value(&core->layout, AT_ENTRY);
	const struct ms_core_cell *cell = entry ? ms_range_find(&core->cells, entry) : NULL;
	const struct ms_core_file *file = cell ? ms_core_file_of(core, cell) : NULL;

	return file ? file->head : 0;
}

/* ---- what has no file ---- */

static void name_it(struct ms_mapping *map, const char *name)
{
	if (map && !map->file)
		map->name = name;
}

/* The kernel's own pages, and in front of its code the data of that, which no core has. */
static void name_kernels(struct ms_core *core)
{
	struct ms_mapping *vdso =
		mapping_at(core, ms_core_auxv_value(&core->layout, AT_SYSINFO_EHDR));
	struct ms_mapping *map;

	name_it(vdso, "[vdso]");
	for (map = vdso; map && map > core->base.mappings.at; map--) {
		if (map[-1].range.end != map->range.begin || map[-1].file ||
		    map[-1].prot != MS_PROT_READ ||
		    core->cells.at[map - 1 - core->base.mappings.at].segment->bytes)
			break;
		name_it(map - 1, "[vvar]");
	}
	ms_vec_for_each (map, &core->base.mappings)
		if (map->range.begin >= KERNEL_HALF)
			name_it(map, "[vsyscall]");
}

static bool is_private_memory(const struct ms_mapping *map)
{
	return !map->file && !*map->name && (map->prot & MS_PROT_WRITE);
}

/*
 * The program's break: the first private memory behind the program that is not its data, not
 * far from there. What else lies so low was put there by the program itself.
 */
static struct ms_mapping *find_brk(struct ms_core *core, ms_addr from)
{
	struct ms_mapping *map;

	ms_vec_for_each (map, &core->base.mappings) {
		if (map->range.end <= from || !is_private_memory(map))
			continue;
		return map->range.begin < from || map->range.begin - from <= MAX_BRK_GAP ? map
		                                                                         : NULL;
	}
	return NULL;
}

static void name_brk(struct ms_core *core)
{
	const uint32_t page = core->base.abi.page_bytes;
	const ms_addr loaders = core->layout.arch->loaders_brk;
	ms_addr program = ms_core_program(core);
	struct ms_object object;
	struct ms_mapping *brk = NULL;

	if (!program || !ms_object_read(ms_source_reader(&core->base), program, page, &object))
		return;
	if (object.has_interpreter || program < loaders)
		brk = find_brk(core, ms_align_up(object.data_end, page));
	/* A loader that was executed, or a static program that can be anywhere. */
	if (!brk)
		brk = find_brk(core, loaders);
	for (; brk && brk < core->base.mappings.at + core->base.mappings.n; brk++) {
		name_it(brk, "[heap]");
		if (brk + 1 == core->base.mappings.at + core->base.mappings.n ||
		    brk[1].range.begin != brk->range.end || !is_private_memory(brk + 1))
			break;
	}
}

void ms_core_name_special(struct ms_core *core)
{
	ms_addr stack = ms_core_auxv_value(&core->layout, AT_RANDOM);

	name_kernels(core);
	if (!stack)
		stack = ms_core_auxv_value(&core->layout, AT_EXECFN);
	name_it(mapping_at(core, stack), "[stack]");
	name_brk(core);
}
