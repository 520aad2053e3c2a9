/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_TRANSIT_H
#define MS_TARGET_TRANSIT_H

/*
 * Pointers of the target that were sent and not received yet. The kernel shows them without
 * taking anything out:
 *
 *	pipe                       tee() into a pipe of ours
 *	socket, UNIX or loopback   recv() with MSG_PEEK
 *	queue of System V          msgrcv() with MSG_COPY
 *
 * Each of these calls may sleep for a lock. A thread of any process can hold it for ever, such as
 * one that writes from memory which a server of page faults does not provide, and no signal ends
 * that sleep. So a helper makes the calls, and nobody waits for it beyond a limit.
 *
 *	look.c     what the helper does; it interprets none of the bytes
 *	words.c    addresses among the bytes
 *
 * The helper has a duplicate of one descriptor of the target at a time, for some microseconds. It
 * looks while the target stands, when the target cannot close that descriptor. Only the rest, when
 * the time for that is over, is looked at when the target runs again.
 *
 * Nothing is taken out of a queue, no time of access is set, and no writer gets room. TCP may
 * acknowledge earlier than it would have. SIOCGSTAMP answers a program that uses it for the message
 * that was looked at.
 *
 * Deliberately not looked at:
 *
 *	ends for writing, other sockets   what is sent there is received by others
 *	named pipes                       whoever watches their file (inotify) would see an access
 *	sockets with a waiting error      recv() would take it
 *	sockets with SO_PEEK_OFF          recv() would move it
 */

#include "base/arena.h"
#include "engine/report.h"
#include "engine/source.h"

struct ms_transit;

/*
 * Start the helper for the running @pid, a child of the caller's, which is not the sweeper: were
 * that killed, whoever adopts orphans would see the helper end. After this the sweeper is forked;
 * then the caller leaves the helper to it, and reaps the helper when the sweeper has ended.
 *
 * Returns NULL when it cannot be started. The other functions do nothing then, but for a warning.
 */
struct ms_transit *ms_transit_start(pid_t pid);
void ms_transit_leave(struct ms_transit *transit);

/*
 * Context: returns within two seconds, also when the helper is stuck; it is left behind then, and
 *          ends when what it waits for does.
 */
void ms_transit_reap(struct ms_transit *transit);

/* In the sweeper, before the target is stopped: wait until its descriptors were listed. */
void ms_transit_await(const struct ms_transit *transit);

/* The target stands: begin to look. */
void ms_transit_look(struct ms_transit *transit);

/* The target is to run on: wait until all is seen, but no longer than @most_ns since the begin. */
void ms_transit_wait(struct ms_transit *transit, uint64_t most_ns);

/*
 * Need the helper no more, and give what it found to @src.
 *
 * @src:      its transit is filled; NULL: nothing is wanted
 * @warnings: what could not be looked at
 */
void ms_transit_end(struct ms_transit *transit, struct ms_source *src, struct ms_arena *arena,
                    struct ms_notes *warnings);

/* The time for which the target may stand for this. */
#define MS_TRANSIT_STANDING_NS UINT64_C(2000000)
/* The same of one that stands anyway; and for the rest, when it runs again. */
#define MS_TRANSIT_MOST_NS UINT64_C(100000000)

#endif
