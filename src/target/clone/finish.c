/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "target/clone/clone.h"
#include "target/clone/inject.h"
#include "target/clone/lead.h"
#include "target/freeze/inside.h"
#include "target/freeze/roll.h"
#include "target/room.h"

/* For a fork of the image, of which a large one takes long. */
static const uint64_t fork_ns = UINT64_C(5000000000);

static struct ms_insider *add_insider(struct ms_cloner *cloner, uint32_t index)
{
	struct ms_insider *insider = ms_vec_push(&cloner->freezer->arena, &cloner->insiders);

	if (insider)
		*insider = (struct ms_insider){ .index = index };
	return insider;
}

static enum ms_status note(struct ms_cloner *cloner, uint32_t index, struct ms_error *err)
{
	struct ms_freezer *freezer = cloner->freezer;
	struct ms_insider *insider = add_insider(cloner, index);

	if (insider)
		insider->vectors = ms_arena_alloc(&freezer->arena, sizeof(*insider->vectors));
	if (!insider || !insider->vectors)
		return ms_fail(err, MS_E_NOMEM, "no memory for a thread's registers");
	if (!freezer->arch->calls->save(freezer->shared->threads[index].tid, &insider->registers,
	                                insider->vectors))
		cloner->insiders.n--; /* it was killed */
	return MS_OK;
}

/* The tracee that was captured as thread @index of shared; *at is where to look from on. */
static const struct ms_tracee *tracee_of(const struct ms_freezer *freezer, uint32_t index,
                                         size_t *at)
{
	/* Captured threads are those of the tracees that still lived, in the same order. */
	while (*at < freezer->tracees.n) {
		const struct ms_tracee *tracee = &freezer->tracees.at[(*at)++];

		if (tracee->tid == freezer->shared->threads[index].tid)
			return tracee;
	}
	return NULL;
}

enum ms_status ms_clone_note_inside(struct ms_cloner *cloner, struct ms_error *err)
{
	struct ms_freezer *freezer = cloner->freezer;
	struct ms_collection *shared = freezer->shared;
	enum ms_status st = MS_OK;
	size_t at = 0;

	for (uint32_t i = 0; i < shared->n_threads && !st; i++) {
		const struct ms_tracee *tracee = tracee_of(freezer, i, &at);

		if (tracee && ms_roll_is_thread_inside(freezer, tracee))
			st = note(cloner, i, err);
	}
	shared->n_inside = (uint32_t)cloner->insiders.n;
	return st;
}

/* Whether @thread, by what was captured, waits inside malloc for a lock. */
static bool waits_inside(const struct ms_cloner *cloner, const struct ms_frozen_thread *thread)
{
	const struct ms_cpu cpu = { .call = thread->call, .result = thread->result };
	const struct ms_arch *arch = cloner->freezer->arch;
	uint64_t stack[MS_NEAR_WORDS];
	size_t link = ms_inside_put_link(ms_inside_link(arch, thread), stack);
	struct iovec local = { stack + link, (MS_NEAR_WORDS - link) * arch->abi.word_bytes };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	struct iovec remote = { (void *)(uintptr_t)thread->sp, local.iov_len };
	ms_addr back;
	ssize_t got;
	size_t n;

	if (!thread->stopped || ms_arch_own_call(arch, thread->call) != SYS_futex ||
	    !ms_inside_is_waiting(&cpu))
		return false;
	got = process_vm_readv(cloner->image, &local, 1, &remote, 1, 0);
	n = got > 0 ? (size_t)got / arch->abi.word_bytes : 0;
	ms_abi_spread(&arch->abi, stack + link, n);
	n += link;
	ms_inside_unsign(arch, stack, n);
	return ms_inside_is(cloner->freezer->shared, thread->pc, stack, n, &back);
}

/*
 * Threads that wait for a lock can go on when those that hold one have left. They sleep in
 * a system call, where no vector register holds anything that is needed again.
 */
static void note_waiting(struct ms_cloner *cloner)
{
	const struct ms_collection *shared = cloner->freezer->shared;

	for (uint32_t i = 0; i < shared->n_threads; i++) {
		const struct ms_frozen_thread *thread = &shared->threads[i];
		struct ms_insider *insider;

		if (!waits_inside(cloner, thread))
			continue;
		insider = add_insider(cloner, i);
		if (!insider)
			return;
		memcpy(insider->registers.words, thread->words, sizeof(insider->registers.words));
		insider->broken_off = true;
	}
}

static bool capture(struct ms_cloner *cloner, struct ms_tracee *image,
                    struct ms_frozen_thread *thread)
{
	return cloner->freezer->arch->capture(image->tid, cloner->freezer->shared->captured, thread,
	                                      &image->cpu);
}

/* Bring the image to a stop in which all registers can be given back. */
static bool park(struct ms_cloner *cloner, const struct ms_tracee *image)
{
	struct ms_injection in = { .tid = image->tid,
		                   .deadline_ns = cloner->freezer->roll_until_ns };

	return !cloner->freezer->arch->calls->wants_parked || ms_inject_park(&in);
}

/* From now on it is one that waits inside malloc, as it would have been a moment later. */
static bool take_waiting(struct ms_cloner *cloner, struct ms_tracee *image,
                         struct ms_insider *insider)
{
	const struct ms_arch *arch = cloner->freezer->arch;
	struct ms_frozen_thread *thread = &cloner->freezer->shared->threads[insider->index];

	if (!park(cloner, image) ||
	    !arch->calls->save(image->tid, &insider->registers, insider->vectors) ||
	    !capture(cloner, image, thread))
		return false;
	thread->call = ms_arch_call(arch, SYS_futex);
	thread->result = -EINTR;
	return true;
}

/* Lead one out; what it was about to return is held by its registers alone. */
static enum ms_led finish(struct ms_cloner *cloner, struct ms_tracee *image,
                          struct ms_insider *insider)
{
	struct ms_freezer *freezer = cloner->freezer;
	const struct ms_arch *arch = freezer->arch;
	struct ms_frozen_thread *thread = &freezer->shared->threads[insider->index];
	struct ms_frozen_thread before = *thread;
	enum ms_led led;

	if (image->state != MS_TRACEE_STOPPED || !park(cloner, image) ||
	    !arch->calls->restore(image->tid, &insider->registers, insider->vectors))
		return MS_LED_STUCK;
	/* One with a time-out could not be made once more by the kernel, which knows it no more. */
	if (insider->broken_off && !arch->rewind(image->tid, NULL))
		return MS_LED_STUCK;
	insider->broken_off = false;
	led = ms_lead_out(freezer, image);
	if (led == MS_LED_OUT && capture(cloner, image, thread))
		return MS_LED_OUT;
	if (led == MS_LED_WAITING && take_waiting(cloner, image, insider))
		return MS_LED_WAITING;
	/* It may have waited before; now the heap may be in the middle of its change. */
	*thread = before;
	thread->call = -1;
	return MS_LED_STUCK;
}

/* Returns whether it is out now, upon which others may get their locks. */
static bool try_to_finish(struct ms_cloner *cloner, struct ms_tracee *image,
                          struct ms_insider *insider)
{
	struct ms_collection *shared = cloner->freezer->shared;

	switch (finish(cloner, image, insider)) {
	case MS_LED_OUT:
		insider->done = true;
		shared->n_rolled++;
		return true;
	case MS_LED_STUCK:
		insider->done = true;
		shared->n_unrolled++;
		break;
	case MS_LED_WAITING:
		break;
	}
	return false;
}

static void finish_all(struct ms_cloner *cloner, struct ms_tracee *image)
{
	struct ms_insider *insider;
	bool more = true;

	while (more) {
		more = false;
		ms_vec_for_each (insider, &cloner->insiders)
			if (!insider->done)
				more |= try_to_finish(cloner, image, insider);
	}
}

/*
 * A fork of the image is led, not the image: it is killed at its end, and should we be killed
 * it may not run on as the program, which only PTRACE_O_EXITKILL prevents. The image is its
 * parent, and the only one that sees how it ends.
 */
static bool fork_image(struct ms_cloner *cloner)
{
	const struct ms_call reap = { SYS_wait4, { INT32_MAX, 0, __WALL } };
	const struct ms_call fork = { SYS_clone,
		                      { CLONE_PARENT_SETTID, cloner->child_sp, cloner->reaped } };
	struct ms_injection *child = &cloner->child;
	uint8_t frame[MS_FRAME_BYTES] = { 0 };
	int64_t number = 0;

	child->deadline_ns = ms_now_ns() + fork_ns;
	ms_inject_frame(child, &reap, cloner->child_sp, frame);
	if (ms_room_write(child->tid, cloner->reap_sp, frame, sizeof(frame)) != sizeof(frame))
		return false;
	child->sp = cloner->reap_sp;
	if (!ms_inject(child, &fork, &number) || number < 0 ||
	    !ms_inject_await(child->child, child->deadline_ns))
		return false;
	cloner->image = child->child;
	return true;
}

/* Nobody is led out. */
static void give_up(struct ms_cloner *cloner)
{
	struct ms_insider *insider;

	ms_vec_for_each (insider, &cloner->insiders)
		insider->done = true;
	cloner->freezer->shared->n_unrolled += (uint32_t)cloner->insiders.n;
}

void ms_clone_finish_malloc(struct ms_cloner *cloner)
{
	const uintptr_t options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD;
	struct ms_tracee image = { .state = MS_TRACEE_STOPPED };
	uint64_t none = 0;

	note_waiting(cloner);
	if (!cloner->insiders.n)
		return;
	if (cloner->child.tid && !fork_image(cloner)) {
		give_up(cloner);
		return;
	}
	image.tid = cloner->image;
	/* It has inherited a mask with every signal in it; no signal but our traps comes. */
	(void)ptrace(PTRACE_SETSIGMASK, cloner->image, sizeof(none), &none);
	(void)ptrace(PTRACE_SETOPTIONS, cloner->image, NULL, options);
	cloner->freezer->roll_until_ns = ms_now_ns() + cloner->freezer->shared->lead_ns;
	finish_all(cloner, &image);
}
