/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SNAPSHOT_H
#define MS_TARGET_SNAPSHOT_H

/*
 * Steps 1 and 2 of a scan as the sweeper sees them: have the target frozen, hold its
 * memory, let it go.
 *
 *	auto   a copy when there is little to copy and no thread is inside malloc, else
 *	       a clone
 *	fork   a clone
 *	copy   a copy
 *
 * A clone is the shorter pause for all but small processes, and the safer way to deal
 * with threads inside malloc (clone/clone.h). Where it is refused, the memory is copied.
 */

#include "engine/report.h"
#include "engine/source.h"
#include "target/collection.h"

enum ms_snapshot_how { MS_SNAPSHOT_AUTO, MS_SNAPSHOT_FORK, MS_SNAPSHOT_COPY };

enum ms_snapshot_step { MS_STEP_FREEZE, MS_STEP_HOLD, MS_STEP_RELEASE, MS_STEP_LAYOUT };

struct ms_snapshot_call {
	struct ms_collection *shared;
	int channel; /* to the collection process */
	enum ms_snapshot_how how;
	const char *refusal; /* why the target was not cloned when that was tried; or NULL */
	void (*enter)(const void *ctx, enum ms_snapshot_step step); /* called when a step begins */
	const void *ctx;
};

struct ms_snapshot {
	struct ms_transit *transit; /* by the caller: started; NULL: it could not be */
	struct ms_source *src;
	bool cloned;      /* src reads a clone, which lives until the channel is closed; or one that
	                     stands */
	uint64_t hold_ns; /* taken while the target stood */
};

/*
 * Take a snapshot. The target is let go whether that succeeds or not.
 *
 * @warnings: what could not be read, and why the target was not cloned
 *
 * Returns what freezing and copying do. When the target refused to be cloned only once
 * it was frozen, that is shared->clone_error, and the caller tries again with a copy.
 */
ms_must_check enum ms_status ms_snapshot_take(const struct ms_snapshot_call *call,
                                              struct ms_arena *arena, struct ms_notes *warnings,
                                              struct ms_snapshot *ret, struct ms_error *err);

/* Write to @report what freezing and holding were like, and warn of what they left undone. */
void ms_snapshot_describe(const struct ms_snapshot *snapshot, const struct ms_collection *shared,
                          struct ms_arena *arena, struct ms_report *report);

/*
 * The same of a target whose threads all stand, and stand until the scan has ended:
 * nothing is frozen and nothing let go.
 *
 * @standing: with the threads as they were captured
 */
ms_must_check enum ms_status ms_snapshot_take_standing(const struct ms_collection *standing,
                                                       struct ms_arena *arena,
                                                       struct ms_notes *warnings,
                                                       struct ms_snapshot *ret,
                                                       struct ms_error *err);

/* Bytes of the target that were read so far. */
uint64_t ms_snapshot_bytes(const struct ms_snapshot *snapshot);

/* Bytes of what is held and no file has: heaps are in it. */
uint64_t ms_snapshot_private_bytes(const struct ms_snapshot *snapshot);

/* What is still read through; -1: nothing. */
int ms_snapshot_descriptor(const struct ms_snapshot *snapshot);

/* Check after the last read that all of it was the target's. Returns MS_E_DIED. */
ms_must_check enum ms_status ms_snapshot_check(const struct ms_snapshot *snapshot,
                                               const struct ms_collection *shared,
                                               struct ms_error *err);

#endif
