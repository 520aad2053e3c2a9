/* SPDX-License-Identifier: Apache-2.0 */
#include "report/frames.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "engine/modules.h"

/* ---- what is known ---- */

static void tell_build_id(const struct ms_code *code, struct ms_named_frame *ret)
{
	static const char digits[] = "0123456789abcdef";

	if (!code->build_id_len)
		return;
	for (size_t i = 0; i < code->build_id_len; i++) {
		ret->build_id[2 * i] = digits[code->build_id[i] >> 4];
		ret->build_id[2 * i + 1] = digits[code->build_id[i] & 15];
	}
	ret->symbol.build_id = ret->build_id;
}

/* By the mappings alone: without the bias it is the place in the file, as a rule the same. */
static void tell_place(const struct ms_report *report, struct ms_named_frame *ret)
{
	const struct ms_code *code = ms_range_find(&report->code, ret->pc);
	const struct ms_code *first;

	if (!code)
		return;
	first = ms_code_first(&report->code, code);
	ret->symbol.module = code->name;
	ret->symbol.map_begin = code->range.begin;
	ret->symbol.rel_pc = ret->pc - code->range.begin;
	if (code->inode) {
		ret->symbol.rel_pc += code->offset - first->offset;
		ret->symbol.elf_offset = first->offset;
	}
	if (code->has_bias)
		ret->symbol.rel_pc = ret->pc - code->bias;
	ret->symbol.unloaded = code->moved;
	ret->pc -= code->moved;
	tell_build_id(code, ret);
}

static const struct ms_named *named(const struct ms_report *report, size_t pc)
{
	return pc < report->names.n ? &report->names.at[pc] : NULL;
}

static void take_place(const struct ms_symbol *symbol, struct ms_named_frame *ret)
{
	if (!symbol->module)
		return;
	ret->symbol.module = symbol->module;
	ret->symbol.map_begin = symbol->map_begin;
	ret->symbol.rel_pc = symbol->rel_pc;
	ret->symbol.elf_offset = symbol->elf_offset;
	ret->symbol.unloaded |= symbol->unloaded;
	if (symbol->build_id)
		ret->symbol.build_id = symbol->build_id;
}

/* The outermost of an address's functions is the one that the symbol table knows. */
static void take_function(const struct ms_named *name, size_t i, struct ms_named_frame *ret)
{
	const struct ms_function *function = i < name->functions.n ? &name->functions.at[i] : NULL;

	ret->inlined = i + 1 < name->functions.n;
	ret->symbol.function = function && function->name ? function->name : name->symbol.function;
	ret->symbol.function_offset = name->symbol.function_offset;
	ret->symbol.unsized = name->symbol.unsized;
	ret->symbol.file = function ? function->file : name->symbol.file;
	ret->symbol.line = function ? function->line : name->symbol.line;
}

size_t ms_frames_at(const struct ms_report *report, size_t pc)
{
	const struct ms_named *name = named(report, pc);

	return name && name->functions.n ? name->functions.n : 1;
}

void ms_frame_tell(const struct ms_report *report, size_t pc, size_t i, struct ms_named_frame *ret)
{
	const struct ms_named *name = named(report, pc);

	memset(ret, 0, sizeof(*ret));
	ret->pc = report->pcs.at[pc];
	tell_place(report, ret);
	if (!name)
		return;
	take_place(&name->symbol, ret);
	take_function(name, i, ret);
}

/* ---- as text ---- */

static void put_name(struct ms_text *t, const char *name)
{
	ms_text_name(t, name, strlen(name));
}

static void put_module(struct ms_text *t, const struct ms_symbol *symbol, enum ms_frame_style style)
{
	if (symbol->module && symbol->module[0])
		put_name(t, symbol->module);
	else if (symbol->module && style == MS_FRAME_ANONYMOUS)
		ms_text_print(t, "<anonymous:%" PRIx64 ">", symbol->map_begin);
	else
		ms_text_print(t, "<unknown>");
	if (symbol->elf_offset)
		ms_text_print(t, " (offset 0x%" PRIx64 ")", symbol->elf_offset);
	if (symbol->unloaded)
		ms_text_print(t, " (unloaded)");
}

void ms_frame_put_place(struct ms_text *t, const struct ms_symbol *symbol,
                        enum ms_frame_style style)
{
	put_module(t, symbol, style);
	if (!symbol->function)
		return;
	ms_text_print(t, " (");
	put_name(t, symbol->function);
	if (symbol->function_offset || style == MS_FRAME_PLAIN)
		ms_text_print(t, "+%" PRIu64, symbol->function_offset);
	ms_text_print(t, ")");
}

void ms_frame_put_line(struct ms_text *t, const struct ms_symbol *symbol)
{
	put_name(t, ms_file_name(symbol->file));
	ms_text_print(t, ":%" PRIu32, symbol->line);
}

static void put_inlined(struct ms_text *t, const struct ms_symbol *symbol)
{
	put_module(t, symbol, MS_FRAME_PLAIN);
	ms_text_print(t, " (");
	put_name(t, symbol->function ? symbol->function : "<unknown>");
	ms_text_print(t, " [inlined])");
}

static void put_frame(struct ms_text *t, const struct ms_report *report,
                      const struct ms_named_frame *frame, size_t number)
{
	const struct ms_symbol *symbol = &frame->symbol;

	ms_text_print(t, "          #%02zu  pc %0*" PRIx64 "  ", number,
	              report->target.word_size == 4 ? 8 : 16,
	              symbol->module ? symbol->rel_pc : frame->pc);
	if (frame->inlined)
		put_inlined(t, symbol);
	else
		ms_frame_put_place(t, symbol, MS_FRAME_PLAIN);
	if (symbol->file) {
		ms_text_print(t, " ");
		ms_frame_put_line(t, symbol);
	}
	ms_text_print(t, "\n");
}

void ms_frames_put(struct ms_text *t, const struct ms_report *report, uint32_t stack, size_t most)
{
	const struct ms_stack *calls = stack ? &report->stacks.at[stack - 1] : NULL;
	size_t number = 0;

	if (!calls)
		return;
	for (size_t pc = calls->first; pc < (size_t)calls->first + calls->n; pc++) {
		size_t n = ms_frames_at(report, pc);

		for (size_t i = 0; i < n && number < most && t->ok; i++) {
			struct ms_named_frame frame;

			ms_frame_tell(report, pc, i, &frame);
			put_frame(t, report, &frame, number++);
		}
	}
	if (calls->cut && number < most)
		ms_text_print(t,
		              "          (cut: the stack goes on, but no more of it was kept)\n");
}
