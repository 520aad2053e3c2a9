/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/naming.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sort.h"
#include "cli/scan/names.h"
#include "cli/worker.h"
#include "target/proc.h"

enum { NAME_S = 60, ASK_SERVERS_S = 600, MOST_TRIES = 4 };

static const uint64_t second_ns = UINT64_C(1000000000);
static const size_t most_kept_bytes = (size_t)1 << 30;

/* What comes from the worker, which may be the target's by now: nothing is believed. */
struct listener {
	const struct ms_names_job *job;
	struct ms_arena *arena;
	const struct ms_arena *held; /* what the worker looks at is in there, too; NULL: is not */
	struct ms_opener opener;
	pid_t tid; /* a living thread of the process; 0: there is none any more */
	struct ms_worker worker;
	uint64_t deadline_ns;  /* of the caller; 0: none */
	char bytes[64 * 1024]; /* read, but not looked at yet */
	size_t begin, end;
	struct MS_VEC(const char *) strings;
	size_t kept_bytes;
	uint64_t n_records;            /* of this try */
	size_t group_begin, group_end; /* the addresses of the file it is at */
	bool complete;
	struct ms_named *names; /* for each address; NULL: verdicts are wanted */
	uint32_t *verdicts;
	struct ms_notes *warnings; /* NULL: nobody wants them */
};

/* ---- listening ---- */

static bool get(struct listener *l, void *ret, size_t len)
{
	char *to = ret;

	while (len > 0) {
		size_t n = l->end - l->begin;

		if (!n) {
			ssize_t got = ms_worker_read(&l->worker, l->bytes, sizeof(l->bytes));

			if (got <= 0)
				return false;
			l->begin = 0;
			l->end = n = (size_t)got;
		}
		n = n < len ? n : len;
		memcpy(to, l->bytes + l->begin, n);
		l->begin += n;
		to += n;
		len -= n;
	}
	return true;
}

/* The string of that number; NULL when there is none. */
static const char *string(const struct listener *l, uint32_t number)
{
	return number && number <= l->strings.n ? l->strings.at[number - 1] : NULL;
}

/* Whether @bytes more may be kept; what the arena needs for them counts, too. */
static bool afford(struct listener *l, size_t bytes)
{
	l->kept_bytes += bytes + 2 * sizeof(void *);
	return l->kept_bytes <= most_kept_bytes;
}

static bool take_string(struct listener *l, const struct ms_name_record *record)
{
	const char **entry;
	char *bytes;

	if (record->n > MS_NAME_LONGEST || !afford(l, record->n + sizeof(*entry)))
		return false;
	entry = ms_vec_push(l->arena, &l->strings);
	bytes = ms_arena_alloc(l->arena, (size_t)record->n + 1);
	if (!entry || !bytes || !get(l, bytes, record->n))
		return false;
	*entry = bytes;
	return true;
}

static bool take_functions(struct listener *l, size_t n, struct ms_functions *ret)
{
	struct ms_name_function told[MS_NAME_FUNCTIONS] = { 0 };

	if (n > MS_NAME_FUNCTIONS || !get(l, told, n * sizeof(told[0])))
		return false;
	if (!n)
		return true;
	if (!afford(l, n * sizeof(*ret->at)))
		return false;
	/* A vector is a mapping of its own, which for each address would be too many. */
	ret->at = ms_arena_alloc(l->arena, n * sizeof(*ret->at));
	if (!ret->at)
		return false;
	for (size_t i = 0; i < n; i++)
		ret->at[i] = (struct ms_function){
			.name = string(l, told[i].name),
			.file = string(l, told[i].file),
			.line = told[i].line,
		};
	ret->n = n;
	return true;
}

static bool take_name(struct listener *l, const struct ms_name_record *record)
{
	struct ms_named named = {
		.symbol = {
			.rel_pc = record->rel_pc,
			.function = string(l, record->text),
			.function_offset = record->function_offset,
			.file = string(l, record->file),
			.line = record->line,
		},
	};

	if (!l->names || record->index >= l->job->n ||
	    !take_functions(l, record->n, &named.functions))
		return false;
	/* Only a symbol with a module counts. */
	named.symbol.module = "";
	l->names[record->index] = named;
	return true;
}

static bool take_verdict(struct listener *l, const struct ms_name_record *record)
{
	if (!l->verdicts || record->index >= l->job->n || record->verdict > l->job->suppressions->n)
		return false;
	l->verdicts[record->index] = record->verdict;
	return true;
}

static bool take_group(struct listener *l, const struct ms_name_record *record)
{
	if (record->index <= l->group_end || record->index > l->job->n)
		return false;
	l->group_begin = l->group_end;
	l->group_end = record->index;
	return true;
}

static bool take_warning(struct listener *l, const struct ms_name_record *record)
{
	const char *text = string(l, record->text);

	if (!afford(l, sizeof(struct ms_note)))
		return false;
	if (text && l->warnings)
		ms_note_add(l->arena, l->warnings, "%s", text);
	return text;
}

/* More records no worker has to send: of an address these, and its strings. */
static uint64_t most_records(const struct ms_names_job *job)
{
	enum { FOR_EACH = 2 * MS_NAME_FUNCTIONS + 8 };

	return (job->n + UINT64_C(1)) * FOR_EACH;
}

/* False when it is nonsense, and when the worker told its last. */
static bool take(struct listener *l, const struct ms_name_record *record)
{
	if (++l->n_records > most_records(l->job))
		return false;
	switch ((enum ms_name_kind)record->kind) {
	case MS_NAME_GROUP:
		return take_group(l, record);
	case MS_NAME_STRING:
		return take_string(l, record);
	case MS_NAME_NAME:
		return take_name(l, record);
	case MS_NAME_VERDICT:
		return take_verdict(l, record);
	case MS_NAME_WARNING:
		return take_warning(l, record);
	case MS_NAME_END:
		l->complete = true;
		return false;
	case MS_NAME_KINDS:
		break;
	}
	return false;
}

/* ---- having it told ---- */

static void tell_unfinished(const struct listener *l)
{
	const struct ms_code *code = NULL;

	if (l->group_begin < l->job->n)
		(void)ms_names_group(l->job, l->group_begin, &code);
	if (l->warnings)
		ms_note_add(l->arena, l->warnings,
		            "functions of %.80s are not named: the process that read its debug "
		            "information did not finish",
		            code ? code->name : "some files");
}

/* What a worker may take. */
static uint64_t limit_ns(const struct listener *l)
{
	uint64_t most_ns = (l->opener.debuginfod ? ASK_SERVERS_S : NAME_S) * second_ns;
	uint64_t now_ns = ms_now_ns();

	if (!l->deadline_ns || now_ns + most_ns < l->deadline_ns)
		return most_ns;
	return now_ns < l->deadline_ns ? l->deadline_ns - now_ns : 0;
}

static enum ms_status try_once(struct listener *l, struct ms_names_job *job, struct ms_error *err)
{
	struct ms_worker_call call = {
		.title = "memscan-names",
		.work = ms_names_work,
		.ctx = job,
		.limit_ns = limit_ns(l),
		.opener = &l->opener,
		.keep = -1,
		.held = { l->arena, l->held },
	};
	struct ms_name_record record;
	enum ms_status st;

	ms_worker_take_ids(l->tid, &call);
	st = ms_worker_start(&call, &l->worker, err);

	if (st)
		return st;
	l->begin = l->end = 0;
	l->strings.n = 0;
	l->n_records = 0;
	l->group_begin = l->group_end = job->from;
	while (get(l, &record, sizeof(record)) && take(l, &record))
		;
	(void)ms_worker_end(&l->worker, l->complete);
	return MS_OK;
}

/* Go on behind each file that the worker died of. */
static enum ms_status listen(struct listener *l, struct ms_names_job *job, struct ms_error *err)
{
	enum ms_status st = MS_OK;

	for (int tries = 0; tries < MOST_TRIES && job->from < job->n && !st; tries++) {
		st = try_once(l, job, err);
		if (st || l->complete)
			return st;
		tell_unfinished(l);
		job->from = l->group_end;
	}
	return st;
}

/* ---- the addresses ---- */

static bool addr_before(const void *a, const void *b)
{
	return *(const ms_addr *)a < *(const ms_addr *)b;
}

/* Each of the report's addresses once, in order. */
static bool list_addresses(const struct ms_report *report, struct ms_arena *arena,
                           struct ms_names_job *ret)
{
	size_t len = report->pcs.n * sizeof(ms_addr);
	ms_addr *pcs = ms_arena_alloc(arena, len + 1);

	if (!pcs)
		return false;
	memcpy(pcs, report->pcs.at, len);
	if (!ms_sort(arena, pcs, report->pcs.n, sizeof(*pcs), addr_before))
		return false;
	for (size_t i = 0; i < report->pcs.n; i++)
		if (!i || pcs[i] != pcs[i - 1])
			pcs[ret->n++] = pcs[i];
	ret->pcs = pcs;
	return true;
}

static size_t index_of(const struct ms_names_job *job, ms_addr pc)
{
	size_t low = 0;
	size_t high = job->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (job->pcs[middle] < pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool prepare(const struct ms_naming *naming, const struct ms_report *report,
                    struct listener *l, struct ms_names_job *ret)
{
	struct ms_worker_call ids;

	l->tid = ms_proc_living_thread(naming->pid);
	ms_worker_take_ids(l->tid, &ids);
	ms_opener_init(&l->opener, l->tid, ids.uid);
	ms_codes_opener(&report->code, &l->opener);
	l->opener.folder = naming->debug_folder;
	l->opener.debuginfod = naming->debuginfod;
	*ret = (struct ms_names_job){ .code = &report->code };
	return list_addresses(report, l->arena, ret);
}

/* ---- names ---- */

/* What the mappings say of where it is, beside what the worker told. */
static void add_place(const struct ms_report *report, ms_addr pc, struct ms_named *named)
{
	const struct ms_code *code = ms_range_find(&report->code, pc);

	if (!named->symbol.module || !code) {
		memset(named, 0, sizeof(*named));
		return;
	}
	named->symbol.module = code->name;
	named->symbol.map_begin = code->range.begin;
}

enum ms_status ms_naming_fill(const struct ms_naming *naming, struct ms_arena *arena,
                              struct ms_report *report, struct ms_error *err)
{
	struct listener *l;
	struct ms_names_job job;
	enum ms_status st;

	if (!report->pcs.n)
		return MS_OK;
	l = ms_arena_alloc(arena, sizeof(*l));
	if (l)
		l->arena = arena;
	if (!l || !prepare(naming, report, l, &job))
		return ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
	l->job = &job;
	l->deadline_ns = naming->deadline_ns;
	l->warnings = &report->warnings;
	l->names = ms_arena_alloc(arena, job.n * sizeof(*l->names));
	if (!l->names || !ms_vec_reserve(arena, &report->names, report->pcs.n))
		return ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
	st = listen(l, &job, err);
	if (st)
		return st;
	for (size_t i = 0; i < job.n; i++)
		add_place(report, job.pcs[i], &l->names[i]);
	for (size_t i = 0; i < report->pcs.n; i++)
		report->names.at[i] = l->names[index_of(&job, report->pcs.at[i])];
	report->names.n = report->pcs.n;
	return MS_OK;
}

/* ---- verdicts ---- */

static uint32_t earlier(uint32_t a, uint32_t b)
{
	return a && (!b || a < b) ? a : b;
}

static uint32_t judge_module(const struct ms_code *code, const struct ms_suppressions *suppressions)
{
	const char *slash = strrchr(code->name, '/');
	const char *names[] = { code->name, slash ? slash + 1 : code->name };
	size_t found = ms_suppressions_find(suppressions, names, sizeof(names) / sizeof(names[0]));

	return found == suppressions->n ? 0 : (uint32_t)found + 1;
}

/* Modules need no file to be read: their names count whatever became of the worker. */
static bool judge_modules(struct listener *l)
{
	const struct ms_names_job *job = l->job;
	uint32_t *by_code = ms_arena_alloc(l->arena, (job->code->n + 1) * sizeof(*by_code));

	if (!by_code)
		return false;
	for (size_t i = 0; i < job->code->n; i++)
		by_code[i] = judge_module(&job->code->at[i], job->suppressions);
	for (size_t i = 0; i < job->n; i++) {
		const struct ms_code *code = ms_range_find(job->code, job->pcs[i]);

		if (code)
			l->verdicts[i] = earlier(by_code[code - job->code->at], l->verdicts[i]);
	}
	return true;
}

static bool judge(const struct ms_naming *naming, const struct ms_report *asked,
                  const struct ms_suppressions *suppressions, struct listener *l,
                  struct ms_names_job *job)
{
	if (!prepare(naming, asked, l, job))
		return false;
	job->suppressions = suppressions;
	l->job = job;
	l->deadline_ns = naming->deadline_ns;
	l->verdicts = ms_arena_alloc(l->arena, (job->n + 1) * sizeof(*l->verdicts));
	return l->verdicts;
}

bool ms_naming_judge(const struct ms_naming *naming, const struct ms_report *asked,
                     const struct ms_suppressions *suppressions, uint32_t *verdicts,
                     struct ms_error *err)
{
	struct ms_arena arena = { 0 };
	struct listener *l = ms_arena_alloc(&arena, sizeof(*l));
	struct ms_names_job job;
	bool ok = false;

	if (l) {
		l->arena = &arena;
		l->held = naming->held;
	}
	if (!l || !judge(naming, asked, suppressions, l, &job)) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
		goto out;
	}
	ok = listen(l, &job, err) == MS_OK && judge_modules(l);
	for (size_t i = 0; i < asked->stacks.n && ok; i++) {
		const struct ms_stack *stack = &asked->stacks.at[i];

		verdicts[i] = 0;
		for (uint32_t k = 0; k < stack->n; k++) {
			ms_addr pc = asked->pcs.at[stack->first + k];

			verdicts[i] = earlier(l->verdicts[index_of(&job, pc)], verdicts[i]);
		}
	}
out:
	ms_arena_deinit(&arena);
	return ok;
}
