/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_TRANSIT_LOOK_H
#define MS_TARGET_TRANSIT_LOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/source.h"

enum { MS_TRANSIT_RECORDS = 1024, MS_TRANSIT_BYTES = 4 << 20 };

/* What was in one pipe, socket or queue; of a queue, one message. */
struct ms_transit_record {
	enum ms_transit_place place;
	int32_t number; /* as in struct ms_transit_word */
	bool behind;    /* there may be more behind it, which cannot be seen */
	bool late;      /* the target ran again */
	uint32_t at;    /* in bytes, a multiple of eight */
	uint32_t len;
};

/* Shared by the helper, which writes, and the sweeper. */
struct ms_transit_found {
	atomic_bool released;  /* by the sweeper: the target does not stand any more */
	atomic_uint n_records; /* those that are complete */
	atomic_uint n_refused; /* pipes, sockets and queues that may not be looked at */
	atomic_int refusal;    /* errno of the last of these */
	atomic_uint n_left;    /* sockets that hold something and were left alone */
	atomic_bool cut;       /* a limit of time, number or bytes was reached */
	struct ms_transit_record records[MS_TRANSIT_RECORDS];
	uint8_t bytes[MS_TRANSIT_BYTES];
};

/* The helper's life; exits with the result. @channel: to the sweeper */
int ms_transit_serve(struct ms_transit_found *found, pid_t pid, int channel);

/*
 * What is said over the channel, in this order. READY: the descriptors were listed; LOOK: the
 * target stands; DONE.
 */
enum { MS_TRANSIT_READY = 'r', MS_TRANSIT_LOOK = 'l', MS_TRANSIT_DONE = 'd' };

/*
 * Add what may be an address among the @record's bytes to @src->transit: all that point to memory
 * in which there can be a heap. Messages are packed as they please, so that a word may begin at
 * any byte. False without memory.
 */
bool ms_transit_add_words(const struct ms_transit_record *record, const uint8_t *bytes,
                          struct ms_source *src, struct ms_arena *arena);

#endif
