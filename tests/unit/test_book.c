/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "report/book/book.h"

enum { WIRE_BYTES = 64 * 1024, N_CODE = 3 };

/* A pipe in memory. */
struct wire {
	size_t len;
	size_t at;
	unsigned char bytes[WIRE_BYTES];
};

static struct ms_arena arena;
static struct ms_book sent;
static struct ms_book got;
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

	if (len > w->len - w->at)
		return false;
	memcpy(bytes, w->bytes + w->at, len);
	w->at += len;
	return true;
}

static void put_type(const char *name, uint32_t size, uint32_t first, uint32_t n)
{
	struct ms_book_type *type = ms_vec_push(&arena, &sent.types);

	*type = (struct ms_book_type){ .name = (uint32_t)sent.text.n,
		                       .module = N_CODE - 1,
		                       .size = size,
		                       .first = first,
		                       .n = n };
	for (size_t i = 0; i <= strlen(name); i++)
		*(char *)ms_vec_push(&arena, &sent.text) = name[i];
}

static void setup(void)
{
	struct ms_book_field *field;
	struct ms_book_variable *variable;

	ms_arena_init(&arena);
	put_type("cache", 48, 0, 2);
	put_type("item", 24, 2, 0);
	field = ms_vec_push(&arena, &sent.fields);
	*field = (struct ms_book_field){ .at = 8, .type = 1, .n = 1, .what = MS_BOOK_TABLE };
	field = ms_vec_push(&arena, &sent.fields);
	*field = (struct ms_book_field){ .at = 16, .type = 1, .n = 4, .what = MS_BOOK_POINTER };
	variable = ms_vec_push(&arena, &sent.variables);
	*variable = (struct ms_book_variable){ .at = 0x4010, .n = 1, .what = MS_BOOK_POINTER };
	ms_note_add(&arena, &sent.warnings, "types of libfoo.so are not all known");
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(book, .init = setup, .fini = teardown);

static enum ms_status receive(void)
{
	const struct ms_wire_link link = { .get = wire_get, .ctx = &wire };

	return ms_book_receive(&link, N_CODE, &arena, &got, &err);
}

/* Send what there is and receive it. */
static enum ms_status pass_on(void)
{
	wire.len = wire.at = 0;
	cr_assert(ms_book_send(wire_put, &wire, &sent));
	return receive();
}

Test(book, what_is_sent_arrives)
{
	cr_assert_eq(pass_on(), MS_OK, "%s", err.text);
	cr_assert_eq(got.types.n, 2);
	cr_assert_arr_eq(got.types.at, sent.types.at, 2 * sizeof(*got.types.at));
	cr_assert_eq(got.fields.n, 2);
	cr_assert_arr_eq(got.fields.at, sent.fields.at, 2 * sizeof(*got.fields.at));
	cr_assert_eq(got.variables.n, 1);
	cr_assert_arr_eq(got.variables.at, sent.variables.at, sizeof(*got.variables.at));
	cr_assert_str_eq(ms_book_name(&got, 0), "cache");
	cr_assert_str_eq(ms_book_name(&got, 1), "item");
	cr_assert_str_eq(got.warnings.at[0].text, "types of libfoo.so are not all known");
	cr_assert_eq(wire.at, wire.len);
}

Test(book, an_empty_one_arrives)
{
	memset(&sent, 0, sizeof(sent));
	cr_assert_eq(pass_on(), MS_OK, "%s", err.text);
	cr_assert_eq(got.types.n, 0);
}

/* Each number that can be wrong, and the least that is. */
Test(book, refuses_what_is_out_of_bounds)
{
	struct ms_book_type *type = sent.types.at;
	struct ms_book_field *field = sent.fields.at;
	struct ms_book_variable *variable = sent.variables.at;
	const struct {
		const char *what;
		uint32_t *at;
		uint32_t value;
	} rows[] = {
		{ "a name behind the text", &type[1].name, (uint32_t)sent.text.n },
		{ "a module that was not asked for", &type[0].module, N_CODE },
		{ "a type without a size", &type[0].size, 0 },
		{ "a field behind the last", &type[1].n, 1 },
		{ "fields that overflow", &type[0].first, UINT32_MAX },
		{ "more fields than there are", &type[0].n, UINT32_MAX },
		{ "a field's type", &field[1].type, 2 },
		{ "what a field holds", &field[0].what, MS_BOOK_WHATS },
		{ "a variable's type", &variable->type, 2 },
		{ "what a variable holds", &variable->what, MS_BOOK_WHATS },
		{ "a variable's module", &variable->module, N_CODE },
		{ "a variable without an end", &variable->n, MS_BOOK_REST },
		{ "a variable that is local in another way", &variable->local, 2 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t before = *rows[i].at;

		*rows[i].at = rows[i].value;
		cr_expect_eq(pass_on(), MS_E_CORRUPT, "%s", rows[i].what);
		*rows[i].at = before;
	}
	cr_assert_eq(pass_on(), MS_OK);
}

Test(book, a_text_ends)
{
	sent.text.at[sent.text.n - 1] = 'x';
	cr_assert_eq(pass_on(), MS_E_CORRUPT);
	sent.text.n = 0;
	cr_assert_eq(pass_on(), MS_E_CORRUPT, "names of no text");
}

Test(book, a_warning_ends)
{
	memset(sent.warnings.at[0].text, 'x', sizeof(sent.warnings.at[0].text));
	cr_assert_eq(pass_on(), MS_OK);
	cr_assert_eq(strlen(got.warnings.at[0].text), MS_NOTE_TEXT - 1);
}

/* A false count costs no memory: it is refused, or the bytes end. */
Test(book, refuses_absurd_counts)
{
	static const uint64_t most[] = { MS_BOOK_TYPES, MS_BOOK_FIELDS, MS_BOOK_VARIABLES,
		                         MS_BOOK_TEXT, MS_BOOK_WARNINGS };
	const size_t lengths[] = { sent.types.n * sizeof(*sent.types.at),
		                   sent.fields.n * sizeof(*sent.fields.at),
		                   sent.variables.n * sizeof(*sent.variables.at), sent.text.n };
	size_t at = 0;

	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		uint64_t more = most[i] + 1;

		(void)pass_on();
		memcpy(wire.bytes + at, &more, sizeof(more));
		wire.at = 0;
		cr_expect_eq(receive(), MS_E_CORRUPT, "%zu", i);
		memcpy(wire.bytes + at, &most[i], sizeof(most[i]));
		wire.at = 0;
		cr_expect_eq(receive(), MS_E_DIED, "%zu", i);
		at += sizeof(more) + (i < 4 ? lengths[i] : 0);
	}
}

Test(book, one_that_is_cut_off_is_none)
{
	size_t len;

	(void)pass_on();
	len = wire.len;
	for (wire.len = 0; wire.len < len; wire.len++) {
		wire.at = 0;
		cr_assert_eq(receive(), MS_E_DIED, "%zu bytes", wire.len);
	}
}

/* ---- asked for over the wire of a report ---- */

static struct ms_report asked;
static bool has_answer;

static bool answer(void *ctx, const struct ms_report *question, struct ms_arena *to,
                   struct ms_book *ret, struct ms_error *why)
{
	cr_assert_eq(ctx, &asked);
	cr_assert_eq(question->code.n, N_CODE);
	cr_assert_not_null(to);
	*ret = sent;
	if (!has_answer)
		(void)ms_fail(why, MS_E_NOMEM, "no room");
	return has_answer;
}

/* Both ends by turns: what one side sends is what the other one reads. */
static struct wire to_sweeper;

static bool put_to_sweeper(void *ctx, const void *bytes, size_t len)
{
	(void)ctx;
	return wire_put(&to_sweeper, bytes, len);
}

static bool get_from_original(void *ctx, void *bytes, size_t len)
{
	(void)ctx;
	return wire_get(&to_sweeper, bytes, len);
}

static enum ms_status serve(bool answers)
{
	const struct ms_wire_link link = { .get = wire_get,
		                           .put = put_to_sweeper,
		                           .ctx = &wire,
		                           .book = answers ? answer : NULL,
		                           .book_ctx = &asked };
	struct ms_report report;

	return ms_wire_serve(&link, &arena, &report, &err);
}

static bool ask(void)
{
	const struct ms_wire_link link = { .get = get_from_original,
		                           .put = wire_put,
		                           .ctx = &wire };

	return ms_wire_ask_book(&link, &asked, &err) &&
	       ms_wire_hear_book(&link, &asked, &arena, &got, &err);
}

static void prepare(bool answers)
{
	for (uint64_t i = 0; i < N_CODE; i++) {
		struct ms_code *code = ms_vec_push(&arena, &asked.code);

		code->range = (struct ms_range){ 0x1000 * (i + 1), 0x1000 * (i + 2) };
	}
	has_answer = answers;
	/* The question alone: there is no answer yet. */
	cr_assert_not(ask());
	wire.at = to_sweeper.at = 0;
}

Test(book, is_the_answer_to_a_question)
{
	prepare(true);
	cr_assert_eq(serve(true), MS_E_DIED, "behind the question nothing follows");
	cr_assert(ask(), "%s", err.text);
	cr_assert_eq(got.types.n, 2);
	cr_assert_str_eq(ms_book_name(&got, 1), "item");
}

Test(book, a_failure_is_an_answer_too)
{
	prepare(false);
	cr_assert_eq(serve(true), MS_E_DIED);
	cr_assert_not(ask());
	cr_assert_eq(err.status, MS_E_NOMEM);
	cr_assert_str_eq(err.text, "no room");
}

Test(book, is_not_given_to_who_may_not_ask)
{
	prepare(true);
	cr_assert_eq(serve(false), MS_E_CORRUPT);
	cr_assert_eq(to_sweeper.len, 0);
}

Test(book, of_lies_is_refused_by_the_one_who_asked)
{
	prepare(true);
	sent.types.at[0].module = N_CODE;
	cr_assert_eq(serve(true), MS_E_DIED);
	cr_assert_not(ask());
	cr_assert_eq(err.status, MS_E_CORRUPT);
}
