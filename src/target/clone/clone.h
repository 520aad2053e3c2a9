/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CLONE_H
#define MS_TARGET_CLONE_H

/*
 * A copy-on-write clone of the frozen target, made by one of its own threads.
 *
 *	thread ──clone(CLONE_VM)──▶ helper ──clone()──▶ image
 *	   │  ◀──────wait4───────── exits                 │ leaves the table of files,
 *	   ▼                                              ▼ and stays stopped
 *	is as it was                               an orphan, traced, never run on
 *
 * The helper is there so that the image is no child of the target: it cannot be
 * waited for, and its end sends the target no signal. The image shares the table of
 * files, so that no file of the target is open twice, and leaves it before the target
 * runs again. The image dies with the collection process (PTRACE_O_EXITKILL).
 */

#include "target/clone/seccomp.h"
#include "target/freeze/freeze.h"

/* A thread that was inside malloc when it was frozen. */
struct ms_insider {
	uint32_t index;  /* in shared->threads */
	bool done;       /* it was led out, or cannot be */
	bool broken_off; /* its registers are behind a call that is to be made once more */
	struct ms_registers registers;
	struct ms_vectors *vectors; /* NULL: they do not matter */
};

struct ms_insiders MS_VEC(struct ms_insider);

struct ms_cloner {
	struct ms_freezer *freezer;
	union ms_seccomp_room *seccomp;
	struct ms_vectors *vectors; /* of the thread that makes it */
	uint8_t *block;             /* what is written to that thread's stack */
	uint8_t *saved;             /* what was there */
	pid_t image;                /* 0: none */
	struct ms_insiders insiders;
};

/*
 * Everything that needs memory or time, done before the target is touched: look up
 * where stacks are, and refuse what can be known now.
 *
 * Returns MS_E_UNSUPPORTED, with the reason, when the target is not to be cloned;
 * MS_E_NOMEM, MS_E_GONE.
 */
ms_must_check enum ms_status ms_cloner_init(struct ms_cloner *cloner, struct ms_freezer *freezer,
                                            struct ms_error *err);

/*
 * Clone the frozen target and set cloner->image. The target is afterwards as it was,
 * whether that succeeded or not.
 *
 * Returns MS_E_UNSUPPORTED or MS_E_DENIED, with the reason, when it could not be.
 */
ms_must_check enum ms_status ms_clone_make(struct ms_cloner *cloner, struct ms_error *err);

/*
 * Threads inside malloc are not rolled in the target but in its clone, whose one thread
 * takes the registers of each in turn: a heap in the middle of a change comes to its
 * end there, while the target has long gone on, and no trap flag or breakpoint is ever
 * set in the target. Note them while it is frozen; finish when it runs again.
 *
 * shared gets: n_inside; then n_rolled, n_unrolled, and what the threads hold.
 */
ms_must_check enum ms_status ms_clone_note_inside(struct ms_cloner *cloner, struct ms_error *err);
void ms_clone_finish_malloc(struct ms_cloner *cloner);

/* Kill the image, if there is one, and take its end. */
void ms_clone_end(struct ms_cloner *cloner);

#endif
