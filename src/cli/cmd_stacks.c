/* SPDX-License-Identifier: Apache-2.0 */

/*
 * memscan stacks PID: every thread's stack.
 *
 * The process stands while registers and stacks are copied. Unwinding and naming follow
 * tables and files that are the target's to forge, by libraries that others wrote; so
 * they happen in a process of their own, which may hang or die of it. To copy may hang as well
 * (target/helper.h): the original only waits, and prints what a helper has left in a file.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/lines.h"
#include "cli/tell.h"
#include "cli/worker.h"
#include "report/stacks.h"
#include "sym/symbols.h"
#include "target/helper.h"
#include "target/proc.h"
#include "target/stacks/stacks.h"
#include "target/target.h"

static const uint64_t second_ns = UINT64_C(1000000000);

/* Beyond the time limit, for the helper to end its workers and to say why. */
static const uint64_t last_word_ns = UINT64_C(1200000000);

enum {
	ASK_SERVERS_S = 600,
	MOST_TEXT = 512 << 20,
	PIECE = 64 * 1024,
};

static const char usage[] =
	"Usage: memscan stacks [OPTION]... PID\n"
	"Print the stack of every thread of a running process, as debuggerd -b does.\n"
	"PID may be the id of any of its threads.\n";

static const char notes[] =
	"Exit status: 0 printed, 2 usage error, 3 the stacks could not be read (stderr says why\n"
	"and what to do), 4 they could not be written.\n";

static const char see_help[] = "say which process: memscan stacks PID; see memscan stacks --help";

/* How a line begins about a stack that could not be followed. */
static const char failed[] = "    Unwind failed: ";

struct text MS_VEC(char);

/* What was asked for. */
struct request {
	struct ms_args_process process; /* first, for MS_ARGS_PROCESS; timeout_ns 0: the usual */
	const char *debug_folder;       /* NULL: none */
	bool debuginfod;
	bool help;
	uint64_t deadline_ns;
};

enum { MOST_NOTE = MS_ERROR_TEXT + 64 };

/* How the helper answers, beside the text. Shared memory. */
struct answer {
	struct ms_error err;
	char note[MOST_NOTE];
};

/* What the helper needs. */
struct helping {
	const struct request *request;
	pid_t pid;
	int fd; /* a file in memory */
	struct answer *answer;
};

/* What the worker needs. */
struct job {
	const struct request *request;
	struct ms_frozen_stacks *stacks;
	struct ms_stack_dump dump;
	bool named;        /* files are read */
	uint64_t limit_ns; /* of the worker */
	char *note;        /* MOST_NOTE bytes, for a word on what is missing */
};

/* ---- the worker ---- */

/* A sink into a pipe. */
struct pipe_sink {
	struct ms_sink base; /* first: writers hand it back */
	FILE *to;
};

static bool sink_write(struct ms_sink *base, const char *bytes, size_t len)
{
	return fwrite(bytes, 1, len, ((struct pipe_sink *)base)->to) == len;
}

static size_t read_stacks(const void *ctx, ms_addr addr, void *buf, size_t len)
{
	return ms_stacks_read(ctx, addr, buf, len);
}

static void name_frames(struct ms_symbols *symbols, struct ms_stack_dump *dump)
{
	struct ms_backtrace *trace;
	struct ms_frame *frame;

	ms_vec_for_each (trace, &dump->threads)
		ms_vec_for_each (frame, &trace->frames)
			ms_symbols_name(symbols, frame->pc, &frame->symbol);
}

/* The file of that mapping. */
static int open_mapped(const void *ctx, size_t entry)
{
	const struct ms_finder *finder = ctx;
	const struct ms_file_question question = { .kind = MS_FILE_CODE, .code = (uint32_t)entry };
	struct ms_file_answer answer;

	return finder->find(finder->ctx, &question, &answer);
}

/* The exit status: 0 when all is in the pipe. */
static int work(void *ctx, const struct ms_worker_side *side)
{
	struct job *job = ctx;
	const struct ms_symbols_call call = {
		.finder = job->named ? side->finder : NULL,
		.maps = &job->stacks->maps,
		.read = read_stacks,
		.ctx = job->stacks,
	};
	struct pipe_sink sink = { .base = { sink_write, false }, .to = fdopen(side->fd, "w") };
	struct ms_symbols *symbols;
	struct ms_arena arena;
	struct ms_error err;
	bool done;

	if (!sink.to)
		return 1;
	ms_arena_init(&arena);
	job->stacks->open = open_mapped;
	job->stacks->open_ctx = side->finder;
	done = !ms_stacks_unwind(job->stacks, ms_now_ns() + job->limit_ns / 3, &arena,
	                         &job->dump.threads, &err) &&
	       !ms_symbols_open(&call, &arena, &symbols, &err);
	if (done) {
		name_frames(symbols, &job->dump);
		done = ms_stacks_write(&job->dump, &sink.base);
	}
	/* Everything else goes with the process. */
	return fclose(sink.to) == 0 && done ? 0 : 1;
}

/* ---- the original ---- */

/* Read all that comes. False when it does not end in time, or there is too much. */
static bool collect(const struct ms_worker *worker, struct ms_arena *arena, struct text *ret)
{
	while (ret->n < MOST_TEXT) {
		ssize_t n;

		if (!ms_vec_reserve(arena, ret, ret->n + PIECE))
			return false;
		n = ms_worker_read(worker, ret->at + ret->n, PIECE);
		if (n <= 0)
			return n == 0;
		ret->n += (size_t)n;
	}
	return false;
}

/* Have the worker do it. Returns MS_E_DIED when it did not come to an end. */
static enum ms_status have_worked(struct job *job, struct ms_arena *arena, struct text *ret,
                                  struct ms_error *err)
{
	const struct ms_collection *shared = job->stacks->shared;
	struct ms_opener opener;
	struct ms_worker_call call = {
		.title = "memscan-unwind",
		.work = work,
		.ctx = job,
		.limit_ns = job->limit_ns,
		.opener = &opener,
		.keep = job->stacks->mem,
		.held = { arena },
		.shared = { (uintptr_t)shared, (uintptr_t)shared + shared->map_bytes },
	};
	struct ms_worker worker;
	enum ms_status st;

	ms_worker_take_ids(job->stacks->living, &call);
	ms_opener_init(&opener, job->stacks->living, call.uid);
	ms_symbols_opener(&job->stacks->maps, &opener);
	opener.folder = job->request->debug_folder;
	opener.debuginfod = job->request->debuginfod;
	st = ms_worker_start(&call, &worker, err);
	if (st)
		return st;
	ret->n = 0;
	if (ms_worker_end(&worker, collect(&worker, arena, ret)))
		return MS_OK;
	return ms_fail(err, MS_E_DIED, "the process that unwound the stacks of %d did not finish",
	               (int)job->dump.pid);
}

static uint64_t left_ns(const struct request *request)
{
	uint64_t now_ns = ms_now_ns();

	return now_ns < request->deadline_ns ? request->deadline_ns - now_ns : 0;
}

static enum ms_status unwind(struct job *job, struct ms_arena *arena, struct text *ret,
                             struct ms_error *err)
{
	pid_t pid = job->dump.pid;
	enum ms_status st;

	/* Without names there is less that may hang: that gets the last third. */
	job->limit_ns = left_ns(job->request) / 3 * 2;
	st = have_worked(job, arena, ret, err);
	if (st == MS_E_DIED) {
		(void)snprintf(job->note, MOST_NOTE, "%s; functions are not named", err->text);
		job->named = false;
		job->limit_ns = left_ns(job->request);
		st = have_worked(job, arena, ret, err);
	}
	/* Tables and code go with the process; what was unwound before that is good. */
	if (!st && ret->at && !ms_proc_living_thread(pid) &&
	    memmem(ret->at, ret->n, failed, strlen(failed)))
		st = ms_fail(err, MS_E_GONE, "process %d ended while its stacks were unwound",
		             (int)pid);
	return st;
}

static void format_time(int64_t at, char ret[64])
{
	time_t seconds = (time_t)(at / (int64_t)second_ns);
	char date[32] = "";
	char zone[16] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm)) {
		(void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
		(void)strftime(zone, sizeof(zone), "%z", &tm);
	}
	(void)snprintf(ret, 64, "%s.%09" PRId64 "%s", date, at % (int64_t)second_ns, zone);
}

/* The stacks as text; a word on what is missing goes to the answer. */
static enum ms_status dump(const struct helping *h, struct ms_arena *arena, struct text *ret,
                           struct ms_error *err)
{
	struct ms_target_facts target;
	struct ms_host_facts host;
	struct ms_frozen_stacks stacks;
	struct job job = {
		.request = h->request, .stacks = &stacks, .named = true, .note = h->answer->note
	};
	enum ms_status st;
	char at[64];

	ms_target_facts(h->pid, &target, &host);
	st = ms_stacks_take(h->pid, left_ns(h->request), arena, &stacks, err);
	if (!st) {
		format_time(stacks.shared->frozen_at, at);
		job.dump = (struct ms_stack_dump){
			.pid = h->pid,
			.time = at,
			.cmdline = target.cmdline,
			.cmdline_len = target.cmdline_len,
			.abi = target.arch,
			.word_bytes = (uint8_t)target.word_size,
		};
		st = unwind(&job, arena, ret, err);
	}
	ms_stacks_close(&stacks);
	return st;
}

/* ---- the helper ---- */

static int help(void *ctx)
{
	const struct helping *h = ctx;
	struct ms_error err = { 0 };
	struct text text = { 0 };
	struct ms_arena arena;

	ms_arena_init(&arena);
	err.status = dump(h, &arena, &text, &err);
	if (!err.status && !ms_fd_write_all(h->fd, text.at, text.n))
		(void)ms_fail_sys(&err, errno, "no memory for the stacks of %d", (int)h->pid);
	h->answer->err = err;
	return 0;
}

/* Of what is not the helper's own answer. */
static enum ms_status explain(const struct helping *h, enum ms_helper_end end, struct ms_error *err)
{
	if (end == MS_HELPER_LATE) {
		(void)ms_fail(err, MS_E_TIMEOUT,
		              "the stacks of process %d were not read within %g s", (int)h->pid,
		              (double)h->request->process.timeout_ns / 1e9);
		ms_advise(err,
		          "look in /proc/%d/maps for a file on a file system that does not answer, "
		          "or give a longer --timeout",
		          (int)h->pid);
		return err->status;
	}
	(void)ms_fail(err, MS_E_DIED, "the process that read the stacks of %d ended unexpectedly",
	              (int)h->pid);
	ms_advise(err, "try again; if it happens again, see dmesg for the reason");
	return err->status;
}

static enum ms_status have_helped(const struct helping *h, struct ms_error *err)
{
	struct helping copy = *h;
	const struct ms_helper_call call = {
		.title = "memscan-stacks",
		.work = help,
		.ctx = &copy,
		.deadline_ns = h->request->deadline_ns + last_word_ns,
	};
	enum ms_helper_end end = ms_helper_run(&call);

	if (end)
		return explain(h, end, err);
	ms_error_take(err, &h->answer->err);
	h->answer->note[MOST_NOTE - 1] = '\0';
	if (h->answer->note[0])
		ms_tell("%s", h->answer->note);
	return err->status;
}

/* ---- the command ---- */

static int unwritten(int error)
{
	return ms_tell_unwritten(
		error, "cannot write the stacks to standard output",
		"redirect them to a file with space left, or to a pipe that is read");
}

/* The whole file. It comes from the worker, which the target may have taken over. */
static int print(int fd)
{
	struct ms_lines lines = { .to = stdout };
	char piece[PIECE];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, piece, sizeof(piece), at)) > 0 && !lines.failed) {
		ms_lines_put(&lines, piece, (size_t)n);
		at += n;
	}
	return ms_lines_end(&lines) ? unwritten(lines.failed) : MS_EXIT_CLEAN;
}

static int serve(pid_t pid, struct request *request)
{
	struct helping h = { .request = request, .pid = pid };
	struct ms_error err;
	int status;

	if (!request->process.timeout_ns)
		request->process.timeout_ns =
			(request->debuginfod ? ASK_SERVERS_S : MS_ARGS_TIMEOUT_S) * second_ns;
	request->deadline_ns = ms_now_ns() + request->process.timeout_ns;
	h.fd = memfd_create("memscan-stacks", MFD_CLOEXEC);
	h.answer = mmap(NULL, sizeof(*h.answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	                -1, 0);
	if (h.fd < 0 || h.answer == MAP_FAILED) {
		(void)ms_fail_sys(&err, errno, "no shared memory for the stacks");
		status = ms_tell_failed(&err, MS_EXIT_REFUSED);
	} else {
		status =
			have_helped(&h, &err) ? ms_tell_failed(&err, MS_EXIT_REFUSED) : print(h.fd);
	}
	if (h.answer != MAP_FAILED)
		(void)munmap(h.answer, sizeof(*h.answer));
	if (h.fd >= 0)
		(void)close(h.fd);
	return status;
}

static bool take_folder(void *to, const char *path, struct ms_error *err)
{
	((struct request *)to)->debug_folder = path;
	return ms_args_is_folder(path) ||
	       ms_args_wrong(err, see_help, "--debug-dir takes a folder, not %s", path);
}

static const struct ms_option rows[] = {
	MS_ARGS_PROCESS,
	{ 0, "debug-dir", "DIR", "also look for separate debug files in DIR", .take = take_folder },
	{ 0, "debuginfod", NULL, "ask the servers in $DEBUGINFOD_URLS for debug files",
	  .flag = offsetof(struct request, debuginfod) },
	{ 0, "timeout", "SECONDS",
	  "give up after this (default 30; 600 with\n--debuginfod); the last third is for stacks\n"
	  "without names",
	  .take = ms_args_take_timeout },
	{ 'h', "help", NULL, "print this help and exit", .flag = offsetof(struct request, help),
	  .last = true },
};

static const struct ms_option_table table = {
	.command = "memscan stacks",
	.usage = usage,
	.notes = notes,
	.see = see_help,
	.at = rows,
	.n = sizeof(rows) / sizeof(rows[0]),
};

static bool parse(int argc, char **argv, struct request *ret, struct ms_error *err)
{
	int at = ms_args_take(argc, argv, &table, ret, err);

	if (at < 0 || ret->help)
		return at >= 0;
	return ms_args_choose(argc - at, argv + at, &table, &ret->process, err);
}

int ms_cmd_stacks(int argc, char **argv)
{
	struct request request = { 0 };
	struct ms_chosen chosen;
	struct ms_error err;

	if (!parse(argc, argv, &request, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (request.help) {
		ms_args_help(stdout, &table);
		return fflush(stdout) == 0 ? MS_EXIT_CLEAN : unwritten(errno);
	}
	if (request.debuginfod)
		ms_tell_servers();
	if (ms_target_choose(&request.process.choice, &chosen, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	return serve(chosen.pid, &request);
}
