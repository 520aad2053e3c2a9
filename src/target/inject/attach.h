/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ATTACH_H
#define MS_TARGET_ATTACH_H

/*
 * An agent in a running process, that keeps the stacks of some of its allocations.
 *
 *	helper                            a process for each stop (memscan-attach)
 *	finds functions, room        ──▶  one thread maps the agent's text and data; both are
 *	                                  filled, and the thread goes on
 *	                             ──▶  all threads stand: the jumps are written
 *
 * and back: all stand, the jumps are taken out, and if no thread is in the agent, one gives its
 * memory back. A helper of the original (memscan-inject, target/helper.h) reads the process's
 * memory and its files' tables, within the time limit; a process that traces the target reads
 * registers, stacks and the agent's own data, and lives for one stop. At each
 * moment all of memscan may be killed: the process is correct then, with no, some or all of its
 * functions diverted, which another attach completes and detach takes back.
 */

#include <stdatomic.h>

#include "base/arena.h"
#include "base/status.h"
#include "target/inject/functions.h"

enum { MS_ATTACH_MOST_LOOKS = 200 };

/* What is there, and what became of it. Of its functions, places and control are not given. */
struct ms_attached {
	bool mapped;          /* there is an agent */
	bool begun;           /* memory for one, by an attach that was killed */
	bool kept;            /* its memory was not given back: a thread is in it yet */
	bool unknown;         /* or may be: stacks were not looked through in time */
	unsigned n_unknown;   /* how often */
	bool reused;          /* it was there, from an earlier attach */
	unsigned n_functions; /* that have a place */
	bool is_open;         /* samples are there to be read */
	unsigned n_diverted;  /* to it */
	unsigned n_looks;     /* how often all threads were stopped */
	uint64_t map_ns;      /* that one thread stood */
	uint64_t pause_ns;    /* that all threads stood, the longest */
	uint64_t interval, n_samples, n_dropped, n_live;
	pid_t inside; /* the thread that it is kept for */
	struct ms_malloc_functions functions;
};

struct ms_attach_call {
	pid_t pid;
	uint64_t interval;     /* bytes from sample to sample */
	uint64_t timeout_ns;   /* for a stop of all threads, and for trying again */
	uint64_t begun_ns;     /* when that began to pass */
	atomic_bool *changing; /* set once something is changed; NULL: nobody asks */
};

/*
 * Bring the agent in. MS_E_UNSUPPORTED, MS_E_DENIED, MS_E_BUSY or MS_E_GONE with the reason and
 * what to do; then nothing is left in the process but, at times, memory that nobody uses.
 * MS_E_TIMEOUT within 2 s of the time limit; MS_E_DIED within 1 s of a signal that is held back
 * (base/ending.h) and is to end us. In both cases the process may be attached in part.
 */
ms_must_check enum ms_status ms_attach(const struct ms_attach_call *call, struct ms_arena *arena,
                                       struct ms_attached *ret, struct ms_error *err);

/* Take it out, the same way. Not attached: MS_OK, with ret->mapped unset and nothing diverted. */
ms_must_check enum ms_status ms_detach(const struct ms_attach_call *call, struct ms_arena *arena,
                                       struct ms_attached *ret, struct ms_error *err);

/* Look, without a stop. */
ms_must_check enum ms_status ms_attach_status(const struct ms_attach_call *call,
                                              struct ms_arena *arena, struct ms_attached *ret,
                                              struct ms_error *err);

#endif
