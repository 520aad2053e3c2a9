/* SPDX-License-Identifier: Apache-2.0 */

/* memscan.retained/1 (docs/JSON.md). */

#include "report/json/answer.h"
#include "report/json/fields.h"
#include "report/writers.h"

static struct json_object *weight_object(struct ms_json *j, const struct ms_weight *weight)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "count", weight->count);
	ms_json_add_number(j, object, "bytes", weight->bytes);
	return object;
}

static void add_retained(struct ms_json *j, struct json_object *object,
                         const struct ms_weight *weight)
{
	ms_json_add_number(j, object, "retained_count", weight->count);
	ms_json_add_number(j, object, "retained_bytes", weight->bytes);
}

/* Block and retained weight of a step, into @object. */
static void add_step(struct ms_json *j, struct json_object *object, const struct ms_report *report,
                     const struct ms_retained_step *step)
{
	ms_json_add_block(j, object, report, &step->block);
	add_retained(j, object, &step->retained);
	if (step->direct)
		ms_json_add_number(j, object, "offset", step->block.offset);
}

/* The steps of @chain from number @from on. */
static void add_chain(struct ms_json *j, struct json_object *object, const struct ms_report *report,
                      const struct ms_retained_chain *chain, uint32_t from)
{
	struct json_object *array = json_object_new_array();

	ms_json_add_number(j, object, "length", chain->length > from ? chain->length - from : 0);
	for (uint32_t i = from; i < chain->n; i++) {
		const struct ms_retained_step *step = &report->retained.steps.at[chain->first + i];
		struct json_object *entry = json_object_new_object();

		if (step->block.omitted)
			ms_json_add_number(j, entry, "omitted", step->block.omitted);
		add_step(j, entry, report, step);
		ms_json_append(j, array, entry);
	}
	ms_json_add(j, object, "chain", array);
}

static struct json_object *root_entry(struct ms_json *j, const struct ms_report *report, size_t i)
{
	const struct ms_retained_root *root = &report->retained.roots.at[i];
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "root", ms_json_spot(j, report, &root->spot));
	ms_json_add_number(j, object, "words", root->words);
	add_retained(j, object, &root->retained);
	add_chain(j, object, report, &root->below, 0);
	return object;
}

static struct json_object *block_object(struct ms_json *j, const struct ms_report *report,
                                        const struct ms_retained_block *block)
{
	struct json_object *object = json_object_new_object();

	add_step(j, object, report, &report->retained.steps.at[block->chain.first]);
	if (block->places)
		ms_json_add_number(j, object, "places", block->places);
	add_chain(j, object, report, &block->chain, 1);
	return object;
}

static struct json_object *shared_entry(struct ms_json *j, const struct ms_report *report, size_t i)
{
	return block_object(j, report, &report->retained.shared.at[i]);
}

static struct json_object *block_entry(struct ms_json *j, const struct ms_report *report, size_t i)
{
	return block_object(j, report, &report->retained.blocks.at[i]);
}

static struct json_object *type_entry(struct ms_json *j, const struct ms_report *report, size_t i)
{
	const struct ms_retained_type *entry = &report->retained.types.at[i];
	struct json_object *object = json_object_new_object();

	if (entry->type)
		ms_json_add_type(j, object, &report->types.at[entry->type - 1]);
	else if (entry->size)
		ms_json_add_number(j, object, "size", entry->size);
	ms_json_add_number(j, object, "count", entry->own.count);
	ms_json_add_number(j, object, "bytes", entry->own.bytes);
	add_retained(j, object, &entry->retained);
	return object;
}

static void put_list(struct ms_json *j, const struct ms_report *report, const char *key, size_t n,
                     struct json_object *(*entry)(struct ms_json *j, const struct ms_report *report,
                                                  size_t i))
{
	ms_text_print(&j->text, ",\n\"%s\":[", key);
	for (size_t i = 0; i < n; i++) {
		ms_text_print(&j->text, i ? ",\n" : "\n");
		ms_json_put(j, entry(j, report, i));
	}
	ms_text_print(&j->text, "]");
}

static struct json_object *totals_object(struct ms_json *j, const struct ms_retained_facts *facts)
{
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "reachable", weight_object(j, &facts->reachable));
	ms_json_add(j, object, "unreachable", weight_object(j, &facts->unreachable));
	ms_json_add(j, object, "by_root", weight_object(j, &facts->by_root));
	ms_json_add(j, object, "shared", weight_object(j, &facts->shared));
	ms_json_add_number(j, object, "roots", facts->n_roots);
	ms_json_add_number(j, object, "shared_blocks", facts->n_shared);
	ms_json_add_number(j, object, "types", facts->n_types);
	return object;
}

static bool write_retained(const struct ms_report *report, struct ms_sink *sink)
{
	const struct ms_retained *retained = &report->retained;
	struct ms_json j = { { sink, true } };

	ms_json_answer_begin(&j, report, "memscan.retained/1");
	ms_json_member(&j, "totals", totals_object(&j, &retained->facts));
	put_list(&j, report, "by_root", retained->roots.n, root_entry);
	put_list(&j, report, "shared", retained->shared.n, shared_entry);
	put_list(&j, report, "by_type", retained->types.n, type_entry);
	put_list(&j, report, "by_block", retained->blocks.n, block_entry);
	ms_json_answer_end(&j, report);
	return j.text.ok;
}

const struct ms_writer ms_retained_json_writer = { .name = "json", .write = write_retained };
