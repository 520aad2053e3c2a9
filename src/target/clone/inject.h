/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_INJECT_H
#define MS_TARGET_INJECT_H

/*
 * A stopped thread that executes system calls of ours.
 *
 * The thread goes from one ptrace stop to the next; no single step and no breakpoint
 * is used, for these would outlive us in the thread. Its return address always leads
 * to a signal frame (arch.h), so it can be let go at any moment and finds its own way.
 */

#include "target/arch/arch.h"

struct ms_injection {
	const struct ms_arch *arch;
	const struct ms_gadgets *gadgets;
	pid_t tid;
	ms_addr sp;                    /* its return address, with a frame behind it */
	struct ms_registers registers; /* when it was taken; calls change few of them */
	uint64_t deadline_ns;
	pid_t child; /* process that the last call made; 0: none. Stopped or about to stop */
	bool lost;   /* it ended, or did not come to its stop */
	/* Its call was handed to the program (syscall user dispatch): nothing was done. It stands.
	 */
	bool dispatched;
};

/*
 * Have the thread make @call. It is stopped before and, unless lost, behind the call.
 *
 * @ret: the call's result; minus errno, -ENOSYS of a call that was dispatched
 *
 * Returns false when the thread was lost, with nothing left to do about it.
 */
bool ms_inject(struct ms_injection *in, const struct ms_call *call, int64_t *ret);

/*
 * The same in three steps and two stops, so that many threads can do it at a time: have it
 * begin, then go on, then end. The thread is afterwards, unless lost, in a stop in which its
 * registers can be given back.
 */
void ms_inject_begin(struct ms_injection *in, const struct ms_call *call);
void ms_inject_go_on(struct ms_injection *in);
void ms_inject_end(struct ms_injection *in);

/*
 * A signal frame (MS_FRAME_BYTES) by which the thread makes @call and then returns to what
 * lies at @next; all signals stay blocked.
 */
void ms_inject_frame(const struct ms_injection *in, const struct ms_call *call, ms_addr next,
                     uint8_t *ret);

/* Bring the thread from behind a call to a stop in which its registers can be given back. */
bool ms_inject_park(struct ms_injection *in);

/* What ms_inject_next_stop() returns beside the statuses of stops. */
enum { MS_STOP_CALL = 5 | 0x80, MS_STOP_ENDED = -1 }; /* SIGTRAP, as TRACESYSGOOD marks it */

/*
 * The status of the next stop of @tid, or MS_STOP_ENDED: also past the deadline. A sleep is
 * ended by the ticks that the collection process gives itself.
 */
int ms_inject_next_stop(pid_t tid, uint64_t deadline_ns);

/* Wait for the stop in which a process made by a call begins. */
bool ms_inject_await(pid_t tid, uint64_t deadline_ns);

/* Have the thread make @call, from which it does not return, and take its end. */
bool ms_inject_last(struct ms_injection *in, const struct ms_call *call);

#endif
