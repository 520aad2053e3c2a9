/* SPDX-License-Identifier: Apache-2.0 */
#include "report/stacks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/utf8.h"

/* A sink, and whether it still takes bytes. */
struct text {
	struct ms_sink *sink;
	bool ok;
};

static void put(struct text *t, const char *bytes, size_t len)
{
	t->ok = t->ok && t->sink->write(t->sink, bytes, len);
}

/* One piece of a line, of ours alone and thus bounded; names go through put_name(). */
static void __attribute__((format(printf, 2, 3))) print(struct text *t, const char *fmt, ...)
{
	char piece[256];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(piece, sizeof(piece), fmt, ap);
	va_end(ap);
	if (len > 0)
		put(t, piece, (size_t)len < sizeof(piece) ? (size_t)len : sizeof(piece) - 1);
}

/* What the target chose, made harmless to terminals. */
static void put_bytes(struct text *t, const char *name, size_t len)
{
	char clean[512];

	while (len > 0) {
		size_t used = ms_utf8_clean(name, len, true, clean, sizeof(clean));

		put(t, clean, strlen(clean));
		name += used;
		len -= used;
	}
}

static void put_name(struct text *t, const char *name)
{
	put_bytes(t, name, strlen(name));
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void put_module(struct text *t, const struct ms_symbol *symbol)
{
	if (!symbol->module)
		print(t, "<unknown>");
	else if (!symbol->module[0])
		print(t, "<anonymous:%" PRIx64 ">", symbol->map_begin);
	else
		put_name(t, symbol->module);
	if (symbol->elf_offset)
		print(t, " (offset 0x%" PRIx64 ")", symbol->elf_offset);
}

static void put_function(struct text *t, const struct ms_symbol *symbol)
{
	if (!symbol->function)
		return;
	print(t, " (");
	put_name(t, symbol->function);
	if (symbol->function_offset)
		print(t, "+%" PRIu64, symbol->function_offset);
	print(t, ")");
}

static void put_frame(struct text *t, const struct ms_frame *frame, size_t number)
{
	const struct ms_symbol *symbol = &frame->symbol;

	print(t, "    #%02zu pc %016" PRIx64 "  ", number,
	      symbol->module ? symbol->rel_pc : frame->pc);
	put_module(t, symbol);
	put_function(t, symbol);
	if (symbol->build_id) {
		print(t, " (BuildId: ");
		put_name(t, symbol->build_id);
		print(t, ")");
	}
	if (symbol->file) {
		print(t, " at ");
		put_name(t, base_name(symbol->file));
		print(t, ":%" PRIu32, symbol->line);
	}
	print(t, "\n");
}

bool ms_frame_write(const struct ms_frame *frame, size_t number, struct ms_sink *sink)
{
	struct text t = { sink, true };

	put_frame(&t, frame, number);
	return t.ok;
}

static void put_thread(struct text *t, const struct ms_backtrace *trace)
{
	print(t, "\n\"");
	put_name(t, trace->name[0] ? trace->name : "<unknown>");
	print(t, "\" sysTid=%" PRId32 "\n", trace->tid);
	for (size_t i = 0; i < trace->frames.n; i++)
		put_frame(t, &trace->frames.at[i], i);
	if (trace->failure[0]) {
		print(t, "    Unwind failed: tid = %" PRId32 ": Error ", trace->tid);
		put_name(t, trace->failure);
		print(t, "\n");
	}
}

/* Arguments with a blank between them. */
static void put_cmdline(struct text *t, const struct ms_stack_dump *dump)
{
	const char *at = dump->cmdline;
	const char *end = dump->cmdline + dump->cmdline_len;

	while (at < end) {
		size_t len = strnlen(at, (size_t)(end - at));

		if (at != dump->cmdline)
			print(t, " ");
		put_bytes(t, at, len);
		at += len + 1;
	}
}

bool ms_stacks_write(const struct ms_stack_dump *dump, struct ms_sink *sink)
{
	struct text t = { sink, true };
	const struct ms_backtrace *trace;

	print(&t, "\n\n----- pid %d at %s -----\nCmd line: ", (int)dump->pid, dump->time);
	put_cmdline(&t, dump);
	print(&t, "\nABI: '%s'\n", dump->abi);
	ms_vec_for_each (trace, &dump->threads)
		put_thread(&t, trace);
	print(&t, "\n----- end %d -----\n", (int)dump->pid);
	return t.ok;
}
