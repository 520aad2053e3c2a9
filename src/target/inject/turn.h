/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_TURN_H
#define MS_TARGET_TURN_H

/* Of several memscans that want to change a process, one does at a time: the others wait. */

#include <stdint.h>
#include <sys/types.h>

/*
 * Wait until no other memscan changes process @pid: three seconds at most, and not beyond
 * @deadline_ns. No user can make us wait who may not trace @pid.
 *
 * Returns a descriptor whose close ends the turn, as does the end of the processes that have it;
 * -1 when there is none to be had. That is no refusal: all is asked again while the process stands.
 */
int ms_turn_take(pid_t pid, uint64_t deadline_ns);

#endif
