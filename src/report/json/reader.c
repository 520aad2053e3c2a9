/* SPDX-License-Identifier: Apache-2.0 */

#include "report/json/reader.h"

#include <assert.h>
#include <string.h>

#include "report/json/backtraces.h"
#include "report/json/walk.h"

static const char schema[] = "memscan.report/1";

enum { MEMBERS = 14 };

struct reader {
	struct ms_json_input in;
	struct ms_report report;
	struct ms_unlisted unlisted;
	struct ms_json_recent *recent;
	bool seen[MEMBERS];
};

/* One more entry of a vector of the report; NULL behind a failure. */
static void *pushed(struct reader *r, void *entry)
{
	if (!entry)
		ms_json_no_memory(&r->in);
	return entry;
}

#define push(r, vec) pushed((r), ms_vec_push((r)->in.arena, (vec)))

static void take_note(struct reader *r, struct json_object *value, struct ms_notes *notes)
{
	struct ms_note *note;

	if (!json_object_is_type(value, json_type_string)) {
		ms_json_corrupt(&r->in, "a sentence is no string");
		return;
	}
	note = push(r, notes);
	if (note)
		ms_json_string(value, note->text, sizeof(note->text));
}

/* ---- the parts that are objects ---- */

static void take_host(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	ms_json_get_fields(&r->in, object, &ms_json_host, &r->report.host);
}

/* What has no room any more is cut off. */
static void take_argument(struct ms_target_facts *target, struct json_object *value)
{
	size_t room = sizeof(target->cmdline) - target->cmdline_len;
	char *at = target->cmdline + target->cmdline_len;

	if (!room)
		return;
	ms_json_string(value, at, room);
	target->cmdline_len += (uint32_t)strlen(at) + 1;
}

static void take_target(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct ms_target_facts *target = &r->report.target;
	struct json_object *words = ms_json_get(&r->in, object, "cmdline", json_type_array);

	ms_json_get_fields(&r->in, object, &ms_json_process, target);
	ms_json_get_fields(&r->in, object, &ms_json_machine, target);
	for (size_t i = 0; words && i < json_object_array_length(words); i++) {
		struct json_object *word = json_object_array_get_idx(words, i);

		if (json_object_is_type(word, json_type_string))
			take_argument(target, word);
		else
			ms_json_corrupt(&r->in, "an argument of \"cmdline\" is no string");
	}
}

/* A later memscan may have others. */
static void take_phase(struct reader *r, struct json_object *object)
{
	struct json_object *name = ms_json_get(&r->in, object, "name", json_type_string);
	uint64_t ns = ms_json_get_amount(&r->in, object, "ns", UINT64_MAX);

	for (int i = 0; name && i < MS_PHASES; i++)
		if (strcmp(json_object_get_string(name), ms_phase_name((enum ms_phase)i)) == 0)
			r->report.scan.phase_ns[i] = ns;
}

static void take_scan(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct json_object *phases = ms_json_get(&r->in, object, "phases", json_type_array);

	ms_json_get_fields(&r->in, object, &ms_json_scan, &r->report);
	for (size_t i = 0; phases && i < json_object_array_length(phases); i++) {
		struct json_object *phase = json_object_array_get_idx(phases, i);

		if (json_object_is_type(phase, json_type_object))
			take_phase(r, phase);
		else
			ms_json_corrupt(&r->in, "a phase is no object");
	}
}

static bool has(struct json_object *object, const char *key)
{
	return json_object_object_get_ex(object, key, NULL);
}

static void take_totals(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct ms_totals *totals = &r->report.totals;

	r->report.possible = has(object, "possible_bytes");
	r->report.confirm = has(object, "unconfirmed_bytes");
	ms_json_get_fields(&r->in, object, &ms_json_totals, totals);
	ms_json_get_fields(&r->in, object, &ms_json_suppressed, totals);
	if (r->report.possible)
		ms_json_get_fields(&r->in, object, &ms_json_possible, totals);
	if (r->report.confirm)
		ms_json_get_fields(&r->in, object, &ms_json_unconfirmed, totals);
}

static void take_unlisted(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	ms_json_get_fields(&r->in, object, &ms_json_unlisted, &r->unlisted);
	if (has(object, "possible"))
		ms_json_get_fields(&r->in, object, &ms_json_unlisted_possible, &r->unlisted);
}

/* ---- entries of lists ---- */

static void take_heap(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct json_object *evidence = ms_json_get(&r->in, object, "evidence", json_type_array);
	struct ms_heap *heap = push(r, &r->report.heaps);

	if (!heap)
		return;
	ms_json_get_fields(&r->in, object, &ms_json_heap, heap);
	heap->n_evidence = evidence ? (uint32_t)json_object_array_length(evidence) : 0;
	for (size_t i = 0; i < heap->n_evidence && !r->in.st; i++)
		take_note(r, json_object_array_get_idx(evidence, i), &r->report.evidence);
}

static void take_mapping(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	ms_addr begin = ms_json_get_address(&r->in, object, "address");
	uint64_t size = ms_json_get_amount(&r->in, object, "size", UINT64_MAX - begin);
	struct json_object *name = ms_json_get(&r->in, object, "name", json_type_string);
	struct ms_lost_mapping *mapping = push(r, &r->report.mappings);

	if (!mapping)
		return;
	mapping->range = (struct ms_range){ begin, begin + size };
	if (name)
		ms_json_string(name, mapping->name, sizeof(mapping->name));
}

static void take_suppression(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct ms_suppressed *suppressed = push(r, &r->report.suppressed);

	if (suppressed)
		ms_json_get_fields(&r->in, object, &ms_json_suppression, suppressed);
}

static void take_warning(void *reader, struct json_object *value)
{
	struct reader *r = reader;
	take_note(r, value, &r->report.warnings);
}

static void take_contents(struct reader *r, struct json_object *value, struct ms_leak *leak)
{
	static const char digits[] = "0123456789abcdef";
	const char *hex = json_object_get_string(value);
	size_t len = (size_t)json_object_get_string_len(value);

	if (len % 2 || len > 2 * (size_t)MS_CONTENTS) {
		ms_json_corrupt(&r->in, "\"contents\" has a length of %zu", len);
		return;
	}
	for (size_t i = 0; i < len; i++) {
		const char *digit = memchr(digits, hex[i], sizeof(digits) - 1);

		if (!digit) {
			ms_json_corrupt(&r->in, "\"contents\" is not hexadecimal");
			return;
		}
		leak->contents[i / 2] = (uint8_t)(leak->contents[i / 2] << 4 | (digit - digits));
	}
	leak->contents_len = (uint8_t)(len / 2);
}

static void take_sampling(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct json_object *older = ms_json_get(&r->in, object, "before_attach", json_type_object);

	r->report.sampling.on = 1;
	ms_json_get_fields(&r->in, object, &ms_json_sampling, &r->report.sampling);
	if (!older)
		return;
	r->report.sampling.has_older = 1;
	ms_json_get_fields(&r->in, older, &ms_json_older, &r->report.sampling.older);
}

static uint32_t add_type(struct reader *r, const struct ms_type *type)
{
	uint64_t hash = ms_json_hash(ms_json_hash(type->how, type->name), type->module);
	uint32_t *seen = &r->recent->types[ms_json_recent_at(hash)];
	struct ms_type *slot;

	if (*seen && ms_type_is_same(&r->report.types.at[*seen - 1], type))
		return *seen;
	slot = push(r, &r->report.types);
	if (!slot)
		return 0;
	*slot = *type;
	*seen = (uint32_t)r->report.types.n;
	return *seen;
}

/* A module alone has a constant table of functions. */
static uint32_t take_type(struct reader *r, struct json_object *object)
{
	struct json_object *named = ms_json_get(&r->in, object, "type", json_type_object);
	struct json_object *module = ms_json_get(&r->in, object, "module", json_type_string);
	struct json_object *name =
		named ? ms_json_get(&r->in, named, "name", json_type_string) : NULL;
	struct json_object *how =
		named ? ms_json_get(&r->in, named, "how", json_type_string) : NULL;
	struct json_object *sure =
		named ? ms_json_get(&r->in, named, "sure", json_type_string) : NULL;
	struct ms_type type;

	if (!name && !module)
		return 0;
	memset(&type, 0, sizeof(type));
	type.how = MS_HOW_FUNCTIONS;
	if (name)
		ms_json_string(name, type.name, sizeof(type.name));
	if (module)
		ms_json_string(module, type.module, sizeof(type.module));
	if (name)
		type.how = how ? (uint8_t)ms_json_name_of(how, &ms_json_hows) : MS_HOWS;
	if (sure)
		type.sure = MS_SURE_LIKELY;
	return add_type(r, &type);
}

/* Neighbours often have the same. */
static uint32_t take_module(struct reader *r, struct json_object *path)
{
	struct ms_module_names *modules = &r->report.modules;
	struct ms_module_name name = { 0 };
	struct ms_module_name *slot;

	ms_json_string(path, name.path, sizeof(name.path));
	if (modules->n && strcmp(modules->at[modules->n - 1].path, name.path) == 0)
		return (uint32_t)modules->n;
	slot = push(r, modules);
	if (!slot)
		return 0;
	*slot = name;
	return (uint32_t)modules->n;
}

static void take_maker(struct reader *r, struct json_object *leak, const char *key,
                       struct ms_maker *ret)
{
	struct json_object *object = ms_json_get(&r->in, leak, key, json_type_object);
	struct json_object *path;

	if (!object)
		return;
	path = ms_json_get(&r->in, object, "module", json_type_string);
	if (!path) {
		ms_json_corrupt(&r->in, "\"%s\" has no module", key);
		return;
	}
	ret->module = take_module(r, path);
	ms_json_get_fields(&r->in, object, &ms_json_maker, ret);
}

static void take_like(struct reader *r, struct json_object *object)
{
	struct json_object *pattern = ms_json_get(&r->in, object, "pattern", json_type_string);
	struct json_object *samples = ms_json_get(&r->in, object, "samples", json_type_array);
	struct ms_like *like = push(r, &r->report.likes);
	struct json_object *first = samples ? json_object_array_get_idx(samples, 0) : NULL;
	struct json_object *last = samples ? json_object_array_get_idx(samples, 1) : NULL;

	if (!like)
		return;
	like->count = ms_json_get_amount(&r->in, object, "count", UINT64_MAX);
	if (pattern)
		ms_json_string(pattern, like->pattern, sizeof(like->pattern));
	if (json_object_is_type(first, json_type_string))
		ms_json_string(first, like->first, sizeof(like->first));
	if (json_object_is_type(last, json_type_string))
		ms_json_string(last, like->last, sizeof(like->last));
}

static void take_texts(struct reader *r, struct json_object *object, size_t number)
{
	struct json_object *alike = ms_json_get(&r->in, object, "alike", json_type_array);
	size_t n = alike ? json_object_array_length(alike) : 0;
	struct ms_leak *leak = &r->report.leaks.at[number];
	uint64_t left = ms_json_get_amount(&r->in, object, "count", UINT64_MAX);

	leak->texts = left;
	leak->first_like = (uint32_t)r->report.likes.n;
	for (size_t i = 0; i < n && !r->in.st; i++) {
		struct json_object *like = json_object_array_get_idx(alike, i);

		if (!json_object_is_type(like, json_type_object)) {
			ms_json_corrupt(&r->in, "an entry of \"alike\" is no object");
			return;
		}
		take_like(r, like);
		if (r->in.st)
			return;
		if (r->report.likes.at[leak->first_like + i].count > left) {
			ms_json_corrupt(&r->in, "more texts are alike than there are");
			return;
		}
		left -= r->report.likes.at[leak->first_like + i].count;
		leak->n_likes++;
	}
}

static void take_leak(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct json_object *contents = ms_json_get(&r->in, object, "contents", json_type_string);
	struct json_object *text = ms_json_get(&r->in, object, "text", json_type_string);
	struct json_object *texts = ms_json_get(&r->in, object, "texts", json_type_object);
	struct json_object *sampled = ms_json_get(&r->in, object, "sampled", json_type_object);
	struct json_object *older = ms_json_get(&r->in, object, "before_attach", json_type_boolean);
	struct json_object *callback = ms_json_get(&r->in, object, "callback", json_type_object);
	struct ms_leak *leak = push(r, &r->report.leaks);

	if (!leak)
		return;
	ms_json_get_fields(&r->in, object, &ms_json_leak, leak);
	ms_json_get_fields(&r->in, object, &ms_json_reason, leak);
	ms_json_get_fields(&r->in, object, &ms_json_references, leak);
	if (contents)
		take_contents(r, contents, leak);
	leak->type = take_type(r, object);
	leak->older = older && json_object_get_boolean(older);
	if (sampled)
		ms_json_get_fields(&r->in, sampled, &ms_json_estimate, &leak->sampled);
	take_maker(r, object, "made_by", &leak->maker);
	if (!leak->maker.module) {
		take_maker(r, object, "points_to", &leak->maker);
		leak->unproved = leak->maker.module != 0;
	}
	if (callback)
		leak->callback = ms_json_get_callback(&r->in, callback, r->recent, &r->report);
	if (text)
		ms_json_string(text, leak->text, sizeof(leak->text));
	if (texts)
		take_texts(r, texts, r->report.leaks.n - 1);
	leak->stack = ms_json_get_backtrace(&r->in, object, r->recent, &r->report);
}

static void take_live(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct ms_live *live = push(r, &r->report.live);

	if (!live)
		return;
	live->type = take_type(r, object);
	ms_json_get_fields(&r->in, object, &ms_json_live, live);
	live->least_size = live->size;
	if (has(object, "least_size"))
		live->least_size = ms_json_get_amount(&r->in, object, "least_size", live->size);
	if (live->leaked_allocations > live->allocations || live->leaked_bytes > live->bytes)
		ms_json_corrupt(&r->in, "more blocks are leaked than there are");
}

static void take_site(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct json_object *live = ms_json_get(&r->in, object, "live", json_type_object);
	struct json_object *leaked = ms_json_get(&r->in, object, "leaked", json_type_object);
	struct ms_site *site = push(r, &r->report.sites);

	if (!site)
		return;
	if (!live || !has(object, "backtrace")) {
		ms_json_corrupt(&r->in, "a sampled stack has no live blocks or no calls");
		return;
	}
	ms_json_get_fields(&r->in, live, &ms_json_estimate, &site->live);
	if (leaked)
		ms_json_get_fields(&r->in, leaked, &ms_json_estimate, &site->leaked);
	site->stack = ms_json_get_backtrace(&r->in, object, r->recent, &r->report);
}

/* ---- the outermost object ---- */

static void take_schema(void *reader, struct json_object *value)
{
	struct reader *r = reader;
	static const char of_report[] = "memscan.report/";
	const char *said = json_object_get_string(value);

	if (strcmp(said, schema) == 0)
		return;
	if (strncmp(said, of_report, sizeof(of_report) - 1) == 0)
		ms_json_unsupported(&r->in, "format", said);
	else
		ms_json_corrupt(&r->in, "\"schema\" is '%.40s', not '%s'", said, schema);
}

static const struct ms_json_member members[] = {
	{ "schema", true, false, json_type_string, take_schema },
	{ "host", false, false, json_type_object, take_host },
	{ "target", true, false, json_type_object, take_target },
	{ "scan", true, false, json_type_object, take_scan },
	{ "heaps", true, true, json_type_object, take_heap },
	{ "sampling", false, false, json_type_object, take_sampling },
	{ "totals", true, false, json_type_object, take_totals },
	{ "leaks", true, true, json_type_object, take_leak },
	{ "unlisted", true, false, json_type_object, take_unlisted },
	{ "histogram", false, true, json_type_object, take_live },
	{ "sampled_stacks", false, true, json_type_object, take_site },
	{ "unreachable_mappings", true, true, json_type_object, take_mapping },
	{ "suppressions", false, true, json_type_object, take_suppression },
	{ "warnings", true, true, json_type_string, take_warning },
};

static_assert(sizeof(members) / sizeof(members[0]) == MEMBERS, "a mark for each member");

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

/* The other way round than ms_report_unlisted(). */
static void count_entries(struct reader *r)
{
	const struct ms_unlisted *rest = &r->unlisted;
	struct ms_totals *totals = &r->report.totals;
	const struct ms_leak *leak;
	uint64_t possible = 0;

	ms_vec_for_each (leak, &r->report.leaks)
		possible += leak->kind == MS_LEAK_POSSIBLE;
	totals->small_possible = rest->small_possible;
	totals->small_leaks = sum(rest->small_leaks, rest->small_possible);
	totals->possible = sum(sum(rest->possible, rest->small_possible), possible);
	totals->leaks = sum(sum(rest->leaks, rest->small_leaks),
	                    sum(totals->possible, r->report.leaks.n - possible));
}

static bool was_seen(const struct reader *r, const char *key)
{
	size_t i = 0;

	while (strcmp(members[i].key, key) != 0)
		i++;
	return r->seen[i];
}

enum ms_status ms_json_read_report(const struct ms_json_file *file, struct ms_arena *arena,
                                   struct ms_report *ret, struct ms_error *err)
{
	struct reader r;
	struct ms_json_walk walk = { members, MEMBERS, r.seen, &r };

	memset(&r, 0, sizeof(r));
	ms_json_input_init(&r.in, file, arena, err);
	r.recent = ms_arena_alloc(arena, sizeof(*r.recent));
	if (!r.recent)
		ms_json_no_memory(&r.in);
	ms_json_walk(&r.in, &walk);
	ms_json_input_deinit(&r.in);
	if (r.in.st)
		return r.in.st;
	count_entries(&r);
	r.report.heap = was_seen(&r, "histogram");
	r.report.live_limit = UINT64_MAX;
	*ret = r.report;
	return MS_OK;
}
