/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_FIT_H
#define MS_TARGET_FIT_H

/* Whether a stopped thread can be made to execute calls of ours, and to return from them. */

#include "target/arch/arch.h"
#include "target/clone/inject.h"
#include "target/clone/seccomp.h"
#include "target/freeze/freeze.h"

/* @call as a filter of the thread is asked about it. */
struct ms_wanted_call ms_fit_wanted(const struct ms_injection *in, const char *name,
                                    struct ms_call call);

/*
 * Refuse what would make these calls, or a return to the frame, fail.
 *
 * @calls: n of them; @room: overwritten
 *
 * Returns MS_E_UNSUPPORTED or MS_E_DENIED with the reason; MS_E_GONE.
 */
ms_must_check enum ms_status ms_fit_check(const struct ms_injection *in,
                                          const struct ms_wanted_call *calls, size_t n,
                                          union ms_seccomp_room *room, struct ms_error *err);

/* The refusal of a thread whose first call has shown that its calls are dispatched. */
enum ms_status ms_fit_dispatched(struct ms_error *err);

/*
 * Which signals to block while the thread makes calls: all, but SIGSYS where only a call shows
 * whether it is dispatched. The kernel takes the handler of a blocked SIGSYS away.
 */
uint64_t ms_fit_blocked(pid_t tid);

/*
 * Forget the gadgets of the frozen target when they are not where they were found: that was
 * before it stood, and their place may be another's by now, or unmapped.
 */
void ms_fit_check_gadgets(const struct ms_freezer *freezer);

/*
 * Inside a restartable sequence, which a detour would break unseen. Before Linux 5.13 the kernel
 * does not say, and every thread is taken to be in one. A thread in a system call never is, and
 * need not be asked.
 */
bool ms_fit_is_in_sequence(pid_t tid);

#endif
