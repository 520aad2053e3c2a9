/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "scan/trust.h"

/* Answers of scans, how often they are asked for again, and what is said at the end. */

static struct ms_arena arena;
static struct ms_trust trust;
static struct ms_report report;
static struct ms_error err;

/* An answer with evidence @n. */
static void answer(enum ms_doubt doubt, unsigned n, uint64_t allocations)
{
	struct ms_heap *heap;

	memset(&report, 0, sizeof(report));
	heap = ms_vec_push(&arena, &report.heaps);
	heap->doubt = (uint8_t)doubt;
	heap->verified = doubt == MS_DOUBT_NONE;
	heap->n_evidence = 1;
	report.totals.allocations = allocations;
	ms_note_add(&arena, &report.evidence, "main arena not proved: reason %u", n);
}

static void begin(void)
{
	ms_arena_deinit(&arena);
	memset(&trust, 0, sizeof(trust));
	memset(&err, 0, sizeof(err));
}

/* How often is asked when each answer is in @doubt. */
static unsigned attempts(enum ms_doubt doubt, bool changing)
{
	begin();
	do
		answer(doubt, changing ? trust.attempts : 0, 1);
	while (ms_trust_doubt(&trust, MS_OK, &report, &err));
	return trust.attempts;
}

Test(trust, only_what_may_get_better_is_asked_for_again)
{
	cr_expect_eq(attempts(MS_DOUBT_NONE, true), 1);
	cr_expect_eq(attempts(MS_DOUBT_DISAGREES, true), MS_TRUST_DISAGREEING);
	cr_expect_eq(attempts(MS_DOUBT_DAMAGED, true), MS_TRUST_ATTEMPTS);
	cr_expect_eq(attempts(MS_DOUBT_CHANGES, true), MS_TRUST_ATTEMPTS);
	cr_expect_lt(MS_TRUST_DISAGREEING, MS_TRUST_ATTEMPTS);
}

Test(trust, an_answer_that_takes_long_is_asked_for_twice)
{
	begin();
	answer(MS_DOUBT_CHANGES, 0, 1);
	trust.spent_ns = MS_TRUST_NS + 1;
	cr_expect(ms_trust_doubt(&trust, MS_OK, &report, &err));
	answer(MS_DOUBT_CHANGES, 1, 1);
	cr_expect_not(ms_trust_doubt(&trust, MS_OK, &report, &err));
	begin();
	for (int i = 0; i < 2; i++) {
		answer(MS_DOUBT_CHANGES, (unsigned)i, 1);
		trust.spent_ns = MS_TRUST_NS;
		cr_expect(ms_trust_doubt(&trust, MS_OK, &report, &err));
	}
}

Test(trust, one_answer_twice_is_the_last)
{
	for (int doubt = MS_DOUBT_DISAGREES; doubt < MS_DOUBTS; doubt++)
		cr_expect_eq(attempts((enum ms_doubt)doubt, false), 2);
}

struct refusal {
	char what[32];
	enum ms_doubt doubt;
	enum ms_status status;
	char text[80];
	char advice[64];
};

ParameterizedTestParameters(trust, where_nothing_is_proved_the_reason_is_said)
{
	static struct refusal rows[] = {
		{ "damaged", MS_DOUBT_DAMAGED, MS_E_CORRUPT,
		  "the heap of process 7 is corrupt: main arena not proved: reason 0",
		  "may have overwritten it" },
		{ "changing", MS_DOUBT_CHANGES, MS_E_BUSY, "process 7 is changing: main arena not",
		  "scan it again" },
		{ "disagreeing", MS_DOUBT_DISAGREES, MS_E_UNSUPPORTED,
		  "of process 7 could not be verified: main arena not", "do not agree" },
	};

	return cr_make_param_array(struct refusal, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct refusal *row, trust, where_nothing_is_proved_the_reason_is_said)
{
	bool accuses;

	begin();
	answer(row->doubt, 0, 0);
	(void)ms_trust_doubt(&trust, MS_OK, &report, &err);
	cr_expect_eq(ms_trust_take(&trust, 7, &arena, &report, &err), row->status);
	cr_expect_eq(err.status, row->status);
	cr_expect(strstr(err.text, row->text), "%s: %s", row->what, err.text);
	cr_expect(strstr(err.advice, row->advice), "%s: %s", row->what, err.advice);
	accuses = strstr(err.text, "corrupt") || strstr(err.advice, "overwritten");
	cr_expect_eq(accuses, row->doubt == MS_DOUBT_DAMAGED, "%s accuses", row->what);
}

/* To scan it again does not help. */
Test(trust, the_debugging_tcmalloc_is_not_to_be_scanned_again)
{
	begin();
	answer(MS_DOUBT_DISAGREES, 0, 0);
	report.evidence.n = 0;
	ms_note_add(&arena, &report.evidence,
	            "not proved: its blocks are those of the debugging tcmalloc");
	(void)ms_trust_doubt(&trust, MS_OK, &report, &err);
	cr_expect_eq(ms_trust_take(&trust, 7, &arena, &report, &err), MS_E_UNSUPPORTED);
	cr_expect(strstr(err.advice, "libtcmalloc.so in place of"), "%s", err.advice);
	cr_expect_not(strstr(err.advice, "again"), "%s", err.advice);
}

Test(trust, what_is_proved_in_part_is_taken)
{
	for (int doubt = 0; doubt < MS_DOUBTS; doubt++) {
		begin();
		answer((enum ms_doubt)doubt, 0, 5);
		(void)ms_trust_doubt(&trust, MS_OK, &report, &err);
		cr_expect_eq(ms_trust_take(&trust, 7, &arena, &report, &err), MS_OK);
		cr_expect_eq(report.warnings.n, 0);
		cr_expect_eq(report.scan.attempts, 1);
	}
}

Test(trust, asking_again_is_said_with_its_reason)
{
	begin();
	answer(MS_DOUBT_DISAGREES, 0, 5);
	cr_assert_not_null(ms_trust_doubt(&trust, MS_OK, &report, &err));
	answer(MS_DOUBT_NONE, 0, 5);
	cr_assert_null(ms_trust_doubt(&trust, MS_OK, &report, &err));
	cr_expect_eq(ms_trust_take(&trust, 7, &arena, &report, &err), MS_OK);
	cr_assert_eq(report.warnings.n, 1);
	cr_expect_str_eq(
		report.warnings.at[0].text,
		"scanned 2 times, because the blocks found do not match the allocator's own counts; "
		"the process paused each time");
	ms_arena_deinit(&arena);
}

Test(trust, failures_that_pass_are_tried_again)
{
	static const enum ms_status passing[] = { MS_E_BUSY, MS_E_CORRUPT };

	for (size_t i = 0; i < 2; i++) {
		begin();
		(void)ms_fail(&err, passing[i], "why");
		cr_expect_str_eq(ms_trust_doubt(&trust, passing[i], &report, &err), "why");
	}
	begin();
	cr_expect_null(ms_trust_doubt(&trust, MS_E_GONE, &report, &err));
}
