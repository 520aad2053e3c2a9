/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TEST_DIVERTED_H
#define MS_TEST_DIVERTED_H

/*
 * The agent in the test's own process: what attach does to another one, without a freeze,
 * as long as there is one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/inject/agent/agent.h"
#include "target/inject/place.h"

struct diverted {
	uint8_t *text;
	struct ms_agent_data *data;
	struct {
		struct ms_place place; /* entry 0: the same function as one before */
	} functions[MS_AGENT_OF_LIBC];
};

/* The C library's own functions, whatever stands in front of them. */
struct libc {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
};

void libc_find(struct libc *ret);

/* Map the agent, and divert every function. Ends the process when that is impossible. */
void diverted_put(struct diverted *ret, uint64_t interval);

/*
 * Map the agent alone, nothing diverted: hooks are called by the test, and lead to functions
 * of its own in the C library's place. @libc: of them, those that are not NULL.
 */
void diverted_map(struct diverted *ret, uint64_t interval, const struct libc *libc);

/* The hooks themselves, to be called. */
void diverted_hooks(const struct diverted *diverted, struct libc *ret);

/* Undo it, and do it again with an empty table; there must be no thread but this one. */
void diverted_take_out(struct diverted *diverted);
void diverted_put_back(struct diverted *diverted);

/* The record of a block; NULL when it is in none. */
const struct ms_agent_record *diverted_find(const struct diverted *diverted, const void *block);

/* How many blocks are in the table. */
size_t diverted_live(const struct diverted *diverted);

#endif
