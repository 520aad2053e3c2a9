/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/search.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inproc/annotate/options.h"
#include "inproc/lock.h"
#include "inproc/log.h"
#include "report/wire.h"
#include "scan/sweep.h"
#include "scan/threads.h"
#include "target/target.h"

static const uint64_t FREEZE_NS = UINT64_C(30000000000);

/* Of a process; two searches would meet each other's tracer. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
static struct ms_lock one_at_a_time;

bool ms_search_enter(pid_t program)
{
	return ms_lock_take(&one_at_a_time, program);
}

void ms_search_leave(void)
{
	ms_lock_give(&one_at_a_time);
}

/* Their runtimes bring a malloc of their own and follow each thread of a program. */
void __asan_init(void) __attribute__((weak));
void __hwasan_init(void) __attribute__((weak));
void __lsan_init(void) __attribute__((weak));
void __msan_init(void) __attribute__((weak));
void __tsan_init(void) __attribute__((weak));

const char *ms_search_other_checker(void)
{
	const char *preload = secure_getenv("LD_PRELOAD");

	if (preload && strstr(preload, "vgpreload_"))
		return "Valgrind: use its --leak-check=full";
	if (__tsan_init)
		return "ThreadSanitizer";
	if (__asan_init || __lsan_init || __hwasan_init || __msan_init)
		return "a sanitizer: use LeakSanitizer (__lsan_do_leak_check)";
	return NULL;
}

/* Everything that needs memory or time, done while the program runs. */
static enum ms_status prepare(struct ms_search *s)
{
	pid_t program = s->process->program;
	struct ms_range memory = s->process->memory;
	enum ms_status st = ms_collection_create(program, FREEZE_NS, &s->shared, &s->err);
	struct ms_error why;

	if (st == MS_E_GONE) {
		st = ms_fail(&s->err, MS_E_UNSUPPORTED, "/proc does not show this process");
		ms_advise(&s->err, "mount /proc where the program runs");
	}
	if (st)
		return st;
	if (!ms_ranges_add(&s->arena, &s->own, memory.begin, memory.end) ||
	    !ms_ranges_add(&s->arena, &s->own, (uintptr_t)s->shared,
	                   (uintptr_t)s->shared + s->shared->map_bytes) ||
	    !ms_ranges_tidy(&s->arena, &s->own))
		return ms_fail(&s->err, MS_E_NOMEM,
		               "no memory for the list of memscan's own memory");
	st = ms_fork_check_huge_pages(program, &why);
	if (st) {
		st = ms_fail(&s->err, st, "this process cannot be forked to be searched: %s",
		             why.text);
		ms_advise(&s->err, "scan it from outside: memscan --pid %d", (int)program);
		return st;
	}
	s->suppressions = (struct ms_suppressions){ 0 };
	st = ms_suppress_read(&s->suppressed, &s->arena, &s->suppressions, &s->err);
	if (st)
		return st;
	s->service.options.suppressions = s->suppressions.n ? &s->suppressions : NULL;
	s->shared->wanted = s->service.options.anchors;
	ms_malloc_code_find(program, s->shared, &s->arena);
	st = ms_fork_prepare(program, &s->arena, &s->src, &s->err);
	if (!st)
		ms_fork_set_self(s->src, &s->own);
	if (!st && pipe2(s->pipe, O_CLOEXEC))
		st = ms_fail_sys(&s->err, errno, "no pipe for a scan");
	return st;
}

static enum ms_status collect(struct ms_search *s)
{
	const struct ms_self_collection self = {
		.shared = s->shared,
		.arena = &s->arena,
		.own = &s->own,
		.sweep = ms_search_sweep,
		.ctx = s,
	};
	enum ms_status st;

	if (s->logged)
		ms_log("collecting thread info for process %d...", (int)s->process->program);
	st = ms_collection_serve_self(&self, &s->sweeper, &s->err);
	if (!st && s->logged)
		ms_log("collection thread done");
	return st;
}

/* Wait for the sweeper's end, which is near when all was received. */
static void reap(struct ms_search *s, enum ms_status st)
{
	struct rusage usage = { 0 };
	int status = 0;

	if (!s->sweeper)
		return;
	if (st == MS_E_CORRUPT || st == MS_E_NOMEM)
		(void)kill(s->sweeper, SIGKILL);
	while (wait4(s->sweeper, &status, 0, &usage) < 0 && errno == EINTR)
		;
	s->report.scan.peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
	if (st == MS_E_DIED && WIFSIGNALED(status)) {
		(void)ms_fail(&s->err, MS_E_DIED, "the sweeper process ended by signal %d",
		              WTERMSIG(status));
		ms_advise(&s->err, "see dmesg: it may have run out of memory");
	}
}

static void close_pipe(struct ms_search *s, int end)
{
	if (s->pipe[end] >= 0)
		(void)close(s->pipe[end]);
	s->pipe[end] = -1;
}

/*
 * Forgotten first: whoever is killed in here shall leave nothing to be released twice. What
 * is left then is empty, lest it hide leaks.
 */
void ms_search_release(struct ms_search *s)
{
	struct ms_arena arena = s->arena;
	struct ms_arena old = s->report_arena;
	struct ms_collection *shared = s->shared;

	ms_arena_wipe(&s->arena);
	ms_arena_wipe(&s->report_arena);
	memset(&s->arena, 0, sizeof(s->arena));
	memset(&s->report_arena, 0, sizeof(s->report_arena));
	s->shared = NULL;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	ms_arena_deinit(&arena);
	ms_arena_deinit(&old);
	if (shared)
		ms_collection_destroy(shared);
}

/* All that comes of it is in @ctx, to be released by others should this process be killed. */
static enum ms_status attempt(void *ctx, struct ms_arena *arena, struct ms_report *ret,
                              struct ms_error *err)
{
	struct ms_search *s = ctx;
	struct ms_collection *shared;
	enum ms_status st;

	assert(arena == &s->report_arena && ret == &s->report && err == &s->err);
	ms_search_release(s);
	/* A child would have the addresses of leaks, and take them for references. */
	s->report_arena.unforked = true;
	s->own = (struct ms_ranges){ 0 };
	s->src = NULL;
	s->sweeper = 0;
	s->pipe[0] = -1;
	s->pipe[1] = -1;
	st = prepare(s);
	if (!st)
		st = collect(s);
	close_pipe(s, 1);
	if (!st)
		st = ms_wire_receive(ms_sweep_get, &s->pipe[0], &s->report_arena, &s->report,
		                     &s->err);
	close_pipe(s, 0);
	reap(s, st);
	if (s->src)
		s->src->ops->close(s->src);
	shared = s->shared;
	s->shared = NULL;
	if (shared)
		ms_collection_destroy(shared);
	return st;
}

static enum ms_status name(void *ctx, struct ms_arena *arena, struct ms_report *report,
                           struct ms_error *err)
{
	const struct ms_search *s = ctx;
	struct ms_elf_files files = { .arena = arena,
		                      .variables = s->options.question.kind != MS_ASKED_NOTHING };

	(void)err;
	ms_names_fill(&files, report);
	ms_elf_files_close(&files);
	ms_name_threads(report);
	return MS_OK;
}

static const struct ms_service_host host = { .attempt = attempt, .name = name };

void ms_search_run(void *ctx)
{
	struct ms_search *s = ctx;

	s->service = (struct ms_service){
		.host = &host, .ctx = s, .pid = s->process->program, .options = s->options
	};
	s->service.options.unaligned = ms_lsan.unaligned;
	s->service.options.stacks_only = !s->merged;
	ms_service_begin(&s->service);
	s->st = ms_service_ask(&s->service, &s->report_arena, &s->report, &s->err);
	if (!s->st)
		ms_service_finish(&s->service, &s->report_arena, &s->report);
	if (s->logged && !s->st)
		ms_log("unreachable memory detection done");
	s->done(s);
}
