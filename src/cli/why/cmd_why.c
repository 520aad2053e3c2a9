/* SPDX-License-Identifier: Apache-2.0 */

/* memscan why: a scan that answers why a block lives, in place of listing leaks. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/scan/command.h"
#include "cli/why/ask.h"

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

/* As the shell takes it: the quotes that @name needs. */
static const char *quote_of(const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_:.+-";

	if (!name[strspn(name, plain)])
		return "";
	return strchr(name, '\'') ? "\"" : "'";
}

/* Names that can be pasted: those too long for @ret, or cut already, are left out. */
static void list_types(const struct ms_report *report, char *ret, size_t cap)
{
	const struct ms_type *type;
	size_t len = 0;

	*ret = '\0';
	ms_vec_for_each (type, &report->types) {
		const char *quote = quote_of(type->name);
		int n;

		if (strlen(type->name) >= MS_TYPE_TEXT - 1)
			continue;
		n = snprintf(ret + len, cap - len, "%s%s%s%s", len ? ", " : "", quote, type->name,
		             quote);
		if (n > 0 && (size_t)n < cap - len)
			len += (size_t)n;
		else
			ret[len] = '\0';
	}
}

static enum ms_status no_type(const struct ms_options *options, const struct ms_report *report,
                              struct ms_error *err)
{
	const struct ms_answer_facts *facts = &report->answer.facts;
	char names[MS_TYPE_TEXT + 24]; /* with the words around it: MS_ERROR_TEXT at most */

	list_types(report, names, sizeof(names));
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d has no block of the type '%.120s'",
	              (int)report->target.pid, options->scan.question.type);
	if (report->types.n && !names[0])
		ms_advise(err, "the names of its types are too long for this line: take one from a "
		               "report of memscan --json --heap");
	else if (!report->types.n)
		ms_advise(err,
		          "no type is known there: what is C's own has one by debug information "
		          "alone; give an address");
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

static int check_and_ask(const struct ms_options *options)
{
	static const struct ms_answer_call call = {
		.find_writer = ms_answer_writer_find,
		.check = check_answer,
	};

	return ms_answer_ask(&call, options);
}

int ms_cmd_why(int argc, char **argv)
{
	return ms_scan_command(MS_USE_WHY, check_and_ask, argc, argv);
}
