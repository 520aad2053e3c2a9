/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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
	int fd;               /* the core, unpacked */
	struct ms_arena held; /* of opening it */
	struct ms_notes warnings;
	struct ms_core_told told;
	struct ms_naming_core core;
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

static enum ms_status open_file(struct scanning *s, uint64_t deadline_ns, struct ms_error *err)
{
	const char *path = s->options->core;
	const struct ms_core_packed packed = {
		.fd = ms_file_open_regular(path),
		.path = path,
		.progress = &s->progress,
		.deadline_ns = deadline_ns,
		.arena = &s->held,
		.warnings = &s->warnings,
	};

	return packed.fd < 0 ? cannot_open(path, errno, err) : ms_core_unpack(&packed, &s->fd, err);
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

static enum ms_status refuse_exe(const struct scanning *s, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "%s is not the program that the core is of, or not that "
	              "build of it",
	              ms_file_end(s->core.exe, SHOWN));
	ms_advise(err, "the core is of %s; give the same build, or omit --exe",
	          ms_file_end(s->told.facts.exe, SHOWN));
	return MS_E_UNSUPPORTED;
}

/* ---- the scan ---- */

static enum ms_status attempt(void *ctx, struct ms_arena *arena, struct ms_report *ret,
                              struct ms_error *err)
{
	struct scanning *s = ctx;
	const struct ms_core_sweep sweep = {
		.options = &s->service.options,
		.fd = s->fd,
		.path = s->options->core,
		.warnings = &s->warnings,
		.core = &s->core,
		.told = &s->told,
		.naming = &s->naming,
		.progress = &s->progress,
		.jobs = s->options->jobs ? s->options->jobs : ms_workers_wanted(),
		.deadline_ns = s->service.deadline_ns,
	};
	enum ms_status st;

	s->naming.deadline_ns = s->service.deadline_ns;
	st = ms_core_sweep(&sweep, arena, ret, err);
	s->service.target = s->told.facts;
	s->service.pid = s->told.facts.pid;
	return s->told.exe_refused ? refuse_exe(s, err) : st;
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
	st = ms_service_ask(&s->service, arena, ret, err);
	/* It will not change. */
	if (st == MS_E_UNSUPPORTED && s->told.missing_bytes)
		ms_advise(err,
		          "the core is cut off, %llu KiB of memory are missing: take a whole one "
		          "(ulimit -c unlimited; room on the disk)",
		          (unsigned long long)(s->told.missing_bytes >> 10));
	else if (st == MS_E_BUSY)
		ms_advise(err, "take another core, of a moment when no thread is inside malloc");
	if (!st)
		ms_service_finish(&s->service, arena, ret);
	return st;
}

/* Until @deadline_ns; 0 would be no limit. */
static uint64_t left_ns(uint64_t deadline_ns)
{
	uint64_t now_ns = ms_now_ns();

	return now_ns < deadline_ns ? deadline_ns - now_ns : 1;
}

enum ms_status ms_core_scan(const struct ms_options *options, struct ms_arena *arena,
                            struct ms_report *ret, struct ms_error *err)
{
	struct scanning s = {
		.options = options,
		.fd = -1,
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
	uint64_t deadline_ns = options->limit_ns ? s.service.began_ns + options->limit_ns : 0;
	enum ms_status st;

	ms_progress_begin(&s.progress, options->quiet);
	st = check_exe(&s, err);
	if (!st)
		st = open_file(&s, deadline_ns, err);
	if (!st && deadline_ns)
		s.service.limit_ns = left_ns(deadline_ns);
	if (!st)
		st = scan(&s, arena, ret, err);
	if (s.fd >= 0)
		(void)close(s.fd);
	ms_progress_end(&s.progress);
	ms_arena_deinit(&s.held);
	return st;
}
