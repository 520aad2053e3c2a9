/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A profile for pprof: a sample for each way, with a count and bytes, as "inuse" of heap
 * profiles. What changed from old ones is as pprof's -diff_base has it: these are samples below
 * zero. It is not compressed, which pprof does not ask for; and what the format needs of
 * protobuf's encoding is less than a library for it would add to each machine that memscan is on.
 * Source: github.com/google/pprof, proto/profile.proto.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "report/amounts/amounts.h"
#include "report/utf8.h"

/* Fields of messages, by their numbers; how they are written follows from the function. */
enum {
	PROFILE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT, LABEL_NUMBER, LABEL_UNIT };
enum {
	MAPPING_ID = 1,
	MAPPING_BEGIN,
	MAPPING_END,
	MAPPING_OFFSET,
	MAPPING_FILE,
	MAPPING_HAS_FUNCTIONS = 7
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

enum { NUMBER = 0, BYTES = 2, KIND_BITS = 3, VARINT_BITS = 7, VARINT_MOST = 10 };

enum { LONGEST_CLEAN = 3 }; /* bytes for one of a name: U+FFFD has three */

struct message MS_VEC(uint8_t);

/* A library at an address of its own; @begin is that of its first byte. */
struct mapping {
	const char *library;
	ms_addr begin;
	ms_addr end; /* behind the last place in it */
};

struct profile {
	const struct ms_amounts *amounts;
	struct ms_sink *sink;
	struct ms_arena arena;
	struct ms_map strings; /* by where their text is */
	uint64_t n_strings;
	uint64_t n_functions;
	struct MS_VEC(struct mapping) mappings;
	uint32_t *mapping_of;   /* each place: 0: none */
	struct message message; /* of the profile itself */
	struct message inner;   /* a part of that */
	bool has_groups;
	bool ok;
};

/* ---- messages ---- */

static void add_bytes(struct profile *p, struct message *m, const void *bytes, size_t len)
{
	p->ok = p->ok && ms_vec_reserve(&p->arena, m, m->n + len);
	if (!p->ok || !len)
		return;
	memcpy(m->at + m->n, bytes, len);
	m->n += len;
}

static size_t write_varint(uint8_t ret[VARINT_MOST], uint64_t value)
{
	size_t n = 0;

	for (; value >> VARINT_BITS; value >>= VARINT_BITS)
		ret[n++] = (uint8_t)(value | 1U << VARINT_BITS);
	ret[n++] = (uint8_t)value;
	return n;
}

static void add_varint(struct profile *p, struct message *m, uint64_t value)
{
	uint8_t bytes[VARINT_MOST];

	add_bytes(p, m, bytes, write_varint(bytes, value));
}

static void add_number(struct profile *p, struct message *m, unsigned field, uint64_t value)
{
	add_varint(p, m, field << KIND_BITS | NUMBER);
	add_varint(p, m, value);
}

/* Add the inner message as a field of the one around it, and begin a new one. */
static void add_inner(struct profile *p, unsigned field)
{
	add_varint(p, &p->message, field << KIND_BITS | BYTES);
	add_varint(p, &p->message, p->inner.n);
	add_bytes(p, &p->message, p->inner.at, p->inner.n);
	p->inner.n = 0;
}

static void put(struct profile *p, const void *bytes, size_t len)
{
	p->ok = p->ok && (!len || p->sink->write(p->sink, bytes, len));
}

static void put_field(struct profile *p, unsigned field, const void *bytes, size_t len)
{
	uint8_t head[2 * VARINT_MOST];
	size_t n = write_varint(head, field << KIND_BITS | BYTES);

	n += write_varint(head + n, len);
	put(p, head, n);
	put(p, bytes, len);
}

/* Write the message as a field of the profile, and begin a new one. */
static void put_message(struct profile *p, unsigned field)
{
	put_field(p, field, p->message.at, p->message.n);
	p->message.n = 0;
}

/* Viewers print names as they are, on terminals, too. */
static void put_text(struct profile *p, const char *text)
{
	size_t len = strlen(text);
	size_t cap = len * LONGEST_CLEAN + 1;
	char *clean = ms_arena_alloc(&p->arena, cap);

	p->ok = p->ok && clean;
	if (!p->ok)
		return;
	(void)ms_utf8_clean(text, len, true, clean, cap);
	put_field(p, PROFILE_STRING, clean, strlen(clean));
}

/* The number of @text, which is written when it is first met; 0 is that of "". */
static uint64_t string(struct profile *p, const char *text)
{
	uint64_t number;

	if (!text || !text[0])
		return 0;
	number = ms_map_find(&p->strings, (uintptr_t)text);
	if (number)
		return number;
	put_text(p, text);
	p->ok = p->ok && ms_map_add(&p->strings, &p->arena, (uintptr_t)text, p->n_strings);
	return p->n_strings++;
}

/* ---- places ---- */

/* The number of the mapping of @place, from 1 on; 0: it is in none. */
static uint32_t find_mapping(struct profile *p, const struct ms_place *place)
{
	const ms_addr begin = place->pc - place->offset;
	struct mapping *m;

	if (!place->mapped)
		return 0;
	ms_vec_for_each (m, &p->mappings)
		if (m->begin == begin && strcmp(m->library, place->library) == 0)
			break;
	if (!m || m == p->mappings.at + p->mappings.n) {
		m = ms_vec_push(&p->arena, &p->mappings);
		p->ok = p->ok && m;
		if (!m)
			return 0;
		*m = (struct mapping){ .library = place->library, .begin = begin };
	}
	m->end = m->end > place->pc ? m->end : place->pc + 1;
	return (uint32_t)(m - p->mappings.at) + 1;
}

static void put_mappings(struct profile *p)
{
	const struct ms_places *places = &p->amounts->places;

	p->mapping_of = ms_arena_alloc(&p->arena, (places->n + 1) * sizeof(*p->mapping_of));
	p->ok = p->ok && p->mapping_of;
	for (size_t i = 0; p->ok && i < places->n; i++)
		p->mapping_of[i] = find_mapping(p, &places->at[i]);
	for (size_t i = 0; p->ok && i < p->mappings.n; i++) {
		const struct mapping *m = &p->mappings.at[i];

		add_number(p, &p->message, MAPPING_ID, i + 1);
		add_number(p, &p->message, MAPPING_BEGIN, m->begin);
		add_number(p, &p->message, MAPPING_END, m->end);
		add_number(p, &p->message, MAPPING_OFFSET, 0);
		add_number(p, &p->message, MAPPING_FILE, string(p, m->library));
		/* or pprof looks for names by itself, in files of this machine */
		add_number(p, &p->message, MAPPING_HAS_FUNCTIONS, 1);
		put_message(p, PROFILE_MAPPING);
	}
}

/* What a place is called whose functions are not known; NULL: nothing. */
static const char *own_name(const struct ms_place *place)
{
	return place->functions.n ? NULL : place->own;
}

static void put_function(struct profile *p, const char *name, const char *file)
{
	add_number(p, &p->message, FUNCTION_ID, ++p->n_functions);
	add_number(p, &p->message, FUNCTION_NAME, string(p, name));
	add_number(p, &p->message, FUNCTION_SYSTEM_NAME, string(p, name));
	add_number(p, &p->message, FUNCTION_FILE, string(p, file));
	put_message(p, PROFILE_FUNCTION);
}

/* Those of all places, innermost first, are numbered one after the other. */
static void put_functions(struct profile *p)
{
	const struct ms_function *function;
	const struct ms_place *place;

	ms_vec_for_each (place, &p->amounts->places) {
		ms_vec_for_each (function, &place->functions)
			put_function(p, function->name ? function->name : place->library,
			             function->file);
		if (own_name(place))
			put_function(p, own_name(place), NULL);
	}
}

static void add_line(struct profile *p, uint64_t function, uint32_t line)
{
	add_number(p, &p->inner, LINE_FUNCTION, function);
	add_number(p, &p->inner, LINE_LINE, line);
	add_inner(p, LOCATION_LINE);
}

static void put_locations(struct profile *p)
{
	const struct ms_places *places = &p->amounts->places;
	const struct ms_function *function;
	uint64_t n_functions = 0;

	for (size_t i = 0; p->ok && i < places->n; i++) {
		const struct ms_place *place = &places->at[i];

		add_number(p, &p->message, LOCATION_ID, i + 1);
		add_number(p, &p->message, LOCATION_MAPPING, p->mapping_of[i]);
		add_number(p, &p->message, LOCATION_ADDRESS, place->pc);
		ms_vec_for_each (function, &place->functions)
			add_line(p, ++n_functions, function->line);
		if (own_name(place))
			add_line(p, ++n_functions, 0);
		put_message(p, PROFILE_LOCATION);
	}
}

/* ---- samples ---- */

static void add_label(struct profile *p, const char *key, const char *text)
{
	add_number(p, &p->inner, LABEL_KEY, string(p, key));
	add_number(p, &p->inner, LABEL_TEXT, string(p, text));
	add_inner(p, SAMPLE_LABEL);
}

static void add_size(struct profile *p, uint64_t size)
{
	static const char unit[] = "bytes";

	add_number(p, &p->inner, LABEL_KEY, string(p, unit));
	add_number(p, &p->inner, LABEL_NUMBER, size);
	add_number(p, &p->inner, LABEL_UNIT, string(p, unit));
	add_inner(p, SAMPLE_LABEL);
}

/* Innermost first. */
static void add_locations(struct profile *p, const uint64_t *places, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_varint(p, &p->inner, 1 + places[p->amounts->reversed ? i : n - 1 - i]);
	add_inner(p, SAMPLE_LOCATION);
}

static void put_sample(struct profile *p, const struct ms_amount *amount)
{
	const struct ms_amounts *amounts = p->amounts;
	const uint64_t *keys = amounts->keys.at + amount->first;
	size_t n_above = amounts->second == MS_LEVEL_PLACE || amount->n < 2 ? 1 : 2;
	uint64_t sign = amount->old ? UINT64_MAX : 1;

	add_locations(p, keys + n_above, amount->n - n_above);
	add_varint(p, &p->inner, sign * amount->count);
	add_varint(p, &p->inner, sign * amount->bytes);
	add_inner(p, SAMPLE_VALUE);
	if (p->has_groups)
		add_label(p, "group", amounts->groups[keys[0]]);
	if (n_above > 1 && amounts->second == MS_LEVEL_SIZE)
		add_size(p, keys[1]);
	if (n_above > 1 && amounts->second == MS_LEVEL_NAME)
		add_label(p, "type", amounts->names.at[keys[1]]);
	if (amount->old)
		add_label(p, "pprof::base", "true");
	put_message(p, PROFILE_SAMPLE);
}

static void put_type(struct profile *p, const char *type, const char *unit)
{
	add_number(p, &p->message, TYPE_TYPE, string(p, type));
	add_number(p, &p->message, TYPE_UNIT, string(p, unit));
	put_message(p, PROFILE_TYPE);
}

bool ms_amounts_pprof(const struct ms_amount_tree *tree, struct ms_sink *sink)
{
	struct profile p = { .amounts = tree->amounts, .sink = sink, .ok = true };
	const struct ms_amount *amount;

	p.has_groups = tree->first_root != MS_AMOUNT_NONE &&
	               tree->nodes.at[tree->first_root].next != MS_AMOUNT_NONE;
	put_field(&p, PROFILE_STRING, NULL, 0);
	p.n_strings = 1;
	/* pprof shows the last, unless it is asked for another */
	put_type(&p, "inuse_objects", "count");
	put_type(&p, "inuse_space", "bytes");
	put_mappings(&p);
	put_functions(&p);
	put_locations(&p);
	ms_vec_for_each (amount, &tree->amounts->list)
		if (p.ok)
			put_sample(&p, amount);
	ms_arena_deinit(&p.arena);
	return p.ok;
}
