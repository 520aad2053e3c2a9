/* SPDX-License-Identifier: Apache-2.0 */
#include "report/stacks.h"

#include <inttypes.h>
#include <string.h>

#include "report/frames.h"

static void put_name(struct ms_text *t, const char *name)
{
	ms_text_name(t, name, strlen(name));
}

static void put_frame(struct ms_text *t, const struct ms_frame *frame, size_t number, int digits)
{
	const struct ms_symbol *symbol = &frame->symbol;

	ms_text_print(t, "    #%02zu pc %0*" PRIx64 "  ", number, digits,
	              symbol->module ? symbol->rel_pc : frame->pc);
	ms_frame_put_place(t, symbol, MS_FRAME_ANONYMOUS);
	if (symbol->build_id) {
		ms_text_print(t, " (BuildId: ");
		put_name(t, symbol->build_id);
		ms_text_print(t, ")");
	}
	if (symbol->file) {
		ms_text_print(t, " at ");
		ms_frame_put_line(t, symbol);
	}
	ms_text_print(t, "\n");
}

static void put_thread(struct ms_text *t, const struct ms_backtrace *trace, int digits)
{
	ms_text_print(t, "\n\"");
	put_name(t, trace->name[0] ? trace->name : "<unknown>");
	ms_text_print(t, "\" sysTid=%" PRId32 "\n", trace->tid);
	for (size_t i = 0; i < trace->frames.n; i++)
		put_frame(t, &trace->frames.at[i], i, digits);
	if (trace->failure[0]) {
		ms_text_print(t, "    Unwind failed: tid = %" PRId32 ": Error ", trace->tid);
		put_name(t, trace->failure);
		ms_text_print(t, "\n");
	}
}

/* Arguments with a blank between them. */
static void put_cmdline(struct ms_text *t, const struct ms_stack_dump *dump)
{
	const char *at = dump->cmdline;
	const char *end = dump->cmdline + dump->cmdline_len;

	while (at < end) {
		size_t len = strnlen(at, (size_t)(end - at));

		if (at != dump->cmdline)
			ms_text_print(t, " ");
		ms_text_name(t, at, len);
		at += len + 1;
	}
}

bool ms_stacks_write(const struct ms_stack_dump *dump, struct ms_sink *sink)
{
	struct ms_text t = { sink, true };
	const struct ms_backtrace *trace;

	ms_text_print(&t, "\n\n----- pid %d at %s -----\nCmd line: ", (int)dump->pid, dump->time);
	put_cmdline(&t, dump);
	ms_text_print(&t, "\nABI: '%s'\n", ms_text_abi(dump->abi));
	ms_vec_for_each (trace, &dump->threads)
		put_thread(&t, trace, 2 * dump->word_bytes);
	ms_text_print(&t, "\n----- end %d -----\n", (int)dump->pid);
	return t.ok;
}
