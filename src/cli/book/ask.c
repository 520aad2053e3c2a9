/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "cli/book/book.h"
#include "report/book/book.h"

/* What is read by then is the book. */
enum { READ_S = 40, LIMIT_S = 60, ASK_SERVERS_S = 600, MOST_TRIES = 4 };

static const uint64_t second_ns = UINT64_C(1000000000);

/* What comes from the worker, which may be the target's by now: nothing is believed. */
struct asking {
	const struct ms_naming *naming;
	struct ms_book_job job;
	struct ms_arena *arena;
	struct ms_opener opener;
	pid_t tid; /* a living thread of the process; 0: there is none any more */
	struct ms_worker worker;
	uint32_t module; /* that it began with last; the code's number of entries: none */
};

static bool get(void *ctx, void *bytes, size_t len)
{
	struct asking *a = ctx;
	char *at = bytes;

	while (len > 0) {
		ssize_t n = ms_worker_read(&a->worker, at, len);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* Up to the book; false when it ended before. */
static bool hear_files(struct asking *a)
{
	struct ms_book_record record;
	uint64_t n = 0;

	a->module = (uint32_t)a->job.code->n;
	while (get(a, &record, sizeof(record)) && n++ <= a->job.code->n) {
		if (record.said == MS_BOOK_FOLLOWS)
			return true;
		if (record.said != MS_BOOK_BEGINS || record.module >= a->job.code->n)
			return false;
		a->module = record.module;
	}
	return false;
}

static uint64_t limit_ns(const struct asking *a)
{
	uint64_t most_ns = (a->naming->debuginfod ? ASK_SERVERS_S : LIMIT_S) * second_ns;
	uint64_t now_ns = ms_now_ns();

	if (!a->naming->deadline_ns || now_ns + most_ns < a->naming->deadline_ns)
		return most_ns;
	return now_ns < a->naming->deadline_ns ? a->naming->deadline_ns - now_ns : 0;
}

/* One worker. @ret_died: it did, or made no sense; else @ret is filled. */
static enum ms_status try_once(struct asking *a, struct ms_book *ret, bool *ret_died,
                               struct ms_error *err)
{
	const struct ms_wire_link link = { .get = get, .ctx = a };
	struct ms_worker_call call = {
		.title = "memscan-types",
		.work = ms_book_work,
		.ctx = &a->job,
		.limit_ns = limit_ns(a),
		.opener = &a->opener,
		.keep = -1,
		.held = { a->arena },
	};
	enum ms_status st;

	a->job.limit_ns = call.limit_ns / LIMIT_S * READ_S;
	ms_worker_take_ids(a->tid, &call);
	st = ms_worker_start(&call, &a->worker, err);
	if (st)
		return st;
	*ret_died = !hear_files(a) ||
	            ms_book_receive(&link, a->job.code->n, a->arena, ret, err) != MS_OK;
	(void)ms_worker_end(&a->worker, !*ret_died);
	return MS_OK;
}

/* Leave out what the last one died of; false when that is not known. */
static bool leave_out(struct asking *a, struct ms_notes *warnings)
{
	if (a->module >= a->job.code->n || a->job.left_out[a->module])
		return false;
	a->job.left_out[a->module] = true;
	ms_note_add(a->arena, warnings,
	            "types of %.80s are not known: the process that read its debug information "
	            "did not finish",
	            a->job.code->at[a->module].name);
	return true;
}

static enum ms_status ask(struct asking *a, struct ms_book *ret, struct ms_error *err)
{
	struct ms_notes warnings = { 0 };
	const struct ms_note *note;
	bool died = true;

	for (int tries = 0; died && tries < MOST_TRIES; tries++) {
		enum ms_status st = try_once(a, ret, &died, err);

		if (st)
			return st;
		if (died && !leave_out(a, &warnings))
			break;
	}
	if (died)
		memset(ret, 0, sizeof(*ret));
	ms_vec_for_each (note, &warnings)
		ms_note_add(a->arena, &ret->warnings, "%s", note->text);
	if (died && !warnings.n)
		return ms_fail(err, MS_E_DIED, "the process that reads it ended");
	return MS_OK;
}

bool ms_book_ask(const struct ms_naming *naming, const struct ms_report *asked,
                 struct ms_arena *arena, struct ms_book *ret, struct ms_error *err)
{
	struct asking *a = ms_arena_alloc(arena, sizeof(*a));

	if (a)
		a->job.left_out = ms_arena_alloc(arena, asked->code.n + 1);
	if (!a || !a->job.left_out) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for types");
		return false;
	}
	a->naming = naming;
	a->job.code = &asked->code;
	a->arena = arena;
	a->tid = ms_naming_opener(naming, &asked->code, &a->opener);
	return ask(a, ret, err) == MS_OK;
}
