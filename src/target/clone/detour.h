/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_DETOUR_H
#define MS_TARGET_DETOUR_H

/*
 * A stopped thread that makes some system calls of ours and goes on where it was.
 *
 * As the clone's (clone.c), from a block in free room on its stack, so that it finds its own
 * way when it is let go at any moment:
 *
 *	┌──────────────────────────────┐
 *	│ vectors        (XSAVE)       │◀─┐
 *	│ frame: true registers, mask ─┼──┘
 *	│ restorer                     │◀─ its return address
 *	└──────────────────────────────┘
 */

#include "target/clone/fit.h"
#include "target/clone/inject.h"

/*
 * Where a thread stands, the best first: in a call that is made again as it was; in its own code;
 * in one that goes on with the rest of its time-out, which the kernel would forget if we were
 * killed meanwhile, and answer with EINTR.
 */
enum ms_standing { MS_STANDS_ASLEEP, MS_STANDS_AT_WORK, MS_STANDS_RESTARTED };

struct ms_detour {
	struct ms_freezer *freezer;
	const struct ms_arch_calls *calls;
	union ms_seccomp_room *seccomp;
	struct ms_vectors *vectors;
	uint8_t *block; /* what is written to the thread's stack */
	uint8_t *saved; /* what was there */
	struct ms_injection in;
	struct ms_range room;
	uint64_t mask;          /* the thread's own */
	enum ms_standing worst; /* that will do */
	uint64_t until_ns;      /* it may take; 0: as long as all threads may stand for it */
};

/* Everything that needs memory, done before anything is stopped. */
ms_must_check enum ms_status ms_detour_init(struct ms_detour *detour, struct ms_freezer *freezer,
                                            struct ms_error *err);

/* A call that is to be made, and its name for messages. */
struct ms_named_call {
	const char *name;
	struct ms_call call;
};

/*
 * Choose one of the stopped threads that may make all of these @n calls, and lead it away.
 * MS_E_UNSUPPORTED or MS_E_DENIED with the reason when none may, MS_E_BUSY when none stands where
 * it can: then none was touched, and in.tid is 0.
 */
ms_must_check enum ms_status ms_detour_begin(struct ms_detour *detour,
                                             const struct ms_named_call *calls, size_t n,
                                             struct ms_error *err);

/* Have it make one of them. @ret: as the kernel returns it. False when the thread has ended. */
bool ms_detour_call(struct ms_detour *detour, const struct ms_call *call, int64_t *ret);

/* It is stopped where it was, as it was. */
void ms_detour_end(struct ms_detour *detour);

#endif
