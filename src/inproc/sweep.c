/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/page.h"
#include "inproc/hidden.h"
#include "inproc/log.h"
#include "inproc/search.h"
#include "scan/sweep.h"
#include "target/freeze/inside.h"
#include "target/maps.h"
#include "target/snapshot.h"
#include "target/target.h"
#include "target/urgent.h"

enum { MAX_SKIPPED = 65536, MOST_OWN_FRAMES = 65536 };

/* For the handler of faults; of the sweeper alone, which has one thread. */
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static struct {
	const struct ms_mappings *maps;
	uint32_t n;
} skipped;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

/*
 * What the map says is readable may not be, such as a page that the kernel has lost or
 * one guarded in a way of its own: it is as if it were empty.
 */
static void skip_page(int signal, siginfo_t *info, void *context)
{
	ms_addr at = (uintptr_t)info->si_addr & ~(ms_addr)(ms_page_bytes() - 1);
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): a page of this process */
	void *page = (void *)(uintptr_t)at;

	(void)context;
	if (!ms_maps_find(skipped.maps, at) || ++skipped.n > MAX_SKIPPED ||
	    mmap(page, ms_page_bytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
	         0) != page)
		(void)sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

static void expect_faults(const struct ms_mappings *maps)
{
	struct sigaction act = { .sa_sigaction = skip_page, .sa_flags = SA_SIGINFO };
	sigset_t faults;

	skipped.maps = maps;
	skipped.n = 0;
	(void)sigemptyset(&faults);
	(void)sigaddset(&faults, SIGSEGV);
	(void)sigaddset(&faults, SIGBUS);
	(void)sigaction(SIGSEGV, &act, NULL);
	(void)sigaction(SIGBUS, &act, NULL);
	(void)sigprocmask(SIG_UNBLOCK, &faults, NULL);
}

/* The kernel ends what takes longer; the collection process tells so. */
static void limit_time(unsigned seconds)
{
	sigset_t alarms;

	if (!seconds)
		return;
	(void)sigemptyset(&alarms);
	(void)sigaddset(&alarms, SIGALRM);
	(void)sigaction(SIGALRM, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	(void)sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	(void)alarm(seconds);
}

static enum ms_status hold(struct ms_search *s, int channel, struct ms_snapshot *ret,
                           struct ms_error *err)
{
	uint64_t since_ns = ms_now_ns();
	enum ms_status st;

	s->shared->image = getpid();
	st = ms_fork_hold(s->src, s->shared, &s->report.warnings, err);
	*ret = (struct ms_snapshot){ .src = s->src,
		                     .cloned = true,
		                     .hold_ns = ms_now_ns() - since_ns };
	if (!st)
		st = ms_collection_release(s->shared, channel, err);
	ms_urgent_end(s->shared->sweeper_urgency);
	return st;
}

/* Tell in the words of libmemunreachable that a part of the search is over. */
static void tell_phase(void *ctx, enum ms_phase phase)
{
	const struct ms_search *s = ctx;

	switch (phase) {
	case MS_PHASE_DECODE:
		ms_log("searching done");
		ms_log("sweeping process %d for unreachable memory", (int)s->process->program);
		break;
	case MS_PHASE_MARK:
		ms_log("sweeping done");
		ms_log("folding related leaks");
		break;
	case MS_PHASE_FOLD:
		ms_log("folding done");
		break;
	case MS_PHASE_FREEZE:
	case MS_PHASE_HOLD:
	case MS_PHASE_CLASSIFY:
	case MS_PHASE_ROOT:
	case MS_PHASES:
		break;
	}
}

/* The files that name functions are opened while that is possible. */
static void prepare_judge(struct ms_search *s, struct ms_scan_options *options)
{
	s->judging = (struct ms_names_judge){ .files.arena = &s->arena,
		                              .suppressions = options->suppressions };
	ms_names_open(&s->judging.files, &s->src->mappings);
	options->judge = ms_names_judge;
	options->judge_ctx = &s->judging;
}

/* What the program may do is nothing that its search needs, nor are its open files. */
static enum ms_status list_kept(struct ms_search *s, int channel, struct ms_jail *ret,
                                struct ms_error *err)
{
	int *keep = ms_arena_alloc(&s->arena, (s->judging.files.list.n + 4) * sizeof(*keep));
	const struct ms_elf_file *file;

	if (!keep)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of open files");
	*ret = (struct ms_jail){ .keep = keep, .parent = getppid(), .n_open = 1 };
	keep[ret->n_keep++] = s->pipe[1];
	keep[ret->n_keep++] = channel;
	keep[ret->n_keep++] = ms_fork_descriptor(s->src);
	keep[ret->n_keep++] = s->logged ? STDERR_FILENO : -1;
	ms_vec_for_each (file, &s->judging.files.list)
		keep[ret->n_keep++] = file->fd;
	return MS_OK;
}

/*
 * The thread that asks is seen as it was when it called: its registers, and its stack below
 * the frame of that call, are this library's. It waits, and this is a copy.
 */
static void step_back(struct ms_search *s)
{
	const struct ms_range *asking = &s->options.question.asking;
	struct ms_thread *t;

	ms_vec_for_each (t, &s->src->threads) {
		if (t->tid != s->asker)
			continue;
		t->n_words = 0;
		/* It may be on a signal's stack, in a handler. */
		if (t->sp >= asking->begin || asking->begin - t->sp > MOST_OWN_FRAMES)
			continue;
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of this process */
		memset((void *)(uintptr_t)t->sp, 0, asking->begin - t->sp);
		t->sp = asking->begin;
	}
}

static enum ms_status search(struct ms_search *s, int channel, const struct ms_snapshot *snapshot,
                             struct ms_error *err)
{
	struct ms_report *report = &s->report;
	struct ms_scan_options options = s->service.options;
	struct ms_jail jail;
	const struct ms_sweep_call call = {
		.shared = s->shared,
		.snapshot = snapshot,
		.jail = &jail,
		.options = &options,
	};
	enum ms_status st;

	ms_hidden_wipe(s->process->memory);
	st = ms_fork_open(s->src, s->shared, &report->warnings, err);
	if (st)
		return st;
	ms_inside_mark(s->shared, s->src);
	if (s->asker)
		step_back(s);
	if (s->logged)
		ms_log("searching process %d for allocations", (int)s->process->program);
	if (options.suppressions)
		prepare_judge(s, &options);
	options.phase_ended = s->logged ? tell_phase : NULL;
	options.ctx = s;
	st = list_kept(s, channel, &jail, err);
	if (!st)
		st = ms_sweep_search(&call, &s->arena, report, err);
	if (skipped.n && s->logged)
		ms_log("%u pages skipped due to segfaults", skipped.n);
	if (skipped.n)
		ms_note_add(&s->arena, &report->warnings,
		            "%u pages could not be read and were taken as empty", skipped.n);
	return st;
}

int ms_search_sweep(void *ctx, int channel)
{
	struct ms_search *s = ctx;
	struct ms_snapshot snapshot;
	struct ms_error err = { 0 };
	enum ms_status st;

	memset(&s->report, 0, sizeof(s->report));
	memset(&s->judging, 0, sizeof(s->judging));
	expect_faults(&s->src->mappings);
	limit_time(s->limit_s);
	st = hold(s, channel, &snapshot, &err);
	if (!st)
		st = search(s, channel, &snapshot, &err);
	err.status = st;
	return ms_sweep_send(s->pipe[1], &err, &s->report);
}
