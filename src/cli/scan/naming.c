/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/naming.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
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
	struct ms_opener opener;
	pid_t tid; /* a living thread of the process; 0: there is none any more */
	struct ms_worker worker;
	uint64_t deadline_ns;  /* of the caller; 0: none */
	uint64_t until_ns;     /* of all workers */
	char bytes[64 * 1024]; /* read, but not looked at yet */
	size_t begin, end;
	struct MS_VEC(const char *) strings;
	size_t kept_bytes;
	uint64_t n_records;            /* of this try */
	size_t group_begin, group_end; /* the addresses of the file it is at */
	bool complete;
	struct ms_named *names; /* for each address */
	struct ms_notes *warnings;
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
	struct ms_name_function records[MS_NAME_FUNCTIONS] = { 0 };

	if (n > MS_NAME_FUNCTIONS || !get(l, records, n * sizeof(records[0])))
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
			.name = string(l, records[i].name),
			.mangled = string(l, records[i].mangled),
			.file = string(l, records[i].file),
			.line = records[i].line,
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
			.unsized = record->unsized != 0,
		},
	};

	if (record->index >= l->job->n || !take_functions(l, record->n, &named.functions))
		return false;
	/* Only a symbol with a module counts. */
	named.symbol.module = "";
	l->names[record->index] = named;
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
	if (text)
		ms_note_add(l->arena, l->warnings, "%s", text);
	return text;
}

/* More records no worker has to send: of an address these, and its strings. */
static uint64_t most_records(const struct ms_names_job *job)
{
	enum { FOR_EACH = 3 * MS_NAME_FUNCTIONS + 8 };

	return (job->n + UINT64_C(1)) * FOR_EACH;
}

/* False when it is nonsense, and when the worker has said its last. */
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

/* ---- asking the worker ---- */

static void tell_unfinished(const struct listener *l)
{
	const struct ms_code *code = NULL;

	if (l->group_begin < l->job->n)
		(void)ms_names_group(l->job, l->group_begin, &code);
	ms_note_add(l->arena, l->warnings,
	            "functions of %.80s are not named: the process that read its debug "
	            "information did not finish",
	            code ? code->name : "some files");
}

/* When all workers together are to have ended. */
static uint64_t until_ns(const struct listener *l)
{
	uint64_t until = ms_now_ns() + (l->opener.debuginfod ? ASK_SERVERS_S : NAME_S) * second_ns;

	return l->deadline_ns && l->deadline_ns < until ? l->deadline_ns : until;
}

/*
 * What a worker may take. Of the time that is left a file which cannot be read gets three quarters,
 * so that the files behind it have some.
 */
static uint64_t limit_ns(const struct listener *l, bool is_last)
{
	uint64_t now_ns = ms_now_ns();
	uint64_t left_ns = now_ns < l->until_ns ? l->until_ns - now_ns : 0;

	return is_last ? left_ns : left_ns / 4 * 3;
}

static enum ms_status try_once(struct listener *l, struct ms_names_job *job, uint64_t limit_ns,
                               struct ms_error *err)
{
	struct ms_worker_call call = {
		.title = "memscan-names",
		.work = ms_names_work,
		.ctx = job,
		.limit_ns = limit_ns,
		.opener = &l->opener,
		.keep = -1,
		.held = { l->arena },
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

	l->until_ns = until_ns(l);
	for (int tries = 0; tries < MOST_TRIES && job->from < job->n && !st; tries++) {
		uint64_t most_ns = limit_ns(l, tries + 1 == MOST_TRIES);

		if (!most_ns)
			break;
		st = try_once(l, job, most_ns, err);
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

static size_t index_of(const ms_addr *pcs, size_t n, ms_addr pc)
{
	size_t low = 0;

	while (low < n) {
		size_t middle = low + (n - low) / 2;

		if (pcs[middle] < pc)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

/* What was found of @pc before. */
static const struct ms_named *find_known(const struct ms_names_book *book, ms_addr pc)
{
	for (size_t i = 0; book && i < book->n; i++) {
		size_t at = index_of(book->known[i].pcs, book->known[i].n, pc);

		if (at < book->known[i].n && book->known[i].pcs[at] == pc)
			return &book->known[i].names[at];
	}
	return NULL;
}

/* Each of the report's addresses that is not known once, in order. */
static bool list_addresses(const struct ms_report *report, const struct ms_names_book *known,
                           struct ms_arena *arena, struct ms_names_job *ret)
{
	size_t len = report->pcs.n * sizeof(ms_addr);
	ms_addr *pcs = ms_arena_alloc(arena, len + 1);

	if (!pcs)
		return false;
	memcpy(pcs, report->pcs.at, len);
	if (!ms_sort(arena, pcs, report->pcs.n, sizeof(*pcs), addr_before))
		return false;
	for (size_t i = 0; i < report->pcs.n; i++)
		if ((!ret->n || pcs[i] != pcs[ret->n - 1]) && !find_known(known, pcs[i]))
			pcs[ret->n++] = pcs[i];
	ret->pcs = pcs;
	return true;
}

/* What the mappings say of where it is, beside what the worker said. */
static void add_place(const struct ms_codes *all, ms_addr pc, struct ms_named *named)
{
	const struct ms_code *code = ms_range_find(all, pc);

	if (!named->symbol.module || !code) {
		memset(named, 0, sizeof(*named));
		return;
	}
	named->symbol.module = code->name;
	named->symbol.map_begin = code->range.begin;
}

void ms_naming_core_opener(const struct ms_naming_core *core, struct ms_opener *ret)
{
	/* Names in the core are its author's choice, whoever saved it. */
	ms_opener_init(ret, 0, core->root ? MS_OPENER_ANYONE : MS_OPENER_EVERYONE);
	ret->roots[0] = core->root ? core->root : "";
	ret->roots[1] = NULL;
	ret->confined = core->root;
	ret->given = core->exe;
	ret->given_name = core->program;
}

pid_t ms_naming_opener(const struct ms_naming *naming, const struct ms_codes *codes,
                       struct ms_opener *ret)
{
	pid_t tid = naming->core ? 0 : ms_proc_living_thread(naming->pid);
	struct ms_worker_call ids;

	if (naming->core) {
		ms_naming_core_opener(naming->core, ret);
	} else {
		ms_worker_take_ids(tid, &ids);
		ms_opener_init(ret, tid, ids.uid);
	}
	ms_codes_opener(codes, ret);
	ret->folder = naming->debug_folder;
	ret->debuginfod = naming->debuginfod;
	return tid;
}

/*
 * Name the addresses of @job, without a process where there is none; what is to be said of it
 * goes to @warnings. NULL with the reason in @err.
 */
static struct ms_named *name_all(const struct ms_naming *naming, struct ms_names_job *job,
                                 struct ms_arena *arena, struct ms_notes *warnings,
                                 struct ms_error *err)
{
	struct ms_named *names = ms_arena_alloc(arena, (job->n + 1) * sizeof(*names));
	struct listener *l = ms_arena_alloc(arena, sizeof(*l));

	if (!names || !l) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
		return NULL;
	}
	l->job = job;
	l->arena = arena;
	l->deadline_ns = naming->deadline_ns;
	l->names = names;
	l->warnings = warnings;
	l->tid = ms_naming_opener(naming, job->code, &l->opener);
	return listen(l, job, err) ? NULL : names;
}

enum ms_status ms_naming_fill(const struct ms_naming *naming, struct ms_arena *arena,
                              struct ms_report *report, struct ms_error *err)
{
	struct ms_names_job job = { .code = &report->code,
		                    .data = report->answer.subjects.n || report->retained.roots.n };
	const struct ms_named *names;

	if (!report->pcs.n)
		return MS_OK;
	if (!list_addresses(report, naming->book, arena, &job) ||
	    !ms_vec_reserve(arena, &report->names, report->pcs.n))
		return ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
	names = name_all(naming, &job, arena, &report->warnings, err);
	if (!names)
		return err->status;
	for (size_t i = 0; i < report->pcs.n; i++) {
		ms_addr pc = report->pcs.at[i];
		const struct ms_named *known = find_known(naming->book, pc);

		report->names.at[i] = known ? *known : names[index_of(job.pcs, job.n, pc)];
		add_place(&report->code, pc, &report->names.at[i]);
	}
	report->names.n = report->pcs.n;
	return MS_OK;
}

/* ---- verdicts ---- */

struct judging {
	const struct ms_suppressions *suppressions;
	struct ms_arena *arena;
	struct ms_map verdicts; /* of strings: a suppression's number, + 1 */
	bool out_of_memory;
};

/* Make @first the number of the suppression that matches @name, if that is an earlier one. */
static void judge_name(struct judging *j, const char *name, uint32_t *first)
{
	const uint64_t key = (uintptr_t)name;
	uint32_t number;

	if (!name)
		return;
	number = (uint32_t)ms_map_find(&j->verdicts, key);
	if (!number) {
		number = (uint32_t)ms_suppressions_find(j->suppressions, &name, 1) + 1;
		j->out_of_memory |= !ms_map_add(&j->verdicts, j->arena, key, number);
	}
	if (number <= j->suppressions->n && (!*first || number < *first))
		*first = number;
}

/* Modules need no file to be read: their names count whatever became of the worker. */
static void judge_module(struct judging *j, const struct ms_codes *all, ms_addr pc, uint32_t *first)
{
	const struct ms_code *code = ms_range_find(all, pc);
	const char *slash = code ? strrchr(code->name, '/') : NULL;

	if (!code)
		return;
	judge_name(j, code->name, first);
	if (slash)
		judge_name(j, slash + 1, first);
}

/* Both names of a function count: suppressions are written by one or the other. */
static uint32_t judge_address(struct judging *j, const struct ms_names_job *job,
                              const struct ms_named *named, ms_addr pc)
{
	const struct ms_function *function;
	uint32_t first = 0;

	judge_module(j, job->code, pc, &first);
	judge_name(j, named->symbol.function, &first);
	judge_name(j, named->symbol.file, &first);
	ms_vec_for_each (function, &named->functions) {
		judge_name(j, function->name, &first);
		judge_name(j, function->mangled, &first);
		judge_name(j, function->file, &first);
	}
	return first;
}

/* For each of @job's addresses the first suppression that matches one of its names. */
static bool judge_addresses(struct judging *j, const struct ms_names_job *job,
                            const struct ms_named *names, uint32_t *ret, struct ms_error *err)
{
	uint64_t until_ns = ms_now_ns() + NAME_S * second_ns;

	for (size_t i = 0; i < job->n; i++) {
		if (ms_now_ns() > until_ns) {
			(void)ms_fail(err, MS_E_TIMEOUT, "their names are too many, or too long");
			return false;
		}
		ret[i] = judge_address(j, job, &names[i], job->pcs[i]);
	}
	if (j->out_of_memory)
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
	return !j->out_of_memory;
}

static uint32_t earlier(uint32_t a, uint32_t b)
{
	return a && (!b || a < b) ? a : b;
}

/* The first that matches a frame of it. */
static uint32_t judge_stack(const struct ms_report *asked, const struct ms_stack *stack,
                            const struct ms_names_job *job, const uint32_t *by_address)
{
	uint32_t first = 0;

	for (uint32_t k = 0; k < stack->n; k++) {
		ms_addr pc = asked->pcs.at[stack->first + k];

		first = earlier(by_address[index_of(job->pcs, job->n, pc)], first);
	}
	return first;
}

/* Where something is to be said of a file, its functions are named anew to have it said. */
static void keep(struct ms_names_book *book, const struct ms_names_job *job,
                 const struct ms_named *names, const struct ms_notes *warnings)
{
	if (!warnings->n && book->n < MS_WIRE_QUESTIONS) {
		book->known[book->n].pcs = job->pcs;
		book->known[book->n].names = names;
		book->known[book->n++].n = job->n;
	}
}

bool ms_naming_judge(const struct ms_naming *naming, const struct ms_report *asked,
                     const struct ms_suppressions *suppressions, uint32_t *verdicts,
                     struct ms_error *err)
{
	struct ms_arena own = { 0 };
	struct ms_arena *arena = naming->book ? naming->book->arena : &own;
	struct ms_names_job job = { .code = &asked->code, .mangled = true };
	struct judging judging = { .suppressions = suppressions, .arena = &own };
	struct ms_notes warnings = { 0 };
	const struct ms_named *names = NULL;
	uint32_t *by_address = NULL;
	bool ok;

	if (list_addresses(asked, NULL, arena, &job))
		by_address = ms_arena_alloc(&own, (job.n + 1) * sizeof(*by_address));
	if (by_address)
		names = name_all(naming, &job, arena, &warnings, err);
	else
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
	ok = names && judge_addresses(&judging, &job, names, by_address, err);
	for (size_t i = 0; ok && i < asked->stacks.n; i++)
		verdicts[i] = judge_stack(asked, &asked->stacks.at[i], &job, by_address);
	if (ok && naming->book)
		keep(naming->book, &job, names, &warnings);
	ms_arena_deinit(&own);
	return ok;
}
