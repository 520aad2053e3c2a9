/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_BOOK_H
#define MS_CLI_BOOK_H

/*
 * The type book of a process that was scanned, made in a process of its own: when that dies
 * of a file, or hangs, the types of this file alone are missing.
 *
 *	ask.c    the original: starts it, and goes on without what it died of
 *	work.c   the worker: file by file, a record that it begins; then the book
 */

#include "cli/scan/naming.h"
#include "cli/worker.h"
#include "engine/names/fields/book.h"

/*
 * Give the types of @asked's code, in @arena; for ms_scan_options.book.
 *
 * @asked: its code is filled; from the sweeper, but in bounds
 *
 * False with the reason in @err.
 */
bool ms_book_ask(const struct ms_naming *naming, const struct ms_report *asked,
                 struct ms_arena *arena, struct ms_book *ret, struct ms_error *err);

/* ---- between these files ---- */

enum ms_book_said { MS_BOOK_BEGINS, MS_BOOK_FOLLOWS, MS_BOOK_SAIDS };

struct ms_book_record {
	uint32_t said;   /* enum ms_book_said: it begins with a file, or the book follows */
	uint32_t module; /* an index in the code */
};

struct ms_book_job {
	const struct ms_codes *code;
	bool *left_out;    /* of each entry of code */
	uint64_t limit_ns; /* it is to be ready after that */
};

/* What the process does: ms_worker_call.work, with a struct ms_book_job for @ctx. */
int ms_book_work(void *ctx, const struct ms_worker_side *side);

#endif
