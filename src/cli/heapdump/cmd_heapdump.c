/* SPDX-License-Identifier: Apache-2.0 */

/* memscan heapdump: Android's native heap dumps, read, named and printed. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/heapdump/naming.h"
#include "cli/heapdump/options.h"
#include "cli/output.h"
#include "cli/tell.h"

enum { MOST_FOLDERS = 2 };

/* A dump is held as a whole: whatever it is, that takes less than 1 GiB. */
static const size_t longest_dump = (size_t)768 << 20;

/* Where to look, and how that is called. */
struct folders {
	struct ms_symbol_folder at[MOST_FOLDERS];
	size_t n;
	const char *symbols;
	char built[PATH_MAX];
};

struct job {
	const struct ms_heapdump_options *options;
	struct ms_heapdump dumps[2];
	struct ms_heapdump_view view;
	struct folders folders;
	struct ms_arena arena;
};

/*
 * The viewer's default, and where that leads nowhere this machine: the dump may be of a
 * program here. Another machine's file of the same path must not lend its names, so there
 * the inode counts.
 */
static void choose_folders(const struct ms_heapdump_options *options, struct folders *ret)
{
	const char *product = getenv("ANDROID_PRODUCT_OUT");
	bool same_inode = false;

	if (options->app_symbols)
		ret->at[ret->n++] =
			(struct ms_symbol_folder){ .path = options->app_symbols, .flat = true };
	if (options->symbols) {
		ret->symbols = options->symbols;
	} else if (product && *product) {
		(void)snprintf(ret->built, sizeof(ret->built), "%s/symbols", product);
		ret->symbols = ret->built;
	} else if (ms_args_is_folder("./symbols")) {
		ret->symbols = "./symbols";
	} else {
		ret->symbols = "/";
		same_inode = true;
	}
	ret->at[ret->n++] =
		(struct ms_symbol_folder){ .path = ret->symbols, .same_inode = same_inode };
}

static enum ms_status check_folder(const char *path, struct ms_error *err)
{
	if (!path || ms_args_is_folder(path))
		return MS_OK;
	(void)ms_fail(err, MS_E_SYS, "the folder of symbols %.120s does not exist", path);
	ms_advise(err, "give --symbols the folder that holds the libraries under their paths");
	return MS_E_SYS;
}

static enum ms_status read_dump(struct job *job, size_t i, struct ms_error *err)
{
	const char *name = job->options->files[i];
	struct ms_heapdump_file file = { .name = name };
	struct ms_bytes bytes = { 0 };
	enum ms_status st = ms_file_read_most(name, longest_dump, &job->arena, &bytes, err);

	if (st) {
		ms_advise(err, "give a readable file that holds a native heap dump");
		return st;
	}
	file.text = bytes.at;
	file.len = bytes.n;
	return ms_heapdump_parse(&file, &job->arena, &job->dumps[i], err);
}

static void tell_dump(const struct job *job, size_t i)
{
	const struct ms_heapdump *dump = &job->dumps[i];
	const char *name = job->options->files[i];
	const char *const *warning;

	ms_vec_for_each (warning, &dump->warnings)
		ms_tell("warning: %s: %s", name, *warning);
	if (dump->stackless_records)
		ms_tell("%s: %" PRIu64 " bytes in %" PRIu64
		        " records without a stack are omitted, as in Android's viewer",
		        name, dump->stackless_bytes, dump->stackless_records);
	if (!dump->counts_valid)
		ms_tell("%s: the counts of blocks in this dump are not valid: each counts as 1",
		        name);
	if (job->options->verbose)
		ms_tell("%s: version %s, %zu records with a stack, %" PRIu64
		        " bytes, backtrace size %" PRIu64 ", %zu mappings",
		        name, dump->version[0] ? dump->version : "unknown", dump->records.n,
		        dump->bytes, dump->backtrace_size, dump->mappings.n);
}

static enum ms_status name_places(struct job *job, struct ms_error *err)
{
	const struct ms_symbol_folders folders = {
		.at = job->folders.at,
		.n = job->folders.n,
		.debuginfod = job->options->debuginfod,
	};

	return ms_heapdump_name(&job->view, &folders, &job->arena, err);
}

static enum ms_status make_view(struct job *job, struct ms_error *err)
{
	const struct ms_heapdump_options *options = job->options;
	struct ms_heapdump_view *view = &job->view;
	enum ms_status st;

	for (size_t i = 0; i < options->n_files; i++) {
		st = read_dump(job, i, err);
		if (st)
			return st;
		tell_dump(job, i);
		view->dumps[i] = &job->dumps[i];
		view->files[i] = options->files[i];
	}
	view->n_dumps = options->n_files;
	view->reversed = options->reversed;
	view->by_size = options->by_size;
	view->verbose = options->verbose;
	view->symbols = job->folders.symbols;
	st = ms_heapdump_list_places(view, &job->arena, err);
	if (!st)
		st = name_places(job, err);
	return st ? st : ms_heapdump_grow(view, &job->arena, err);
}

static bool write_view(const void *what, struct ms_sink *sink)
{
	const struct job *job = what;

	return job->options->writer->write(&job->view, sink);
}

static int act(struct job *job)
{
	const struct ms_heapdump_options *options = job->options;
	struct ms_error err = { 0 };

	if (check_folder(options->symbols, &err) || check_folder(options->app_symbols, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (options->debuginfod)
		ms_tell_servers();
	choose_folders(options, &job->folders);
	if (ms_output_check_terminal(options->output, STDOUT_FILENO, options->writer->no_text,
	                             &err) ||
	    ms_output_check(options->output, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	if (make_view(job, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	if (ms_output_print(options->output, &(struct ms_printed){ write_view, job, false }, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	return MS_EXIT_CLEAN;
}

int ms_cmd_heapdump(int argc, char **argv)
{
	struct ms_heapdump_options options;
	struct ms_error err = { 0 };
	struct job job = { .options = &options };
	int status;

	if (!ms_heapdump_options_parse(argc, argv, &options, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (options.help) {
		ms_heapdump_options_help(stdout);
		return fflush(stdout) == 0 ? MS_EXIT_CLEAN : MS_EXIT_UNWRITTEN;
	}
	ms_arena_init(&job.arena);
	status = act(&job);
	ms_arena_deinit(&job.arena);
	return status;
}
