/* SPDX-License-Identifier: Apache-2.0 */

/* memscan why: a scan that answers why a block lives, in place of listing leaks. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/scan/command.h"
#include "cli/tell.h"
#include "target/proc.h"

static void name_thread(struct ms_spot *spot)
{
	if (spot->kind != MS_ROOT_STACK && spot->kind != MS_ROOT_TLS &&
	    spot->kind != MS_ROOT_REGISTER)
		return;
	memset(spot->thread, 0, sizeof(spot->thread));
	if (spot->tid > 0)
		ms_proc_name(spot->tid, spot->thread, sizeof(spot->thread));
}

/* Threads that run yet say how they are called. */
static void name_threads(struct ms_findings *answer)
{
	struct ms_answer_chain *chain;
	struct ms_subject *subject;

	ms_vec_for_each (chain, &answer->chains)
		name_thread(&chain->root);
	ms_vec_for_each (subject, &answer->subjects)
		name_thread(&subject->spot);
}

/* ---- what is no answer ---- */

static enum ms_status no_block(const struct ms_subject *subject, struct ms_error *err)
{
	const struct ms_answer_step *before = &subject->self;
	char text[128] = "";

	if (before->address)
		(void)snprintf(text, sizeof(text),
		               "; the last block before it is 0x%" PRIx64 ", %" PRIu64 " bytes",
		               before->address, before->size);
	if (subject->standing == MS_STANDS_FREE)
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "no block in use is at 0x%" PRIx64
		              ": that is free memory of a heap, or the allocator's own%s",
		              subject->asked, text);
	else
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "no block is at 0x%" PRIx64 ": nothing is mapped there",
		              subject->asked);
	ms_advise(err, "the block may have been freed: take an address from a scan or a debugger "
	               "while the process is in the same state");
	return err->status;
}

static void list_types(const struct ms_report *report, char *ret, size_t cap)
{
	const struct ms_type *type;
	size_t len = 0;

	*ret = '\0';
	ms_vec_for_each (type, &report->types) {
		int n = snprintf(ret + len, cap - len, "%s%.60s", len ? ", " : "", type->name);

		if (n < 0 || (size_t)n >= cap - len) {
			ret[len] = '\0';
			break;
		}
		len += (size_t)n;
	}
}

static enum ms_status no_type(const struct ms_options *options, const struct ms_report *report,
                              struct ms_error *err)
{
	const struct ms_answer_facts *facts = &report->answer.facts;
	char names[240];

	list_types(report, names, sizeof(names));
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d has no block of the type '%.120s'",
	              (int)report->target.pid, options->scan.question.type);
	if (!report->types.n)
		ms_advise(err, "no type is known there, only C++ objects with virtual functions "
		               "and what debug information describes have one: give an address");
	else if (facts->near)
		ms_advise(err, "similar types: %s", names);
	else
		ms_advise(err, "of %" PRIu64 " known types: %s", facts->known_types, names);
	return err->status;
}

static enum ms_status check_answer(const struct ms_options *options, const struct ms_report *report,
                                   struct ms_error *err)
{
	const struct ms_subject *subject = report->answer.subjects.at;

	if (!report->answer.subjects.n)
		return no_type(options, report, err);
	if (subject->standing == MS_STANDS_FREE || subject->standing == MS_STANDS_NOWHERE)
		return no_block(subject, err);
	return MS_OK;
}

/* ---- the command ---- */

static int ask(const struct ms_options *options, struct ms_arena *arena)
{
	const struct ms_writer *writer = ms_answer_writer_find(options->writer->name);
	struct ms_report report;
	struct ms_error err;
	enum ms_status st = ms_scan_process(options, arena, &report, &err);

	if (!st && options->verbose)
		ms_tell_report(&report);
	if (!st)
		st = check_answer(options, &report, &err);
	if (st) {
		ms_tell_error(&err);
		return MS_EXIT_REFUSED;
	}
	name_threads(&report.answer);
	if (ms_output_write(options->output, writer, &report,
	                    ms_output_is_coloured(options->colour, options->output, STDOUT_FILENO),
	                    &err)) {
		ms_tell_error(&err);
		return MS_EXIT_UNWRITTEN;
	}
	return MS_EXIT_CLEAN;
}

static int check_and_ask(const struct ms_options *options)
{
	struct ms_arena arena;
	struct ms_error err;
	int status;

	if (ms_output_check(options->output, &err)) {
		ms_tell_error(&err);
		return MS_EXIT_UNWRITTEN;
	}
	ms_arena_init(&arena);
	status = ask(options, &arena);
	ms_arena_deinit(&arena);
	return status;
}

int ms_cmd_why(int argc, char **argv)
{
	static const struct ms_scan_command command = {
		.parse = ms_options_parse_why,
		.help = ms_options_help_why,
		.act = check_and_ask,
	};

	return ms_scan_command(&command, argc, argv);
}
