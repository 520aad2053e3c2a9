/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_PATCH_H
#define MS_TARGET_PATCH_H

/*
 * Putting the jumps in, and taking them out, while every thread stands.
 *
 * Each jump is written by one write that nobody can break off, and between any two of them
 * the program is correct: who is killed in between leaves some functions diverted. What may
 * free a block is diverted before the functions that make blocks, and given back after them, so
 * that no block that was sampled is freed unseen.
 */

#include "target/freeze/freeze.h"
#include "target/inject/functions.h"
#include "target/inject/gap.h"
#include "target/inject/stopped/blocks.h"
#include "target/inject/stopped/words.h"

/* Functions, and what stands for each in the agent's text. */
struct ms_patch {
	pid_t pid;
	int mem_fd; /* of its memory, to read and write */
	const struct ms_malloc_functions *functions;
	ms_addr text; /* the agent's; 0: there is none yet */
	struct ms_agent_head head;
	struct ms_moved moved[MS_AGENT_N];
	uint8_t slots[MS_AGENT_N][MS_AGENT_SLOT_BYTES];
	struct ms_words_search words;
	struct ms_control_blocks blocks; /* read by who asks below for what they say */
};

/* Make the slots for an agent at patch->text. MS_E_UNSUPPORTED when something is out of reach. */
ms_must_check enum ms_status ms_patch_prepare(struct ms_patch *patch, struct ms_error *err);

/* How many functions are diverted to the agent now, and whether another tool has changed one. */
struct ms_patch_state {
	unsigned n_found; /* that have a place */
	unsigned n_ours;
	bool frees;          /* what may free a block is among these */
	const char *foreign; /* the first that someone else has changed; NULL: none */
};
struct ms_patch_state ms_patch_look(const struct ms_patch *patch);

/* The same as a refusal: MS_E_UNSUPPORTED when someone else has changed one. */
ms_must_check enum ms_status ms_patch_check(const struct ms_patch *patch, struct ms_error *err);

/* MS_E_BUSY or MS_E_DENIED when a thread does not stand: nothing may be written then. */
ms_must_check enum ms_status ms_patch_check_stand(const struct ms_freezer *frozen,
                                                  struct ms_error *err);

/*
 * MS_E_UNSUPPORTED when a thread has no control block of the C library's, or one whose spare words
 * are in use.
 *
 * @agent_was: an agent is there already, which uses two of these words
 */
ms_must_check enum ms_status ms_patch_check_blocks(const struct ms_patch *patch,
                                                   const struct ms_freezer *frozen, bool agent_was,
                                                   struct ms_error *err);

/*
 * Look through the stacks as far as that can be done before the threads stand, and prepare for the
 * others here. As ms_words_prepare(); patch->words is to be given to ms_words_end().
 */
ms_must_check enum ms_status ms_patch_look_ahead(struct ms_patch *patch, uint32_t max_threads,
                                                 struct ms_arena *arena, struct ms_error *err);

/* Whether a thread, @ret, stands in the agent or will come back to it. */
enum ms_words_verdict ms_patch_inside(struct ms_patch *patch, const struct ms_collection *frozen,
                                      pid_t *ret);

/* The refusal when the stacks cannot be looked through in time: MS_E_BUSY. */
enum ms_status ms_patch_fail_stacks(const struct ms_patch *patch, struct ms_error *err);

/*
 * Divert all that is not diverted yet. MS_E_BUSY, with nothing changed, when a thread will come
 * back to where a jump would be, or may do so: try again.
 *
 * @ret_unknown: written when it may: patch->words has no answer
 */
ms_must_check enum ms_status ms_patch_divert(struct ms_patch *patch,
                                             const struct ms_freezer *frozen, bool *ret_unknown,
                                             struct ms_error *err);

/*
 * Give every function back what it had. Threads that are in the agent's text and have not begun
 * anything there are led back.
 */
ms_must_check enum ms_status ms_patch_restore(const struct ms_patch *patch,
                                              const struct ms_freezer *frozen,
                                              struct ms_error *err);

/* Threads count from zero. */
void ms_patch_zero_counts(const struct ms_patch *patch, const struct ms_collection *frozen);

/* Where in threads' control blocks their stacks are; 0 when that is not what they say. */
uint64_t ms_patch_stackblock(const struct ms_patch *patch, const struct ms_collection *frozen);

/* Write to code, though it may not be written to by the process. @tid: stopped, and traced by us.
 */
bool ms_code_write(int mem_fd, pid_t tid, ms_addr at, const void *bytes, size_t len);

#endif
