/* SPDX-License-Identifier: Apache-2.0 */

/* An answer for people: what a block is, and the chain that holds it, a step a line. */

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "report/answers/parts.h"

/* ---- blocks ---- */

static void put_chain(struct ms_text *t, const struct ms_report *report,
                      const struct ms_answer_chain *chain)
{
	const struct ms_answer_step *steps = report->answer.steps.at;

	assert(chain);
	ms_text_print(t, "  ");
	ms_answer_spot(t, report, &chain->root);
	ms_text_print(t, "\n");
	for (uint32_t i = 0; i < chain->n; i++) {
		const struct ms_answer_step *step = &steps[chain->first + i];

		if (step->omitted)
			ms_text_print(t, "  -> … %" PRIu64 " more\n", step->omitted);
		ms_text_print(t, "  -> 0x%" PRIx64 ": ", step->address);
		ms_answer_block(t, report, step);
		if (i + 1 < chain->n)
			ms_text_print(t, ", at +%" PRIu64, step->offset);
		ms_text_print(t, "\n");
	}
}

/* Whether there is a command line on which more can be asked for. */
static bool is_from_outside(const struct ms_report *report)
{
	return strcmp(report->scan.source, "self") != 0;
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
	else if (subject->by_asker)
		ms_text_print(t, "  which may be no more than the address that was asked with\n");
	else if (subject->n_chains)
		ms_text_print(t, "  %s%s\n",
		              subject->more ? "there are other ways" : "this is the only way",
		              subject->more && is_from_outside(report) ? " (--all)" : "");
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
	              ms_plural(subject->holders), subject->holders == 1 ? "s" : "");
	for (uint32_t i = 0; i < subject->n_holders; i++) {
		const struct ms_answer_step *step =
			&report->answer.steps.at[subject->first_holder + i];

		ms_text_print(t, "  <- 0x%" PRIx64 ": ", step->address);
		ms_answer_block(t, report, step);
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
		              ms_plural(subject->asked - self->address),
		              self->mapping ? "memory at" : "block", self->address);
	else
		ms_text_print(t, "0x%" PRIx64 ": ", self->address);
	ms_answer_block(t, report, self);
}

static void put_node(struct ms_text *t, const struct ms_report *report,
                     const struct ms_subject *subject)
{
	const struct ms_answer_chain *chain =
		subject->n_chains ? &report->answer.chains.at[subject->first_chain] : NULL;

	ms_answer_title(t, true);
	put_self(t, report, subject);
	if (chain)
		ms_text_print(t, ", reachable, %" PRIu64 " step%s from a root%s", chain->length,
		              ms_plural(chain->length),
		              subject->by_asker ? ", only from the thread that asks" : "");
	else if (subject->standing == MS_STANDS_REACHABLE)
		ms_text_print(t, ", reachable");
	else if (subject->standing == MS_STANDS_LEAKED)
		ms_text_print(t, ", leaked: no root leads to it");
	else
		ms_text_print(t, ", possibly leaked: %s",
		              ms_text_reason((enum ms_reason)subject->reason));
	ms_answer_title(t, false);
	ms_text_print(t, "\n");
	if (subject->standing == MS_STANDS_REACHABLE)
		put_chains(t, report, subject);
	if (subject->standing != MS_STANDS_REACHABLE || subject->holders)
		put_holders(t, report, subject);
}

static void put_free(struct ms_text *t, const struct ms_answer_step *before)
{
	ms_text_print(t, "free memory of a heap, or the allocator's own");
	if (before->address)
		ms_text_print(t, "; the last block before it is 0x%" PRIx64 ", %" PRIu64 " byte%s",
		              before->address, before->size, ms_plural(before->size));
}

/* Memory that is no block. */
static void put_other(struct ms_text *t, const struct ms_report *report,
                      const struct ms_subject *subject)
{
	ms_text_print(t, "0x%" PRIx64 ": no block, %s", subject->asked,
	              subject->standing == MS_STANDS_NOWHERE ? "" : "but ");
	switch ((enum ms_standing)subject->standing) {
	case MS_STANDS_ROOT:
		ms_answer_spot(t, report, &subject->spot);
		ms_text_print(t, ", which is a root");
		break;
	case MS_STANDS_CODE:
		ms_answer_module(t, report, &subject->spot, "code or constants");
		break;
	case MS_STANDS_DEAD:
		ms_text_print(t, "a part of a thread's stack that is not in use");
		break;
	case MS_STANDS_MAPPED:
		ms_answer_module(t, report, &subject->spot, "mapping without pointers");
		break;
	case MS_STANDS_FREE:
		put_free(t, &subject->self);
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
	              ms_plural(facts->of_type), facts->of_type_held);
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
		ms_answer_text(&t, warning->text);
		ms_text_print(&t, "\n");
	}
	return t.ok;
}

const struct ms_writer ms_why_text_writer = { .name = "text", .write = write_why };
