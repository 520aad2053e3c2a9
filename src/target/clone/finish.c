/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/ptrace.h>

#include "base/clock.h"
#include "target/clone/clone.h"
#include "target/freeze/roll.h"

static const uint64_t MAX_FINISH_NS = UINT64_C(8000000000);

static enum ms_status note(struct ms_cloner *cloner, uint32_t index, struct ms_error *err)
{
	struct ms_freezer *freezer = cloner->freezer;
	struct ms_insider *insider = ms_vec_push(&freezer->arena, &cloner->insiders);

	if (!insider)
		return ms_fail(err, MS_E_NOMEM, "no memory for a thread's registers");
	insider->index = index;
	if (!freezer->arch->calls->save(freezer->shared->threads[index].tid, &insider->registers,
	                                &insider->vectors))
		cloner->insiders.n--; /* it was killed */
	return MS_OK;
}

enum ms_status ms_clone_note_inside(struct ms_cloner *cloner, struct ms_error *err)
{
	struct ms_freezer *freezer = cloner->freezer;
	struct ms_collection *shared = freezer->shared;
	enum ms_status st = MS_OK;
	uint32_t index = 0;

	/* Captured threads are those of the tracees that still lived, in the same order. */
	for (size_t i = 0; i < freezer->tracees.n && index < shared->n_threads && !st; i++) {
		if (freezer->tracees.at[i].tid != shared->threads[index].tid)
			continue;
		if (ms_roll_is_thread_inside(freezer, &freezer->tracees.at[i]))
			st = note(cloner, index, err);
		index++;
	}
	shared->n_inside = (uint32_t)cloner->insiders.n;
	return st;
}

static void finish(struct ms_cloner *cloner, struct ms_tracee *image, struct ms_insider *insider)
{
	struct ms_freezer *freezer = cloner->freezer;
	struct ms_frozen_thread *thread = &freezer->shared->threads[insider->index];
	struct ms_frozen_thread before = *thread;

	if (image->state != MS_TRACEE_STOPPED ||
	    !freezer->arch->calls->restore(image->tid, &insider->registers, &insider->vectors)) {
		freezer->shared->n_unrolled++;
		return;
	}
	(void)ms_roll_thread(freezer, image, true);
	/* What it was about to return is held by its registers alone. */
	if (image->state != MS_TRACEE_STOPPED ||
	    !freezer->arch->capture(image->tid, thread, &image->cpu))
		*thread = before;
}

void ms_clone_finish_malloc(struct ms_cloner *cloner)
{
	struct ms_tracee image = { .tid = cloner->image, .state = MS_TRACEE_STOPPED };
	struct ms_insider *insider;
	uint64_t none = 0;

	if (!cloner->insiders.n)
		return;
	/* It has inherited a mask with every signal in it; no signal but our traps comes. */
	(void)ptrace(PTRACE_SETSIGMASK, cloner->image, sizeof(none), &none);
	cloner->freezer->roll_until_ns = ms_now_ns() + MAX_FINISH_NS;
	ms_vec_for_each (insider, &cloner->insiders)
		finish(cloner, &image, insider);
}
