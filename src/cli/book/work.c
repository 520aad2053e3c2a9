/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/book/book.h"
#include "engine/modules.h"
#include "report/book/book.h"
#include "sym/codes.h"
#include "sym/types/types.h"

struct work {
	const struct ms_book_job *job;
	const struct ms_finder *finder;
	FILE *to;
	struct ms_arena arena;
	struct ms_type_reader *reader;
	bool is_full;
};

static bool put(void *ctx, const void *bytes, size_t len)
{
	return fwrite(bytes, 1, len, ctx) == len;
}

/* The end of a long path, lest it pushes out what else a line has to say. */
static const char *end_of_path(const char *path)
{
	enum { SHOWN = 70 };
	size_t len = strlen(path);

	return len > SHOWN ? path + len - SHOWN : path;
}

static void warn(struct work *w, const char *path, const char *why)
{
	struct ms_book *book = ms_type_reader_book(w->reader);

	if (book->warnings.n < MS_BOOK_WARNINGS)
		ms_note_add(&w->arena, &book->warnings, "types of %s %s", end_of_path(path), why);
}

static void read_file(struct work *w, uint32_t module)
{
	const struct ms_code *code = &w->job->code->at[module];
	struct ms_symbol_file *file = NULL;
	const struct ms_debug *debug;
	enum ms_types_read read;

	switch (ms_code_open(w->job->code, module, w->finder, &w->arena, &file)) {
	case MS_CODE_OPEN:
		break;
	case MS_CODE_TOO_LARGE:
		warn(w, code->name, "are not known: it takes too much memory");
		return;
	case MS_CODE_CHANGED:
		warn(w, code->name, "are not known: it is another build than was mapped");
		return;
	/* Most files have no types: only of those that could have is anything said. */
	case MS_CODE_ABSENT:
	case MS_CODE_NO_ELF:
		return;
	}
	read = ms_type_reader_add(w->reader, file, module);
	debug = ms_symbol_file_debug(file);
	if (read == MS_TYPES_NONE && debug->refused)
		warn(w, code->name,
		     debug->too_large ? "are not known: its debug file takes too much memory"
		                      : "are not known: its debug file is of another build");
	if (read == MS_TYPES_TOO_MANY)
		warn(w, code->name,
		     "are not all known: there are too many for the time and "
		     "memory that is given to them");
	w->is_full = read == MS_TYPES_TOO_MANY;
	ms_symbol_file_close(file);
}

/* The first mapping of a file says where all of it is. */
static bool is_wanted(const struct ms_book_job *job, uint32_t module)
{
	const struct ms_code *code = &job->code->at[module];

	return !job->left_out[module] && code->inode && code->has_bias &&
	       ms_code_first(job->code, code) == code;
}

int ms_book_work(void *ctx, const struct ms_worker_side *side)
{
	struct work w = { .job = ctx, .finder = side->finder, .to = fdopen(side->fd, "w") };
	const struct ms_book_record follows = { .said = MS_BOOK_FOLLOWS };

	w.reader = ms_type_reader_new(&w.arena, ms_now_ns() + w.job->limit_ns);
	if (!w.to || !w.reader)
		return 1;
	for (uint32_t i = 0; i < w.job->code->n && !w.is_full; i++) {
		const struct ms_book_record begins = { MS_BOOK_BEGINS, i };

		if (!is_wanted(w.job, i))
			continue;
		/* Should it die of this file, then others are read without. */
		if (!put(w.to, &begins, sizeof(begins)) || fflush(w.to) != 0)
			return 1;
		read_file(&w, i);
	}
	if (!put(w.to, &follows, sizeof(follows)) ||
	    !ms_book_send(put, w.to, ms_type_reader_book(w.reader)))
		return 1;
	/* Everything else goes with the process. */
	return fclose(w.to) == 0 ? 0 : 1;
}
