/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweeper of a core: a child that has given up all rights before it reads the first byte of
 * it, and then searches it, like that of a process. Nothing stands still meanwhile, so nobody has
 * to be let go.
 *
 *	original ── the core's descriptor ──> sweeper ── names of files ──> opener
 *	         <── what it is of, report ──         <── descriptors ──
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/follow.h"
#include "base/libc.h"
#include "cli/book/book.h"
#include "cli/core/core.h"
#include "cli/scan/sweeper.h"
#include "cli/worker.h"
#include "report/wire.h"
#include "scan/sweep.h"
#include "target/freeze/inside.h"
#include "target/target.h"

enum { TICK_MS = 100, BYTES_PER_BYTE = 4, MOST_OPEN = 64 };
enum { READER, WRITER };
enum { OPENER, ASKER };
enum { SHOWN = 100 };

/*
 * Memory that a search may take, beside some for each byte that is there: the file's holes do not
 * count, whatever its headers say of them.
 */
static const uint64_t least_bytes = (uint64_t)896 << 20;

struct sweeping {
	const struct ms_core_sweep *call;
	struct ms_report *report; /* of the sweeper as it grows, in memory of both */
	int channel[2];
	int files[2]; /* a pair: to the process that opens files, from the sweeper */
	pid_t original;
	pid_t sweeper;
	pid_t opener;
	bool late;
	struct ms_core_told told; /* the sweeper's */
};

/* ---- the sweeper ---- */

static void take_warnings(const struct ms_core_sweep *call, struct ms_arena *arena,
                          struct ms_report *report)
{
	const struct ms_note *note;

	ms_vec_for_each (note, call->warnings)
		ms_note_add(arena, &report->warnings, "%s", note->text);
}

static int open_wanted(void *ctx, const struct ms_core_wanted *wanted, uint32_t *place)
{
	struct sweeping *s = ctx;

	if (wanted->program && strlen(wanted->path) < sizeof(s->told.program))
		memcpy(s->told.program, wanted->path, strlen(wanted->path) + 1);
	/* What the user gave is the first place. */
	s->told.exe_refused |= wanted->program && s->call->core->exe && *place;
	return ms_core_files_ask(s->files[ASKER], wanted, place);
}

/* Read the core, and say what it is of, in any case. */
static enum ms_status open_core(struct sweeping *s, struct ms_arena *arena,
                                struct ms_core_process *ret, struct ms_source **ret_src,
                                struct ms_error *err)
{
	const struct ms_core_call call = { .fd = s->call->fd,
		                           .path = s->call->path,
		                           .open = open_wanted,
		                           .ctx = s,
		                           .warnings = &s->report->warnings };
	enum ms_status st = ms_jail_seal(MS_JAIL_READ_CORE, err);

	if (!st)
		st = ms_core_open(&call, arena, ret, ret_src, err);
	if (!st) {
		s->told.opened = true;
		s->told.missing_bytes = ret->missing_bytes;
		s->told.facts = ret->facts;
	}
	if (!ms_fd_write_all(s->channel[WRITER], &s->told, sizeof(s->told)))
		return ms_fail_sys(err, errno, "the original does not listen");
	return st;
}

static enum ms_status search(struct sweeping *s, struct ms_arena *arena, struct ms_error *err)
{
	const struct ms_core_sweep *call = s->call;
	const int keep[] = { s->channel[WRITER], s->files[ASKER], call->fd };
	int judge = call->options->suppressions ? s->channel[WRITER] : -1;
	int book = ms_sweep_wants_types(call->options) ? s->channel[WRITER] : -1;
	const struct ms_jail jail = {
		.keep = keep,
		.n_keep = sizeof(keep) / sizeof(keep[0]),
		.parent = s->original,
		.new_bytes = least_bytes + BYTES_PER_BYTE * ms_core_data_bytes(call->fd),
		.n_open = MOST_OPEN,
	};
	struct ms_core_process process = { .frozen = NULL };
	struct ms_snapshot snapshot = { .src = NULL };
	struct ms_scan_options options = *call->options;
	struct ms_sweep_call sweep = {
		.snapshot = &snapshot,
		.jail = &jail,
		.options = &options,
		.jobs = call->jobs,
	};
	struct ms_workers *workers;
	enum ms_status st;

	take_warnings(call, arena, s->report);
	st = ms_sweep_confine(&sweep, &workers, arena, s->report, err);
	if (!st)
		st = open_core(s, arena, &process, &snapshot.src, err);
	if (st)
		return st;
	process.frozen->wanted = options.anchors;
	ms_malloc_code_find_in(snapshot.src, process.frozen, arena);
	ms_inside_mark(process.frozen, snapshot.src);
	ms_sweep_let_ask(&options, &judge, &book);
	sweep.shared = process.frozen;
	sweep.held_bytes = process.bytes;
	return ms_sweep_confined(&sweep, workers, arena, s->report, err);
}

static _Noreturn void be_sweeper(struct sweeping *s)
{
	struct ms_arena arena = { 0 };
	struct ms_error err = { 0 };

	if (!ms_follow_parent(s->original))
		_exit(0);
	(void)prctl(PR_SET_NAME, "memscan-sweep");
	ms_follow_unseen();
	(void)close(s->channel[READER]);
	err.status = search(s, &arena, &err);
	_exit(ms_sweep_send(s->channel[WRITER], &err, s->report));
}

static _Noreturn void be_opener(const struct sweeping *s)
{
	if (!ms_follow_parent(s->original))
		_exit(0);
	(void)prctl(PR_SET_NAME, "memscan-open");
	ms_follow_unseen();
	(void)close(s->files[ASKER]);
	_exit(ms_core_files_serve(s->call->core, s->files[OPENER]));
}

/* ---- the original ---- */

static void watch(struct sweeping *s)
{
	ms_progress_tick(s->call->progress, "searching");
	if (s->call->deadline_ns && ms_now_ns() >= s->call->deadline_ns && !s->late) {
		s->late = true;
		(void)kill(s->sweeper, SIGKILL);
	}
}

static bool await(void *ctx, short events)
{
	struct sweeping *s = ctx;
	struct pollfd ready = { s->channel[READER], events, 0 };

	while (poll(&ready, 1, TICK_MS) <= 0)
		watch(s);
	watch(s);
	return true;
}

static bool get(void *ctx, void *bytes, size_t len)
{
	const struct sweeping *s = ctx;

	return ms_fd_await_read(&(struct ms_fd_awaited){ s->channel[READER], await, ctx }, bytes,
	                        len);
}

static bool put(void *ctx, const void *bytes, size_t len)
{
	const struct sweeping *s = ctx;

	return ms_fd_await_write(&(struct ms_fd_awaited){ s->channel[READER], await, ctx }, bytes,
	                         len);
}

static bool judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                  struct ms_error *err)
{
	const struct sweeping *s = ctx;

	return ms_naming_judge(s->call->naming, asked, s->call->options->suppressions, verdicts,
	                       err);
}

static bool book(void *ctx, const struct ms_report *asked, struct ms_arena *arena,
                 struct ms_book *ret, struct ms_error *err)
{
	const struct sweeping *s = ctx;

	ms_progress_tick(s->call->progress, "reading debug information");
	return ms_book_ask(s->call->naming, asked, arena, ret, err);
}

static void end_text(char *text, size_t size)
{
	text[size - 1] = '\0';
}

/* What the core is of. What it is of decides how files of it are found, so it comes first. */
static enum ms_status hear_told(struct sweeping *s, struct ms_error *err)
{
	struct ms_core_told *told = s->call->told;

	if (!get(s, told, sizeof(*told))) {
		memset(told, 0, sizeof(*told));
		return ms_fail(err, MS_E_DIED,
		               "the sweeper process ended before it had read the core");
	}
	end_text(told->facts.arch, sizeof(told->facts.arch));
	end_text(told->facts.exe, sizeof(told->facts.exe));
	end_text(told->facts.cmdline, sizeof(told->facts.cmdline));
	end_text(told->program, sizeof(told->program));
	if (told->facts.cmdline_len > sizeof(told->facts.cmdline))
		told->facts.cmdline_len = 0;
	s->call->core->program = told->program;
	return MS_OK;
}

static enum ms_status receive(struct sweeping *s, struct ms_arena *arena, struct ms_report *ret,
                              struct ms_error *err)
{
	const struct ms_wire_link link = {
		.get = get,
		.put = put,
		.ctx = s,
		.judge = s->call->options->suppressions ? judge : NULL,
		.judge_ctx = s,
		.book = ms_sweep_wants_types(s->call->options) ? book : NULL,
		.book_ctx = s,
	};

	enum ms_status st = hear_told(s, err);

	if (!st && s->call->told->opened && s->call->told->exe_refused)
		return ms_fail(err, MS_E_UNSUPPORTED, "--exe is of another build");
	return st ? st : ms_wire_serve(&link, arena, ret, err);
}

/* A process is forked before there is what it is not to hold. */
static enum ms_status start_opener(struct sweeping *s, struct ms_error *err)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->files) != 0)
		return ms_fail_sys(err, errno, "no socket for files that the core names");
	s->opener = fork();
	if (s->opener < 0)
		return ms_fail_sys(err, errno, "cannot start the process that opens files");
	if (!s->opener)
		be_opener(s);
	(void)close(s->files[OPENER]);
	s->files[OPENER] = -1;
	return MS_OK;
}

static enum ms_status start(struct sweeping *s, struct ms_error *err)
{
	void *page = mmap(NULL, sizeof(*s->report), PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	enum ms_status st;

	if (page == MAP_FAILED)
		return ms_fail_sys(err, errno, "no memory for a report");
	s->report = page;
	st = start_opener(s, err);
	if (st)
		return st;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->channel) != 0)
		return ms_fail_sys(err, errno, "no socket for a scan's report");
	s->sweeper = fork();
	if (s->sweeper < 0)
		return ms_fail_sys(err, errno, "cannot start the sweeper process");
	if (!s->sweeper)
		be_sweeper(s);
	(void)close(s->channel[WRITER]);
	s->channel[WRITER] = -1;
	return MS_OK;
}

/* Put what became of the sweeper in place of what it looked like. */
static enum ms_status explain(const struct sweeping *s, enum ms_status st, int status,
                              struct ms_error *err)
{
	if (!st)
		return st;
	if (s->late)
		return ms_core_late(err);
	if (st == MS_E_DIED && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) {
		(void)ms_fail(err, MS_E_DIED,
		              "%s, or a file that it names, was made shorter while it was read",
		              ms_file_end(s->call->path, SHOWN));
		ms_advise(err, "try again, with a core and files that nobody writes to");
		return MS_E_DIED;
	}
	if (st == MS_E_DIED && WIFSIGNALED(status)) {
		(void)ms_fail(err, MS_E_DIED,
		              "memscan's sweeper process was ended by signal %d (%s)",
		              WTERMSIG(status), ms_signal_text(WTERMSIG(status)));
		ms_advise(
			err,
			"try again; if it happens again, see dmesg for the reason, such as a lack "
			"of memory");
	}
	return st;
}

static void close_all(const int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

static enum ms_status attempt(const struct ms_core_sweep *call, struct ms_arena *arena,
                              struct ms_report *ret, struct ms_error *err)
{
	struct sweeping s = {
		.call = call, .channel = { -1, -1 }, .files = { -1, -1 }, .original = getpid()
	};
	struct rusage usage = { 0 };
	enum ms_status st;
	int status = 0;

	ms_arena_deinit(arena);
	*call->naming->book = (struct ms_names_book){ .arena = arena };
	st = start(&s, err);
	if (!st)
		st = receive(&s, arena, ret, err);
	close_all(s.channel);
	close_all(s.files);
	if (s.opener > 0)
		(void)ms_worker_end(&(struct ms_worker){ .pid = s.opener, .fd = -1 }, false);
	if (s.sweeper > 0) {
		if (st)
			(void)kill(s.sweeper, SIGKILL);
		(void)wait4(s.sweeper, &status, 0, &usage);
	}
	if (s.report)
		(void)munmap(s.report, sizeof(*s.report));
	if (!st)
		ret->scan.peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
	return explain(&s, st, status, err);
}

/* Whether an allocator is linked into the program, and was caught at work for all one knew. */
static bool is_worth_another(const struct ms_report *report)
{
	const struct ms_heap *heap;

	ms_vec_for_each (heap, &report->heaps)
		if (heap->doubt && report->anchors.n)
			return true;
	return false;
}

enum ms_status ms_core_late(struct ms_error *err)
{
	(void)ms_fail(err, MS_E_TIMEOUT, "the core was not scanned within the time limit");
	ms_advise(err, "give more time with --timeout, or omit that option");
	return MS_E_TIMEOUT;
}

enum ms_status ms_core_sweep(const struct ms_core_sweep *sweep, struct ms_arena *arena,
                             struct ms_report *ret, struct ms_error *err)
{
	struct ms_scan_options options = *sweep->options;
	struct ms_core_sweep again = *sweep;
	enum ms_status st = attempt(sweep, arena, ret, err);

	if (st || !is_worth_another(ret))
		return st;
	options.anchors = ret->anchors;
	again.options = &options;
	return attempt(&again, arena, ret, err);
}
