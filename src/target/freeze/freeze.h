/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_FREEZE_H
#define MS_TARGET_FREEZE_H

/*
 * Inside the collection process: the threads of the target and their stops.
 *
 *	freeze.c    seize, interrupt, wait, list again
 *	roll.c      lead threads out of malloc, one step after another
 *	breaks.c    whether debug registers stop anyone on this machine
 *	capture.c   registers, and signals in flight
 *	sleepers.c  which threads sleep before they are stopped, and since when
 *	remaining.c what is left of a time-out
 *	rewind.c    give broken-off system calls back
 *	release.c   detach
 *
 * Nothing here is shared with another process but `shared`.
 */

#include "base/arena.h"
#include "base/vec.h"
#include "target/arch/arch.h"
#include "target/collection.h"
#include "target/freeze/breaks.h"
#include "target/room.h"

enum ms_tracee_state {
	MS_TRACEE_SEIZED,  /* and not interrupted */
	MS_TRACEE_RUNNING, /* seized and interrupted, has not answered */
	MS_TRACEE_STOPPED,
	MS_TRACEE_ASLEEP, /* uninterruptible; traps before it runs user code again */
	MS_TRACEE_GONE,
};

struct ms_tracee {
	pid_t tid;
	uint8_t state;   /* enum ms_tracee_state */
	uint8_t signal;  /* what a signal-delivery stop holds back, given with the detach; else 0 */
	bool group_stop; /* stopped by SIGSTOP or the like, not by us */
	bool at_work;    /* was seen running: is stopped last and let go first */
	bool armed;      /* was let run by us: see ms_roll_disarm() */
	bool breaks;     /* has breakpoints of ours */
	uint64_t mask;   /* while armed: the signals that it blocks itself */
	bool known;      /* cpu is where it stands */
	struct ms_cpu cpu;
	uint64_t asleep_since_ns; /* of a thread in a call that has a time-out; 0: not known */
	bool was_in_call;         /* for certain, with cpu.args[0]: see arch->result_is_first */
};

/* A thread that was asleep before the freeze. */
struct ms_sleeper {
	pid_t tid;
	uint64_t runs;     /* how often it had been given a processor */
	uint64_t waits;    /* how often it had left it of its own accord */
	uint64_t since_ns; /* 0: not known */
	int64_t call;
	uint64_t first; /* its first argument */
	bool at_work;   /* it did not sleep: nothing else is known */
};

struct ms_sleepers MS_VEC(struct ms_sleeper);

struct ms_tracees MS_VEC(struct ms_tracee);

/* A set of tids: a bit for each that there can be. */
enum { MS_MAX_TIDS = 4 * 1024 * 1024 /* PID_MAX_LIMIT, include/linux/threads.h */ };

static inline bool ms_tids_have(const uint64_t *tids, pid_t tid)
{
	return tids[tid / 64] >> (tid % 64) & 1;
}

static inline void ms_tids_put(uint64_t *tids, pid_t tid, bool in)
{
	uint64_t bit = (uint64_t)1 << (tid % 64);

	if (in)
		tids[tid / 64] |= bit;
	else
		tids[tid / 64] &= ~bit;
}

struct ms_freezer {
	struct ms_collection *shared;
	const struct ms_arch *arch;
	struct ms_arena arena;
	struct ms_tracees tracees;
	uint64_t *seen;    /* the tids that are in tracees and not gone */
	uint64_t *at_work; /* those that were seen running before the freeze */
	char *list_buf;    /* MS_PROC_LIST_BYTES */
	struct ms_stack_places places;
	struct ms_sleepers sleepers;
	size_t next_sleeper; /* where to look first: both lists are in the kernel's order */
	bool takes_marks;    /* see arch->takes_marks */
	bool follows;        /* the freeze is given up once the parent has ended */
	uint64_t begun_ns;
	uint64_t deadline_ns;
	uint64_t roll_until_ns;
	enum ms_breaks breaks;
};

/*
 * Everything that needs memory, done before the target is touched.
 *
 * @only: the thread that ms_freeze_thread() is to stop; 0: ms_freeze() is to stop all
 */
ms_must_check enum ms_status ms_freezer_init(struct ms_freezer *freezer,
                                             struct ms_collection *shared, pid_t only,
                                             struct ms_error *err);

/* Stop every thread and write what each holds to shared->threads. */
ms_must_check enum ms_status ms_freeze(struct ms_freezer *freezer, struct ms_error *err);

/*
 * Stop one thread alone, and write what it holds to shared->threads. MS_E_BUSY when it sleeps
 * where nothing interrupts it, MS_E_TIMEOUT when it does not stop in time.
 */
ms_must_check enum ms_status ms_freeze_thread(struct ms_freezer *freezer, pid_t tid,
                                              struct ms_error *err);

/* Let go of every thread, whether freezing succeeded or not. */
void ms_freezer_release(struct ms_freezer *freezer);

/*
 * Wait until @tracee stops or ends, for @ticks ticks of MS_TICK_NS at most (0: only look), and
 * record what is seen. The stop is not consumed: see freeze.c.
 */
void ms_tracee_wait(struct ms_tracee *tracee, int ticks);

/* Where a stopped thread is; false when it was killed. */
bool ms_tracee_look(const struct ms_freezer *freezer, const struct ms_tracee *tracee,
                    struct ms_cpu *ret);

enum { MS_TICK_NS = 1000000 };

#endif
