/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_SWEEPER_H
#define MS_CLI_SWEEPER_H

/*
 * The sweeper process: has the target frozen, holds its memory, lets it go, and sweeps what
 * it holds (scan/sweep.h).
 */

#include <stdatomic.h>

#include "engine/report.h"
#include "engine/scan.h"
#include "target/dump/dump.h"
#include "target/snapshot.h"

enum ms_stage {
	MS_STAGE_PREPARE,
	MS_STAGE_FREEZE,  /* waits for the collection process */
	MS_STAGE_HOLD,    /* the target is frozen and being cloned or copied */
	MS_STAGE_RELEASE, /* waits for the collection process */
	MS_STAGE_LAYOUT,  /* the target runs again; which pages are held is read */
	MS_STAGE_SEARCH,
	MS_STAGE_SEND,
	MS_STAGES
};

/* How far the sweeper is, in memory that the original sees. */
struct ms_watch {
	_Atomic uint32_t stage;
	_Atomic uint64_t since_ns; /* ms_now_ns() when the stage began */
	struct ms_report report;   /* as it grows; all but its scan.phase_ns is the sweeper's own */
};

struct ms_sweep {
	struct ms_collection *shared;
	const struct ms_scan_options *options;
	unsigned jobs; /* threads to search with */
	enum ms_snapshot_how how;
	const char *refusal; /* why the target was not cloned when that was tried; or NULL */
	struct ms_watch *watch;
	const struct ms_dump_order *dump; /* to be written in place of a search; or NULL */
	pid_t parent;                     /* with which it ends */
	struct ms_transit *transit;       /* started (target/transit/transit.h); or NULL */
	int channel;                      /* to the collection process; or -1 */
	int report;                       /* where the report is written */
	int judge; /* where somebody answers which stacks to suppress (report/wire.h); or -1 */
	int book;  /* where somebody answers what types there are; or -1 */
};

/*
 * Have @options ask who is at the other end of the channel *@judge which stacks to suppress, of
 * *@book what types there are; -1: nobody. Both are borrowed.
 */
void ms_sweep_let_ask(struct ms_scan_options *options, int *judge, int *book);

/*
 * Debug information says what lives: of leaks, which nothing points to, it says nothing, so
 * that a plain scan need not wait for it.
 */
static inline bool ms_sweep_wants_types(const struct ms_scan_options *options)
{
	return options->question.kind || options->heap;
}

/* Be the sweeper; _exit() with the result, 0 when the original has got everything. */
int ms_sweep_serve(const struct ms_sweep *sweep);

/* The same of a target that stands all the time; there is no channel then. */
int ms_sweep_serve_standing(const struct ms_sweep *sweep);

#endif
