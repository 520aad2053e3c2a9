/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_CLOCK_H
#define MS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ms_clock_ns(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Nanoseconds for measuring; no relation to the wall clock. */
static inline uint64_t ms_now_ns(void)
{
	return ms_clock_ns(CLOCK_MONOTONIC);
}

/* A signal may end it early. */
static inline void ms_sleep_ns(uint64_t ns)
{
	const struct timespec span = { (time_t)(ns / UINT64_C(1000000000)),
		                       (long)(ns % UINT64_C(1000000000)) };

	(void)nanosleep(&span, NULL);
}

#endif
