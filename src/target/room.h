/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ROOM_H
#define MS_TARGET_ROOM_H

/*
 * Free memory below a stopped thread's stack pointer, where its own calls and signal
 * handlers will write next, and nobody reads.
 *
 *	thread's sp ─▶ ┌───────────────────────────┐
 *	               │ red zone                  │ the thread's
 *	               ├───────────────────────────┤ a multiple of 64
 *	               │ time-out of its call      │ stays while it sleeps there: freeze/rewind.c
 *	               ├───────────────────────────┤
 *	               │ calls of ours             │ while it stands: clone/clone.c
 *	               └───────────────────────────┘
 *
 * Only where it is known to be stack: of the main thread in [stack], of another where the
 * C library's own record of its stack, in its control block, says so. Whatever else a mapping holds
 * is the program's. Coroutines, whose stack may end at any byte, have none, nor has a thread in a
 * handler on a signal stack: that may lie in a frame of the stack that it interrupts.
 */

#include <sys/types.h>

#include "base/arena.h"
#include "base/range.h"
#include "base/status.h"
#include "base/vec.h"
#include "engine/abi.h"

/* A mapping in which a thread's stack may lie. */
struct ms_stack_place {
	struct ms_range range;
	bool main; /* [stack] */
};

struct ms_stack_places MS_VEC(struct ms_stack_place);

/* Look up where the stacks of process @pid may be. MS_E_NOMEM, MS_E_GONE, MS_E_DENIED. */
ms_must_check enum ms_status ms_stack_places_find(pid_t pid, struct ms_arena *arena,
                                                  struct ms_stack_places *ret,
                                                  struct ms_error *err);

/* A stopped thread. */
struct ms_room_of {
	const struct ms_abi *abi; /* borrowed */
	pid_t tid;
	bool main; /* the process's first */
	ms_addr sp, tp;
};

/*
 * The two parts of @thread's room, the upper one MS_ROOM_TIMEOUT bytes, the lower one
 * @bytes, a multiple of 64. False when there is none.
 */
enum { MS_ROOM_TIMEOUT = 64 };
bool ms_room_for_timeout(const struct ms_stack_places *places, const struct ms_room_of *thread,
                         struct ms_range *ret);
bool ms_room_for_calls(const struct ms_stack_places *places, const struct ms_room_of *thread,
                       size_t bytes, struct ms_range *ret);

/* Whether a filter (of a container) lets us do either of the next two at all. */
bool ms_room_is_allowed(void);

/* Copy to or from @tid's memory, only where it may itself. Returns how many bytes. */
size_t ms_room_read(pid_t tid, ms_addr addr, void *buf, size_t len);
size_t ms_room_write(pid_t tid, ms_addr addr, const void *buf, size_t len);

#endif
