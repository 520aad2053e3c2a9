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
	sent.anchors = (struct ms_anchors){ 2, { { 0x1000, 0x1008 }, { 0x2000, 0x2010 } } };
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
	cr_assert_arr_eq(&got.anchors, &sent.anchors, sizeof(sent.anchors));
	cr_assert(got.possible && got.heap);
	cr_assert_eq(got.live_limit, sent.live_limit);
	assert_vector(heaps);
	assert_vector(evidence);
	assert_vector(leaks);
	assert_vector(mappings);
	assert_vector(warnings);
	assert_vector(types);
	assert_vector(suppressed);
	assert_vector(stacks);
	assert_vector(pcs);
	assert_vector(code);
	assert_vector(lost);
	assert_vector(live);
	assert_vector(sites);
	cr_assert_arr_eq(&got.sampling, &sent.sampling, sizeof(sent.sampling));
	cr_assert_eq(got.names.n, 0);
	cr_assert_eq(wire.at, wire.len);
}

Test(wire, names_of_types_and_patterns_end)
{
	size_t type = find(sent.types.at, sizeof(*sent.types.at));
	size_t suppressed = find(sent.suppressed.at, sizeof(*sent.suppressed.at));
	size_t leak = find(sent.leaks.at, sizeof(*sent.leaks.at));

	memset(wire.bytes + leak + offsetof(struct ms_leak, signature), 'x', MS_SIGNATURE_TEXT);
	memset(wire.bytes + type, 'x', offsetof(struct ms_type, how));
	memset(wire.bytes + suppressed, 'x', offsetof(struct ms_suppressed, allocations));
	cr_assert_eq(receive(), MS_OK);
	cr_assert_eq(strlen(got.types.at[0].name), MS_TYPE_TEXT - 1);
	cr_assert_eq(strlen(got.types.at[0].module), MS_TYPE_TEXT - 1);
	cr_assert_eq(strlen(got.suppressed.at[0].pattern), MS_TYPE_TEXT - 1);
	cr_assert_eq(strlen(got.leaks.at[0].signature), MS_SIGNATURE_TEXT - 1);
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
	assert_refuses(heap + offsetof(struct ms_heap, doubt), MS_DOUBTS);
	assert_refuses(heap + offsetof(struct ms_heap, n_evidence), 3);
	assert_refuses(mapping + offsetof(struct ms_lost_mapping, range.begin) + 7, 0x80);
	assert_refuses(target + offsetof(struct ms_target_facts, cmdline_len) + 3, 0xff);
}

Test(wire, makers_that_are_not_there_are_refused)
{
	size_t leak = find(sent.leaks.at, sizeof(*sent.leaks.at));
	size_t module = leak + offsetof(struct ms_leak, maker.module);

	assert_refuses(module, (unsigned char)(sent.modules.n + 1));
	assert_refuses(module + 3, 0xff);
}

Test(wire, live_blocks_that_make_no_sense_are_refused)
{
	size_t live = find(sent.live.at + 1, sizeof(*sent.live.at));

	assert_refuses(live + offsetof(struct ms_live, type), (unsigned char)(sent.types.n + 1));
	assert_refuses(live + offsetof(struct ms_live, type) + 3, 0xff);
	assert_refuses(live + offsetof(struct ms_live, least_size), 101);
	assert_refuses(live + offsetof(struct ms_live, leaked_allocations), 6);
	assert_refuses(live + offsetof(struct ms_live, leaked_bytes) + 7, 1);
}

Test(wire, stacks_out_of_range_are_refused)
{
	size_t leak = find(sent.leaks.at, sizeof(*sent.leaks.at));
	size_t stack = find(sent.stacks.at, sent.stacks.n * sizeof(*sent.stacks.at));
	size_t last = stack + sizeof(struct ms_stack);

	assert_refuses(leak + offsetof(struct ms_leak, stack), (unsigned char)(sent.stacks.n + 1));
	assert_refuses(leak + offsetof(struct ms_leak, stack) + 3, 0xff);
	assert_refuses(stack + offsetof(struct ms_stack, n), 3); /* more frames than there are */
	assert_refuses(stack + offsetof(struct ms_stack, n) + 3, 0xff);
	assert_refuses(last + offsetof(struct ms_stack, first), 3);
	assert_refuses(last + offsetof(struct ms_stack, first) + 3, 0xff);
}

Test(wire, sites_without_a_stack_are_refused)
{
	size_t site = find(sent.sites.at, sent.sites.n * sizeof(*sent.sites.at));
	size_t sampling = find(&sent.sampling, sizeof(sent.sampling));

	assert_refuses(site + offsetof(struct ms_site, stack), 0);
	assert_refuses(site + offsetof(struct ms_site, stack), (unsigned char)(sent.stacks.n + 1));
	assert_refuses(site + offsetof(struct ms_site, stack) + 3, 0xff);
	assert_refuses(sampling + offsetof(struct ms_sampling, stacks), 1); /* there are more */
}

Test(wire, a_stack_that_begins_beyond_all_is_refused)
{
	size_t stack = find(sent.stacks.at, sent.stacks.n * sizeof(*sent.stacks.at));

	memset(wire.bytes + stack + offsetof(struct ms_stack, first), 0xff, sizeof(uint32_t));
	cr_assert_eq(receive(), MS_E_CORRUPT);
}

/* The second mapping of four begins at 7f0000000000, and the third at 7f0000002000. */
Test(wire, code_out_of_order_is_refused)
{
	size_t second = find(sent.code.at + 1, sizeof(*sent.code.at));
	size_t third = second + sizeof(*sent.code.at);

	assert_refuses(second + offsetof(struct ms_code, range.begin) + 1, 0x10); /* no bytes */
	assert_refuses(second + offsetof(struct ms_code, range.begin) + 1, 0x20);
	assert_refuses(second + offsetof(struct ms_code, range.end) + 1, 0x21);
	assert_refuses(third + offsetof(struct ms_code, range.begin) + 1, 0x00);
	assert_refuses(third + offsetof(struct ms_code, build_id_len), MS_BUILD_ID_BYTES + 1);
}

Test(wire, lost_blocks_out_of_order_are_refused)
{
	size_t first = find(sent.lost.at, 2 * sizeof(*sent.lost.at));
	size_t second = first + sizeof(*sent.lost.at);

	assert_refuses(first + offsetof(struct ms_lost, address) + 2, 0x46);
	assert_refuses(second + offsetof(struct ms_lost, address) + 2, 0x44);
	memcpy(wire.bytes + second, sent.lost.at, sizeof(ms_addr));
	cr_assert_eq(receive(), MS_E_CORRUPT);
}

Test(wire, anchors_that_make_no_sense_are_refused)
{
	size_t anchors = find(&sent.anchors, sizeof(sent.anchors));
	size_t last = anchors + offsetof(struct ms_anchors, at) + sizeof(struct ms_range);

	assert_refuses(anchors + offsetof(struct ms_anchors, n), MS_ANCHORS + 1);
	assert_refuses(anchors + offsetof(struct ms_anchors, n) + 3, 0x80);
	assert_refuses(last + offsetof(struct ms_range, end), 0); /* no bytes */
}

Test(wire, names_of_code_end)
{
	size_t code = find(sent.code.at, sizeof(*sent.code.at));

	memset(wire.bytes + code + offsetof(struct ms_code, name), 'x', MS_PATH_TEXT);
	cr_assert_eq(receive(), MS_OK);
	cr_assert_eq(strlen(got.code.at[0].name), MS_PATH_TEXT - 1);
}

/* ---- questions on the way ---- */

/* The sweeper's side of a conversation is written down first; the answers stand in `reply`. */
static struct wire reply;
static unsigned int judged;
static bool refuses;

static bool reply_put(void *ctx, const void *bytes, size_t len)
{
	(void)ctx;
	return wire_put(&reply, bytes, len);
}

static bool reply_get(void *ctx, void *bytes, size_t len)
{
	(void)ctx;
	return wire_get(&reply, bytes, len);
}

static bool sent_put(void *ctx, const void *bytes, size_t len)
{
	(void)ctx;
	return wire_put(&wire, bytes, len);
}

static bool sent_get(void *ctx, void *bytes, size_t len)
{
	(void)ctx;
	return wire_get(&wire, bytes, len);
}

static bool number_stacks(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                          struct ms_error *error)
{
	cr_assert_eq(ctx, &judged);
	judged++;
	cr_assert_eq(asked->stacks.n, sent.stacks.n);
	cr_assert_arr_eq(asked->pcs.at, sent.pcs.at, sent.pcs.n * sizeof(*sent.pcs.at));
	cr_assert_arr_eq(asked->code.at, sent.code.at, sent.code.n * sizeof(*sent.code.at));
	if (refuses)
		return false;
	for (uint32_t i = 0; i < asked->stacks.n; i++)
		verdicts[i] = 100 + i;
	(void)error;
	return true;
}

static const struct ms_wire_link original = {
	.get = sent_get, .put = reply_put, .judge = number_stacks, .judge_ctx = &judged
};
static const struct ms_wire_link sweeper = { .get = reply_get, .put = sent_put };

/* Put a question on the wire; there is no answer yet. */
static void put_question(void)
{
	uint32_t verdicts[2];

	cr_assert_not(ms_wire_ask(&sweeper, &sent, verdicts, &err));
}

static void put_report(void)
{
	const struct ms_error none = { .status = MS_OK };

	cr_assert(ms_wire_send(wire_put, &wire, &none, &sent));
}

static void begin_talk(void)
{
	memset(&wire, 0, sizeof(wire));
	memset(&reply, 0, sizeof(reply));
	wire.ends = reply.ends = SIZE_MAX;
}

static enum ms_status serve(void)
{
	wire.at = reply.len = reply.at = 0;
	judged = 0;
	return ms_wire_serve(&original, &arena, &got, &err);
}

/* Ask again, now that there is an answer: what was sent must not change. */
static bool read_answer(uint32_t *verdicts)
{
	return ms_wire_ask(&sweeper, &sent, verdicts, &err);
}

Test(wire, a_question_is_answered_before_the_report)
{
	uint32_t verdicts[2] = { 0 };

	begin_talk();
	put_question();
	put_report();
	cr_assert_eq(serve(), MS_OK, "%s", err.text);
	cr_assert_eq(judged, 1);
	assert_vector(leaks);
	cr_assert(read_answer(verdicts));
	cr_assert_eq(verdicts[0], 100);
	cr_assert_eq(verdicts[1], 101);
	cr_assert_eq(reply.at, reply.len);
}

Test(wire, a_refusal_to_judge_arrives_with_its_reason)
{
	uint32_t verdicts[2];

	begin_talk();
	put_question();
	put_report();
	refuses = true;
	cr_assert_eq(serve(), MS_OK);
	cr_assert_not(read_answer(verdicts));
	cr_assert_str_eq(err.text, "the reason is not known");
	cr_assert_eq(reply.at, reply.len);
}

Test(wire, an_answer_that_ends_early_is_none)
{
	uint32_t verdicts[2];

	begin_talk();
	put_question();
	put_report();
	cr_assert_eq(serve(), MS_OK);
	for (reply.ends = 0; reply.ends < reply.len; reply.ends++) {
		reply.at = wire.len = 0;
		cr_assert_not(read_answer(verdicts), "%zu", reply.ends);
		cr_assert_str_eq(err.text, "the answer ended in the middle");
	}
}

Test(wire, endless_questions_are_refused)
{
	begin_talk();
	for (int i = 0; i < MS_WIRE_QUESTIONS; i++)
		put_question();
	put_report();
	cr_assert_eq(serve(), MS_OK);
	cr_assert_eq(judged, MS_WIRE_QUESTIONS);
	begin_talk();
	for (int i = 0; i <= MS_WIRE_QUESTIONS; i++)
		put_question();
	put_report();
	cr_assert_eq(serve(), MS_E_CORRUPT);
	cr_assert_eq(judged, MS_WIRE_QUESTIONS);
}

Test(wire, questions_are_refused_where_nobody_judges)
{
	begin_talk();
	put_question();
	cr_assert_eq(receive(), MS_E_CORRUPT);
	cr_assert_eq(judged, 0);
}

Test(wire, a_question_that_ends_early_is_a_death)
{
	begin_talk();
	put_question();
	for (wire.ends = 0; wire.ends < wire.len; wire.ends++) {
		cr_assert_eq(serve(), MS_E_DIED, "at %zu", wire.ends);
		cr_assert_eq(judged, 0);
	}
}

Test(wire, a_question_out_of_range_is_refused)
{
	size_t stack;

	begin_talk();
	put_question();
	stack = find(sent.stacks.at, sent.stacks.n * sizeof(*sent.stacks.at));
	wire.bytes[stack + offsetof(struct ms_stack, first)] = 0xff;
	cr_assert_eq(serve(), MS_E_CORRUPT);
	cr_assert_eq(judged, 0);
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
		find(sent.stacks.at, sent.stacks.n * sizeof(*sent.stacks.at)) - 8,
		find(sent.pcs.at, sent.pcs.n * sizeof(*sent.pcs.at)) - 8,
		find(sent.code.at, sizeof(*sent.code.at)) - 8,
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
