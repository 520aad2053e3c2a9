/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_HELD_H
#define MS_TESTS_HELD_H

/*
 * Processes for tests to scan, and a scan's first two steps by themselves.
 *
 *	pid_t pid = child_start(sleep_for_ever, NULL);
 *	struct held held;
 *
 *	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
 *	…
 *	held_release(&held);
 *	child_end(pid);
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "target/target.h"

/*
 * Run @body(@arg) in a child and wait until it called child_ready(). The child
 * ends with the test, or when @body returns.
 */
pid_t child_start(void (*body)(void *arg), void *arg);
void child_ready(void);

/* Kill and reap it. */
void child_end(pid_t pid);

/*
 * Whether breakpoints stop a thread on this machine. Where they do not, it is led by single steps,
 * whose number is limited: a repeating instruction takes one for each iteration.
 */
bool child_meets_breakpoints(void);

/* Zeroed memory that children share with the test. */
void *child_memory(size_t len);

/* Sleep until *@flag is not 0, for five seconds at most; whether it is. */
int child_waits_for(volatile int *flag);

struct held {
	struct ms_collection *shared;
	int channel;
	pid_t collection;
	int exit_status; /* of the collection process, after held_release() */
	struct ms_error err;
	struct ms_arena arena;
	struct ms_notes warnings;
};

/* Start a collection process and freeze @pid; malloc's instructions are looked for before. */
enum ms_status held_freeze(struct held *held, pid_t pid);

/* The same with a time limit, milliseconds. */
enum ms_status held_freeze_within(struct held *held, pid_t pid, unsigned limit_ms);

/* The same, ready to be cloned by held_clone(). */
enum ms_status held_freeze_to_clone(struct held *held, pid_t pid);
enum ms_status held_clone(struct held *held);

/* From now on call @body between what is learnt of a process and its freeze. */
void held_call_between(void (*body)(pid_t pid));

/* From now on take @code of every process for malloc's, beside what is. */
void held_claim_malloc(struct ms_range code);

/* From now on take, or not, no code for such as registers signal stacks. */
void held_hide_signal_stacks(bool hide);

/* From now on lead threads out of malloc for so long, not as long as it takes. */
void held_lead_for(unsigned ms);

/*
 * Freeze, clone and let go: the source lives until held_end(). Returns what failed, with
 * all given back.
 */
enum ms_status held_fork(struct held *held, pid_t pid, struct ms_source **ret);
void held_end(struct held *held);

/* Ask for the release, wait for the collection process, and give everything back. */
enum ms_status held_release(struct held *held);

#endif
