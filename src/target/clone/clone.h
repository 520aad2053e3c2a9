/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CLONE_H
#define MS_TARGET_CLONE_H

/*
 * A copy-on-write clone of the frozen target, made by one of its own threads.
 *
 *	thread ──clone(CLONE_VM)──▶ helper ──clone(CLONE_PARENT)──▶ image
 *	   │  ◀──────wait4───────── exits                            │ leaves the table of files,
 *	   ▼                                                         ▼ and stays stopped
 *	is as it was, and has a child ─────────────────────────▶ is traced, and never run on
 *	   │  ◀──────wait4─────────────────────────────────────── exits
 *
 * A helper makes the image because the call may not come back, and then a thread of the
 * target would stand in it. The image is a child of the target, not an orphan: whoever adopts
 * the target's orphans is never told of its end. No signal is sent at its end, which hides it
 * from each wait of the target without __WALL or __WCLONE. It shares the table of files, so
 * that no file of the target is open twice, and leaves it before the target runs again, or
 * soon after (files.h). It ends by exit(0), also when the collection process is killed.
 */

#include "target/clone/inject.h"
#include "target/clone/seccomp.h"
#include "target/freeze/freeze.h"

/* What ps shows as the name of an image. */
#define MS_CLONE_NAME "memscan-clone"

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
	struct ms_injection child;  /* of the target: its clone; tid 0: none */
	ms_addr child_sp;           /* leads to exit(0) */
	ms_addr reap_sp;            /* in the child: leads to the end of its fork, see finish.c */
	ms_addr reaped;             /* where the number of that goes */
	pid_t image;                /* what is read: the child, or a fork of it; 0: none */
	bool leaves_late;           /* the table of files, by ms_clone_leave_files() */
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
 * When the target runs again: have the image leave the table of files, if it could not before.
 * MS_E_UNSUPPORTED, and the image is ended, when it does not.
 */
ms_must_check enum ms_status ms_clone_leave_files(struct ms_cloner *cloner, struct ms_error *err);

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

/* End the image, if there is one; its end is still held back. */
void ms_clone_end(struct ms_cloner *cloner);

/*
 * Have a thread of the running target reap the image of @shared, if there is one, and those
 * that scans have left which were killed. What a freeze has found in @shared is forgotten.
 */
void ms_clone_reap(struct ms_collection *shared);

#endif
