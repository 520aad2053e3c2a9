/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/workers.h"
#include "cli/core/core.h"
#include "scan/service.h"
#include "target/target.h"

enum { SHOWN = 100 };

struct scanning {
	const struct ms_options *options;
	struct ms_arena held; /* the core's layout */
	struct ms_notes warnings;
	struct ms_core_process process;
	struct ms_source *src;
	struct ms_naming_core core;
	bool exe_refused; /* it is another build than the core's program */
	struct ms_names_book book;
	struct ms_naming naming;
	struct ms_progress progress;
	struct ms_service service;
};

/* ---- the core and its files ---- */

static enum ms_status cannot_open(const char *path, int error, struct ms_error *err)
{
	(void)ms_fail_sys(err, error == EPERM ? 0 : error, "cannot open %s",
	                  ms_file_end(path, SHOWN));
	if (error == EPERM) {
		(void)ms_fail(err, MS_E_SYS, "%s is not a regular file", ms_file_end(path, SHOWN));
		ms_advise(err, "save the core to a file first");
	} else if (error == EACCES) {
		ms_advise(err, "run memscan as the owner of the core, or as root");
	} else {
		ms_advise(err, "check the path; coredumpctl dump -o FILE gets a core from systemd");
	}
	return MS_E_SYS;
}

static enum ms_status open_file(struct scanning *s, int *ret, struct ms_error *err)
{
	const char *path = s->options->core;
	int fd = ms_file_open_regular(path);
	struct stat st;

	if (fd < 0)
		return cannot_open(path, errno, err);
	if (fstat(fd, &st) == 0)
		s->core.owner = st.st_uid;
	return ms_core_unpack(
		&(const struct ms_core_packed){ fd, path, &s->progress, &s->held, &s->warnings },
		ret, err);
}

/* The one file that is asked for. */
static bool wanted_file(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	const struct ms_core_wanted *wanted = files;

	(void)number;
	*ret = (struct ms_opener_file){ .path = wanted->path,
		                        .range = { wanted->at, wanted->at + 1 } };
	return true;
}

static int open_wanted(void *ctx, const struct ms_core_wanted *wanted, uint32_t *place)
{
	struct scanning *s = ctx;
	const struct ms_file_question question = { .kind = MS_FILE_CODE, .place = *place };
	struct ms_naming_core core = s->core;
	struct ms_file_answer answer;
	struct ms_opener opener;
	int fd;

	if (wanted->program)
		s->core.program = core.program = wanted->path;
	/* What the user gave is the first place. */
	s->exe_refused |= wanted->program && core.exe && *place;
	ms_naming_core_opener(&core, &opener);
	opener.file = wanted_file;
	opener.files = wanted;
	opener.n = 1;
	fd = ms_opener_find(&opener, &question, &answer);
	*place = answer.place + 1;
	return fd;
}

static enum ms_status check_exe(const struct scanning *s, struct ms_error *err)
{
	int fd = s->core.exe ? ms_file_open_regular(s->core.exe) : -1;

	if (!s->core.exe)
		return MS_OK;
	if (fd < 0) {
		(void)ms_fail_sys(err, errno, "cannot open %s", ms_file_end(s->core.exe, SHOWN));
		ms_advise(err, "--exe takes the program of which the core is");
		return MS_E_SYS;
	}
	(void)close(fd);
	return MS_OK;
}

static enum ms_status open_core(struct scanning *s, struct ms_error *err)
{
	struct ms_core_call call = { .fd = -1,
		                     .path = s->options->core,
		                     .open = open_wanted,
		                     .ctx = s,
		                     .warnings = &s->warnings };
	enum ms_status st = check_exe(s, err);

	if (!st)
		st = open_file(s, &call.fd, err);
	if (st)
		return st;
	st = ms_core_open(&call, &s->held, &s->process, &s->src, err);
	(void)close(call.fd);
	if (st || !s->exe_refused)
		return st;
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "%s is not the program that the core is of, or not that "
	              "build of it",
	              ms_file_end(s->core.exe, SHOWN));
	ms_advise(err, "the core is of %s; give the same build, or omit --exe",
	          ms_file_end(s->process.facts.exe, SHOWN));
	return MS_E_UNSUPPORTED;
}

/* ---- the scan ---- */

static enum ms_status attempt(void *ctx, struct ms_arena *arena, struct ms_report *ret,
                              struct ms_error *err)
{
	struct scanning *s = ctx;
	const struct ms_core_sweep sweep = {
		.options = &s->service.options,
		.src = s->src,
		.process = &s->process,
		.held = &s->held,
		.warnings = &s->warnings,
		.naming = &s->naming,
		.progress = &s->progress,
		.jobs = s->options->jobs ? s->options->jobs : ms_workers_wanted(),
		.deadline_ns = s->service.deadline_ns,
	};

	s->naming.deadline_ns = s->service.deadline_ns;
	return ms_core_sweep(&sweep, arena, ret, err);
}

static enum ms_status name(void *ctx, struct ms_arena *arena, struct ms_report *report,
                           struct ms_error *err)
{
	const struct scanning *s = ctx;

	return ms_naming_fill(&s->naming, arena, report, err);
}

static const struct ms_service_host host = { .attempt = attempt, .name = name };

static enum ms_status scan(struct scanning *s, struct ms_arena *arena, struct ms_report *ret,
                           struct ms_error *err)
{
	enum ms_status st;

	s->naming.core = &s->core;
	s->naming.book = &s->book;
	s->service.target = s->process.facts;
	s->service.pid = s->process.facts.pid;
	st = ms_service_ask(&s->service, arena, ret, err);
	/* It will not change. */
	if (st == MS_E_UNSUPPORTED && s->process.missing_bytes)
		ms_advise(err,
		          "the core is cut off, %llu KiB of memory are missing: take a whole one "
		          "(ulimit -c unlimited; room on the disk)",
		          (unsigned long long)(s->process.missing_bytes >> 10));
	else if (st == MS_E_BUSY)
		ms_advise(err, "take another core, of a moment when no thread is inside malloc");
	if (!st)
		ms_service_finish(&s->service, arena, ret);
	return st;
}

enum ms_status ms_core_scan(const struct ms_options *options, struct ms_arena *arena,
                            struct ms_report *ret, struct ms_error *err)
{
	struct scanning s = {
		.options = options,
		.core = { .root = options->root, .exe = options->exe },
		.naming = { .debug_folder = options->debug_folder,
		            .debuginfod = options->debuginfod },
		.service = { .host = &host,
		             .ctx = &s,
		             .options = options->scan,
		             .limit_ns = options->limit_ns,
		             .once = true,
		             .began_ns = ms_now_ns() },
	};
	enum ms_status st;

	ms_progress_begin(&s.progress, options->quiet);
	st = open_core(&s, err);
	if (!st)
		st = scan(&s, arena, ret, err);
	if (s.src)
		s.src->ops->close(s.src);
	ms_progress_end(&s.progress);
	ms_arena_deinit(&s.held);
	return st;
}
