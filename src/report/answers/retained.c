/* SPDX-License-Identifier: Apache-2.0 */

/* What holds memory, for people: lists with the heaviest first, and the chain below each. */

#include <inttypes.h>

#include "report/answers/parts.h"

enum { LINES = 5 }; /* of a chain; the rest is in JSON */

/* "12.3 %", of all that is reachable; what is small has no more digits than it needs. */
static void put_share(struct ms_text *t, const struct ms_report *report, uint64_t bytes)
{
	uint64_t whole = report->retained.facts.reachable.bytes;
	double share = whole ? 100.0 * (double)bytes / (double)whole : 0;

	ms_text_print(t, "  %5.1f %%  ", share);
}

static void put_weight(struct ms_text *t, const struct ms_weight *weight)
{
	ms_text_print(t, "%" PRIu64 " byte%s in %" PRIu64 " block%s", weight->bytes,
	              ms_plural(weight->bytes), weight->count, ms_plural(weight->count));
}

/* The steps of @chain from number @from on; so many more than there are lines are counted. */
static void put_chain(struct ms_text *t, const struct ms_report *report,
                      const struct ms_retained_chain *chain, uint32_t from)
{
	uint32_t end = chain->n - from > LINES ? from + LINES : chain->n;

	for (uint32_t i = from; i < end; i++) {
		const struct ms_retained_step *step = &report->retained.steps.at[chain->first + i];

		ms_text_print(t, "           -> 0x%" PRIx64 ": ", step->block.address);
		ms_answer_block(t, report, &step->block);
		if (step->direct)
			ms_text_print(t, ", at +%" PRIu64, step->block.offset);
		ms_text_print(t, ", retains %" PRIu64 " byte%s\n", step->retained.bytes,
		              ms_plural(step->retained.bytes));
	}
	if (chain->length > end)
		ms_text_print(t, "           -> … %" PRIu64 " more\n", chain->length - end);
}

static void put_heading(struct ms_text *t, const char *text)
{
	ms_text_print(t, "\n");
	ms_answer_title(t, true);
	ms_text_print(t, "%s", text);
	ms_answer_title(t, false);
	ms_text_print(t, "\n");
}

static void put_rest(struct ms_text *t, uint64_t all, uint64_t listed)
{
	if (all > listed)
		ms_text_print(t, "  … %" PRIu64 " more (--limit)\n", all - listed);
}

static void put_roots(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_retained *retained = &report->retained;
	const struct ms_retained_root *root;

	put_heading(t, "By root: what only this root holds");
	ms_vec_for_each (root, &retained->roots) {
		put_share(t, report, root->retained.bytes);
		put_weight(t, &root->retained);
		ms_text_print(t, ": ");
		ms_answer_spot(t, report, &root->spot);
		if (root->words > 1)
			ms_text_print(t, ", %" PRIu64 " words", root->words);
		ms_text_print(t, "\n");
		put_chain(t, report, &root->below, 0);
	}
	put_rest(t, retained->facts.n_roots, retained->roots.n);
}

static void put_block(struct ms_text *t, const struct ms_report *report,
                      const struct ms_retained_block *block)
{
	const struct ms_retained_step *self = &report->retained.steps.at[block->chain.first];

	put_share(t, report, self->retained.bytes);
	put_weight(t, &self->retained);
	ms_text_print(t, ": 0x%" PRIx64 ": ", self->block.address);
	ms_answer_block(t, report, &self->block);
	if (block->places)
		ms_text_print(t, ", held from %" PRIu64 " place%s", block->places,
		              ms_plural(block->places));
	ms_text_print(t, "\n");
	put_chain(t, report, &block->chain, 1);
}

static void put_shared(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_retained *retained = &report->retained;
	const struct ms_retained_block *block;

	if (!retained->facts.n_shared)
		return;
	put_heading(t, "Shared: what several roots hold");
	put_share(t, report, retained->facts.shared.bytes);
	put_weight(t, &retained->facts.shared);
	ms_text_print(t, ", all together\n");
	ms_vec_for_each (block, &retained->shared)
		put_block(t, report, block);
	put_rest(t, retained->facts.n_shared, retained->shared.n);
}

static void put_type(struct ms_text *t, const struct ms_report *report,
                     const struct ms_retained_type *entry)
{
	const struct ms_type *type = entry->type ? &report->types.at[entry->type - 1] : NULL;

	put_share(t, report, entry->retained.bytes);
	put_weight(t, &entry->retained);
	ms_text_print(t, ": %" PRIu64 " × ", entry->own.count);
	if (type && type->name[0])
		ms_answer_text(t, type->name);
	else if (type)
		ms_answer_functions(t, type);
	else if (entry->size)
		ms_text_print(t, "%" PRIu64 " byte%s", entry->size, ms_plural(entry->size));
	else
		ms_text_print(t, "other sizes");
	ms_text_print(t, ", %" PRIu64 " byte%s without what they hold\n", entry->own.bytes,
	              ms_plural(entry->own.bytes));
}

static void put_types(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_retained *retained = &report->retained;
	const struct ms_retained_type *type;

	put_heading(t, "By type, or by size where it is not known");
	ms_vec_for_each (type, &retained->types)
		put_type(t, report, type);
	put_rest(t, retained->facts.n_types, retained->types.n);
}

static void put_blocks(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_retained_block *block;

	put_heading(t, "By block: what only this block holds, and itself");
	ms_vec_for_each (block, &report->retained.blocks)
		put_block(t, report, block);
}

static bool write_retained(const struct ms_report *report, struct ms_sink *sink)
{
	const struct ms_retained_facts *facts = &report->retained.facts;
	struct ms_text t = { sink, true };
	const struct ms_note *warning;

	put_weight(&t, &facts->reachable);
	ms_text_print(&t, " are reachable, ");
	put_weight(&t, &facts->unreachable);
	ms_text_print(&t, " are not\n");
	put_roots(&t, report);
	put_shared(&t, report);
	put_types(&t, report);
	put_blocks(&t, report);
	ms_vec_for_each (warning, &report->warnings) {
		ms_text_print(&t, "  warning: ");
		ms_answer_text(&t, warning->text);
		ms_text_print(&t, "\n");
	}
	return t.ok;
}

const struct ms_writer ms_retained_text_writer = { .name = "text", .write = write_retained };
