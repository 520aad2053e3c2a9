/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper has read tables that are the target's to forge, so its answer is taken as foreign:
 * it has no pointers, and each text in it ends.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "target/helper.h"
#include "target/inject/here.h"

enum { PATH = 4096, REASON = 160 };

/* Beyond the time limit, to say of itself that it is over. */
static const uint64_t last_word_ns = UINT64_C(300000000);

/* Shared memory. */
struct answer {
	atomic_bool changing;
	struct ms_error err;
	struct ms_attached is; /* its pointers are of no use */
	char file[PATH];
	char in_front[PATH]; /* "": there is none */
	char beside[PATH];
	char left_out[MS_AGENT_N][REASON];
};

struct job {
	struct ms_attach_call call;
	ms_attach_work *work;
	struct ms_arena *arena;
	struct answer *answer;
};

/* ---- the helper ---- */

static void put(char *to, size_t size, const char *text)
{
	(void)snprintf(to, size, "%s", text ? text : "");
}

static int work(void *ctx)
{
	struct job *job = ctx;
	struct answer *answer = job->answer;
	const struct ms_malloc_functions *functions = &answer->is.functions;
	struct ms_error err = { 0 };

	err.status = job->work(&job->call, job->arena, &answer->is, &err);
	answer->err = err;
	put(answer->file, PATH, functions->file);
	put(answer->in_front, PATH, functions->in_front);
	put(answer->beside, PATH, functions->beside);
	for (size_t i = 0; i < MS_AGENT_N; i++)
		put(answer->left_out[i], REASON, functions->at[i].left_out);
	return 0;
}

/* ---- the original ---- */

/* NULL for an empty text, and without memory. */
static const char *get(char *from, size_t size, struct ms_arena *arena)
{
	from[size - 1] = '\0';
	return *from ? ms_arena_strndup(arena, from, size) : NULL;
}

static void take(struct answer *answer, struct ms_arena *arena, struct ms_attached *ret)
{
	struct ms_malloc_functions *functions = &ret->functions;

	*ret = answer->is;
	functions->name[sizeof(functions->name) - 1] = '\0';
	functions->control = NULL;
	functions->file = get(answer->file, PATH, arena);
	functions->in_front = get(answer->in_front, PATH, arena);
	functions->beside = get(answer->beside, PATH, arena);
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		struct ms_malloc_function *function = &functions->at[i];

		function->left_out = get(answer->left_out[i], REASON, arena);
		if (!function->left_out)
			function->left_out = "the reason is not known";
		function->place = (struct ms_place){ 0 };
	}
}

static enum ms_status explain(const struct job *job, enum ms_helper_end end, struct ms_error *err)
{
	const pid_t pid = job->call.pid;
	const bool changed = atomic_load(&job->answer->changing);
	const double seconds = (double)job->call.timeout_ns / 1e9;

	if (end == MS_HELPER_LATE && !changed) {
		(void)ms_fail(
			err, MS_E_TIMEOUT,
			"the functions of malloc were not looked up in process %d within %g s", pid,
			seconds);
		ms_advise(err,
		          "look in /proc/%d/maps for a file on a file system that does not answer, "
		          "or give a longer --timeout",
		          pid);
	} else if (end == MS_HELPER_LATE) {
		(void)ms_fail(err, MS_E_TIMEOUT, "process %d was not changed wholly within %g s",
		              pid, seconds);
	} else if (end == MS_HELPER_ENDING) {
		(void)ms_fail(err, MS_E_DIED, "a signal ended the work on process %d", pid);
	} else {
		(void)ms_fail(err, MS_E_DIED,
		              "the process that looked into process %d ended unexpectedly", pid);
	}
	if (end != MS_HELPER_LATE || changed)
		ms_advise(err, "see memscan attach --status %d, and try again", pid);
	return err->status;
}

static enum ms_status have_done(ms_attach_work *how, const struct ms_attach_call *call,
                                struct ms_arena *arena, struct ms_attached *ret,
                                struct ms_error *err)
{
	struct job job = { .call = *call, .work = how, .arena = arena };
	struct ms_helper_call helper = {
		.title = "memscan-inject",
		.work = work,
		.ctx = &job,
		.deadline_ns = call->begun_ns + call->timeout_ns + last_word_ns,
	};
	enum ms_helper_end end;
	void *page = mmap(NULL, sizeof(*job.answer), PROT_READ | PROT_WRITE,
	                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	*ret = (struct ms_attached){ 0 };
	if (page == MAP_FAILED)
		return ms_fail_sys(err, errno, "no shared memory");
	job.answer = page;
	job.call.changing = &job.answer->changing;
	helper.changing = &job.answer->changing;
	end = ms_helper_run(&helper);
	if (end) {
		(void)explain(&job, end, err);
	} else {
		ms_error_take(err, &job.answer->err);
		take(job.answer, arena, ret);
	}
	(void)munmap(page, sizeof(*job.answer));
	return err->status;
}

enum ms_status ms_attach(const struct ms_attach_call *call, struct ms_arena *arena,
                         struct ms_attached *ret, struct ms_error *err)
{
	return have_done(ms_attach_here, call, arena, ret, err);
}

enum ms_status ms_detach(const struct ms_attach_call *call, struct ms_arena *arena,
                         struct ms_attached *ret, struct ms_error *err)
{
	return have_done(ms_detach_here, call, arena, ret, err);
}

enum ms_status ms_attach_status(const struct ms_attach_call *call, struct ms_arena *arena,
                                struct ms_attached *ret, struct ms_error *err)
{
	return have_done(ms_attach_status_here, call, arena, ret, err);
}
