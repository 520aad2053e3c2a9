/* SPDX-License-Identifier: Apache-2.0 */
#include "target/core/core.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "target/arch/arch.h"
#include "target/core/parts.h"
#include "target/freeze/inside.h"
#include "target/target.h"

static const uint64_t ns_per_s = UINT64_C(1000000000);

static struct ms_core *core_of(struct ms_source *src)
{
	return (struct ms_core *)src; /* base is its first member */
}

/* ---- the source ---- */

static const uint8_t *bytes_of(const struct ms_core *core, const struct ms_core_part *part,
                               uint64_t *ret_len)
{
	if (part->where == MS_CORE_IN_CORE) {
		*ret_len = core->len;
		return core->bytes;
	}
	*ret_len = core->files.at[part->file - 1].len;
	return core->files.at[part->file - 1].bytes;
}

/* Behind the end of a file, in its last page, are zeros. */
static void read_part(const struct ms_core *core, const struct ms_core_part *part,
                      struct ms_range range, uint8_t *buf)
{
	uint64_t len = ms_range_len(range);
	uint64_t at = part->at + (range.begin - part->range.begin);
	const uint8_t *bytes;
	uint64_t there = 0;

	if (part->where == MS_CORE_IN_CORE || part->where == MS_CORE_IN_FILE) {
		uint64_t end;

		bytes = bytes_of(core, part, &end);
		there = at < end ? end - at : 0;
		there = there < len ? there : len;
		memcpy(buf, bytes + at, there);
	}
	memset(buf + there, 0, len - there);
}

static size_t read_core(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	const struct ms_core *core = core_of(src);
	size_t i = ms_range_search(core->parts.at, core->parts.n, sizeof(*core->parts.at), addr);
	ms_addr end = addr + len < addr ? UINT64_MAX : addr + len;
	ms_addr at = addr;

	for (; at < end && i < core->parts.n; i++) {
		const struct ms_core_part *part = &core->parts.at[i];
		struct ms_range range = ms_range_common(part->range, (struct ms_range){ at, end });

		if (part->range.begin > at || part->where == MS_CORE_NOWHERE)
			break;
		read_part(core, part, range, (uint8_t *)buf + (at - addr));
		at = range.end;
	}
	return (size_t)(at - addr);
}

static const void *view(struct ms_source *src, ms_addr addr, size_t len)
{
	const struct ms_core *core = core_of(src);
	const struct ms_core_part *part = ms_range_find(&core->parts, addr);

	uint64_t at;

	if (!part || part->where != MS_CORE_IN_CORE || len > part->range.end - addr)
		return NULL;
	at = part->at + (addr - part->range.begin);
	/* gdb puts segments at any offset. */
	return (at ^ addr) % sizeof(uint64_t) ? NULL : core->bytes + at;
}

static bool present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	const struct ms_core *core = core_of(src);
	size_t i = ms_range_search(core->present.at, core->present.n, sizeof(*core->present.at),
	                           within.begin);
	struct ms_range common;

	if (i == core->present.n)
		return false;
	common = ms_range_common(core->present.at[i], within);
	if (common.begin >= common.end)
		return false;
	*ret = common;
	return true;
}

static void close_core(struct ms_source *src)
{
	struct ms_core *core = core_of(src);
	struct ms_core_file *file;

	ms_vec_for_each (file, &core->files)
		if (file->map)
			(void)munmap(file->map, file->len);
	if (core->map)
		(void)munmap(core->map, core->len);
}

static const struct ms_source_ops core_ops = {
	.name = "core",
	.read = read_core,
	.view = view,
	.present = present,
	.close = close_core,
};

/* ---- what is present ---- */

/* Where all of a page is as the file has it, nothing of the process is in it. */
static bool is_files(const struct ms_core *core, const struct ms_core_cell *cell, ms_addr at)
{
	const struct ms_core_file *file = ms_core_file_of(core, cell);
	const uint32_t page = core->base.abi.page_bytes;
	uint64_t offset = cell->offset + (at - cell->range.begin);
	const struct ms_core_part *part = ms_range_find(&core->parts, at);

	return file && file->bytes && part && part->where == MS_CORE_IN_CORE &&
	       part->range.end - at >= page && offset <= file->len && file->len - offset >= page &&
	       memcmp(core->bytes + part->at + (at - part->range.begin), file->bytes + offset,
	              page) == 0;
}

/* Add the pages of @range. What follows the last one joins it at once: no list grows by page. */
static bool add_pages(struct ms_core *core, struct ms_range range)
{
	const uint32_t page = core->base.abi.page_bytes;
	const ms_addr begin = ms_align_down(range.begin, page);
	const ms_addr end = ms_align_up(range.end, page);
	struct ms_range *last = core->present.n ? &core->present.at[core->present.n - 1] : NULL;

	if (!last || last->begin > begin || last->end < begin)
		return ms_ranges_add(core->arena, &core->present, begin, end);
	if (last->end < end)
		last->end = end;
	return true;
}

/* The runs of pages of a file's mapping that are not the file's. */
static bool add_changed(struct ms_core *core, const struct ms_core_cell *cell,
                        struct ms_range range)
{
	const uint32_t page = core->base.abi.page_bytes;

	for (ms_addr at = ms_align_down(range.begin, page); at < range.end; at += page)
		if (!is_files(core, cell, at) &&
		    !add_pages(core, (struct ms_range){ at, at + page }))
			return false;
	return true;
}

static bool find_present(struct ms_core *core)
{
	const struct ms_core_part *part;

	ms_vec_for_each (part, &core->parts) {
		struct ms_range rest = part->range;

		while (part->where == MS_CORE_IN_CORE && rest.begin < rest.end) {
			const struct ms_core_cell *cell = ms_range_find(&core->cells, rest.begin);
			const struct ms_core_file *file = cell ? ms_core_file_of(core, cell) : NULL;
			struct ms_range in_cell = rest;
			bool ok;

			if (cell)
				in_cell = ms_range_common(cell->range, rest);
			ok = file && file->bytes ? add_changed(core, cell, in_cell)
			                         : add_pages(core, in_cell);
			if (!ok)
				return false;
			rest.begin = in_cell.end;
		}
	}
	return ms_ranges_tidy(core->arena, &core->present);
}

/* ---- threads and facts ---- */

static int32_t pid_of(const struct ms_core_layout *layout)
{
	return layout->pid ? layout->pid : layout->threads.at[0].tid;
}

/* False without memory; a thread of which the registers make no sense is left out. */
static bool take_threads(struct ms_core *core, struct ms_collection **ret)
{
	size_t bytes = sizeof(**ret) + core->layout.threads.n * sizeof((*ret)->threads[0]);
	struct ms_collection *frozen = ms_arena_alloc(core->arena, bytes);
	const struct ms_core_thread *thread;

	if (!frozen)
		return false;
	frozen->pid = pid_of(&core->layout);
	frozen->map_bytes = bytes;
	frozen->arch = core->layout.arch;
	ms_vec_for_each (thread, &core->layout.threads) {
		const struct ms_noted_registers noted = { thread->general, thread->general_bytes,
			                                  thread->vectors, thread->vectors_bytes,
			                                  thread->areas,   thread->areas_bytes };
		struct ms_frozen_thread *slot = &frozen->threads[frozen->n_threads];

		if (!core->layout.arch->take_noted(&noted, slot)) {
			core->layout.damaged = true;
			continue;
		}
		slot->tid = thread->tid;
		slot->stopped = true;
		frozen->n_threads++;
	}
	*ret = frozen;
	return true;
}

/* Arguments by blanks, as the kernel has put them together. */
static void split_args(const struct ms_core_layout *layout, struct ms_target_facts *ret)
{
	for (const char *at = layout->args; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");

		memcpy(ret->cmdline + ret->cmdline_len, at, len);
		ret->cmdline_len += (uint32_t)len + 1;
		at += len;
	}
}

static void take_facts(const struct ms_core *core, struct ms_core_process *ret)
{
	struct ms_target_facts *facts = &ret->facts;
	const struct ms_core_segment *segment;
	const struct ms_mapping *program;

	ret->program = ms_core_program(core);
	program = ms_range_find(&core->base.mappings, ret->program);
	facts->pid = pid_of(&core->layout);
	facts->threads = ret->frozen->n_threads;
	facts->word_size = core->base.abi.word_bytes;
	(void)snprintf(facts->arch, sizeof(facts->arch), "%s", core->layout.arch->name);
	(void)snprintf(facts->exe, sizeof(facts->exe), "%s",
	               ret->program && program ? program->name : core->layout.name);
	split_args(&core->layout, facts);
	ms_vec_for_each (segment, &core->layout.segments)
		ret->bytes += segment->bytes - segment->cut;
	ret->missing_bytes = core->cut_bytes;
}

/* ---- opening ---- */

static enum ms_status no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for the layout of the core");
}

static size_t read_bytes(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct ms_core *core = ctx;
	const struct ms_ranges *data = &core->data;
	uint64_t there = offset < core->len ? core->len - offset : 0;
	struct ms_range range = { offset, offset };

	range.end += len < there ? len : there;
	memset(buf, 0, (size_t)ms_range_len(range));
	for (size_t i = ms_range_search(data->at, data->n, sizeof(*data->at), offset);
	     i < data->n && data->at[i].begin < range.end; i++) {
		struct ms_range found = ms_range_common(data->at[i], range);

		memcpy((uint8_t *)buf + (found.begin - offset), core->bytes + found.begin,
		       (size_t)ms_range_len(found));
	}
	return (size_t)ms_range_len(range);
}

static enum ms_status map_core(struct ms_core *core, const struct ms_core_call *call,
                               int64_t *ret_time, struct ms_error *err)
{
	struct stat st;
	void *bytes;

	if (fstat(call->fd, &st) != 0)
		return ms_fail_sys(err, errno, "cannot read %s", ms_file_end(call->path, 100));
	core->len = (uint64_t)st.st_size;
	*ret_time =
		(int64_t)((uint64_t)st.st_mtim.tv_sec * ns_per_s + (uint64_t)st.st_mtim.tv_nsec);
	if (!core->len)
		return MS_OK;
	bytes = mmap(NULL, core->len, PROT_READ, MAP_PRIVATE, call->fd, 0);
	if (bytes == MAP_FAILED)
		return ms_fail_sys(err, errno, "cannot map %s", ms_file_end(call->path, 100));
	core->map = bytes;
	core->bytes = bytes;
	for (struct ms_range run = { 0, 0 }; ms_core_next_data(call->fd, core->len, &run);)
		if (!ms_ranges_add(core->arena, &core->data, run.begin, run.end))
			return no_memory(err);
	return ms_ranges_tidy(core->arena, &core->data) ? MS_OK : no_memory(err);
}

bool ms_core_next_data(int fd, uint64_t len, struct ms_range *run)
{
	uint64_t from = run->end;
	off_t data = from < len ? lseek(fd, (off_t)from, SEEK_DATA) : -1;
	off_t hole;

	/* Where the file system does not say, all is data. */
	if (data < 0 && (from >= len || errno == ENXIO))
		return false;
	hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
	run->begin = data < 0 ? from : (uint64_t)data;
	run->end = hole < 0 || (uint64_t)hole > len ? len : (uint64_t)hole;
	return run->begin < run->end;
}

uint64_t ms_core_data_bytes(int fd)
{
	struct ms_range run = { 0, 0 };
	uint64_t bytes = 0;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return 0;
	while (ms_core_next_data(fd, (uint64_t)st.st_size, &run))
		bytes += ms_range_len(run);
	return bytes;
}

/* What of it has to be known before the next: places of bytes, files, names, doubts. */
static bool understand(struct ms_core *core, const struct ms_core_call *call)
{
	if (!ms_core_cells_make(core) || !ms_core_parts_make(core))
		return false;
	ms_core_files_open(core, call);
	ms_core_name_special(core);
	if (!ms_core_parts_make(core))
		return false;
	/* A program whose header is in its file alone is recognised only now. */
	ms_core_name_special(core);
	return find_present(core) && ms_core_doubts_find(core) && ms_core_kernels_ask(core);
}

static enum ms_status open_core(struct ms_core *core, const struct ms_core_call *call,
                                struct ms_core_process *ret, struct ms_error *err)
{
	int64_t time = 0;
	enum ms_status st = map_core(core, call, &time, err);

	if (!st) {
		const struct ms_core_input input = {
			{ read_bytes, core }, core->len, &core->data, call->path
		};

		st = ms_core_layout_read(&input, core->arena, &core->layout, err);
	}
	if (st)
		return st;
	core->base.abi = core->layout.arch->abi;
	core->base.abi.page_bytes = core->layout.page_bytes;
	if (!take_threads(core, &ret->frozen) || !understand(core, call) ||
	    !ms_core_pointers_find(core, ret->frozen))
		return no_memory(err);
	core->base.kernel_words = core->layout.kernel_words;
	take_facts(core, ret);
	ret->frozen->frozen_at = time;
	return ms_collection_threads(ret->frozen, core->arena, &core->base.threads, err);
}

enum ms_status ms_core_open(const struct ms_core_call *call, struct ms_arena *arena,
                            struct ms_core_process *ret_process, struct ms_source **ret,
                            struct ms_error *err)
{
	struct ms_core *core = ms_arena_alloc(arena, sizeof(*core));
	struct ms_core_process process = { .frozen = NULL };
	enum ms_status st;

	if (!core)
		return no_memory(err);
	core->base.ops = &core_ops;
	core->arena = arena;
	core->warnings = call->warnings;
	st = open_core(core, call, &process, err);
	if (st) {
		close_core(&core->base);
		return st;
	}
	*ret_process = process;
	*ret = &core->base;
	return MS_OK;
}
