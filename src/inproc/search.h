/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_SEARCH_H
#define MS_INPROC_SEARCH_H

/*
 * A program's search of itself, by three processes:
 *
 *	original    the program. Its calling thread waits, all others run on
 *	collection  shares its memory (companion.h): freezes it, forks the sweeper, lets it
 *	            go; then waits for the report
 *	sweeper     that fork: searches its own memory, which is the program's as it was
 */

#include "engine/report.h"
#include "engine/scan.h"
#include "inproc/companion.h"
#include "inproc/names/naming.h"
#include "inproc/suppress.h"
#include "scan/service.h"
#include "target/collection.h"

struct ms_search {
	struct ms_scan_options options; /* limit, contents, question */
	bool merged;                    /* leaks of one signature, not of one stack alone */
	int32_t asker;                  /* the thread whose question options has; 0: none */
	bool logged;                    /* log what is going on */
	struct ms_suppress_sources suppressed;
	unsigned limit_s; /* the sweeper is ended after this; 0: never */

	/* Called in the collection process with what came out; sees this struct. */
	void (*done)(struct ms_search *search);
	void *ctx;

	/* what came out */
	enum ms_status st;
	struct ms_error err;
	struct ms_report report;
	struct ms_arena report_arena; /* to be released by the program, as the next is */
	struct ms_arena arena;

	/* while it goes on */
	struct ms_service service;
	struct ms_suppressions suppressions;
	struct ms_names_judge judging; /* in the sweeper */
	const struct ms_companion *process;
	struct ms_collection *shared;
	struct ms_source *src;
	struct ms_ranges own; /* what in this memory is not the program's */
	int pipe[2];
	pid_t sweeper;
};

/* What this process runs under that leaves no room for a search, or NULL. */
const char *ms_search_other_checker(void);

/*
 * One search of process @program at a time: to be held around the start, the end and the
 * result. Returns false when this thread holds it already.
 */
bool ms_search_enter(pid_t program);
void ms_search_leave(void);

/* Search, several times if need be. In the collection process; @ctx is a struct ms_search. */
void ms_search_run(void *ctx);

/* Release what came out, or what a collection process that was killed has left. */
void ms_search_release(struct ms_search *search);

/* Be the sweeper: hold what is there, let the program go, search, send the report. */
int ms_search_sweep(void *ctx, int channel);

#endif
