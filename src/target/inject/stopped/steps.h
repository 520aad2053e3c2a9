/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_STEPS_H
#define MS_TARGET_STEPS_H

/*
 * What is done to the process while threads of it stand. Each step stops them and lets them go
 * again; what it leaves traced or about to stop goes with the process of memscan that does it,
 * which is to end behind each.
 */

#include "target/inject/attach.h"
#include "target/inject/stopped/patch.h"

/* What a process that stops the target answers; shared memory. */
struct ms_stop_answer {
	struct ms_error err;
	uint64_t pause_ns;
	pid_t inside;
	bool unknown; /* whether a thread is inside: its stack could not be looked through in time
	               */
	bool taken;   /* the place for the agent's memory, by now */
	bool unmapped;
};

struct ms_attaching {
	const struct ms_attach_call *call;
	struct ms_arena *arena;
	struct ms_mappings maps;
	struct ms_collection *shared;
	struct ms_stop_answer *answer;
	struct ms_patch patch;
	int turn; /* of ms_turn_take() */
	struct ms_malloc_functions *functions;
	bool is_again;               /* all was tried before */
	bool loading;                /* or is loading one */
	bool unfinished;             /* another memscan may be at work in it */
	bool was_ended;              /* a signal that ends us had come before */
	bool agent_was;              /* before this attach */
	ms_addr begun;               /* where an agent is that was not mapped to its end; 0: none */
	bool replaced;               /* the process has executed another program meanwhile */
	bool fresh;                  /* its table is new, or has blocks that were freed unseen */
	struct ms_agent_data *table; /* what it is to begin with, up to the records */
};

typedef enum ms_status ms_attach_step(struct ms_attaching *a, struct ms_error *err);

/*
 * Have one thread map the agent at a->patch.text, and write its text; MS_E_BUSY when none stops
 * in time, or when something is there (a->answer->taken).
 *
 * While a->begun is set, have it give back what is there instead (a->answer->unmapped).
 */
ms_attach_step ms_attach_map;

/* Look through stacks before the stop; for the next two, in the same process. */
ms_attach_step ms_attach_look_ahead;

/* Fill its table and divert the functions to it. */
ms_attach_step ms_attach_divert;

/* Give the functions back, and if no thread is in the agent, have one unmap it. */
ms_attach_step ms_attach_take_out;

/* From the begin of a->patch.text on: where the agent's table is. */
static inline ms_addr ms_attach_data(const struct ms_attaching *a)
{
	return a->patch.text + MS_AGENT_TEXT_BYTES;
}

#endif
