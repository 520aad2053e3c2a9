/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stddef.h>

#include "golden/sample.h"
#include "report/wire.h"

enum { WIRE_BYTES = 2 * 1024 * 1024 };

/* A pipe in memory. */
struct wire {
	size_t len;
	size_t at;
	size_t ends; /* after so many bytes the reader sees the end */
	unsigned char bytes[WIRE_BYTES];
};

static struct ms_arena arena;
static struct ms_report sent;
static struct ms_report got;
static struct ms_error err;
static struct wire wire;

static bool wire_put(void *ctx, const void *bytes, size_t len)
{
	struct wire *w = ctx;

	cr_assert_leq(len, sizeof(w->bytes) - w->len);
	memcpy(w->bytes + w->len, bytes, len);
	w->len += len;
	return true;
}

static bool wire_get(void *ctx, void *bytes, size_t len)
{
	struct wire *w = ctx;
	size_t end = w->ends < w->len ? w->ends : w->len;

	if (len > end - w->at)
		return false;
	memcpy(bytes, w->bytes + w->at, len);
	w->at += len;
	return true;
}

static void setup(void)
{
	const struct ms_error none = { .status = MS_OK };

	ms_arena_init(&arena);
	sample_report(&arena, &sent);
	wire.ends = SIZE_MAX;
	cr_assert(ms_wire_send(wire_put, &wire, &none, &sent));
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(wire, .init = setup, .fini = teardown);

static enum ms_status receive(void)
{
	wire.at = 0;
	return ms_wire_receive(wire_get, &wire, &arena, &got, &err);
}

/* Where @bytes of the sample stand on the wire. */
static size_t find(const void *bytes, size_t len)
{
	const unsigned char *hit = memmem(wire.bytes, wire.len, bytes, len);

	cr_assert_not_null(hit);
	return (size_t)(hit - wire.bytes);
}

#define assert_vector(name)                                                                       \
	do {                                                                                      \
		cr_assert_eq(got.name.n, sent.name.n);                                            \
		cr_assert_arr_eq(got.name.at, sent.name.at, sent.name.n * sizeof(*sent.name.at)); \
	} while (0)

Test(wire, what_is_sent_arrives)
{
	cr_assert_eq(receive(), MS_OK, "%s", err.text);
	cr_assert_arr_eq(&got.host, &sent.host, sizeof(sent.host));
	cr_assert_arr_eq(&got.target, &sent.target, sizeof(sent.target));
	cr_assert_arr_eq(&got.scan, &sent.scan, sizeof(sent.scan));
	cr_assert_arr_eq(&got.totals, &sent.totals, sizeof(sent.totals));
	cr_assert(got.possible);
	assert_vector(heaps);
	assert_vector(evidence);
	assert_vector(leaks);
	assert_vector(mappings);
	assert_vector(warnings);
	assert_vector(types);
	assert_vector(suppressed);
	cr_assert_eq(wire.at, wire.len);
}

Test(wire, names_of_types_and_patterns_end)
{
	size_t type = find(sent.types.at, sizeof(*sent.types.at));
	size_t suppressed = find(sent.suppressed.at, sizeof(*sent.suppressed.at));

	memset(wire.bytes + type, 'x', offsetof(struct ms_type, how));
	memset(wire.bytes + suppressed, 'x', offsetof(struct ms_suppressed, allocations));
	cr_assert_eq(receive(), MS_OK);
	cr_assert_eq(strlen(got.types.at[0].name), MS_TYPE_TEXT - 1);
	cr_assert_eq(strlen(got.types.at[0].module), MS_TYPE_TEXT - 1);
	cr_assert_eq(strlen(got.suppressed.at[0].pattern), MS_TYPE_TEXT - 1);
}

Test(wire, a_vector_of_many_pieces_arrives)
{
	static struct ms_report many;
	enum { N = 8000 }; /* more than a MiB */

	many.warnings.n = 0;
	for (int i = 0; i < N; i++)
		ms_note_add(&arena, &many.warnings, "warning %d", i);
	memset(&wire, 0, sizeof(wire));
	wire.ends = SIZE_MAX;
	cr_assert(ms_wire_send(wire_put, &wire, &(struct ms_error){ .status = MS_OK }, &many));
	cr_assert_eq(receive(), MS_OK);
	cr_assert_eq(got.warnings.n, N);
	cr_assert_str_eq(got.warnings.at[N - 1].text, "warning 7999");
}

Test(wire, a_failure_arrives_with_its_text_and_nothing_else)
{
	struct ms_error failure = { .status = MS_OK };

	(void)ms_fail(&failure, MS_E_BUSY, "changing");
	ms_advise(&failure, "wait");
	memset(&wire, 0, sizeof(wire));
	wire.ends = SIZE_MAX;
	cr_assert(ms_wire_send(wire_put, &wire, &failure, &sent));
	cr_assert_eq(receive(), MS_E_BUSY);
	cr_assert_eq(err.status, MS_E_BUSY);
	cr_assert_str_eq(err.text, "changing");
	cr_assert_str_eq(err.advice, "wait");
	cr_assert_lt(wire.len, 1024);
}

Test(wire, an_end_at_any_byte_is_a_death)
{
	for (size_t ends = 0; ends < wire.len; ends++) {
		wire.ends = ends;
		cr_assert_eq(receive(), MS_E_DIED, "at %zu of %zu", ends, wire.len);
		cr_assert_str_eq(err.text, "the report ended in the middle");
	}
}

/* Refused, or taken and then fit for every writer. */
Test(wire, any_one_wrong_byte_harms_nothing)
{
	static struct keeper keeper;

	for (size_t i = 0; i < wire.len; i++) {
		unsigned char good = wire.bytes[i];

		wire.bytes[i] = 0xff;
		if (receive() == MS_OK) {
			keep_report(&keeper, "text", &got);
			keep_report(&keeper, "json", &got);
		}
		wire.bytes[i] = good;
		ms_arena_deinit(&arena);
	}
}

/* See @value refused in place of the byte at @offset. */
static void assert_refuses(size_t offset, unsigned char value)
{
	unsigned char good = wire.bytes[offset];

	wire.bytes[offset] = value;
	cr_assert_eq(receive(), MS_E_CORRUPT, "byte %zu", offset);
	wire.bytes[offset] = good;
	cr_assert_eq(receive(), MS_OK);
}

Test(wire, another_beginning_is_refused)
{
	assert_refuses(0, 0x41);
	assert_refuses(4, 0x41);
}

Test(wire, an_unknown_outcome_is_refused)
{
	size_t outcome = 8;

	assert_refuses(outcome + offsetof(struct ms_error, status), MS_E_DIED + 1);
	assert_refuses(outcome + offsetof(struct ms_error, status) + 3, 0x80);
}

Test(wire, numbers_out_of_range_are_refused)
{
	size_t leak = find(sent.leaks.at, sizeof(*sent.leaks.at));
	size_t heap = find(sent.heaps.at, sizeof(*sent.heaps.at));
	size_t mapping = find(sent.mappings.at, sizeof(*sent.mappings.at));
	size_t type = find(sent.types.at, sizeof(*sent.types.at));
	size_t target = find(&sent.target, sizeof(sent.target));

	assert_refuses(leak + offsetof(struct ms_leak, kind), MS_LEAK_KINDS);
	assert_refuses(leak + offsetof(struct ms_leak, reason), MS_REASONS);
	assert_refuses(leak + offsetof(struct ms_leak, contents_len), MS_CONTENTS + 1);
	assert_refuses(leak + offsetof(struct ms_leak, type), (unsigned char)(sent.types.n + 1));
	assert_refuses(leak + offsetof(struct ms_leak, type) + 3, 0xff);
	assert_refuses(type + offsetof(struct ms_type, how), MS_HOWS);
	assert_refuses(heap + offsetof(struct ms_heap, verified), 2);
	assert_refuses(heap + offsetof(struct ms_heap, n_evidence), 3);
	assert_refuses(mapping + offsetof(struct ms_lost_mapping, range.begin) + 7, 0x80);
	assert_refuses(target + offsetof(struct ms_target_facts, cmdline_len) + 3, 0xff);
}

Test(wire, absurd_counts_are_refused_or_end_early_and_cost_no_memory)
{
	/* The count stands right before the entries. */
	const size_t counts[] = {
		find(sent.heaps.at, sizeof(*sent.heaps.at)) - 8,
		find(sent.evidence.at, sizeof(*sent.evidence.at)) - 8,
		find(sent.leaks.at, sizeof(*sent.leaks.at)) - 8,
		find(sent.mappings.at, sizeof(*sent.mappings.at)) - 8,
		find(sent.warnings.at, sizeof(*sent.warnings.at)) - 8,
		find(sent.types.at, sizeof(*sent.types.at)) - 8,
		find(sent.suppressed.at, sizeof(*sent.suppressed.at)) - 8,
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		assert_refuses(counts[i] + 7, 0xff);
		assert_refuses(counts[i] + 4, 0xff);
		wire.bytes[counts[i] + 1] = 0x0f;
		cr_assert_eq(receive(), MS_E_DIED, "vector %zu", i);
		wire.bytes[counts[i] + 1] = 0;
	}
}

Test(wire, strings_without_end_are_ended)
{
	size_t exe =
		find(&sent.target, sizeof(sent.target)) + offsetof(struct ms_target_facts, exe);
	size_t warning = find(sent.warnings.at, sizeof(*sent.warnings.at));

	memset(wire.bytes + exe, 'x', MS_PATH_TEXT);
	memset(wire.bytes + warning, 'y', MS_NOTE_TEXT);
	cr_assert_eq(receive(), MS_OK);
	cr_assert_eq(strnlen(got.target.exe, MS_PATH_TEXT), MS_PATH_TEXT - 1);
	cr_assert_eq(strnlen(got.warnings.at[0].text, MS_NOTE_TEXT), MS_NOTE_TEXT - 1);
}
