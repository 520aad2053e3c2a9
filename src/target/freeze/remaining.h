/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_REMAINING_H
#define MS_TARGET_REMAINING_H

/*
 * What is left of a time-out. Knows no thread and no system call.
 *
 * A call that is given back carries its deadline with it as a mark (arch.h), in
 * milliseconds of the monotonic clock: the next scan, by whatever process, goes on
 * from there, and nothing is lost or gained by rounding from scan to scan.
 */

#include <stdint.h>

struct ms_waiting {
	uint64_t timeout_ns; /* with which the call was made last */
	uint64_t since_ns;   /* when it was made, or later; 0: not known */
	uint32_t mark;       /* that it was given back with; 0: none */
};

/*
 * Nanoseconds from @now_ns to the deadline, never less; 0: it has passed.
 *
 * @ret_mark: to be given back with; 0: none can say it
 */
uint64_t ms_remaining(const struct ms_waiting *waiting, uint64_t now_ns, uint32_t *ret_mark);

#endif
