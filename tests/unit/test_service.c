/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "scan/service.h"

/* What a toy host is asked for, in which order, and what the report says in the end. */

enum { MOST_ANSWERS = 8 };

/* What an attempt answers. */
struct answer {
	enum ms_status status;
	enum ms_doubt doubt;
	unsigned n_lost;
	const char *warning;
};

static struct toy {
	struct ms_service service;
	struct answer answers[MOST_ANSWERS];
	size_t n; /* attempts made */
	char log[512];
	bool nameless;
	struct ms_anchors last_anchors; /* of a scan that succeeded */
} toy;

static struct ms_arena arena;
static struct ms_report report;
static struct ms_error err;

static void __attribute__((format(printf, 1, 2))) note(const char *fmt, ...)
{
	size_t used = strlen(toy.log);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(toy.log + used, sizeof(toy.log) - used, fmt, ap);
	va_end(ap);
}

static enum ms_status attempt(void *ctx, struct ms_arena *to, struct ms_report *ret,
                              struct ms_error *error)
{
	const struct answer *answer = &toy.answers[toy.n++];
	const struct ms_scan_options *options = &toy.service.options;
	struct ms_heap *heap;

	cr_assert_eq(ctx, &toy);
	ms_arena_deinit(to);
	note("attempt%s ", options->keep_lost ? "(first)" : options->lost ? "(second)" : "");
	if (answer->status)
		return ms_fail(error, answer->status, "attempt %zu failed", toy.n);
	memset(ret, 0, sizeof(*ret));
	heap = ms_vec_push(to, &ret->heaps);
	heap->doubt = (uint8_t)answer->doubt;
	cr_expect_eq(options->anchors.n, toy.last_anchors.n);
	cr_expect_eq(options->anchors.at[0].begin, toy.last_anchors.at[0].begin);
	ret->anchors = (struct ms_anchors){ 1, { { toy.n, toy.n + 8 } } };
	toy.last_anchors = ret->anchors;
	ms_note_add(to, &ret->evidence, "evidence of attempt %zu", toy.n);
	if (answer->warning)
		ms_note_add(to, &ret->warnings, "%s", answer->warning);
	for (unsigned i = 0; i < answer->n_lost; i++)
		((struct ms_lost *)ms_vec_push(to, &ret->lost))->address = i + 1;
	ret->totals.allocations = 7;
	ret->target.threads = 3;
	ret->scan.pause_ns = 10;
	ret->scan.steps = toy.n;
	ret->scan.peak_rss_bytes = 1000 / toy.n;
	return MS_OK;
}

static void doubted(void *ctx, unsigned attempts, const char *why)
{
	cr_assert_eq(ctx, &toy);
	cr_assert(why && *why);
	note("doubted%u ", attempts);
}

static enum ms_status wait_between(void *ctx, size_t n_lost, struct ms_error *error)
{
	cr_assert_eq(ctx, &toy);
	note("wait(%zu) ", n_lost);
	return n_lost == 13 ? ms_fail(error, MS_E_GONE, "it ended") : MS_OK;
}

static enum ms_status name(void *ctx, struct ms_arena *to, struct ms_report *ret,
                           struct ms_error *error)
{
	cr_assert_eq(ctx, &toy);
	cr_assert_eq(to, &arena);
	/* What names are looked for with is complete by now. */
	cr_assert_eq(ret->target.pid, getpid());
	note("name ");
	return toy.nameless ? ms_fail(error, MS_E_SYS, "no process") : MS_OK;
}

static const struct ms_service_host host = {
	.attempt = attempt,
	.doubted = doubted,
	.wait = wait_between,
	.name = name,
};

static void setup(void)
{
	memset(&toy, 0, sizeof(toy));
	memset(&report, 0, sizeof(report));
	toy.service = (struct ms_service){ .host = &host, .ctx = &toy, .pid = getpid() };
	ms_service_begin(&toy.service);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(service, .init = setup, .fini = teardown);

/* Ask and finish; what the host was asked for. */
static const char *scan(void)
{
	if (!ms_service_ask(&toy.service, &arena, &report, &err))
		ms_service_finish(&toy.service, &arena, &report);
	return toy.log;
}

static enum ms_status scan_twice(void)
{
	enum ms_status st = ms_service_ask_twice(&toy.service, 5, &arena, &report, &err);

	if (!st)
		ms_service_finish(&toy.service, &arena, &report);
	return st;
}

static size_t count_warnings(const char *text)
{
	const struct ms_note *warning;
	size_t n = 0;

	ms_vec_for_each (warning, &report.warnings)
		n += strcmp(warning->text, text) == 0;
	return n;
}

Test(service, a_good_answer_is_asked_for_once_and_named)
{
	cr_assert_str_eq(scan(), "attempt name ");
	cr_expect_eq(report.scan.attempts, 1);
}

Test(service, an_answer_in_doubt_is_asked_for_again)
{
	toy.answers[0].doubt = MS_DOUBT_CHANGES;
	toy.answers[1].status = MS_E_BUSY;
	cr_assert_str_eq(scan(), "attempt doubted1 attempt doubted2 attempt name ");
	cr_expect_eq(report.scan.attempts, 3);
}

/* What an allocator's state is shows when it is decoded; its code is found by it, the next time. */
Test(service, the_next_attempt_knows_what_the_last_found_of_allocators)
{
	toy.answers[0].doubt = MS_DOUBT_CHANGES;
	toy.answers[1].doubt = MS_DOUBT_CHANGES;
	toy.answers[2].status = MS_E_BUSY;
	cr_assert_str_eq(scan(),
	                 "attempt doubted1 attempt doubted2 attempt doubted3 attempt name ");
	cr_expect_eq(toy.service.options.anchors.at[0].begin, 4, "the last");
}

Test(service, a_target_that_stands_is_asked_once)
{
	toy.answers[0].doubt = MS_DOUBT_CHANGES;
	toy.service.once = true;
	cr_assert_str_eq(scan(), "attempt name ");
}

Test(service, a_failure_is_neither_asked_again_nor_named)
{
	toy.answers[0].status = MS_E_GONE;
	cr_assert_str_eq(scan(), "attempt ");
	cr_expect_eq(err.status, MS_E_GONE);
}

Test(service, nothing_is_asked_for_beyond_the_deadline)
{
	toy.service.limit_ns = 1000; /* less than the wait before a second attempt */
	toy.answers[0].doubt = MS_DOUBT_CHANGES;
	cr_assert_str_eq(scan(), "attempt name ");
	cr_expect_gt(toy.service.deadline_ns, toy.service.began_ns);
}

Test(service, facts_are_those_of_the_beginning_but_for_the_threads_that_stood)
{
	uint64_t before_ns = ms_now_ns();
	char exe[sizeof(report.target.exe)] = "";

	cr_assert_gt(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
	toy.service.options.possible = true;
	toy.service.began_ns = before_ns - 1000000000;
	(void)scan();
	cr_expect_eq(report.target.pid, getpid());
	cr_expect_str_eq(report.target.exe, exe);
	cr_expect_eq(report.target.threads, 3);
	cr_expect_neq(report.host.kernel[0], '\0');
	cr_expect(report.possible);
	cr_expect_not(report.confirm);
	cr_expect_geq(report.scan.duration_ns, 1000000000);
	cr_expect_leq(report.scan.duration_ns, 1000000000 + ms_now_ns() - before_ns);
}

Test(service, without_names_it_still_is_a_report)
{
	toy.nameless = true;
	(void)scan();
	cr_expect_eq(count_warnings("functions are not named: no process"), 1);
}

Test(service, what_is_lost_is_looked_at_twice)
{
	toy.answers[0] = (struct answer){ .n_lost = 2, .warning = "no room" };
	toy.answers[1].warning = "other";
	cr_assert_eq(scan_twice(), MS_OK);
	cr_assert_str_eq(toy.log, "attempt(first) wait(2) attempt(second) name ");
	cr_expect(report.confirm);
	cr_expect_eq(report.confirm_ns, 5);
	cr_expect_eq(report.scan.pause_ns, 20);
	cr_expect_eq(report.scan.steps, 3);
	cr_expect_eq(report.scan.peak_rss_bytes, 1000);
	cr_expect_eq(count_warnings("other"), 1);
	cr_expect_eq(count_warnings("the first scan: no room"), 1);
	cr_expect_null(toy.service.options.lost);
}

Test(service, a_warning_of_both_scans_is_given_once)
{
	toy.answers[0] = (struct answer){ .n_lost = 1, .warning = "no room" };
	toy.answers[1].warning = "no room";
	cr_assert_eq(scan_twice(), MS_OK);
	cr_expect_eq(report.warnings.n, 1);
}

Test(service, nothing_lost_needs_no_second_look)
{
	cr_assert_eq(scan_twice(), MS_OK);
	cr_assert_str_eq(toy.log, "attempt(first) name ");
	cr_expect(report.confirm);
	cr_expect_eq(report.confirm_ns, 0);
}

Test(service, each_of_two_scans_has_attempts_of_its_own)
{
	toy.answers[0].doubt = MS_DOUBT_CHANGES;
	toy.answers[1].n_lost = 1;
	toy.answers[2].doubt = MS_DOUBT_CHANGES;
	cr_assert_eq(scan_twice(), MS_OK);
	cr_assert_str_eq(toy.log, "attempt(first) doubted1 attempt(first) wait(1) "
	                          "attempt(second) doubted1 attempt(second) name ");
}

Test(service, a_target_that_ends_meanwhile_is_not_confirmed)
{
	toy.answers[0].n_lost = 13;
	cr_assert_eq(scan_twice(), MS_E_GONE);
	cr_assert_str_eq(toy.log, "attempt(first) wait(13) ");
	cr_expect_str_eq(err.text, "it ended");
}
