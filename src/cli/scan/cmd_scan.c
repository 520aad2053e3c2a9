/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/workers.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/scan/command.h"
#include "cli/scan/trio.h"
#include "cli/tell.h"
#include "target/proc.h"
#include "target/target.h"

static const uint64_t TICK_NS = 100000000;

enum { MOST_NOTES = 100 }; /* of the first of two scans; an honest one makes some */

static enum ms_status choose(const struct ms_options *options, pid_t *ret, struct ms_error *err)
{
	pid_t id = options->id;
	enum ms_status st;

	if (options->name) {
		st = ms_target_find_by_name(options->name, &id, err);
		if (st)
			return st;
	}
	return ms_target_check(id, ret, err);
}

/* ---- one scan, or two ---- */

/* What both scans of --confirm have in common. */
struct scanning {
	const struct ms_options *options;
	struct ms_naming naming;
	struct ms_progress progress;
	struct ms_scan_options scan; /* of the present one */
	struct ms_trio_call call;
};

/* Scan, within the limit that is set for it. */
static enum ms_status scan_once(struct scanning *s, struct ms_arena *arena, struct ms_report *ret,
                                struct ms_error *err)
{
	uint64_t limit_ns = s->options->limit_ns;

	s->call.deadline_ns = limit_ns ? ms_now_ns() + limit_ns : 0;
	s->naming.deadline_ns = s->call.deadline_ns;
	return ms_trio_scan(&s->call, arena, ret, err);
}

static enum ms_status wait_between(struct scanning *s, struct ms_error *err)
{
	uint64_t until_ns = ms_now_ns() + s->options->confirm_ns;
	pid_t pid = s->call.pid;
	struct ms_proc_stat stat;
	uint64_t now_ns;

	for (;;) {
		/* Another process may have its number by now. */
		if (!ms_proc_stat(pid, &stat) || stat.start_ticks != s->call.start_ticks ||
		    ms_proc_is_over(pid))
			return ms_fail(err, MS_E_GONE, "process %d ended while it was scanned",
			               (int)pid);
		now_ns = ms_now_ns();
		if (now_ns >= until_ns)
			return MS_OK;
		ms_progress_tick(&s->progress, "waiting for the second scan");
		ms_sleep_ns(until_ns - now_ns < TICK_NS ? until_ns - now_ns : TICK_NS);
	}
}

/* Leave of @mappings those that have a part of one of @before; both are by address. */
static void keep_common(struct ms_lost_mappings *mappings, const struct ms_lost_mappings *before)
{
	const struct ms_lost_mapping *mapping;
	size_t kept = 0;
	size_t i = 0;

	ms_vec_for_each (mapping, mappings) {
		while (i < before->n && before->at[i].range.end <= mapping->range.begin)
			i++;
		if (i < before->n && before->at[i].range.begin < mapping->range.end)
			mappings->at[kept++] = *mapping;
	}
	mappings->n = kept;
}

static bool has_note(const struct ms_notes *notes, const char *text)
{
	const struct ms_note *note;

	ms_vec_for_each (note, notes)
		if (!strcmp(note->text, text))
			return true;
	return false;
}

/* Put what the first scan cost, and what it warned of, into the report of the second. */
static void add_first(const struct ms_report *first, struct ms_arena *arena, struct ms_report *ret)
{
	struct ms_scan_facts *scan = &ret->scan;
	const struct ms_note *note;

	scan->pause_ns += first->scan.pause_ns;
	scan->bytes_read += first->scan.bytes_read;
	scan->steps += first->scan.steps;
	for (int i = 0; i < MS_PHASES; i++)
		scan->phase_ns[i] += first->scan.phase_ns[i];
	if (scan->peak_rss_bytes < first->scan.peak_rss_bytes)
		scan->peak_rss_bytes = first->scan.peak_rss_bytes;
	ms_vec_for_each (note, &first->warnings)
		if (note < first->warnings.at + MOST_NOTES && !has_note(&ret->warnings, note->text))
			ms_note_add(arena, &ret->warnings, "the first scan: %s", note->text);
	keep_common(&ret->mappings, &first->mappings);
}

/* What is lost stays lost (engine/lost/confirm.h). */
static enum ms_status scan_twice(struct scanning *s, struct ms_arena *arena, struct ms_report *ret,
                                 struct ms_error *err)
{
	const struct ms_options *options = s->options;
	uint64_t began_ns = ms_now_ns();
	struct ms_arena arena_of_first;
	struct ms_report first;
	enum ms_status st;

	s->scan.keep_lost = true;
	st = scan_once(s, arena, ret, err);
	if (st || !ret->lost.n)
		return st;
	if (options->verbose)
		ms_tell("%zu blocks to be confirmed in %g s", ret->lost.n,
		        (double)options->confirm_ns / 1e9);
	arena_of_first = *arena;
	first = *ret;
	ms_arena_init(arena);
	s->scan.keep_lost = false;
	s->scan.lost = &first.lost;
	st = wait_between(s, err);
	if (!st)
		st = scan_once(s, arena, ret, err);
	s->scan.lost = NULL;
	if (!st) {
		add_first(&first, arena, ret);
		ret->scan.duration_ns = ms_now_ns() - began_ns;
		ret->confirm_ns = options->confirm_ns;
	}
	ms_arena_deinit(&arena_of_first);
	return st;
}

static enum ms_status scan(const struct ms_options *options, struct ms_arena *arena,
                           struct ms_report *ret, struct ms_error *err)
{
	struct scanning s = {
		.options = options,
		.scan = options->scan,
		.naming = { .debug_folder = options->debug_folder,
		            .debuginfod = options->debuginfod },
		.call = { .scan = &s.scan,
		          .naming = &s.naming,
		          .timeout_ns = options->timeout_ns,
		          .how = options->how,
		          .jobs = options->jobs ? options->jobs : ms_workers_wanted(),
		          .progress = &s.progress,
		          .verbose = options->verbose },
	};
	struct ms_target_facts target;
	struct ms_host_facts host;
	struct ms_proc_stat stat = { 0 };
	enum ms_status st;
	uint32_t threads;

	st = choose(options, &s.call.pid, err);
	if (st)
		return st;
	(void)ms_proc_stat(s.call.pid, &stat);
	s.call.start_ticks = stat.start_ticks;
	s.naming.pid = s.call.pid;
	memset(&target, 0, sizeof(target));
	memset(&host, 0, sizeof(host));
	ms_target_facts(s.call.pid, &target, &host);
	ms_progress_begin(&s.progress, options->quiet);
	st = options->confirm_ns ? scan_twice(&s, arena, ret, err) : scan_once(&s, arena, ret, err);
	/* Without names it still is a report. */
	if (!st && ms_naming_fill(&s.naming, arena, ret, err))
		ms_note_add(arena, &ret->warnings, "functions are not named: %s", err->text);
	ms_progress_end(&s.progress);
	if (st)
		return st;
	threads = ret->target.threads; /* those that were frozen, which is the better count */
	ret->target = target;
	ret->target.threads = threads;
	ret->host = host;
	ret->possible = options->scan.possible;
	ret->confirm = options->confirm_ns;
	return MS_OK;
}

static int scan_and_report(const struct ms_options *options)
{
	struct ms_arena arena;
	struct ms_report report;
	struct ms_error err;
	enum ms_status st;
	int status = MS_EXIT_CLEAN;

	/* What cannot be kept need not be scanned. */
	if (ms_output_check(options->output, &err)) {
		ms_tell_error(&err);
		return MS_EXIT_UNWRITTEN;
	}
	ms_arena_init(&arena);
	st = scan(options, &arena, &report, &err);
	if (st) {
		ms_tell_error(&err);
		status = MS_EXIT_REFUSED;
		goto out;
	}
	if (options->verbose)
		ms_tell_report(&report);
	if (report.totals.leaked_allocations)
		status = MS_EXIT_LEAKS;
	if (ms_output_write(options->output, options->writer, &report,
	                    ms_output_is_coloured(options->colour, options->output, STDOUT_FILENO),
	                    &err)) {
		ms_tell_error(&err);
		status = MS_EXIT_UNWRITTEN;
	}
out:
	ms_arena_deinit(&arena);
	return status;
}

int ms_cmd_scan(int argc, char **argv)
{
	static const struct ms_scan_command command = {
		.parse = ms_options_parse,
		.help = ms_options_help,
		.act = scan_and_report,
	};

	return ms_scan_command(&command, argc, argv);
}
