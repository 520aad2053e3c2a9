/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_NAMING_H
#define MS_CLI_NAMING_H

/*
 * Names for the stacks of a report, in a process of their own (cli/scan/names.h): when it
 * dies of a file, or hangs, the names of that file alone are missing.
 */

#include <sys/types.h>

#include "engine/names/suppressions.h"
#include "engine/report.h"
#include "report/wire.h"
#include "sym/opener.h"

/* Names that were looked for to judge stacks, for the report, which has some of these stacks. */
struct ms_names_book {
	struct ms_arena *arena; /* of the report */
	struct {
		const ms_addr *pcs; /* in order */
		const struct ms_named *names;
		size_t n;
	} known[MS_WIRE_QUESTIONS];
	size_t n;
};

/* Where the files of a core are, of which there is no process. */
struct ms_naming_core {
	const char *root;    /* the folder in which they have their paths; NULL: in ours */
	const char *exe;     /* the program itself; NULL: as the others */
	const char *program; /* how the process had that */
};

struct ms_naming {
	pid_t pid;                         /* the process that was scanned; it may have ended */
	const struct ms_naming_core *core; /* it is not there, but its core; or NULL */
	const char *debug_folder;          /* where separate debug information is, too; or NULL */
	bool debuginfod;                   /* the servers of DEBUGINFOD_URLS are asked, too */
	struct ms_names_book *book;        /* kept by ms_naming_judge(), used by _fill(); or NULL */
	uint64_t deadline_ns; /* ms_now_ns() when it has to be over; 0: none but its own */
};

/*
 * Have @ret open the files of @codes, of the process or for its core. Not to be copied.
 *
 * Returns a living thread of the process; 0: there is none.
 */
pid_t ms_naming_opener(const struct ms_naming *naming, const struct ms_codes *codes,
                       struct ms_opener *ret);

/* The same but for which files there are. */
void ms_naming_core_opener(const struct ms_naming_core *core, struct ms_opener *ret);

/*
 * Name the addresses of @report, of which stacks, pcs and code are looked at.
 *
 * @arena: where names and strings are put
 *
 * What could not be named is noted among the report's warnings.
 * Returns MS_E_NOMEM, and MS_E_SYS when there can be no other process.
 */
ms_must_check enum ms_status ms_naming_fill(const struct ms_naming *naming, struct ms_arena *arena,
                                            struct ms_report *report, struct ms_error *err);

/*
 * Say which of @suppressions each of @asked's stacks matches: the first that matches a
 * name of any of its frames: a function's, mangled or not, a source file's or a module's.
 *
 * @asked:    its stacks, pcs and code are filled; from the sweeper, but in bounds
 * @verdicts: out; for each stack a suppression's number from 1 on, or 0
 *
 * False with the reason in @err.
 */
bool ms_naming_judge(const struct ms_naming *naming, const struct ms_report *asked,
                     const struct ms_suppressions *suppressions, uint32_t *verdicts,
                     struct ms_error *err);

#endif
