/* SPDX-License-Identifier: Apache-2.0 */
#include "report/answers/parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"

void ms_answer_text(struct ms_text *t, const char *text)
{
	ms_text_name(t, text, strlen(text));
}

/* "+0x40", "-0x40" */
static void put_offset(struct ms_text *t, int64_t offset)
{
	uint64_t size = offset < 0 ? -(uint64_t)offset : (uint64_t)offset;

	ms_text_print(t, "%c0x%" PRIx64, offset < 0 ? '-' : '+', size);
}

void ms_answer_title(struct ms_text *t, bool on)
{
	const char *ink = on ? "\033[1m" : "\033[0m";

	if (t->sink->colour)
		ms_text_put(t, ink, strlen(ink));
}

/* ---- roots ---- */

static const struct ms_symbol *symbol_of(const struct ms_report *report, const struct ms_spot *spot)
{
	if (!spot->pc || spot->pc > report->names.n)
		return NULL;
	return &report->names.at[spot->pc - 1].symbol;
}

void ms_answer_module(struct ms_text *t, const struct ms_report *report, const struct ms_spot *spot,
                      const char *what)
{
	const struct ms_symbol *symbol = symbol_of(report, spot);

	if (symbol && symbol->function) {
		ms_answer_text(t, symbol->function);
		if (symbol->function_offset)
			ms_text_print(t, "+%" PRIu64, symbol->function_offset);
		ms_text_print(t, " in ");
	}
	ms_answer_text(t, spot->name[0] ? ms_file_name(spot->name) : "memory without a name");
	put_offset(t, spot->offset);
	ms_text_print(t, " (%s at 0x%" PRIx64 ")", what, spot->at);
}

static void put_thread(struct ms_text *t, const struct ms_spot *spot, const char *what)
{
	ms_text_print(t, "%s ", what);
	if (!spot->tid) {
		ms_text_print(t, "a thread that ended");
		return;
	}
	ms_text_print(t, "thread %" PRId32, spot->tid);
	if (spot->thread[0]) {
		ms_text_print(t, " (");
		ms_answer_text(t, spot->thread);
		ms_text_print(t, ")");
	}
}

static void put_place(struct ms_text *t, const struct ms_spot *spot, const char *from)
{
	if (!spot->at)
		return;
	ms_text_print(t, " (%s", from);
	put_offset(t, spot->offset);
	ms_text_print(t, " at 0x%" PRIx64 ")", spot->at);
}

void ms_answer_spot(struct ms_text *t, const struct ms_report *report, const struct ms_spot *spot)
{
	switch ((enum ms_root_kind)spot->kind) {
	case MS_ROOT_GLOBALS:
		ms_answer_module(t, report, spot, "data");
		break;
	case MS_ROOT_BREAK:
		ms_answer_module(t, report, spot, "memory from brk()");
		break;
	case MS_ROOT_UNPROVED:
		ms_answer_module(t, report, spot, "heap memory that could not be verified");
		break;
	case MS_ROOT_STACK:
		put_thread(t, spot, "stack of");
		put_place(t, spot, "stack pointer");
		break;
	case MS_ROOT_TLS:
		put_thread(t, spot, "TLS of");
		put_place(t, spot, "thread pointer");
		if (spot->name[0]) {
			ms_text_print(t, ", a variable of ");
			ms_answer_text(t, ms_file_name(spot->name));
		}
		break;
	case MS_ROOT_REGISTER:
		put_thread(t, spot, "a register of");
		break;
	case MS_ROOT_KERNEL:
		ms_text_print(t, "a value that the kernel holds (epoll, a timer or the like)");
		break;
	case MS_ROOT_TRANSIT:
		ms_text_print(t, "a pointer in transit, in ");
		ms_answer_text(t, spot->name);
		ms_text_print(t, " %" PRId64, spot->offset);
		break;
	case MS_ROOT_KINDS:
		break;
	}
}

/* ---- blocks ---- */

void ms_answer_functions(struct ms_text *t, const struct ms_type *type)
{
	ms_text_print(t, "object with a table of functions in ");
	ms_answer_text(t, ms_file_name(type->module));
}

/* The name of a function, or where it is in its file. */
static void put_callback(struct ms_text *t, const struct ms_report *report,
                         const struct ms_answer_step *step)
{
	const struct ms_symbol *symbol = NULL;
	const char *file = step->name[0] ? ms_file_name(step->name) : "memory without a name";

	if (step->callback <= report->names.n)
		symbol = &report->names.at[step->callback - 1].symbol;
	ms_text_print(t, ", holds callback ");
	if (symbol && symbol->function && !symbol->function_offset && !symbol->unsized) {
		ms_answer_text(t, symbol->function);
		ms_text_print(t, " in ");
		ms_answer_text(t, file);
		return;
	}
	ms_answer_text(t, file);
	put_offset(t, (int64_t)step->callback_offset);
}

void ms_answer_block(struct ms_text *t, const struct ms_report *report,
                     const struct ms_answer_step *step)
{
	const struct ms_type *type = step->type ? &report->types.at[step->type - 1] : NULL;

	if (step->mapping) {
		ms_text_print(t, "mapping ");
		ms_answer_text(t, step->name[0] ? step->name : "without a name");
		ms_text_print(t, ", ");
	} else if (type && type->name[0]) {
		ms_answer_text(t, type->name);
		ms_text_print(t, ", ");
	}
	ms_text_print(t, "%" PRIu64 " byte%s", step->size, ms_plural(step->size));
	if (type && !type->name[0]) {
		ms_text_print(t, " (");
		ms_answer_functions(t, type);
		ms_text_print(t, ")");
	}
	if (step->callback)
		put_callback(t, report, step);
	if (step->text[0]) {
		ms_text_print(t, " \"");
		ms_answer_text(t, step->text);
		ms_text_print(t, strlen(step->text) == MS_PREVIEW_TEXT - 1 ? "…\"" : "\"");
	}
}
