/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A frame of JSON is a function; a run of frames of which all but the last are inlined is
 * an address. Names of addresses stand beside the addresses, number by number.
 */
#include "report/json/backtraces.h"

#include <string.h>

#include "base/hash.h"

enum { LONGEST_NAME = 16 * 1024 };

struct frame {
	ms_addr pc;
	bool inlined;
	struct ms_symbol symbol;
};

uint64_t ms_json_hash(uint64_t hash, const char *s)
{
	hash = ms_hash(hash, s, strlen(s));
	return hash ^ hash >> 32;
}

/* The string of @key in the arena, NULL when there is none. */
static const char *get_text(struct ms_json_input *in, struct json_object *object, const char *key,
                            struct ms_json_recent *recent)
{
	struct json_object *value = ms_json_get(in, object, key, json_type_string);
	char text[LONGEST_NAME];
	const char **slot;

	if (!value)
		return NULL;
	ms_json_string(value, text, sizeof(text));
	/* As it is written: one that is empty is not. */
	if (!*text)
		return NULL;
	slot = &recent->texts[ms_json_recent_at(ms_json_hash(0, text))];
	if (*slot && strcmp(*slot, text) == 0)
		return *slot;
	*slot = ms_arena_strndup(in->arena, text, sizeof(text));
	if (!*slot)
		ms_json_no_memory(in);
	return *slot;
}

/* Frame @i, or NULL behind a failure. */
static struct json_object *frame_at(struct ms_json_input *in, struct json_object *frames, size_t i)
{
	struct json_object *object = json_object_array_get_idx(frames, i);

	if (json_object_is_type(object, json_type_object))
		return object;
	ms_json_corrupt(in, "a frame is no object");
	return NULL;
}

static struct frame get_frame(struct ms_json_input *in, struct json_object *object,
                              struct ms_json_recent *recent)
{
	struct json_object *inlined = ms_json_get(in, object, "inlined", json_type_boolean);
	struct json_object *unloaded = ms_json_get(in, object, "unloaded", json_type_boolean);
	struct frame ret = {
		.pc = ms_json_get_address(in, object, "pc"),
		.inlined = inlined && json_object_get_boolean(inlined),
		.symbol = {
			.module = get_text(in, object, "module", recent),
			.rel_pc = ms_json_get_address(in, object, "offset"),
			.build_id = get_text(in, object, "build_id", recent),
			.function = get_text(in, object, "function", recent),
			.file = get_text(in, object, "file", recent),
			.line = (uint32_t)ms_json_get_amount(in, object, "line", UINT32_MAX),
			.unloaded = unloaded && json_object_get_boolean(unloaded),
		},
	};

	if (!ms_json_get(in, object, "pc", json_type_string))
		ms_json_corrupt(in, "a frame has no \"pc\"");
	return ret;
}

/* Frames [@first, @last] of one address: functions inlined there, and the one they are in. */
struct run {
	struct json_object *frames;
	size_t first;
	size_t last;
};

static void put_functions(struct ms_json_input *in, const struct run *run,
                          struct ms_json_recent *recent, struct ms_named *ret)
{
	size_t n = run->last - run->first + 1;

	ret->functions.at = ms_arena_alloc(in->arena, n * sizeof(*ret->functions.at));
	if (!ret->functions.at) {
		ms_json_no_memory(in);
		return;
	}
	for (size_t i = run->first; i <= run->last; i++) {
		struct frame frame = get_frame(in, frame_at(in, run->frames, i), recent);

		ret->functions.at[ret->functions.n++] = (struct ms_function){
			.name = frame.symbol.function,
			.file = frame.symbol.file,
			.line = frame.symbol.line,
		};
	}
	ret->symbol.function = NULL; /* it would stand in for a function without a name */
}

/* Add the address of @run, of which @frame is the last. */
static void put_address(struct ms_json_input *in, const struct run *run, const struct frame *frame,
                        struct ms_json_recent *recent, struct ms_report *report)
{
	ms_addr *pc = ms_vec_push(in->arena, &report->pcs);
	struct ms_named *named = ms_vec_push(in->arena, &report->names);

	if (!pc || !named) {
		ms_json_no_memory(in);
		return;
	}
	*pc = frame->pc;
	*named = (struct ms_named){ .symbol = frame->symbol };
	if (run->first < run->last)
		put_functions(in, run, recent, named);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_name(const struct ms_named *a, const struct ms_named *b)
{
	bool same = same_text(a->symbol.module, b->symbol.module) &&
	            same_text(a->symbol.build_id, b->symbol.build_id) &&
	            same_text(a->symbol.function, b->symbol.function) &&
	            same_text(a->symbol.file, b->symbol.file) &&
	            a->symbol.rel_pc == b->symbol.rel_pc && a->symbol.line == b->symbol.line &&
	            a->functions.n == b->functions.n;

	for (size_t i = 0; same && i < a->functions.n; i++)
		same = same_text(a->functions.at[i].name, b->functions.at[i].name) &&
		       same_text(a->functions.at[i].file, b->functions.at[i].file) &&
		       a->functions.at[i].line == b->functions.at[i].line;
	return same;
}

static bool same_stack(const struct ms_report *report, const struct ms_stack *a,
                       const struct ms_stack *b)
{
	bool same = a->n == b->n && a->cut == b->cut;

	for (uint32_t i = 0; same && i < a->n; i++)
		same = report->pcs.at[a->first + i] == report->pcs.at[b->first + i] &&
		       same_name(&report->names.at[a->first + i], &report->names.at[b->first + i]);
	return same;
}

/* The number of the addresses from @first on, which are dropped if they are there already. */
static uint32_t add_stack(struct ms_json_input *in, size_t first, bool cut,
                          struct ms_json_recent *recent, struct ms_report *report)
{
	struct ms_stack stack = { (uint32_t)first, (uint32_t)(report->pcs.n - first), cut };
	uint64_t hash = 0;
	struct ms_stack *slot;
	uint32_t *seen;

	for (size_t i = first; i < report->pcs.n; i++)
		hash = (hash ^ report->pcs.at[i]) * UINT64_C(0x9e3779b97f4a7c15);
	seen = &recent->stacks[ms_json_recent_at(hash ^ hash >> 32)];
	if (*seen && same_stack(report, &report->stacks.at[*seen - 1], &stack)) {
		report->pcs.n = report->names.n = first;
		return *seen;
	}
	slot = ms_vec_push(in->arena, &report->stacks);
	if (!slot) {
		ms_json_no_memory(in);
		return 0;
	}
	*slot = stack;
	*seen = (uint32_t)report->stacks.n;
	return *seen;
}

uint32_t ms_json_get_backtrace(struct ms_json_input *in, struct json_object *object,
                               struct ms_json_recent *recent, struct ms_report *report)
{
	struct json_object *frames = ms_json_get(in, object, "backtrace", json_type_array);
	struct json_object *cut = ms_json_get(in, object, "backtrace_cut", json_type_boolean);
	size_t n = frames ? json_object_array_length(frames) : 0;
	size_t first = report->pcs.n;
	struct run run = { .frames = frames };
	ms_addr pc = 0;

	if (!frames)
		return 0;
	for (; run.last < n && !in->st; run.last++) {
		struct frame frame = get_frame(in, frame_at(in, frames, run.last), recent);

		if (run.first < run.last && frame.pc != pc)
			ms_json_corrupt(in, "an inlined function has another \"pc\"");
		pc = frame.pc;
		if (frame.inlined)
			continue;
		put_address(in, &run, &frame, recent, report);
		run.first = run.last + 1;
	}
	if (run.first < run.last)
		ms_json_corrupt(in, "the last frame is inlined into nothing");
	if (report->pcs.n - first > MS_STACK_FRAMES || report->pcs.n >= UINT32_MAX)
		ms_json_corrupt(in, "it has too many frames");
	return in->st ? 0
	              : add_stack(in, first, cut && json_object_get_boolean(cut), recent, report);
}

uint32_t ms_json_get_callback(struct ms_json_input *in, struct json_object *object,
                              struct ms_json_recent *recent, struct ms_report *report)
{
	const struct run alone = { .frames = NULL };
	struct frame frame = get_frame(in, object, recent);

	if (report->pcs.n >= UINT32_MAX)
		ms_json_corrupt(in, "it has too many frames");
	if (!in->st)
		put_address(in, &alone, &frame, recent, report);
	return in->st ? 0 : (uint32_t)report->pcs.n;
}
