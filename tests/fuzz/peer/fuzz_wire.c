/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what the sweeper and the original tell each other (report/wire.h): reports and
 * questions as the original reads them, answers (verdicts, type books) as the sweeper does.
 *
 *	fuzz: -max_len=128 -len_control=0
 *
 * The first byte of an input chooses which; the others say how what an honest process
 * sends is changed (pieces.h). It must neither crash nor run on. What is taken for good
 * must be in bounds, and can be written in every format.
 */

#include "golden/answer.h"
#include "report/book/book.h"

#include "pieces.h"

enum what { REPORT, QUESTION, ANSWER, BOOK_QUESTION, BOOK, WHATS };

static struct pieces sent;

static bool ends(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

static bool sink_write(struct ms_sink *sink, const char *bytes, size_t len)
{
	(void)sink;
	require(!memchr(bytes, '\0', len), "text has no NUL");
	return true;
}

static void check_stacks(const struct ms_report *r)
{
	const struct ms_stack *stack;
	const struct ms_code *code;
	ms_addr end = 0;

	ms_vec_for_each (stack, &r->stacks)
		require(stack->first <= r->pcs.n && stack->n <= r->pcs.n - stack->first,
		        "a stack's calls are there");
	ms_vec_for_each (code, &r->code) {
		require(code->range.begin >= end && code->range.end > code->range.begin,
		        "code is in order");
		require(ends(code->name, sizeof(code->name)) &&
		                code->build_id_len <= sizeof(code->build_id),
		        "code has a name");
		end = code->range.end;
	}
}

static void check_report(const struct ms_report *r)
{
	static const char *const formats[] = { "text", "json" };
	struct ms_sink sink = { sink_write, false };
	const struct ms_live *live;
	const struct ms_leak *leak;
	const struct ms_note *note;

	check_stacks(r);
	ms_vec_for_each (leak, &r->leaks)
		require(leak->type <= r->types.n && leak->stack <= r->stacks.n &&
		                leak->contents_len <= sizeof(leak->contents),
		        "what a leak has is there");
	ms_vec_for_each (live, &r->live)
		require(live->type <= r->types.n, "a live block's type is there");
	ms_vec_for_each (note, &r->warnings)
		require(ends(note->text, sizeof(note->text)), "a warning ends");
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		require(ms_writer_find(formats[i])->write(r, &sink) &&
		                ms_answer_writer_find(formats[i])->write(r, &sink),
		        "it is written");
}

static void check_error(enum ms_status st, const struct ms_error *err)
{
	require(st == MS_OK || (ends(err->text, sizeof(err->text)) &&
	                        ends(err->advice, sizeof(err->advice))),
	        "an error is told");
}

static bool judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                  struct ms_error *err)
{
	bool *answers = ctx;

	check_stacks(asked);
	for (size_t i = 0; i < asked->stacks.n; i++)
		verdicts[i] = (uint32_t)i;
	if (!*answers)
		(void)ms_fail(err, MS_E_NOMEM, "no answer");
	return *answers;
}

/* ---- type books ---- */

static void make_book(struct ms_arena *arena, struct ms_book *ret)
{
	static const char names[] = "cache\0item";
	struct ms_book_field *field;
	struct ms_book_variable *variable;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < 2; i++) {
		struct ms_book_type *type = ms_vec_push(arena, &ret->types);

		*type = (struct ms_book_type){ .name = 6 * i, .size = 24, .first = i, .n = 1 };
		field = ms_vec_push(arena, &ret->fields);
		*field = (struct ms_book_field){ 8, 1, 1, i ? MS_BOOK_TABLE : MS_BOOK_POINTER };
	}
	for (size_t i = 0; i < sizeof(names); i++)
		*(char *)ms_vec_push(arena, &ret->text) = names[i];
	variable = ms_vec_push(arena, &ret->variables);
	*variable = (struct ms_book_variable){ .at = 0x4000, .n = 1, .what = MS_BOOK_POINTER };
	ms_note_add(arena, &ret->warnings, "types are missing");
}

static void check_what(const struct ms_book *book, uint32_t what, uint32_t type)
{
	require(what < MS_BOOK_WHATS && type < book->types.n, "what is held is there");
}

static void check_book(const struct ms_book *book, size_t n_code)
{
	const struct ms_book_variable *variable;
	const struct ms_book_field *field;
	const struct ms_note *note;

	for (uint32_t i = 0; i < book->types.n; i++) {
		const struct ms_book_type *type = &book->types.at[i];

		require(type->size && type->module < n_code && type->first <= book->fields.n &&
		                type->n <= book->fields.n - type->first,
		        "what a type has is there");
		require(type->name < book->text.n &&
		                ends(ms_book_name(book, i), book->text.n - type->name),
		        "a name ends");
	}
	ms_vec_for_each (field, &book->fields)
		check_what(book, field->what, field->type);
	ms_vec_for_each (variable, &book->variables) {
		check_what(book, variable->what, variable->type);
		require(variable->module < n_code, "a variable's module is there");
	}
	ms_vec_for_each (note, &book->warnings)
		require(ends(note->text, sizeof(note->text)), "a warning ends");
}

static bool give_book(void *ctx, const struct ms_report *asked, struct ms_arena *arena,
                      struct ms_book *ret, struct ms_error *err)
{
	bool *answers = ctx;

	check_stacks(asked);
	make_book(arena, ret);
	if (!*answers)
		(void)ms_fail(err, MS_E_NOMEM, "no answer");
	return *answers;
}

/* All of it is read, as a pipe would. */
static bool ignore_put(void *ctx, const void *bytes, size_t len)
{
	static volatile uint8_t last;

	(void)ctx;
	for (size_t i = 0; i < len; i++)
		last = ((const uint8_t *)bytes)[i];
	(void)last;
	return true;
}

static void serve(bool answers)
{
	struct ms_wire_link link = { .get = pieces_get,
		                     .put = ignore_put,
		                     .ctx = &sent,
		                     .judge = judge,
		                     .judge_ctx = &answers,
		                     .book = give_book,
		                     .book_ctx = &answers };
	struct ms_arena arena = { 0 };
	struct ms_report got;
	struct ms_error err;
	enum ms_status st;

	memset(&err, 0, sizeof(err));
	st = ms_wire_serve(&link, &arena, &got, &err);
	check_error(st, &err);
	if (!st)
		check_report(&got);
	ms_arena_deinit(&arena);
}

static void ask(const struct ms_report *report)
{
	struct ms_wire_link link = { .get = pieces_get, .put = ignore_put, .ctx = &sent };
	uint32_t *verdicts = calloc(report->stacks.n, sizeof(*verdicts));
	struct ms_error err;

	memset(&err, 0, sizeof(err));
	if (!ms_wire_ask(&link, report, verdicts, &err))
		check_error(MS_E_DIED, &err);
	free(verdicts);
}

static void ask_book(const struct ms_report *report)
{
	struct ms_wire_link link = { .get = pieces_get, .put = ignore_put, .ctx = &sent };
	struct ms_arena arena = { 0 };
	struct ms_book book;
	struct ms_error err;

	memset(&err, 0, sizeof(err));
	if (ms_wire_ask_book(&link, report, &err) &&
	    ms_wire_hear_book(&link, report, &arena, &book, &err))
		check_book(&book, report->code.n);
	else
		check_error(MS_E_DIED, &err);
	ms_arena_deinit(&arena);
}

static void send_book(void)
{
	const struct ms_error none = { .status = MS_OK };
	struct ms_arena arena = { 0 };
	struct ms_book book;

	make_book(&arena, &book);
	(void)pieces_put(&sent, &none, sizeof(none));
	require(ms_book_send(pieces_put, &sent, &book), "it is sent");
	ms_arena_deinit(&arena);
}

/* What the other side sends when it is honest. */
static void send(enum what what, struct ms_report *report)
{
	const struct ms_error none = { .status = MS_OK };
	struct ms_wire_link link = { .get = pieces_get, .put = pieces_put, .ctx = &sent };
	struct ms_error err = none;
	uint32_t verdicts[2] = { 1, 2 };

	if (what == BOOK) {
		send_book();
		return;
	}
	if (what == ANSWER) {
		(void)pieces_put(&sent, &none, sizeof(none));
		(void)pieces_put(&sent, verdicts, sizeof(verdicts));
		return;
	}
	/* Nobody answers here; what was asked is kept, and read again from its begin. */
	if (what == QUESTION)
		require(!ms_wire_ask(&link, report, verdicts, &err), "there is no answer yet");
	if (what == BOOK_QUESTION)
		require(ms_wire_ask_book(&link, report, &err), "it is asked");
	sent.piece = sent.offset = 0;
	require(ms_wire_send(pieces_put, &sent, &none, report), "it is sent");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ms_report report;
	struct ms_arena arena = { 0 };
	enum what what;

	if (!size)
		return -1;
	what = data[0] % WHATS;
	sent.n = sent.piece = sent.offset = 0;
	sample_report(&arena, &report);
	sample_answer_sent(&arena, &report);
	send(what, &report);
	pieces_change_all(&sent, data + 1, size - 1);
	if (what == ANSWER)
		ask(&report);
	else if (what == BOOK)
		ask_book(&report);
	else
		serve(data[0] < 128);
	ms_arena_deinit(&arena);
	return 0;
}

/* For each piece one that is changed; then one whose first number is the largest there is. */
void fuzz_seeds(fuzz_take take)
{
	enum { HALF = 2, LARGEST = 161 };

	for (uint8_t what = 0; what < WHATS; what++)
		for (uint8_t piece = 0; piece <= 24; piece++) {
			uint8_t seed[] = { what, piece, piece, 0, piece % 5, piece };
			uint8_t largest[] = { what, piece, 0, 0, HALF, LARGEST };

			take(seed, piece ? sizeof(seed) : 1);
			take(largest, sizeof(largest));
		}
}
