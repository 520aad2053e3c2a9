/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CONTROL_H
#define MS_TARGET_CONTROL_H

/*
 * What the agent has and knows of a thread, by the C library: which bytes of the thread's
 * control block nobody else uses, and where in it the thread's stack is.
 *
 * To add a C library, or other versions of one: prove from its source that no code of it reads
 * or writes the bytes (that a new thread's are zero, or a copy of its maker's), add a row, and
 * recognize the block in ms_control_check().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ms_control {
	const char *name;   /* of the C library */
	uint32_t left;      /* a word: how many bytes there are to the next sample */
	uint32_t started;   /* a byte: whether that word has been drawn */
	uint32_t spare_end; /* beyond @left's word, as many more words are zero as end here */
	uint32_t stack;     /* where its stack begins, and behind that its size; 0: unknown */
};

extern const struct ms_control ms_control_glibc, ms_control_musl;

enum { MS_CONTROL_BYTES = 0xa0 }; /* of a block are looked at */

enum ms_control_verdict {
	MS_CONTROL_FREE,
	MS_CONTROL_MOVING,  /* the same, of a thread that may be about to begin or to end */
	MS_CONTROL_UNKNOWN, /* it is no control block of that C library */
	MS_CONTROL_USED,    /* another tool uses what is free in it */
};

/*
 * Look at the block at @tp, whose first bytes are @words.
 *
 * @agent_was: an agent is there, and uses it
 */
enum ms_control_verdict ms_control_check(const struct ms_control *control, uint64_t tp,
                                         const uint64_t words[MS_CONTROL_BYTES / 8],
                                         bool agent_was);

/*
 * Whether instructions of @text may use the agent's bytes: they name their distance from the
 * thread pointer. The code of all of a program is its proof where no version is known.
 */
bool ms_control_is_named(const struct ms_control *control, const uint8_t *text, size_t n);

#endif
