/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_CODES_H
#define MS_SYM_CODES_H

/*
 * The files of a process that was scanned, which runs on or has ended meanwhile: by their
 * mapping, which is the file whatever became of its name; by name in the process's root;
 * by name in ours. A file that is not the one that was mapped at the scan is not opened.
 *
 * They may be anything: call this in a process that may die of it.
 */

#include "sym/files.h"

struct ms_codes_call {
	pid_t tid;                /* a living thread of the process; 0: there is none any more */
	const char *debug_folder; /* where separate debug information is, too; or NULL */
	bool debuginfod;          /* the servers of DEBUGINFOD_URLS are asked, too */
};

/* Why a file is not opened. */
enum ms_code_state { MS_CODE_OPEN, MS_CODE_ABSENT, MS_CODE_CHANGED, MS_CODE_NO_ELF };

/* Open what @code shows. @ret: set when the answer is MS_CODE_OPEN; lives in @arena */
enum ms_code_state ms_code_open(const struct ms_codes_call *call, const struct ms_code *code,
                                struct ms_arena *arena, struct ms_symbol_file **ret);

#endif
