/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attach/options.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

static const uint64_t second_ns = UINT64_C(1000000000);

enum { SAMPLE = 512 << 10, MOST_SAMPLE = 1 << 30 };

static const char attach_usage[] =
	"Usage: memscan attach [OPTION]... PID\n"
	"Have a running process keep the stacks of a sample of its allocations, so that scans\n"
	"name the calls that made what leaked. Nothing need have been prepared; memscan detach\n"
	"PID ends it.\n";

static const char attach_notes[] =
	"Two samples lie BYTES apart in the mean: a block of so many bytes is sampled\n"
	"with a probability of 63 %, a larger one nearly always, a smaller one more seldom.\n"
	"Programs of x86-64 that load the GNU C library 2.31 to 2.43 can be attached, also when\n"
	"their malloc is that of a library of jemalloc or gperftools' tcmalloc; those that load\n"
	"musl from 1.2.1 on; and static ones of both C libraries that have symbols.\n"
	"\n"
	"Exit status: 0 attached (with --for: and detached), 1 not attached (--status),\n"
	"2 usage error, 3 refused (stderr says why and what to do), 4 the answer could not be\n"
	"written.\n";

static const char detach_usage[] = "Usage: memscan detach [OPTION]... PID\n"
				   "End what memscan attach began, and give its memory back.\n";

static const char detach_notes[] =
	"Exit status: 0 detached, or was not attached, 2 usage error, 3 refused (stderr says\n"
	"why and what to do), 4 the answer could not be written.\n";

static const char see_attach[] = "say which process: memscan attach PID; see memscan attach --help";
static const char see_detach[] = "say which process: memscan detach PID; see memscan detach --help";

static bool take_sample(void *to, const char *arg, struct ms_error *err)
{
	uint64_t *sample = &((struct ms_attach_options *)to)->sample;

	return (ms_args_size(arg, MOST_SAMPLE, sample) && *sample) ||
	       ms_args_wrong(err, "512K costs next to nothing, 64K some 10 % of malloc",
	                     "--sample takes 1 to %d bytes, not '%s'", MOST_SAMPLE, arg);
}

/* Seconds, or with a letter behind. */
static bool take_for(void *to, const char *arg, struct ms_error *err)
{
	static const struct {
		char letter;
		unsigned seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	struct ms_attach_options *options = to;
	size_t len = strlen(arg);
	unsigned unit = 1;
	char text[32];

	for (size_t i = 0; len && i < sizeof(units) / sizeof(units[0]); i++)
		if (arg[len - 1] == units[i].letter) {
			unit = units[i].seconds;
			len--;
			break;
		}
	if (len >= sizeof(text))
		len = 0;
	memcpy(text, arg, len);
	text[len] = '\0';
	if (!ms_args_seconds(text, MS_ARGS_MOST_S / unit, &options->for_ns))
		return ms_args_wrong(err, "for example 90, 10m, 8h or 2d",
		                     "--for takes a time up to a year, not '%s'", arg);
	options->for_ns *= unit;
	return true;
}

#define COMMON                                                                                                              \
	{ 0, "timeout", "SECONDS",                                                                                          \
	  "give up finding malloc, stopping its threads, or\nwaiting for one to leave the agent, after this\n(default 30)", \
	  .take = ms_args_take_timeout },                                                                                   \
		{ 'q', "quiet", NULL, "say nothing but why it failed",                                                      \
		  .flag = offsetof(struct ms_attach_options, quiet) },                                                      \
	{                                                                                                                   \
		'h', "help", NULL, "print this help and exit",                                                              \
			.flag = offsetof(struct ms_attach_options, help), .last = true                                      \
	}

static const struct ms_option attach_rows[] = {
	MS_ARGS_PROCESS,
	{ 's', "sample", "BYTES", "how far samples lie apart (default 512K)", .take = take_sample },
	{ 0, "for", "TIME", "wait so long (90, 10m, 8h, 2d), then detach", .take = take_for },
	{ 0, "status", NULL, "say whether it is attached, and how far",
	  .flag = offsetof(struct ms_attach_options, status) },
	COMMON,
};

static const struct ms_option detach_rows[] = { MS_ARGS_PROCESS, COMMON };

const struct ms_option_table ms_attach_table = {
	.command = "memscan attach",
	.usage = attach_usage,
	.notes = attach_notes,
	.see = see_attach,
	.at = attach_rows,
	.n = sizeof(attach_rows) / sizeof(attach_rows[0]),
};

const struct ms_option_table ms_detach_table = {
	.command = "memscan detach",
	.usage = detach_usage,
	.notes = detach_notes,
	.see = see_detach,
	.at = detach_rows,
	.n = sizeof(detach_rows) / sizeof(detach_rows[0]),
};

bool ms_attach_parse(int argc, char **argv, const struct ms_option_table *table,
                     struct ms_attach_options *ret, struct ms_error *err)
{
	int at;

	*ret = (struct ms_attach_options){ .sample = SAMPLE,
		                           .process.timeout_ns = MS_ARGS_TIMEOUT_S * second_ns };
	at = ms_args_take(argc, argv, table, ret, err);
	if (at < 0 || ret->help)
		return at >= 0;
	if (!ms_args_choose(argc - at, argv + at, table, &ret->process, err))
		return false;
	if (ret->status && ret->for_ns)
		return ms_args_wrong(err, table->see, "--status and --for exclude each other");
	return true;
}
