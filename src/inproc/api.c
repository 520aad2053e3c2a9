/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inproc/companion.h"
#include "inproc/control/control.h"
#include "inproc/export.h"
#include "inproc/hidden.h"
#include "inproc/log.h"
#include "inproc/names/leak.h"
#include "inproc/search.h"
#include "memunreachable/memunreachable.h"
#include "report/json/fields.h"
#include "report/print.h"
#include "report/writers.h"

/* What a call wants, and what it gets; written by the collection process. */
struct wanted {
	bool leaks;
	bool text;
	bool log;
	bool contents;
	bool merged;
	struct ms_question question; /* asked in place of leaks */
	int32_t asker;

	struct UnreachableMemoryInfo info;
	char *string; /* of mapped memory, of string_bytes */
	size_t string_bytes;
	int error; /* of what failed, as errno */
};

/* The memory of a result begins with its length, and ends with names of types. */
struct result {
	size_t bytes;
	struct UnreachableMemoryLeak leaks[];
};

static_assert((int)MEMUNREACHABLE_CONTENTS == (int)MS_CONTENTS, "one size of contents");
static_assert((int)MEMUNREACHABLE_SIGNATURE == (int)MS_SIGNATURE_TEXT, "one size of signatures");
static_assert(sizeof(struct UnreachableMemoryLeak) ==
                      sizeof(size_t[17]) + MEMUNREACHABLE_CONTENTS +
                              sizeof(struct UnreachableMemoryBacktrace),
              "what is added takes the place of what was reserved");

enum { TYPE_BYTES = 2 * MS_TYPE_TEXT };

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- in the collection process ---- */

static void copy_stack(const struct ms_report *report, const struct ms_leak *leak,
                       struct UnreachableMemoryBacktrace *ret)
{
	const struct ms_stack *stack = leak->stack ? &report->stacks.at[leak->stack - 1] : NULL;

	for (uint32_t i = 0; stack && i < stack->n && i < MEMUNREACHABLE_FRAMES; i++) {
		ms_addr pc = report->pcs.at[stack->first + i];
		const struct ms_code *code = ms_range_find(&report->code, pc);

		ret->frames[ret->num_frames++] = (uintptr_t)(pc - (code ? code->moved : 0));
	}
}

static void copy_leak(const struct ms_report *report, const struct ms_leak *leak,
                      struct UnreachableMemoryLeak *ret)
{
	ret->begin = (uintptr_t)leak->address;
	ret->size = leak->size;
	ret->referenced_count = leak->referenced_count;
	ret->referenced_size = leak->referenced_size;
	ret->similar_count = leak->similar_count;
	ret->similar_size = leak->similar_size;
	ret->similar_referenced_count = leak->similar_referenced_count;
	ret->similar_referenced_size = leak->similar_referenced_size;
	ret->total_size = leak->total_size;
	memcpy(ret->contents, leak->contents, leak->contents_len);
	copy_stack(report, leak, &ret->backtrace);
}

/* Behind the leaks stand the types: for each its name and its module. */
static char *type_name(const struct ms_report *report, struct result *result, uint32_t type)
{
	char *names = (char *)&result->leaks[report->leaks.n];

	return names + (size_t)(type - 1) * TYPE_BYTES;
}

static void copy_types(const struct ms_report *report, struct result *result)
{
	for (uint32_t i = 0; i < report->types.n; i++) {
		const struct ms_type *type = &report->types.at[i];
		char *name = type_name(report, result, i + 1);

		memcpy(name, type->name, MS_TYPE_TEXT - 1);
		memcpy(name + MS_TYPE_TEXT, type->module, MS_TYPE_TEXT - 1);
	}
}

/* What version 1 has. */
static void add_type(const struct ms_report *report, const struct ms_leak *leak,
                     struct result *result, struct UnreachableMemoryLeak *ret)
{
	char *name = leak->type ? type_name(report, result, leak->type) : NULL;

	ret->type = name ? name : "";
	ret->module = name ? name + MS_TYPE_TEXT : "";
	ret->how = name ? ms_json_hows.at[report->types.at[leak->type - 1].how] : "";
	memcpy(ret->signature, leak->signature, sizeof(ret->signature));
}

static bool give_leaks(const struct ms_search *search, struct UnreachableMemoryInfo *ret)
{
	const struct ms_report *report = &search->report;
	size_t bytes = sizeof(struct result) + report->leaks.n * sizeof(ret->leaks[0]) +
	               report->types.n * TYPE_BYTES;
	struct result *result = report->leaks.n ? map(bytes) : NULL;

	if (report->leaks.n && !result)
		return false;
	if (result) {
		ms_hidden_add(search->process->program, result, bytes);
		result->bytes = bytes;
		ret->leaks = result->leaks;
	}
	for (size_t i = 0; i < report->leaks.n; i++)
		copy_leak(report, &report->leaks.at[i], &result->leaks[i]);
	if (result && search->merged)
		copy_types(report, result);
	for (size_t i = 0; i < report->leaks.n && search->merged; i++)
		add_type(report, &report->leaks.at[i], result, &result->leaks[i]);
	ret->num_listed = report->leaks.n;
	return true;
}

static void give_counts(const struct ms_totals *totals, struct UnreachableMemoryInfo *ret)
{
	ret->num_leaks = totals->leaked_allocations;
	ret->leak_bytes = totals->leaked_bytes;
	ret->num_allocations = totals->allocations;
	ret->allocation_bytes = totals->allocation_bytes;
}

/* A sink that counts first and keeps then. */
struct string {
	struct ms_sink sink; /* first */
	char *at;
	size_t n;
};

static bool take(struct ms_sink *sink, const char *bytes, size_t len)
{
	struct string *string = (struct string *)sink;

	if (string->at)
		memcpy(string->at + string->n, bytes, len);
	string->n += len;
	return true;
}

static void write_leaks(const struct ms_report *report, struct ms_sink *sink)
{
	char line[96];
	const struct ms_totals *totals = &report->totals;
	const struct ms_leak *leak;
	int len = snprintf(line, sizeof(line),
	                   "  %" PRIu64 " bytes in %" PRIu64 " unreachable allocation%s\n"
	                   "  ABI: '%s'\n\n",
	                   totals->leaked_bytes, totals->leaked_allocations,
	                   totals->leaked_allocations == 1 ? "" : "s",
	                   ms_text_abi(report->target.arch));

	sink->write(sink, line, (size_t)len);
	ms_vec_for_each (leak, &report->leaks)
		ms_text_leak(leak, report, sink);
}

static void write_string(const struct ms_report *report, const struct wanted *wanted,
                         struct string *string)
{
	string->n = 0;
	if (wanted->question.kind)
		(void)ms_why_text_writer.write(report, &string->sink);
	else
		write_leaks(report, &string->sink);
}

static bool give_string(const struct ms_report *report, struct wanted *wanted)
{
	struct string string = { .sink.write = take };

	write_string(report, wanted, &string);
	wanted->string_bytes = string.n + 1;
	string.at = map(wanted->string_bytes);
	if (!string.at)
		return false;
	write_string(report, wanted, &string);
	wanted->string = string.at;
	return true;
}

static void log_report(const struct ms_report *report)
{
	struct ms_log_lines lines;
	const struct ms_leak *leak;
	const struct ms_note *warning;

	ms_vec_for_each (warning, &report->warnings)
		ms_log("warning: %s", warning->text);
	ms_log_begin(&lines);
	ms_text_summary(&report->totals, &lines.sink);
	ms_vec_for_each (leak, &report->leaks)
		ms_text_leak(leak, report, &lines.sink);
	ms_log_end(&lines);
}

static void give(struct ms_search *search)
{
	struct wanted *wanted = search->ctx;
	bool ok = true;

	if (search->st) {
		ms_log("%s%s", search->st == MS_E_DENIED ? "failed to attach: " : "",
		       search->err.text);
		if (search->err.advice[0])
			ms_log("%s", search->err.advice);
		return;
	}
	give_counts(&search->report.totals, &wanted->info);
	if (wanted->leaks)
		ok = give_leaks(search, &wanted->info);
	if (ok && wanted->text)
		ok = give_string(&search->report, wanted);
	if (!ok)
		search->st = ms_fail(&search->err, MS_E_NOMEM, "no memory for the result");
	else if (wanted->log)
		log_report(&search->report);
}

/* ---- in the program ---- */

static void hide(struct ms_range memory, void (*how)(pid_t process, const void *p, size_t size))
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of ours */
	how(getpid(), (const void *)(uintptr_t)memory.begin, ms_range_len(memory));
}

static int error_of(enum ms_status st, const struct ms_error *err)
{
	switch (st) {
	case MS_OK:
		return 0;
	case MS_E_NOMEM:
		return ENOMEM;
	case MS_E_SYS:
		return err->sys_errno ? err->sys_errno : EIO;
	case MS_E_UNSUPPORTED:
		return ENOTSUP;
	case MS_E_DENIED:
		return EPERM;
	case MS_E_TIMEOUT:
		return ETIMEDOUT;
	case MS_E_BUSY:
		return EAGAIN;
	case MS_E_FAULT:
	case MS_E_CORRUPT:
	case MS_E_GONE:
	case MS_E_DIED:
		break;
	}
	return EIO;
}

static bool run(struct wanted *wanted, size_t limit)
{
	struct ms_companion *process =
		ms_companion_new(sizeof(struct ms_search) + sizeof(*wanted), ms_search_run);
	struct ms_search *search;
	struct wanted *given;
	struct ms_range memory;
	bool found;

	if (!process) {
		ms_log("out of memory: cannot start a search");
		wanted->error = ENOMEM;
		return false;
	}
	search = process->ctx;
	given = (struct wanted *)(search + 1);
	*given = *wanted;
	/* A child forked meanwhile keeps it, with addresses of leaks on its stack. */
	hide(process->memory, ms_hidden_add);
	search->process = process;
	search->options.limit = limit;
	search->options.contents = wanted->contents;
	search->options.question = wanted->question;
	search->asker = wanted->asker;
	search->merged = wanted->merged;
	search->logged = wanted->log;
	search->done = give;
	search->ctx = given;
	search->st = MS_E_DIED;
	if (!wanted->question.kind)
		ms_suppress_ask(&search->suppressed);
	if (ms_companion_start(process, &search->err)) {
		ms_log("%s", search->err.text);
	} else {
		ms_companion_join(process);
		if (search->st == MS_E_DIED)
			ms_log("the collection process ended unexpectedly; see dmesg, and try again");
	}
	found = search->st == MS_OK;
	if (found)
		*wanted = *given;
	else
		wanted->error = error_of(search->st, &search->err);
	ms_arena_deinit(&search->arena);
	ms_arena_deinit(&search->report_arena);
	memory = process->memory;
	ms_companion_free(process);
	hide(memory, ms_hidden_remove);
	return found;
}

/* Returns false, with the reason logged, when the process could not be searched. */
static bool search_self(struct wanted *wanted, size_t limit)
{
	const char *other = ms_search_other_checker();
	int error = errno;
	bool found;

	if (other) {
		ms_log("cannot search a process that runs under %s", other);
		wanted->error = ENOTSUP;
		return false;
	}
	if (!ms_search_enter(getpid())) {
		ms_log("a signal handler asked for a search during a search; search outside of "
		       "the handler");
		wanted->error = EDEADLK;
		return false;
	}
	found = run(wanted, limit);
	ms_search_leave();
	errno = error;
	return found;
}

MS_EXPORT bool GetUnreachableMemory(struct UnreachableMemoryInfo *info, size_t limit)
{
	struct wanted wanted = { .leaks = true, .contents = true };

	if (!info) {
		ms_log("GetUnreachableMemory needs an UnreachableMemoryInfo, not NULL");
		return false;
	}
	if (info->version > MEMUNREACHABLE_MERGED) {
		ms_log("GetUnreachableMemory does not know UnreachableMemoryInfo.version %zu; set "
		       "it to 0 or 1",
		       info->version);
		return false;
	}
	wanted.merged = info->version == MEMUNREACHABLE_MERGED;
	wanted.info.version = info->version;
	if (!search_self(&wanted, limit))
		return false;
	*info = wanted.info;
	return true;
}

MS_EXPORT void FreeUnreachableMemory(struct UnreachableMemoryInfo *info)
{
	struct result *result;
	size_t bytes;

	if (!info || !info->leaks)
		return;
	result = (struct result *)(void *)((char *)info->leaks - sizeof(struct result));
	bytes = result->bytes;
	/* Emptied first: a child may be forked before it is gone. */
	explicit_bzero(result, bytes);
	ms_hidden_remove(getpid(), result, bytes);
	(void)munmap(result, bytes);
	memset(info, 0, sizeof(*info));
}

MS_EXPORT bool LogUnreachableMemory(bool log_contents, size_t limit)
{
	struct wanted wanted = { .log = true, .contents = log_contents };

	return search_self(&wanted, limit);
}

MS_EXPORT bool NoLeaks(void)
{
	struct wanted wanted = { 0 };

	return search_self(&wanted, 0) && wanted.info.num_leaks == 0;
}

MS_EXPORT char *GetUnreachableMemoryString(bool log_contents, size_t limit)
{
	static const char failed[] =
		"Failed to get unreachable memory\n"
		"If the process is not dumpable: prctl(PR_SET_DUMPABLE, 1), or run as root\n"
		"If it is traced (gdb, strace): let the tracer go\n"
		"For the reason see standard error\n";
	struct wanted wanted = { .text = true, .contents = log_contents };
	char *copy;

	if (!search_self(&wanted, limit))
		return strdup(failed);
	copy = strdup(wanted.string);
	(void)munmap(wanted.string, wanted.string_bytes);
	return copy;
}

/* ---- why a block lives ---- */

/* Frames from @cfa on; behind these there may be the control block and TLS of a thread, which are
 * other memory. */
static struct ms_range frames_from(uintptr_t cfa)
{
	uintptr_t tp = (uintptr_t)__builtin_thread_pointer();

	return (struct ms_range){ cfa, tp > cfa ? tp - ms_control_gap(ms_companion_tls_reach())
		                                : UINTPTR_MAX };
}

/* A call of its own: below its caller's frame, all of the stack is the library's. */
static __attribute__((noinline)) char *answer(const void *ptr)
{
	struct wanted wanted = {
		.text = true,
		.question = { .kind = MS_ASKED_ADDRESS,
		              .address = (uintptr_t)ptr,
		              .asking = frames_from((uintptr_t)__builtin_dwarf_cfa()) },
		.asker = gettid(),
	};
	char *copy;

	if (!search_self(&wanted, 0)) {
		errno = wanted.error;
		return NULL;
	}
	copy = strdup(wanted.string);
	(void)munmap(wanted.string, wanted.string_bytes);
	return copy;
}

MS_EXPORT char *memunreachable_why(const void *ptr)
{
	char *text;

	/* What the caller has in registers is saved in this frame, which stays until the end. */
	__builtin_unwind_init();
	text = answer(ptr);
	__asm__ volatile("" : : : "memory");
	return text;
}

MS_EXPORT void memunreachable_hide(const void *p, size_t size)
{
	ms_hidden_add(getpid(), p, size);
}

MS_EXPORT void memunreachable_unhide(const void *p, size_t size)
{
	ms_hidden_remove(getpid(), p, size);
}

/* ---- one leak as text ---- */

struct bounded {
	struct ms_sink sink; /* first */
	char *at;
	size_t size;
	size_t n;
};

static bool take_bounded(struct ms_sink *sink, const char *bytes, size_t len)
{
	struct bounded *text = (struct bounded *)sink;

	for (size_t i = 0; i < len; i++, text->n++)
		if (text->n + 1 < text->size)
			text->at[text->n] = bytes[i];
	return true;
}

static struct ms_leak as_reported(const struct UnreachableMemoryLeak *leak, bool log_contents)
{
	struct ms_leak ret = {
		.address = leak->begin,
		.size = leak->size,
		.referenced_count = leak->referenced_count,
		.referenced_size = leak->referenced_size,
		.similar_count = leak->similar_count,
		.similar_size = leak->similar_size,
		.similar_referenced_count = leak->similar_referenced_count,
		.similar_referenced_size = leak->similar_referenced_size,
		.total_size = leak->total_size,
	};

	if (log_contents) {
		ret.contents_len = (uint8_t)(leak->size < MS_CONTENTS ? leak->size : MS_CONTENTS);
		memcpy(ret.contents, leak->contents, ret.contents_len);
	}
	return ret;
}

/* enum ms_how; MS_HOWS for what is none. */
static uint8_t how_of(const char *name)
{
	uint8_t how = 0;

	while (how < MS_HOWS && strcmp(ms_json_hows.at[how], name) != 0)
		how++;
	return how;
}

MS_EXPORT size_t memunreachable_leak_text(const struct UnreachableMemoryLeak *leak,
                                          bool log_contents, char *text, size_t size)
{
	struct bounded bounded = { .sink.write = take_bounded, .at = text, .size = size };
	struct ms_leak like = as_reported(leak, log_contents);
	struct ms_report report = { 0 };
	struct ms_arena arena = { .unforked = true };
	struct ms_type type = { .sure = MS_SURE_CERTAIN };
	int error = errno;

	like.stack = leak->backtrace.num_frames &&
	             ms_names_of_backtrace(&leak->backtrace, &arena, &report);
	if (leak->type && (leak->type[0] || leak->module[0])) {
		type.how = how_of(leak->how);
		(void)strncpy(type.name, leak->type, sizeof(type.name) - 1);
		(void)strncpy(type.module, leak->module, sizeof(type.module) - 1);
		report.types = (struct ms_types_told){ .at = &type, .n = 1 };
		like.type = 1;
	}
	ms_text_leak(&like, &report, &bounded.sink);
	ms_arena_deinit(&arena);
	errno = error;
	/* Between leaks stands an empty line, which is the caller's. */
	if (bounded.n)
		bounded.n--;
	if (size)
		text[bounded.n < size ? bounded.n : size - 1] = '\0';
	return bounded.n;
}
