/* SPDX-License-Identifier: Apache-2.0 */
/* A source that is a target which stands, read as if it were its own clone. */
#include "target/arch/arch.h"
#include "target/fork/read.h"
#include "target/kernel_roots.h"
#include "target/maps.h"
#include "target/target.h"

static const struct ms_source_ops standing_ops = {
	.name = "copy", /* the nearest of the names that the report knows */
	.read = ms_fork_read,
	.present = ms_fork_present,
	.is_whole = ms_fork_is_whole,
	.close = ms_fork_close,
};

static enum ms_status list_pages(struct ms_fork *f, pid_t tid, struct ms_notes *warnings,
                                 struct ms_error *err)
{
	struct ms_resident resident = { .maps = &f->base.mappings,
		                        .arena = f->arena,
		                        .warnings = warnings };
	enum ms_status st = ms_maps_read(tid, f->arena, &f->base.mappings, err);

	return st ? st : ms_fork_list_pages(f, &resident, tid, err);
}

enum ms_status ms_standing_open(const struct ms_collection *standing, struct ms_arena *arena,
                                struct ms_notes *warnings, struct ms_source **ret,
                                struct ms_error *err)
{
	struct ms_fork *f = ms_fork_new(&standing_ops, arena);
	enum ms_status st;

	if (!f)
		return ms_fork_no_memory(err);
	f->base.abi = ms_arch_abi(standing->arch);
	st = ms_target_open_mem(standing->live_tid, &f->mem_fd, err);
	if (!st)
		st = list_pages(f, standing->live_tid, warnings, err);
	if (!st)
		st = ms_collection_threads(standing, arena, &f->base.threads, err);
	if (st) {
		ms_fork_close(&f->base);
		return st;
	}
	ms_kernel_roots_find(standing, NULL, arena, &f->base, warnings);
	*ret = &f->base;
	return MS_OK;
}
