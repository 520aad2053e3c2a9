/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FREELOG_LOG_H
#define FREELOG_LOG_H

/*
 * What is in a log of malloc and free: records one after another, in an order in which
 * those of one address are as they happened. The file is long and mostly hole; a record
 * of zeros was not written.
 *
 * Every word is inverted, so that a log that is mapped keeps no block alive.
 */

#include <stdint.h>

enum log_event {
	LOG_GIVEN = 1, /* by malloc and its kin; after the fact */
	LOG_FREED,     /* before the fact */
	LOG_RESIZED,   /* by realloc: this address ends here; before the fact */
	LOG_BEGUN,     /* of no address: a log's first; what a child by fork was left is older */
};

struct log_record {
	uint64_t time;    /* CLOCK_MONOTONIC, in nanoseconds */
	uint64_t address; /* what the program was given */
	uint64_t what;    /* bytes that were asked for, and the event in the top byte */
	uint64_t caller;  /* where it returns to */
};

enum { LOG_EVENT_SHIFT = 56, LOG_NOWHERE = 1 };

#endif
