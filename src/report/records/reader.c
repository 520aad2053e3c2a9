/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bytes become lines. A line is whole when its end is there: what is left at the end of the
 * file was cut off, and could be read for something else (an address, shortened), so that it
 * is ignored with a warning. Anything else that is no record is damage.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "report/records/recording.h"

enum { QUOTED = 60, MOST_NAME = 70 };

static const char record_again[] =
	"give a whole file that Malloc Debug's option record_allocs wrote";

static enum ms_status no_memory(const struct ms_recording_reader *reader, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_NOMEM, "no memory for the recording %.90s", reader->file);
	ms_advise(err, "it needs some 100 bytes for each block that is live at one time");
	return MS_E_NOMEM;
}

static enum ms_status __attribute__((format(printf, 2, 3)))
warn(struct ms_recording_reader *reader, const char *fmt, ...)
{
	char what[MS_ERROR_TEXT];
	const char **slot;
	va_list ap;

	if (reader->recording->warnings.n == MS_RECORDING_MOST_WARNINGS)
		return MS_OK;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	slot = ms_vec_push(reader->arena, &reader->recording->warnings);
	if (!slot)
		return MS_E_NOMEM;
	*slot = ms_arena_strndup(reader->arena, what, sizeof(what));
	return *slot ? MS_OK : MS_E_NOMEM;
}

struct line {
	const char *at;
	size_t len;
};

/* Android's words, and what should have been there. */
static enum ms_status unreadable(const struct ms_recording_reader *reader, struct line line,
                                 enum ms_operation_problem problem, enum ms_operation_kind kind,
                                 struct ms_error *err)
{
	static const char dump[] = "Android Native Heap Dump";
	const char *what = "process line";
	char data[32];

	if (problem == MS_OP_NO_DATA) {
		(void)snprintf(data, sizeof(data), "read %s data", ms_operation_name(kind));
		what = data;
	} else if (problem == MS_OP_NO_TIMES) {
		what = kind == MS_OP_THREAD_DONE ? "read thread_done end time" : "read timestamps";
	}
	(void)ms_fail(err, MS_E_CORRUPT, "%s, line %llu: Failed to %s: %.*s%s",
	              ms_file_end(reader->file, MOST_NAME), (unsigned long long)reader->line, what,
	              line.len > QUOTED ? QUOTED : (int)line.len, line.at,
	              line.len > QUOTED ? "..." : "");
	if (line.len >= strlen(dump) && memcmp(line.at, dump, strlen(dump)) == 0)
		ms_advise(err, "this is a heap dump: memscan heapdump reads those");
	else
		ms_advise(err, "expected %s; %s", ms_operation_form(kind), record_again);
	return MS_E_CORRUPT;
}

static enum ms_status take_line(struct ms_recording_reader *reader, struct line line,
                                struct ms_error *err)
{
	enum ms_operation_problem problem;
	struct ms_operation op;
	enum ms_status st;

	reader->line++;
	/* Files that came over adb may have two of them. */
	while (line.len && line.at[line.len - 1] == '\r')
		line.len--;
	if (!line.len)
		return MS_OK;
	problem = ms_operation_read(line.at, line.len, &op);
	if (problem != MS_OP_READ)
		return unreadable(reader, line, problem, op.kind, err);
	st = ms_recording_replay(reader, &op, err);
	if (st == MS_E_NOMEM)
		return no_memory(reader, err);
	if (st)
		ms_advise(err, "line %llu of %.70s; %s", (unsigned long long)reader->line,
		          reader->file, record_again);
	return st;
}

/* Keep the beginning of a line until its end comes. */
static enum ms_status carry(struct ms_recording_reader *reader, const char *bytes, size_t len,
                            struct ms_error *err)
{
	if (len < sizeof(reader->carry) - reader->carried) {
		memcpy(reader->carry + reader->carried, bytes, len);
		reader->carried += len;
		return MS_OK;
	}
	reader->line++;
	(void)ms_fail(err, MS_E_CORRUPT, "%s, line %llu is too long for a recording",
	              ms_file_end(reader->file, MOST_NAME), (unsigned long long)reader->line);
	ms_advise(err, "%s", record_again);
	return MS_E_CORRUPT;
}

/* The line that ends with @len more bytes. */
static enum ms_status take_carried(struct ms_recording_reader *reader, const char *bytes,
                                   size_t len, struct ms_error *err)
{
	enum ms_status st;

	if (!reader->carried)
		return take_line(reader, (struct line){ bytes, len }, err);
	st = carry(reader, bytes, len, err);
	if (st)
		return st;
	len = reader->carried;
	reader->carried = 0;
	return take_line(reader, (struct line){ reader->carry, len }, err);
}

enum ms_status ms_recording_begin(struct ms_recording_reader *reader, struct ms_error *err)
{
	const struct ms_recorded_block *none;

	reader->recording->file = reader->file;
	reader->recording->until = reader->until;
	none = ms_vec_push(reader->arena, &reader->recording->blocks);
	return none ? MS_OK : no_memory(reader, err);
}

enum ms_status ms_recording_feed(struct ms_recording_reader *reader, const char *bytes, size_t len,
                                 struct ms_error *err)
{
	const char *end = bytes + len;
	enum ms_status st = MS_OK;

	while (!st && !reader->stopped && bytes < end) {
		const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));

		if (!newline)
			return carry(reader, bytes, (size_t)(end - bytes), err);
		st = take_carried(reader, bytes, (size_t)(newline - bytes), err);
		bytes = newline + 1;
	}
	return st;
}

enum ms_status ms_recording_end(struct ms_recording_reader *reader, struct ms_error *err)
{
	struct ms_recording *r = reader->recording;

	if (reader->carried && !reader->stopped &&
	    warn(reader, "line %llu was cut off, and is ignored: %.*s",
	         (unsigned long long)reader->line + 1,
	         reader->carried > QUOTED ? QUOTED : (int)reader->carried, reader->carry))
		return no_memory(reader, err);
	ms_recording_settle(reader);
	if (r->timed)
		r->end.ns = r->until.what == MS_UNTIL_NS ? r->until.value : r->last_ns;
	if (reader->seen)
		return MS_OK;
	if (reader->line || reader->carried)
		(void)ms_fail(err, MS_E_CORRUPT, "%.120s has no whole record", reader->file);
	else
		(void)ms_fail(err, MS_E_CORRUPT, "%.120s is empty", reader->file);
	ms_advise(err, "%s", record_again);
	return MS_E_CORRUPT;
}
