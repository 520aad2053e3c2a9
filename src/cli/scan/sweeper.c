/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/sweeper.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "report/wire.h"
#include "scan/sweep.h"
#include "target/snapshot.h"
#include "target/target.h"

/* Memory that a search may take: several times what it needs of heaps as they are. */
enum { BYTES_PER_BYTE = 4 };
static const uint64_t least_bytes = (uint64_t)1 << 30;

static void enter(const struct ms_sweep *sweep, enum ms_stage stage)
{
	atomic_store(&sweep->watch->since_ns, ms_now_ns());
	atomic_store(&sweep->watch->stage, stage);
}

static void enter_step(const void *ctx, enum ms_snapshot_step step)
{
	static const enum ms_stage stages[] = {
		[MS_STEP_FREEZE] = MS_STAGE_FREEZE,
		[MS_STEP_HOLD] = MS_STAGE_HOLD,
		[MS_STEP_RELEASE] = MS_STAGE_RELEASE,
		[MS_STEP_LAYOUT] = MS_STAGE_LAYOUT,
	};

	enter(ctx, stages[step]);
}

static bool ask_judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                      struct ms_error *err)
{
	const struct ms_wire_link link = { .get = ms_sweep_get, .put = ms_sweep_put, .ctx = ctx };

	return ms_wire_ask(&link, asked, verdicts, err);
}

static bool ask_book(void *ctx, const struct ms_report *asked, struct ms_error *err)
{
	const struct ms_wire_link link = { .get = ms_sweep_get, .put = ms_sweep_put, .ctx = ctx };

	return ms_wire_ask_book(&link, asked, err);
}

static bool hear_book(void *ctx, const struct ms_report *asked, struct ms_arena *arena,
                      struct ms_book *ret, struct ms_error *err)
{
	const struct ms_wire_link link = { .get = ms_sweep_get, .put = ms_sweep_put, .ctx = ctx };

	return ms_wire_hear_book(&link, asked, arena, ret, err);
}

void ms_sweep_let_ask(struct ms_scan_options *options, int *judge, int *book)
{
	if (*judge >= 0) {
		options->judge = ask_judge;
		options->judge_ctx = judge;
	}
	if (*book >= 0) {
		options->ask_book = ask_book;
		options->book = hear_book;
		options->book_ctx = book;
	}
}

/* Whatever came of it: that what was read was taken away meanwhile is the better reason. */
static enum ms_status conclude(const struct ms_sweep *sweep, const struct ms_snapshot *snapshot,
                               enum ms_status st, struct ms_error *err)
{
	enum ms_status taken = ms_snapshot_check(snapshot, sweep->shared, err);

	return taken ? taken : st;
}

/* Search what is held. */
static enum ms_status search(const struct ms_sweep *sweep, struct ms_snapshot *snapshot,
                             struct ms_arena *arena, struct ms_error *err)
{
	const int keep[] = { sweep->report, sweep->judge, sweep->book, sweep->channel,
		             ms_snapshot_descriptor(snapshot) };
	const struct ms_jail jail = {
		.keep = keep,
		.n_keep = sizeof(keep) / sizeof(keep[0]),
		.parent = sweep->parent,
		.new_bytes = least_bytes + BYTES_PER_BYTE * ms_snapshot_private_bytes(snapshot),
		.n_open = 1,
	};
	struct ms_scan_options options = *sweep->options;
	const struct ms_sweep_call call = {
		.shared = sweep->shared,
		.snapshot = snapshot,
		.jail = &jail,
		.options = &options,
		.jobs = sweep->jobs,
	};
	int judge = sweep->judge;
	int book = sweep->book;
	enum ms_status st;

	ms_sweep_let_ask(&options, &judge, &book);
	enter(sweep, MS_STAGE_SEARCH);
	st = ms_sweep_search(&call, arena, &sweep->watch->report, err);
	return conclude(sweep, snapshot, st, err);
}

/* Write what is held. Nothing of it is interpreted, so that no rights need be given up. */
static enum ms_status dump(const struct ms_sweep *sweep, struct ms_snapshot *snapshot,
                           struct ms_arena *arena, struct ms_error *err)
{
	const struct ms_dump_call call = { .process = sweep->dump->process,
		                           .frozen = sweep->shared,
		                           .src = snapshot->src,
		                           .heap_only = sweep->dump->heap_only,
		                           .sink = sweep->dump->sink };
	enum ms_status st;

	enter(sweep, MS_STAGE_SEARCH);
	st = ms_dump_write(&call, arena, sweep->dump->done, err);
	ms_snapshot_describe(snapshot, sweep->shared, arena, &sweep->watch->report);
	return conclude(sweep, snapshot, st, err);
}

/* Of what is read for it, a scan needs nothing. */
static void find_code(struct ms_collection *shared)
{
	struct ms_arena arena;

	ms_arena_init(&arena);
	ms_malloc_code_find(shared->pid, shared, &arena);
	ms_arena_deinit(&arena);
}

static enum ms_status sweep_target(const struct ms_sweep *sweep, struct ms_arena *arena,
                                   struct ms_error *err)
{
	const struct ms_snapshot_call call = {
		.shared = sweep->shared,
		.channel = sweep->channel,
		.how = sweep->how,
		.refusal = sweep->refusal,
		.enter = enter_step,
		.ctx = sweep,
	};
	struct ms_snapshot snapshot = { .transit = sweep->transit };
	enum ms_status st;

	find_code(sweep->shared);
	st = ms_snapshot_take(&call, arena, &sweep->watch->report.warnings, &snapshot, err);

	if (!st)
		st = sweep->dump ? dump(sweep, &snapshot, arena, err)
		                 : search(sweep, &snapshot, arena, err);
	/* With the channel's end the clone goes. */
	(void)close(sweep->channel);
	return st;
}

static enum ms_status sweep_standing(const struct ms_sweep *sweep, struct ms_arena *arena,
                                     struct ms_error *err)
{
	struct ms_snapshot snapshot = { .transit = sweep->transit };
	enum ms_status st;

	find_code(sweep->shared);
	st = ms_snapshot_take_standing(sweep->shared, arena, &sweep->watch->report.warnings,
	                               &snapshot, err);
	return st ? st : search(sweep, &snapshot, arena, err);
}

static int serve(const struct ms_sweep *sweep,
                 enum ms_status (*body)(const struct ms_sweep *sweep, struct ms_arena *arena,
                                        struct ms_error *err))
{
	struct ms_arena arena;
	struct ms_error err;

	memset(&err, 0, sizeof(err));
	ms_arena_init(&arena);
	enter(sweep, MS_STAGE_PREPARE);
	err.status = body(sweep, &arena, &err);
	enter(sweep, MS_STAGE_SEND);
	/* The arena and what is held go with the process. */
	return ms_sweep_send(sweep->report, &err, &sweep->watch->report);
}

int ms_sweep_serve(const struct ms_sweep *sweep)
{
	return serve(sweep, sweep_target);
}

int ms_sweep_serve_standing(const struct ms_sweep *sweep)
{
	return serve(sweep, sweep_standing);
}
