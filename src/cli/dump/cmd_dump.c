/* SPDX-License-Identifier: Apache-2.0 */

/* memscan dump: the core of a running process, at the price of a fork's pause. */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/dump/dump.h"
#include "cli/output.h"
#include "cli/scan/trio.h"
#include "cli/tell.h"
#include "target/proc.h"
#include "target/target.h"

enum { SHOWN = 120 };

/* What the process that writes shares with this one. */
struct shared {
	struct ms_dump_done done;
	atomic_int sys_errno;
};

struct dumping {
	const struct ms_dump_options *options;
	pid_t pid;
	struct ms_output_file *file;
	struct shared *shared;
	struct ms_dump_process process;
	uint64_t pause_ns;
};

/* ---- room for it ---- */

static uint64_t free_bytes(const struct dumping *d)
{
	struct statvfs fs;

	return fstatvfs(ms_output_fd(d->file), &fs) ? UINT64_MAX
	                                            : (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* How much a compressed one takes nobody knows before. */
static enum ms_status check_room(const struct dumping *d, struct ms_error *err)
{
	uint64_t wanted = ms_fork_saves(d->pid);
	uint64_t there = free_bytes(d);

	if (d->options->compress || wanted <= there)
		return MS_OK;
	(void)ms_fail(err, MS_E_SYS,
	              "process %d has %.1f MB in memory, and there are %.1f MB free for %s", d->pid,
	              (double)wanted / 1e6, (double)there / 1e6,
	              ms_file_end(d->options->output, SHOWN));
	ms_advise(err, "give --output a file on a larger disk, or use --compress zstd or "
	               "--heap-only");
	return MS_E_SYS;
}

/* ---- writing ---- */

static enum ms_status run(struct dumping *d, const struct ms_dump_sink *sink,
                          struct ms_arena *arena, struct ms_report *report, struct ms_error *err)
{
	const struct ms_dump_order order = { .process = &d->process,
		                             .sink = sink,
		                             .heap_only = d->options->heap_only,
		                             .done = &d->shared->done };
	const struct ms_scan_options nothing = { 0 };
	struct ms_names_book book;
	const struct ms_naming naming = { .pid = d->pid, .book = &book };
	struct ms_error refusal = { 0 };
	struct ms_progress progress;
	struct ms_proc_stat stat = { 0 };
	struct ms_trio_call call = { .pid = d->pid,
		                     .timeout_ns = d->options->process.timeout_ns,
		                     .scan = &nothing,
		                     .how = d->options->how,
		                     .jobs = 1,
		                     .naming = &naming,
		                     .refusal = &refusal,
		                     .progress = &progress,
		                     .verbose = d->options->verbose,
		                     .dump = &order };
	enum ms_status st;

	(void)ms_proc_stat(d->pid, &stat);
	call.start_ticks = stat.start_ticks;
	ms_progress_begin(&progress, d->options->quiet);
	st = ms_trio_scan(&call, arena, report, err);
	ms_progress_end(&progress);
	d->pause_ns = report->scan.pause_ns;
	return st;
}

static enum ms_status unwritten(const struct dumping *d, int sys_errno, struct ms_error *err)
{
	(void)ms_fail_sys(err, sys_errno, "cannot write the core to %s",
	                  ms_file_end(d->options->output, SHOWN));
	ms_advise(err, sys_errno == EFBIG
	                       ? "give --output a file on a file system for larger files, "
	                         "or raise the limit (ulimit -f)"
	                       : "give --output a file on a disk that has space, or use "
	                         "--compress zstd or --heap-only");
	return MS_E_SYS;
}

static void say(const struct dumping *d, const struct ms_report *report)
{
	const struct ms_note *note;
	struct stat st = { 0 };

	ms_vec_for_each (note, &report->warnings)
		ms_tell("warning: %s", note->text);
	if (d->shared->done.lost)
		ms_tell("warning: %" PRIu64 " bytes could not be read, and are zeros in the core",
		        (uint64_t)d->shared->done.lost);
	if (d->options->quiet)
		return;
	(void)stat(d->options->output, &st);
	ms_tell_out("process %d: a core of %.1f MB in %s, %.1f MB on disk; it stood %.2f ms",
	            d->pid, (double)d->shared->done.length / 1e6, d->options->output,
	            (double)st.st_blocks * 512 / 1e6, (double)d->pause_ns / 1e6);
}

/* Whether that failed for the file, not for the process. */
static int dump_to_file(struct dumping *d, struct ms_error *err)
{
	struct ms_dump_file file = { .fd = ms_output_fd(d->file),
		                     .sys_errno = &d->shared->sys_errno };
	struct ms_arena arena = { 0 };
	struct ms_report report = { 0 };
	struct ms_dump_sink sink;
	int status = MS_EXIT_REFUSED;

	if (!ms_dump_file_sink(&file, d->options->compress, &sink)) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory to write a core");
		return MS_EXIT_REFUSED;
	}
	if (check_room(d, err))
		return MS_EXIT_UNWRITTEN;
	if (!run(d, &sink, &arena, &report, err)) {
		status = ms_output_commit(d->file, err) ? MS_EXIT_UNWRITTEN : MS_EXIT_CLEAN;
		d->file = NULL;
	} else if (d->shared->sys_errno) {
		(void)unwritten(d, d->shared->sys_errno, err);
		status = MS_EXIT_UNWRITTEN;
	}
	if (status == MS_EXIT_CLEAN)
		say(d, &report);
	ms_arena_deinit(&arena);
	return status;
}

static int dump(struct dumping *d, struct ms_error *err)
{
	struct ms_ending endings;
	int status;

	d->shared = mmap(NULL, sizeof(*d->shared), PROT_READ | PROT_WRITE,
	                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d->shared == MAP_FAILED) {
		(void)ms_fail_sys(err, errno, "no shared memory for a core");
		return MS_EXIT_REFUSED;
	}
	/* What was begun of the file is removed, whatever comes. */
	ms_ending_hold(&endings);
	(void)signal(SIGXFSZ, SIG_IGN); /* ulimit -f: EFBIG says it as well */
	if (ms_output_begin(d->options->output, "core", &d->file, err)) {
		status = MS_EXIT_UNWRITTEN;
	} else {
		status = dump_to_file(d, err);
		if (d->file)
			ms_output_cancel(d->file);
	}
	ms_ending_allow(&endings);
	return status;
}

int ms_cmd_dump(int argc, char **argv)
{
	struct ms_dump_options options;
	struct dumping d = { .options = &options };
	struct ms_chosen chosen;
	struct ms_error err;
	int status;

	if (!ms_dump_parse(argc, argv, &options, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (options.help) {
		ms_args_help(stdout, &ms_dump_table);
		return MS_EXIT_CLEAN;
	}
	if (ms_target_choose(&options.process.choice, &chosen, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	ms_dump_look(chosen.pid, &d.process);
	d.pid = chosen.pid;
	status = dump(&d, &err);
	if (status)
		ms_tell_error(&err);
	return status;
}
