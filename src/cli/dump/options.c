/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "cli/dump/dump.h"

static const uint64_t second_ns = UINT64_C(1000000000);

static const char usage[] =
	"Usage: memscan dump [OPTION]... PID -o FILE\n"
	"Write a core of a running process to FILE, for memscan core and for gdb. The process\n"
	"stops for as long as a fork of it takes; the core is written from the copy while it\n"
	"runs on. FILE is readable by its owner alone, and is written whole or not at all.\n";

static const char notes[] =
	"The core holds all that the process had in memory: passwords and keys as well.\n"
	"\n"
	"Exit status: 0 written, 2 usage error, 3 refused (stderr says why and what to do),\n"
	"4 FILE could not be written.\n";

static const char see_help[] = "memscan dump PID -o FILE; see memscan dump --help";

static bool take_output(void *to, const char *arg, struct ms_error *err)
{
	((struct ms_dump_options *)to)->output = arg;
	return *arg || ms_args_wrong(err, see_help, "--output takes the name of a file");
}

static bool take_compress(void *to, const char *arg, struct ms_error *err)
{
	((struct ms_dump_options *)to)->compress = true;
	return !strcmp(arg, "zstd") ||
	       ms_args_wrong(err, "use --compress zstd", "cores are not compressed by '%s'", arg);
}

static bool take_snapshot(void *to, const char *arg, struct ms_error *err)
{
	return ms_args_snapshot(arg, &((struct ms_dump_options *)to)->how) ||
	       ms_args_wrong(err, "use auto, fork or copy", "--snapshot does not take '%s'", arg);
}

static const struct ms_option rows[] = {
	MS_ARGS_PROCESS,
	{ 'o', "output", "FILE", "the core", .take = take_output },
	{ 0, "compress", "zstd", "compress it; gdb reads it only when it is unpacked",
	  .take = take_compress },
	{ 0, "heap-only", NULL,
	  "omit what the process shares with others, and what it\ncannot write to",
	  .flag = offsetof(struct ms_dump_options, heap_only) },
	{ 0, "snapshot", "HOW",
	  "auto, fork (a clone of the process), copy (of its memory:\nit stops for longer, and "
	  "that takes as much memory)",
	  .take = take_snapshot },
	{ 0, "timeout", "SECONDS",
	  "give up finding malloc, or stopping its threads,\nafter this (default 30)",
	  .take = ms_args_take_timeout },
	{ 'q', "quiet", NULL, "say nothing but why it failed",
	  .flag = offsetof(struct ms_dump_options, quiet) },
	{ 'v', "verbose", NULL, "say what is tried again",
	  .flag = offsetof(struct ms_dump_options, verbose) },
	{ 'h', "help", NULL, "print this help and exit",
	  .flag = offsetof(struct ms_dump_options, help), .last = true },
};

const struct ms_option_table ms_dump_table = {
	.command = "memscan dump",
	.usage = usage,
	.notes = notes,
	.see = see_help,
	.at = rows,
	.n = sizeof(rows) / sizeof(rows[0]),
};

bool ms_dump_parse(int argc, char **argv, struct ms_dump_options *ret, struct ms_error *err)
{
	int at;

	*ret = (struct ms_dump_options){ .process.timeout_ns = MS_ARGS_TIMEOUT_S * second_ns };
	at = ms_args_take(argc, argv, &ms_dump_table, ret, err);
	if (at < 0 || ret->help)
		return at >= 0;
	if (!ms_args_choose(argc - at, argv + at, &ms_dump_table, &ret->process, err))
		return false;
	return ret->output || ms_args_wrong(err, see_help, "no file was given");
}
