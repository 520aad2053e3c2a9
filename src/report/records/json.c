/* SPDX-License-Identifier: Apache-2.0 */

/* memscan.records/1: one object; each entry of a list on a line of its own. */
#include "report/json/values.h"
#include "report/records/formats.h"
#include "report/version.h"

/* A list, and how entry @i of what it is a list of is made. */
struct list {
	const char *name;
	size_t n;
	const uint32_t *indices; /* NULL: 0, 1, 2 ... */
	struct json_object *(*make)(struct ms_json *j, const struct ms_recording *r, uint32_t i);
};

/* Absent in a recording without times. */
static void add_time(struct ms_json *j, struct json_object *object, const char *key, uint64_t ns)
{
	if (ns)
		ms_json_add_number(j, object, key, ns);
}

static struct json_object *moment_object(struct ms_json *j, const struct ms_recorded_moment *moment)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "bytes", moment->bytes);
	ms_json_add_number(j, object, "blocks", moment->blocks);
	ms_json_add_number(j, object, "line", moment->line);
	add_time(j, object, "ns", moment->ns);
	return object;
}

static struct json_object *calls_object(struct ms_json *j, const struct ms_recording *r)
{
	struct json_object *object = json_object_new_object();

	for (int i = 0; i < MS_OP_KINDS; i++) {
		struct json_object *one = json_object_new_object();

		ms_json_add_number(j, one, "calls", r->calls[i].calls);
		ms_json_add_number(j, one, "failed", r->calls[i].failed);
		ms_json_add_number(j, one, "bytes", r->calls[i].bytes);
		ms_json_add(j, object, ms_operation_name((enum ms_operation_kind)i), one);
	}
	return object;
}

static struct json_object *totals_object(struct ms_json *j, const struct ms_recording *r)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "operations", r->operations);
	ms_json_add_number(j, object, "threads", r->threads.n);
	if (r->timed) {
		ms_json_add_number(j, object, "first_ns", r->first_ns);
		ms_json_add_number(j, object, "last_ns", r->last_ns);
	}
	if (ms_recording_span_ns(r))
		ms_json_add(j, object, "allocations_per_second",
		            json_object_new_uint64((uint64_t)ms_recording_rate(r)));
	ms_json_add_number(j, object, "allocations", r->allocations);
	ms_json_add_number(j, object, "allocated_bytes", r->allocated_bytes);
	ms_json_add_number(j, object, "freed", r->freed);
	ms_json_add_number(j, object, "freed_by_other_thread", r->freed_foreign);
	ms_json_add_number(j, object, "freed_unseen", r->freed_unseen);
	ms_json_add_number(j, object, "lost", r->lost);
	ms_json_add_number(j, object, "resized", r->resized);
	ms_json_add_number(j, object, "moved", r->moved);
	ms_json_add_number(j, object, "copied_bytes", r->copied_bytes);
	ms_json_add_number(j, object, "sizes", r->sizes.n);
	ms_json_add_number(j, object, "live_sizes", r->n_live_sizes);
	return object;
}

static struct json_object *size_object(struct ms_json *j, const struct ms_recording *r, uint32_t i)
{
	const struct ms_recorded_size *size = &r->sizes.at[i];
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "size", size->size);
	ms_json_add_number(j, object, "live_blocks", size->live_blocks);
	ms_json_add_number(j, object, "live_bytes", size->live_blocks * size->size);
	ms_json_add_number(j, object, "allocations", size->allocations);
	return object;
}

static struct json_object *thread_object(struct ms_json *j, const struct ms_recording *r,
                                         uint32_t i)
{
	const struct ms_recorded_thread *thread = &r->threads.at[i];
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "tid", thread->tid);
	ms_json_add(j, object, "ended", json_object_new_boolean(thread->ended));
	ms_json_add_number(j, object, "live_blocks", thread->live_blocks);
	ms_json_add_number(j, object, "live_bytes", thread->live_bytes);
	ms_json_add_number(j, object, "allocations", thread->allocations);
	ms_json_add_number(j, object, "allocated_bytes", thread->allocated_bytes);
	ms_json_add_number(j, object, "frees", thread->frees);
	ms_json_add_number(j, object, "operations", thread->operations);
	return object;
}

static struct json_object *block_object(struct ms_json *j, const struct ms_recording *r,
                                        const struct ms_recorded_block *block)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_address(j, object, "address", block->address);
	ms_json_add_number(j, object, "size", block->size);
	ms_json_add_number(j, object, "tid", r->threads.at[block->thread].tid);
	ms_json_add_number(j, object, "line", block->line);
	add_time(j, object, "since_ns", block->born_ns);
	if (!block->resized)
		return object;
	ms_json_add_number(j, object, "first_size", block->first_size);
	ms_json_add_number(j, object, "resized", block->resized);
	ms_json_add_number(j, object, "copied_bytes", block->copied_bytes);
	return object;
}

static struct json_object *live_object(struct ms_json *j, const struct ms_recording *r, uint32_t i)
{
	return block_object(j, r, &r->blocks.at[i]);
}

static struct json_object *chain_object(struct ms_json *j, const struct ms_recording *r, uint32_t i)
{
	return block_object(j, r, &r->chains[i]);
}

/* Blocks that lived less than so long, and not less than half of it. */
static struct json_object *age_object(struct ms_json *j, const struct ms_recording *r, uint32_t i)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "less_than_ns", UINT64_C(1) << i);
	ms_json_add_number(j, object, "blocks", r->ages[i]);
	return object;
}

static void put_list(struct ms_json *j, const struct ms_recording *r, const struct list *list)
{
	ms_text_print(&j->text, ",\n\"%s\":[", list->name);
	for (size_t i = 0; i < list->n && j->text.ok; i++) {
		ms_text_print(&j->text, i ? ",\n" : "\n");
		ms_json_put(j, list->make(j, r, list->indices ? list->indices[i] : (uint32_t)i));
	}
	ms_text_print(&j->text, "]");
}

static void put_lists(struct ms_json *j, const struct ms_recording *r)
{
	size_t ages = MS_RECORDING_AGES;

	while (ages > 0 && !r->ages[ages - 1])
		ages--;
	const struct list lists[] = {
		{ "live_sizes", r->live_sizes.n, r->live_sizes.at, size_object },
		{ "most_allocated_sizes", r->all_sizes.n, r->all_sizes.at, size_object },
		{ "threads", r->by_thread.n, r->by_thread.at, thread_object },
		{ "oldest", r->oldest.n, r->oldest.at, live_object },
		{ "lifetimes", ages, NULL, age_object },
		{ "most_resized", r->n_chains, NULL, chain_object },
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		put_list(j, r, &lists[i]);
}

static void put_warnings(struct ms_json *j, const struct ms_recording *r)
{
	struct json_object *warnings = json_object_new_array();
	const char *const *warning;

	ms_vec_for_each (warning, &r->warnings)
		ms_json_append(j, warnings, ms_json_name(*warning));
	ms_text_print(&j->text, ",\n\"warnings\":");
	ms_json_put(j, warnings);
}

static void put_until(struct ms_json *j, const struct ms_recording *r)
{
	struct json_object *object;

	if (r->until.what == MS_UNTIL_END)
		return;
	object = json_object_new_object();
	ms_json_add_number(j, object, r->until.what == MS_UNTIL_LINE ? "line" : "ns",
	                   r->until.value);
	ms_text_print(&j->text, ",\n\"until\":");
	ms_json_put(j, object);
}

static bool write_json(const struct ms_recording *r, struct ms_sink *sink)
{
	struct ms_json j = { { sink, true } };

	ms_text_print(&j.text,
	              "{\"schema\":\"memscan.records/1\",\n"
	              "\"tool\":{\"name\":\"memscan\",\"version\":\"" MS_VERSION "\"},\n\"file\":");
	ms_json_put(&j, ms_json_name(r->file));
	put_until(&j, r);
	ms_text_print(&j.text, ",\n\"totals\":");
	ms_json_put(&j, totals_object(&j, r));
	ms_text_print(&j.text, ",\n\"calls\":");
	ms_json_put(&j, calls_object(&j, r));
	ms_text_print(&j.text, ",\n\"peak\":");
	ms_json_put(&j, moment_object(&j, &r->peak));
	ms_text_print(&j.text, ",\n\"live\":");
	ms_json_put(&j, moment_object(&j, &r->end));
	put_lists(&j, r);
	put_warnings(&j, r);
	ms_text_print(&j.text, "}\n");
	return j.text.ok;
}

const struct ms_recording_writer ms_recording_json = { "json", write_json };
