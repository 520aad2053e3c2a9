/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_WIRE_H
#define MS_REPORT_WIRE_H

/*
 * A report as bytes on a pipe, from the sweeper to the original.
 *
 * The sweeper has read hostile memory, so its bytes are hostile as well: the
 * reader bounds every count, ends every string and refuses what does not fit.
 * Both ends are the same build: structs travel as they are.
 *
 *	magic, version │ outcome: struct ms_error │ fixed part of the report │ for each
 *	vector: count (u64), entries
 *
 * A failure ends after its outcome. Before it the sweeper may ask which stacks match a
 * suppression, and the answer goes the other way:
 *
 *	magic of a question, version │ the vectors stacks, pcs, code
 *	outcome: struct ms_error │ unless that is a failure: a number (u32) for each stack
 *
 * It may also ask for the types of modules, which are the code:
 *
 *	magic of that question, version │ the vectors stacks, pcs, code
 *	outcome: struct ms_error │ unless that is a failure: a type book (report/book/book.h)
 */

#include "base/status.h"
#include "engine/report.h"

struct ms_book;

/* Move exactly @len bytes; false on end of file or error. */
typedef bool (*ms_wire_put)(void *ctx, const void *bytes, size_t len);
typedef bool (*ms_wire_get)(void *ctx, void *bytes, size_t len);

/* One end of a channel on which there are questions as well. */
struct ms_wire_link {
	ms_wire_get get;
	ms_wire_put put;
	void *ctx; /* of both */
	/* What answers, as ms_scan_options.judge does; at the receiving end alone. */
	bool (*judge)(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
	              struct ms_error *err);
	void *judge_ctx;
	/* The same of the types of asked->code's modules, as ms_scan_options.book does. */
	bool (*book)(void *ctx, const struct ms_report *asked, struct ms_arena *arena,
	             struct ms_book *ret, struct ms_error *err);
	void *book_ctx;
};

enum { MS_WIRE_QUESTIONS = 8 };

/* Send @report, or, when error->status is not MS_OK, the failure alone. */
bool ms_wire_send(ms_wire_put put, void *ctx, const struct ms_error *error,
                  const struct ms_report *report);

/*
 * Receive what ms_wire_send() sent.
 *
 * Returns MS_OK with @ret filled (vectors in @arena); the sender's failure with
 * its text in @err; MS_E_DIED when the bytes end early; MS_E_CORRUPT when they
 * make no sense; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_wire_receive(ms_wire_get get, void *ctx, struct ms_arena *arena,
                                             struct ms_report *ret, struct ms_error *err);

/* The same, and answer what is asked before; more than MS_WIRE_QUESTIONS make no sense. */
ms_must_check enum ms_status ms_wire_serve(const struct ms_wire_link *link, struct ms_arena *arena,
                                           struct ms_report *ret, struct ms_error *err);

/*
 * Ask which suppression each of @asked's stacks matches, and wait for the answer.
 *
 * @verdicts: out; one for each stack: a suppression's number from 1 on, or 0
 *
 * False with the reason in @err.
 */
bool ms_wire_ask(const struct ms_wire_link *link, const struct ms_report *asked, uint32_t *verdicts,
                 struct ms_error *err);

/* Ask for the types of @asked's code. False with the reason in @err, and there is no answer. */
bool ms_wire_ask_book(const struct ms_wire_link *link, const struct ms_report *asked,
                      struct ms_error *err);

/*
 * Wait for the answer to ms_wire_ask_book() of @asked.
 *
 * @ret: out; in @arena, every entry in bounds
 *
 * False with the reason in @err.
 */
bool ms_wire_hear_book(const struct ms_wire_link *link, const struct ms_report *asked,
                       struct ms_arena *arena, struct ms_book *ret, struct ms_error *err);

#endif
