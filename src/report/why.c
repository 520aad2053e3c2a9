/* SPDX-License-Identifier: Apache-2.0 */

/* An answer for people: what a block is, and the chain that holds it, a step a line. */

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "report/print.h"
#include "report/writers.h"

static void put_text(struct ms_text *t, const char *text)
{
	ms_text_name(t, text, strlen(text));
}

/* "+0x40", "-0x40" */
static void put_offset(struct ms_text *t, int64_t offset)
{
	uint64_t size = offset < 0 ? -(uint64_t)offset : (uint64_t)offset;

	ms_text_print(t, "%c0x%" PRIx64, offset < 0 ? '-' : '+', size);
}

static void put_title(struct ms_text *t, bool on)
{
	if (t->sink->colour)
		ms_text_print(t, on ? "\033[1m" : "\033[0m");
}

/* ---- roots ---- */

static const struct ms_symbol *symbol_of(const struct ms_report *report, const struct ms_spot *spot)
{
	if (!spot->pc || spot->pc > report->names.n)
		return NULL;
	return &report->names.at[spot->pc - 1].symbol;
}

static void put_module(struct ms_text *t, const struct ms_report *report,
                       const struct ms_spot *spot, const char *what)
{
	const struct ms_symbol *symbol = symbol_of(report, spot);

	if (symbol && symbol->function) {
		put_text(t, symbol->function);
		if (symbol->function_offset)
			ms_text_print(t, "+%" PRIu64, symbol->function_offset);
		ms_text_print(t, " in ");
	}
	put_text(t, spot->name[0] ? ms_file_name(spot->name) : "memory without a name");
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
		put_text(t, spot->thread);
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

static void put_spot(struct ms_text *t, const struct ms_report *report, const struct ms_spot *spot)
{
	switch ((enum ms_root_kind)spot->kind) {
	case MS_ROOT_GLOBALS:
		put_module(t, report, spot, "data");
		break;
	case MS_ROOT_BREAK:
		put_module(t, report, spot, "memory from brk()");
		break;
	case MS_ROOT_UNPROVED:
		put_module(t, report, spot, "heap memory that could not be verified");
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
			put_text(t, ms_file_name(spot->name));
		}
		break;
	case MS_ROOT_REGISTER:
		put_thread(t, spot, "a register of");
		break;
	case MS_ROOT_KERNEL:
		ms_text_print(t, "a value that the kernel holds (epoll, a timer or the like)");
		break;
	case MS_ROOT_KINDS:
		break;
	}
}

/* ---- blocks ---- */

static void put_block(struct ms_text *t, const struct ms_report *report,
                      const struct ms_answer_step *step)
{
	const struct ms_type *type = step->type ? &report->types.at[step->type - 1] : NULL;

	if (step->mapping) {
		ms_text_print(t, "mapping ");
		put_text(t, step->name[0] ? step->name : "without a name");
		ms_text_print(t, ", ");
	} else if (type && type->name[0]) {
		put_text(t, type->name);
		ms_text_print(t, ", ");
	}
	ms_text_print(t, "%" PRIu64 " byte%s", step->size, ms_text_plural(step->size));
	if (type && !type->name[0]) {
		ms_text_print(t, " (table of functions in ");
		put_text(t, ms_file_name(type->module));
		ms_text_print(t, ")");
	}
	if (step->text[0]) {
		ms_text_print(t, " \"");
		put_text(t, step->text);
		ms_text_print(t, strlen(step->text) == MS_PREVIEW_TEXT - 1 ? "…\"" : "\"");
	}
}

static void put_chain(struct ms_text *t, const struct ms_report *report,
                      const struct ms_answer_chain *chain)
{
	const struct ms_answer_step *steps = report->answer.steps.at;

	ms_text_print(t, "  ");
	put_spot(t, report, &chain->root);
	ms_text_print(t, "\n");
	for (uint32_t i = 0; i < chain->n; i++) {
		const struct ms_answer_step *step = &steps[chain->first + i];

		if (step->omitted)
			ms_text_print(t, "  -> … %" PRIu64 " more\n", step->omitted);
		ms_text_print(t, "  -> 0x%" PRIx64 ": ", step->address);
		put_block(t, report, step);
		if (i + 1 < chain->n)
			ms_text_print(t, ", at +%" PRIu64, step->offset);
		ms_text_print(t, "\n");
	}
}

static void put_chains(struct ms_text *t, const struct ms_report *report,
                       const struct ms_subject *subject)
{
	for (uint32_t i = 0; i < subject->n_chains; i++) {
		if (i)
			ms_text_print(t, "\n");
		put_chain(t, report, &report->answer.chains.at[subject->first_chain + i]);
	}
	if (subject->roots > subject->n_chains)
		ms_text_print(t, "  %" PRIu64 " more words of roots lead there\n",
		              subject->roots - subject->n_chains);
	if (subject->roots && subject->more)
		ms_text_print(t, "  these are the shortest from each root; there are others\n");
	else if (subject->n_chains)
		ms_text_print(t, subject->more ? "  there are other ways (--all)\n"
		                               : "  this is the only way\n");
}

static void put_holders(struct ms_text *t, const struct ms_report *report,
                        const struct ms_subject *subject)
{
	const char *what =
		subject->standing == MS_STANDS_LEAKED ? "leaked block" : "unreachable block";

	if (!subject->holders) {
		ms_text_print(t, "  nothing points to it\n");
		return;
	}
	ms_text_print(t, "  %" PRIu64 " %s%s point%s to it:\n", subject->holders, what,
	              ms_text_plural(subject->holders), subject->holders == 1 ? "s" : "");
	for (uint32_t i = 0; i < subject->n_holders; i++) {
		const struct ms_answer_step *step =
			&report->answer.steps.at[subject->first_holder + i];

		ms_text_print(t, "  <- 0x%" PRIx64 ": ", step->address);
		put_block(t, report, step);
		ms_text_print(t, ", at +%" PRIu64 "\n", step->offset);
	}
	if (subject->holders > subject->n_holders)
		ms_text_print(t, "  <- … %" PRIu64 " more\n",
		              subject->holders - subject->n_holders);
}

/* Which block, where an address in its middle was given. */
static void put_self(struct ms_text *t, const struct ms_report *report,
                     const struct ms_subject *subject)
{
	const struct ms_answer_step *self = &subject->self;

	if (subject->asked && subject->asked != self->address)
		ms_text_print(t, "0x%" PRIx64 ": %" PRIu64 " byte%s into the %s 0x%" PRIx64 ", ",
		              subject->asked, subject->asked - self->address,
		              ms_text_plural(subject->asked - self->address),
		              self->mapping ? "memory at" : "block", self->address);
	else
		ms_text_print(t, "0x%" PRIx64 ": ", self->address);
	put_block(t, report, self);
}

static void put_node(struct ms_text *t, const struct ms_report *report,
                     const struct ms_subject *subject)
{
	const struct ms_answer_chain *chain =
		subject->n_chains ? &report->answer.chains.at[subject->first_chain] : NULL;

	put_title(t, true);
	put_self(t, report, subject);
	if (chain)
		ms_text_print(t, ", reachable, %" PRIu64 " step%s from a root", chain->length,
		              ms_text_plural(chain->length));
	else if (subject->standing == MS_STANDS_REACHABLE)
		ms_text_print(t, ", reachable");
	else if (subject->standing == MS_STANDS_LEAKED)
		ms_text_print(t, ", leaked: no root leads to it");
	else
		ms_text_print(t, ", possibly leaked: %s",
		              ms_text_reason((enum ms_reason)subject->reason));
	put_title(t, false);
	ms_text_print(t, "\n");
	if (subject->standing == MS_STANDS_REACHABLE)
		put_chains(t, report, subject);
	else
		put_holders(t, report, subject);
}

/* Memory that is no block. */
static void put_other(struct ms_text *t, const struct ms_report *report,
                      const struct ms_subject *subject)
{
	ms_text_print(t, "0x%" PRIx64 ": no block, but ", subject->asked);
	switch ((enum ms_standing)subject->standing) {
	case MS_STANDS_ROOT:
		put_spot(t, report, &subject->spot);
		ms_text_print(t, ", which is a root");
		break;
	case MS_STANDS_CODE:
		put_module(t, report, &subject->spot, "code or constants");
		break;
	case MS_STANDS_DEAD:
		ms_text_print(t, "a part of a thread's stack that is not in use");
		break;
	case MS_STANDS_MAPPED:
		put_module(t, report, &subject->spot, "mapping without pointers");
		break;
	case MS_STANDS_FREE:
		ms_text_print(t, "free memory of a heap, or the allocator's own");
		break;
	case MS_STANDS_NOWHERE:
	case MS_STANDS_REACHABLE:
	case MS_STANDS_POSSIBLE:
	case MS_STANDS_LEAKED:
	case MS_STANDINGS:
		ms_text_print(t, "nothing is mapped there");
		break;
	}
	ms_text_print(t, "\n");
}

static void put_count(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_answer_facts *facts = &report->answer.facts;
	size_t n = report->answer.subjects.n;

	if (!facts->of_type)
		return;
	ms_text_print(t, "%" PRIu64 " block%s of this type, %" PRIu64 " reachable", facts->of_type,
	              ms_text_plural(facts->of_type), facts->of_type_held);
	if (facts->of_type > n)
		ms_text_print(t, "; the %zu largest:", n);
	ms_text_print(t, "\n\n");
}

static bool write_why(const struct ms_report *report, struct ms_sink *sink)
{
	struct ms_text t = { sink, true };
	const struct ms_subject *subject;
	const struct ms_note *warning;

	put_count(&t, report);
	ms_vec_for_each (subject, &report->answer.subjects) {
		if (subject > report->answer.subjects.at)
			ms_text_print(&t, "\n");
		if (subject->standing <= MS_STANDS_LEAKED)
			put_node(&t, report, subject);
		else
			put_other(&t, report, subject);
	}
	ms_vec_for_each (warning, &report->warnings) {
		ms_text_print(&t, "  warning: ");
		put_text(&t, warning->text);
		ms_text_print(&t, "\n");
	}
	return t.ok;
}

const struct ms_writer ms_why_text_writer = { "text", write_why };
