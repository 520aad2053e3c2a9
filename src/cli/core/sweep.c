/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweeper of a core: a child with the source in its memory, which searches it without any
 * rights, like that of a process. Nothing stands still meanwhile, so nobody has to be let go.
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
#include "cli/book/book.h"
#include "cli/core/core.h"
#include "cli/scan/sweeper.h"
#include "report/wire.h"
#include "scan/sweep.h"
#include "target/freeze/inside.h"
#include "target/target.h"

enum { TICK_MS = 100, BYTES_PER_BYTE = 4 };
enum { READER, WRITER };

/* Memory that a search may take, as that of a process. */
static const uint64_t least_bytes = (uint64_t)1 << 30;

struct sweeping {
	const struct ms_core_sweep *call;
	struct ms_report *report; /* of the sweeper as it grows, in memory of both */
	int channel[2];
	pid_t original;
	pid_t sweeper;
	bool late;
};

/* ---- the sweeper ---- */

static void take_warnings(const struct ms_core_sweep *call, struct ms_arena *arena,
                          struct ms_report *report)
{
	const struct ms_note *note;

	ms_vec_for_each (note, call->warnings)
		ms_note_add(arena, &report->warnings, "%s", note->text);
}

static enum ms_status search(const struct sweeping *s, struct ms_arena *arena, struct ms_error *err)
{
	const struct ms_core_sweep *call = s->call;
	struct ms_collection *frozen = call->process->frozen;
	int judge = call->options->suppressions ? s->channel[WRITER] : -1;
	int book = ms_sweep_wants_types(call->options) ? s->channel[WRITER] : -1;
	const struct ms_jail jail = {
		.keep = &s->channel[WRITER],
		.n_keep = 1,
		.parent = s->original,
		.new_bytes = least_bytes + BYTES_PER_BYTE * call->process->bytes,
		.n_open = 1,
	};
	const struct ms_snapshot snapshot = { .src = call->src };
	struct ms_scan_options options = *call->options;
	const struct ms_sweep_call sweep = {
		.shared = frozen,
		.snapshot = &snapshot,
		.held_bytes = call->process->bytes,
		.jail = &jail,
		.options = &options,
		.jobs = call->jobs,
	};

	frozen->wanted = options.anchors;
	ms_malloc_code_find_in(call->src, frozen, arena);
	ms_inside_mark(frozen, call->src);
	ms_sweep_let_ask(&options, &judge, &book);
	take_warnings(call, arena, s->report);
	return ms_sweep_search(&sweep, arena, s->report, err);
}

static _Noreturn void be_sweeper(const struct sweeping *s)
{
	struct ms_arena arena = { 0 };
	struct ms_error err = { 0 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != s->original) /* it died before that took effect */
		_exit(1);
	(void)prctl(PR_SET_NAME, "memscan-sweep");
	(void)close(s->channel[READER]);
	err.status = search(s, &arena, &err);
	_exit(ms_sweep_send(s->channel[WRITER], &err, s->report));
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

	return ms_wire_serve(&link, arena, ret, err);
}

static enum ms_status start(struct sweeping *s, struct ms_error *err)
{
	void *page = mmap(NULL, sizeof(*s->report), PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return ms_fail_sys(err, errno, "no memory for a report");
	s->report = page;
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
	if (s->late) {
		(void)ms_fail(err, MS_E_TIMEOUT, "the core was not scanned within the time limit");
		ms_advise(err, "give more time with --timeout, or omit that option");
		return MS_E_TIMEOUT;
	}
	if (st == MS_E_DIED && WIFSIGNALED(status)) {
		(void)ms_fail(err, MS_E_DIED,
		              "memscan's sweeper process was ended by signal %d (%s)",
		              WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
		ms_advise(err,
		          "try again, with a core and files that nobody writes to; if it happens "
		          "again, see dmesg for what killed it");
	}
	return st;
}

static enum ms_status attempt(const struct ms_core_sweep *call, struct ms_arena *arena,
                              struct ms_report *ret, struct ms_error *err)
{
	struct sweeping s = { .call = call, .channel = { -1, -1 }, .original = getpid() };
	struct rusage usage = { 0 };
	enum ms_status st;
	int status = 0;

	ms_arena_deinit(arena);
	*call->naming->book = (struct ms_names_book){ .arena = arena };
	st = start(&s, err);
	if (!st)
		st = receive(&s, arena, ret, err);
	for (int i = 0; i < 2; i++)
		if (s.channel[i] >= 0)
			(void)close(s.channel[i]);
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
