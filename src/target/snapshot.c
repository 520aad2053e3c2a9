/* SPDX-License-Identifier: Apache-2.0 */
#include "target/snapshot.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/arch/arch.h"
#include "target/freeze/inside.h"
#include "target/target.h"
#include "target/transit/transit.h"
#include "target/urgent.h"

/* To copy so much takes about as long as to clone a small process. */
static const uint64_t SMALL_BYTES = (uint64_t)16 << 20;

/* Beside that, as much as is copied of memory that clones share, so that no pause is long. */
static const uint64_t MOST_COPIED_BYTES = (uint64_t)80 << 20;

static void enter(const struct ms_snapshot_call *call, enum ms_snapshot_step step)
{
	call->enter(call->ctx, step);
}

static enum ms_status freeze(const struct ms_snapshot_call *call, bool clone_wanted,
                             struct ms_error *err)
{
	enum ms_status st;

	enter(call, MS_STEP_FREEZE);
	call->shared->clone_wanted = clone_wanted;
	call->shared->sweeper = getpid();
	call->shared->sweeper_urgency = ms_urgent_begin();
	st = ms_collection_freeze(call->shared, call->channel, err);
	if (st)
		ms_urgent_end(call->shared->sweeper_urgency);
	return st;
}

/* Let the target go; @st and @err are what became of the holding, which matters more. */
static enum ms_status release(const struct ms_snapshot_call *call, enum ms_status st,
                              struct ms_error *err)
{
	struct ms_error release_err;
	enum ms_status release_st;

	enter(call, MS_STEP_RELEASE);
	release_st = ms_collection_release(call->shared, call->channel, &release_err);
	ms_urgent_end(call->shared->sweeper_urgency);
	enter(call, MS_STEP_LAYOUT);
	if (!st && release_st) {
		*err = release_err;
		st = release_st;
	}
	return st;
}

/* The target is frozen: copy it to ret->src and let it go. */
static enum ms_status hold_copy(const struct ms_snapshot_call *call, struct ms_notes *warnings,
                                struct ms_snapshot *ret, struct ms_error *err)
{
	uint64_t since_ns = ms_now_ns();
	enum ms_status st;

	enter(call, MS_STEP_HOLD);
	ms_transit_look(ret->transit);
	st = ms_copy_fill(ret->src, call->shared, warnings, err);
	ms_transit_wait(ret->transit, MS_TRANSIT_STANDING_NS);
	ret->hold_ns = ms_now_ns() - since_ns;
	return release(call, st, err);
}

static enum ms_status take_copy(const struct ms_snapshot_call *call, struct ms_arena *arena,
                                struct ms_notes *warnings, struct ms_snapshot *ret,
                                struct ms_error *err)
{
	enum ms_status st = ms_copy_prepare(call->shared->pid, UINT64_MAX, arena, &ret->src, err);

	if (!st)
		st = freeze(call, false, err);
	return st ? st : hold_copy(call, warnings, ret, err);
}

/* What is known to have ended it is a reason not to make another. */
static enum ms_status clone_died(const struct ms_collection *shared, struct ms_error *err)
{
	if (shared->clone_error.status) {
		*err = shared->clone_error;
		return err->status;
	}
	(void)ms_fail(err, MS_E_DIED, "the clone of the process was killed while it was read");
	ms_advise(err, "try again, or scan with --snapshot copy; the process itself runs on");
	return MS_E_DIED;
}

/* The target is frozen: clone it and let it go. */
static enum ms_status hold_clone(const struct ms_snapshot_call *call, struct ms_notes *warnings,
                                 struct ms_snapshot *ret, struct ms_error *err)
{
	uint64_t since_ns = ms_now_ns();
	enum ms_status st;

	enter(call, MS_STEP_HOLD);
	ms_transit_look(ret->transit);
	st = ms_collection_clone(call->shared, call->channel, err);
	if (!st)
		st = ms_fork_hold(ret->src, call->shared, warnings, err);
	/* A clone that lacks too much is as good as none. */
	if (st == MS_E_UNSUPPORTED)
		call->shared->clone_error = *err;
	ms_transit_wait(ret->transit, MS_TRANSIT_STANDING_NS);
	ret->hold_ns = ms_now_ns() - since_ns;
	st = release(call, st, err);
	if (st)
		return st;
	ret->cloned = true;
	st = ms_fork_open(ret->src, call->shared, warnings, err);
	return st == MS_E_GONE ? clone_died(call->shared, err) : st;
}

static enum ms_status take_clone(const struct ms_snapshot_call *call, struct ms_arena *arena,
                                 struct ms_notes *warnings, struct ms_snapshot *ret,
                                 struct ms_error *err)
{
	enum ms_status st = ms_fork_prepare(call->shared->pid, arena, &ret->src, err);

	if (!st)
		st = freeze(call, true, err);
	return st ? st : hold_clone(call, warnings, ret, err);
}

/* Be ready for both, and see where the threads are. */
static enum ms_status take_small(const struct ms_snapshot_call *call, struct ms_arena *arena,
                                 struct ms_notes *warnings, struct ms_snapshot *ret,
                                 struct ms_error *err)
{
	struct ms_source *copy;
	enum ms_status st =
		ms_copy_prepare(call->shared->pid, MOST_COPIED_BYTES, arena, &copy, err);

	if (st == MS_E_UNSUPPORTED)
		return take_clone(call, arena, warnings, ret, err);
	if (!st)
		st = ms_fork_prepare(call->shared->pid, arena, &ret->src, err);
	if (!st)
		st = freeze(call, true, err);
	if (st)
		return st;
	if (call->shared->n_inside) {
		copy->ops->close(copy);
		return hold_clone(call, warnings, ret, err);
	}
	ret->src->ops->close(ret->src);
	ret->src = copy;
	return hold_copy(call, warnings, ret, err);
}

static enum ms_status take(const struct ms_snapshot_call *call, struct ms_arena *arena,
                           struct ms_notes *warnings, struct ms_snapshot *ret, struct ms_error *err)
{
	pid_t pid = call->shared->pid;
	struct ms_error refusal;
	const char *why = call->refusal;

	if (!why && call->how != MS_SNAPSHOT_COPY &&
	    ms_fork_check(pid, &call->shared->least_room, &refusal))
		why = refusal.text;
	if (why)
		ms_note_add(arena, warnings, "the memory was copied, not cloned: %s%s", why,
		            call->refusal ? "; the process paused a first time for that" : "");
	if (why || call->how == MS_SNAPSHOT_COPY)
		return take_copy(call, arena, warnings, ret, err);
	if (call->how == MS_SNAPSHOT_AUTO && ms_fork_saves(pid) < SMALL_BYTES)
		return take_small(call, arena, warnings, ret, err);
	return take_clone(call, arena, warnings, ret, err);
}

enum ms_status ms_snapshot_take(const struct ms_snapshot_call *call, struct ms_arena *arena,
                                struct ms_notes *warnings, struct ms_snapshot *ret,
                                struct ms_error *err)
{
	enum ms_status st;

	ms_transit_await(ret->transit);
	st = take(call, arena, warnings, ret, err);
	ms_transit_end(ret->transit, st ? NULL : ret->src, arena, warnings);
	if (!st)
		ms_inside_mark(call->shared, ret->src);
	return st;
}

enum ms_status ms_snapshot_take_standing(const struct ms_collection *standing,
                                         struct ms_arena *arena, struct ms_notes *warnings,
                                         struct ms_snapshot *ret, struct ms_error *err)
{
	uint64_t since_ns = ms_now_ns();
	enum ms_status st;

	ms_transit_await(ret->transit);
	ms_transit_look(ret->transit);
	/* Large memory is not had twice, nor is a copy the quicker way to read it once. */
	ret->cloned = ms_fork_saves(standing->pid) >= SMALL_BYTES;
	if (ret->cloned)
		st = ms_standing_open(standing, arena, warnings, &ret->src, err);
	else
		st = ms_copy_open(standing, arena, warnings, &ret->src, err);
	ms_transit_wait(ret->transit, MS_TRANSIT_MOST_NS);
	ms_transit_end(ret->transit, st ? NULL : ret->src, arena, warnings);
	ret->hold_ns = ms_now_ns() - since_ns;
	if (!st)
		ms_inside_mark(standing, ret->src);
	return st;
}

uint64_t ms_snapshot_bytes(const struct ms_snapshot *snapshot)
{
	return snapshot->cloned ? ms_fork_bytes(snapshot->src) : ms_copy_bytes(snapshot->src);
}

uint64_t ms_snapshot_private_bytes(const struct ms_snapshot *snapshot)
{
	return snapshot->cloned ? ms_fork_private_bytes(snapshot->src)
	                        : ms_copy_private_bytes(snapshot->src);
}

int ms_snapshot_descriptor(const struct ms_snapshot *snapshot)
{
	return snapshot->cloned ? ms_fork_descriptor(snapshot->src)
	                        : ms_copy_descriptor(snapshot->src);
}

enum ms_status ms_snapshot_check(const struct ms_snapshot *snapshot,
                                 const struct ms_collection *shared, struct ms_error *err)
{
	if (ms_source_is_whole(snapshot->src))
		return MS_OK;
	return clone_died(shared, err);
}

static void warn(const struct ms_collection *shared, struct ms_arena *arena,
                 struct ms_notes *warnings)
{
	if (shared->n_unstopped)
		ms_note_add(
			arena, warnings,
			"%u of %u threads could not be stopped, asleep in the kernel: what only "
			"registers there hold is reported as leaked",
			shared->n_unstopped, shared->n_threads);
	if (shared->code_cut)
		ms_note_add(arena, warnings,
		            "malloc's instructions were not looked for in all that is mapped: the "
		            "files are too many, or their tables of symbols too long");
}

void ms_snapshot_describe(const struct ms_snapshot *snapshot, const struct ms_collection *shared,
                          struct ms_arena *arena, struct ms_report *report)
{
	struct ms_scan_facts *scan = &report->scan;

	scan->time = shared->frozen_at;
	(void)snprintf(scan->source, sizeof(scan->source), "%s", snapshot->src->ops->name);
	scan->pause_ns = shared->pause_ns;
	scan->phase_ns[MS_PHASE_FREEZE] = shared->freeze_ns;
	scan->phase_ns[MS_PHASE_HOLD] = snapshot->hold_ns;
	scan->steps = shared->steps;
	report->target.threads = shared->n_threads;
	warn(shared, arena, &report->warnings);
}
