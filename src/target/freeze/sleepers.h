/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SLEEPERS_H
#define MS_TARGET_SLEEPERS_H

#include "target/freeze/freeze.h"

/*
 * Note of each thread that sleeps in a call with a time-out since when it does: what is
 * left of the time-out is asked for when it has been stopped, and can no longer be seen. Where
 * a call's first argument can no longer be seen then, note it of each thread that sleeps.
 *
 * @only: the only thread that will be stopped; 0: all will be
 *
 * Context: before the freeze.
 * Cost:    5 µs for a thread, 50 µs for one that is noted; 0.1 s at most, where first arguments are
 * noted 1 s.
 */
void ms_sleepers_find(struct ms_freezer *freezer, pid_t only);

/*
 * Note anew a thread that has run since: one that began a call just before its stop, where a first
 * argument can no longer be seen then. A time-out of it begins anew.
 *
 * Context: directly before the thread is asked to stop.
 * Cost:    nothing where arguments are seen; else one read of /proc, five when it has run.
 */
void ms_sleepers_look_again(struct ms_freezer *freezer, pid_t tid);

/*
 * What was noted of @tracee, which has just been stopped; NULL when that does not hold: it ran
 * meanwhile, other than to stop.
 *
 * Cost: one read of /proc when it was noted, else nothing.
 */
const struct ms_sleeper *ms_sleepers_of(struct ms_freezer *freezer, const struct ms_tracee *tracee);

/*
 * How often a thread was given a processor, by its open /proc/TID/schedstat; 0: not known. A thread
 * that sleeps is given one once more to stop.
 */
uint64_t ms_sleepers_runs(int schedstat);

#endif
