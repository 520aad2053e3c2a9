/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sweeper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc/decoders.h"
#include "base/clock.h"
#include "report/wire.h"
#include "target/target.h"

static void enter(const struct ms_sweep *sweep, enum ms_stage stage)
{
	atomic_store(&sweep->watch->since_ns, ms_now_ns());
	atomic_store(&sweep->watch->stage, stage);
}

/*
 * Make room, freeze, copy, let go. The target is let go whether the copy succeeded
 * or not.
 */
static enum ms_status hold(const struct ms_sweep *sweep, struct ms_arena *arena,
                           struct ms_report *report, struct ms_source **ret, struct ms_error *err)
{
	struct ms_error release_err;
	enum ms_status st, release_st;
	uint64_t began_ns;

	st = ms_copy_prepare(sweep->shared->pid, arena, ret, err);
	if (st)
		return st;
	enter(sweep, MS_STAGE_FREEZE);
	st = ms_collection_freeze(sweep->shared, sweep->channel, err);
	if (st)
		return st;
	enter(sweep, MS_STAGE_HOLD);
	began_ns = ms_now_ns();
	st = ms_copy_fill(*ret, sweep->shared, &report->warnings, err);
	report->scan.phase_ns[MS_PHASE_HOLD] = ms_now_ns() - began_ns;
	enter(sweep, MS_STAGE_RELEASE);
	release_st = ms_collection_release(sweep->shared, sweep->channel, &release_err);
	if (st == MS_OK && release_st != MS_OK) {
		*err = release_err;
		st = release_st;
	}
	return st;
}

static void fill_facts(const struct ms_collection *shared, const struct ms_source *copy,
                       struct ms_report *report)
{
	struct ms_scan_facts *scan = &report->scan;

	scan->time = shared->frozen_at;
	(void)snprintf(scan->source, sizeof(scan->source), "%s", copy->ops->name);
	scan->pause_ns = shared->pause_ns;
	scan->phase_ns[MS_PHASE_FREEZE] = shared->freeze_ns;
	scan->steps = shared->steps;
	scan->bytes_read = ms_copy_bytes(copy);
	report->target.threads = shared->n_threads;
}

static void warn(const struct ms_collection *shared, struct ms_arena *arena,
                 struct ms_notes *warnings)
{
	if (shared->n_unrolled)
		ms_note_add(arena, warnings,
		            "%u of %u threads could not be led out of malloc: "
		            "blocks in their hands may look leaked or live wrongly",
		            shared->n_unrolled, shared->n_threads);
	if (shared->n_unstopped)
		ms_note_add(arena, warnings,
		            "%u of %u threads sleep in the kernel and did not stop: "
		            "what only their registers hold looks leaked",
		            shared->n_unstopped, shared->n_threads);
}

static enum ms_status sweep_copy(const struct ms_sweep *sweep, struct ms_arena *arena,
                                 struct ms_report *report, struct ms_error *err)
{
	struct ms_scan_options options = *sweep->options;
	struct ms_source *copy = NULL;
	enum ms_status st = hold(sweep, arena, report, &copy, err);

	if (st)
		return st;
	/* The target is untouched by this failure, and its memory is in our hands already. */
	if (ms_sandbox_enter(err))
		ms_note_add(arena, &report->warnings, "the search ran unconfined: %s", err->text);
	fill_facts(sweep->shared, copy, report);
	warn(sweep->shared, arena, &report->warnings);
	enter(sweep, MS_STAGE_SEARCH);
	options.decoders = ms_decoders;
	return ms_scan(copy, &options, arena, report, err);
}

static bool put_bytes(void *ctx, const void *bytes, size_t len)
{
	const int *fd = ctx;
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = write(*fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

int ms_sweep_serve(const struct ms_sweep *sweep)
{
	struct ms_report *report = &sweep->watch->report;
	struct ms_arena arena;
	struct ms_error err;
	int fd = sweep->report;
	bool sent;

	memset(&err, 0, sizeof(err));
	ms_arena_init(&arena);
	enter(sweep, MS_STAGE_PREPARE);
	ms_malloc_code_find(sweep->shared->pid, sweep->shared, &arena);
	err.status = sweep_copy(sweep, &arena, report, &err);
	enter(sweep, MS_STAGE_SEND);
	sent = ms_wire_send(put_bytes, &fd, &err, report);
	/* The arena and the copy go with the process. */
	return sent ? 0 : 1;
}
