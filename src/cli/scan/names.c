/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "engine/modules.h"

struct teller {
	const struct ms_names_job *job;
	const struct ms_finder *finder;
	FILE *to;
	struct ms_arena arena;
	struct ms_map sent; /* the numbers of strings */
	uint32_t n_sent;
};

static bool same_file(const struct ms_code *a, const struct ms_code *b)
{
	return a == b || (a && b && ms_code_same_file(a, b));
}

size_t ms_names_group(const struct ms_names_job *job, size_t i, const struct ms_code **ret_code)
{
	size_t end = i + 1;

	*ret_code = ms_range_find(job->code, job->pcs[i]);
	while (end < job->n && same_file(ms_range_find(job->code, job->pcs[end]), *ret_code))
		end++;
	return end - i;
}

/* ---- telling ---- */

static void put(struct teller *t, const void *bytes, size_t len)
{
	(void)fwrite(bytes, 1, len, t->to);
}

static void put_record(struct teller *t, const struct ms_name_record *record)
{
	put(t, record, sizeof(*record));
}

/* The number of @s, which is sent when it is the first time. */
static uint32_t number_of(struct teller *t, const char *s)
{
	const uint64_t key = (uintptr_t)s;
	uint32_t number = s ? (uint32_t)ms_map_find(&t->sent, key) : 0;
	struct ms_name_record record = { .kind = MS_NAME_STRING };

	if (!s || number)
		return number;
	if (!ms_map_add(&t->sent, &t->arena, key, t->n_sent + 1))
		return 0;
	record.n = (uint32_t)strnlen(s, MS_NAME_LONGEST);
	put_record(t, &record);
	put(t, s, record.n);
	return ++t->n_sent;
}

static void __attribute__((format(printf, 2, 3))) warn(struct teller *t, const char *fmt, ...)
{
	struct ms_name_record record = { .kind = MS_NAME_WARNING };
	char text[MS_NOTE_TEXT];
	const char *kept;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	kept = ms_arena_strndup(&t->arena, text, sizeof(text));
	record.text = number_of(t, kept);
	if (record.text)
		put_record(t, &record);
}

static void tell_name(struct teller *t, size_t i, const struct ms_named *named)
{
	const struct ms_symbol *symbol = &named->symbol;
	const struct ms_functions *functions = &named->functions;
	struct ms_name_record record = {
		.kind = MS_NAME_NAME,
		.index = i,
		.rel_pc = symbol->rel_pc,
		.function_offset = symbol->function_offset,
		.text = number_of(t, symbol->function),
		.file = number_of(t, symbol->file),
		.line = symbol->line,
		.unsized = symbol->unsized,
	};
	struct ms_name_function records[MS_NAME_FUNCTIONS] = { 0 };

	for (size_t k = 0; k < functions->n && k < MS_NAME_FUNCTIONS; k++)
		records[record.n++] = (struct ms_name_function){
			.name = number_of(t, functions->at[k].name),
			.mangled = t->job->mangled ? number_of(t, functions->at[k].mangled) : 0,
			.file = number_of(t, functions->at[k].file),
			.line = functions->at[k].line,
		};
	put_record(t, &record);
	put(t, records, record.n * sizeof(records[0]));
}

/* ---- file by file ---- */

/* The end of a long path, lest it pushes out what else a line has to say. */
static const char *end_of_path(const char *path)
{
	enum { SHOWN = 70 };
	size_t len = strlen(path);

	return len > SHOWN ? path + len - SHOWN : path;
}

static void tell_unopened(struct teller *t, const struct ms_code *code, enum ms_code_state state)
{
	const char *name = end_of_path(code->name);

	switch (state) {
	case MS_CODE_ABSENT:
		warn(t, "functions of %s are not named: it cannot be opened", name);
		break;
	case MS_CODE_CHANGED:
		warn(t, "functions of %s are not named: it is another build than was mapped", name);
		break;
	case MS_CODE_NO_ELF:
		warn(t, "functions of %s are not named: it is damaged", name);
		break;
	case MS_CODE_TOO_LARGE:
		warn(t, "functions of %s are not named: it takes too much memory", name);
		break;
	case MS_CODE_OPEN:
		break;
	}
}

/* What stands at @pc, an address in @code; false when nothing is known of it. */
static bool name(struct teller *t, struct ms_symbol_file *file, const struct ms_code *code,
                 ms_addr pc, struct ms_named *ret)
{
	memset(&ret->symbol, 0, sizeof(ret->symbol));
	if (!t->job->data || (code->prot & MS_PROT_EXEC))
		return ms_symbol_file_tell(file, pc - code->range.begin + code->offset, ret);
	ret->functions.n = 0;
	return code->has_bias &&
	       ms_symbol_file_tell_data(file, pc - code->bias, &t->arena, &ret->symbol);
}

static void tell_group(struct teller *t, const struct ms_code *code, size_t begin, size_t end)
{
	struct ms_symbol_file *file = NULL;
	struct ms_named named = { 0 };
	const struct ms_debug *debug;
	enum ms_code_state state;

	/* What a program wrote itself, or the kernel, is in no file. */
	if (!code->inode)
		return;
	/* Zero-filled data has no file in its own mapping. */
	if (t->job->data)
		code = ms_code_first(t->job->code, code);
	state = ms_code_open(t->job->code, (size_t)(code - t->job->code->at), t->finder, &t->arena,
	                     &file);
	if (state != MS_CODE_OPEN) {
		tell_unopened(t, code, state);
		return;
	}
	for (size_t i = begin; i < end; i++) {
		ms_addr pc = t->job->pcs[i];

		code = ms_range_find(t->job->code, pc);
		if (!code || !name(t, file, code, pc, &named))
			continue;
		tell_name(t, i, &named);
	}
	debug = ms_symbol_file_debug(file);
	if (debug->refused && !debug->found)
		warn(t, "%s is not used: it %s %s", end_of_path(debug->refused),
		     debug->too_large ? "takes too much memory to name functions of"
		                      : "is damaged, or of another build than",
		     end_of_path(ms_symbol_file_path(file)));
	ms_symbol_file_close(file);
}

int ms_names_work(void *ctx, const struct ms_worker_side *side)
{
	const struct ms_names_job *job = ctx;
	struct teller t = { .job = job, .finder = side->finder, .to = fdopen(side->fd, "w") };
	const struct ms_name_record end = { .kind = MS_NAME_END };

	if (!t.to)
		return 1;
	for (size_t i = job->from; i < job->n && !ferror(t.to);) {
		const struct ms_code *code;
		size_t n = ms_names_group(job, i, &code);
		const struct ms_name_record group = { .kind = MS_NAME_GROUP, .index = i + n };

		put_record(&t, &group);
		/* Should it die of this file, then the next is begun with. */
		(void)fflush(t.to);
		if (code)
			tell_group(&t, code, i, i + n);
		/* What it lacks cannot be told any more: as if it had died of this file. */
		if (t.arena.refused)
			return 1;
		i += n;
	}
	put_record(&t, &end);
	/* Everything else goes with the process. */
	return fclose(t.to) == 0 ? 0 : 1;
}
