/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the reader of our own JSON.
 *
 *	fuzz: -max_len=8192
 *
 * It must neither crash nor run on. What it takes is written again and read again, and is
 * the same text then; types, stacks and names are where the leaks say.
 */

#include <string.h>

#include "report/json/reader.h"
#include "report/writers.h"

#include "golden.h"

enum { MOST_TEXT = 1 << 20 };

struct text {
	struct ms_sink base;
	size_t len;
	char bytes[MOST_TEXT];
};

static struct text texts[2];

static bool keep(struct ms_sink *sink, const char *bytes, size_t len)
{
	struct text *text = (struct text *)sink;

	if (len > sizeof(text->bytes) - text->len)
		return false;
	memcpy(text->bytes + text->len, bytes, len);
	text->len += len;
	return true;
}

static void check_leaks(const struct ms_report *report)
{
	const struct ms_leak *leak;

	ms_vec_for_each (leak, &report->leaks) {
		require(leak->kind < MS_LEAK_KINDS && leak->reason < MS_REASONS, "a leak's kind");
		require(leak->contents_len <= MS_CONTENTS, "contents fit");
		require(leak->type <= report->types.n, "a leak's type is there");
		require(leak->stack <= report->stacks.n, "a leak's stack is there");
	}
}

static void check(const struct ms_report *report)
{
	const struct ms_stack *stack;
	const struct ms_heap *heap;
	uint64_t evidence = 0;

	check_leaks(report);
	require(report->names.n == report->pcs.n, "an address has its names");
	ms_vec_for_each (stack, &report->stacks)
		require(stack->n <= MS_STACK_FRAMES && stack->first + stack->n <= report->pcs.n,
		        "a stack's addresses are there");
	ms_vec_for_each (heap, &report->heaps)
		evidence += heap->n_evidence;
	require(evidence == report->evidence.n, "evidence is a heap's");
	require(report->target.cmdline_len <= sizeof(report->target.cmdline), "arguments fit");
}

static bool write_report(const struct ms_report *report, struct text *text)
{
	text->base.write = keep;
	text->len = 0;
	return ms_writer_find("json")->write(report, &text->base);
}

/* What is longer than the text has room for is not read again. */
static void read_again(const struct ms_report *report, struct ms_arena *arena)
{
	struct ms_json_file again = { "again", texts[0].bytes, 0 };
	struct ms_report second;
	struct ms_error err;

	if (!write_report(report, &texts[0]))
		return;
	again.len = texts[0].len;
	require(!ms_json_read_report(&again, arena, &second, &err), "what we write can be read");
	require(write_report(&second, &texts[1]), "it has room again");
	require(texts[0].len == texts[1].len &&
	                memcmp(texts[0].bytes, texts[1].bytes, texts[0].len) == 0,
	        "it is the same again");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ms_json_file file = { "fuzz", (const char *)data, size };
	struct ms_report report;
	struct ms_error err;
	struct ms_arena arena;

	memset(&err, 0, sizeof(err));
	ms_arena_init(&arena);
	if (!ms_json_read_report(&file, &arena, &report, &err)) {
		check(&report);
		read_again(&report, &arena);
	} else {
		require(err.text[0] && err.advice[0], "an error is told");
	}
	ms_arena_deinit(&arena);
	return 0;
}

static const char small[] =
	"{\"schema\":\"memscan.report/1\",\"target\":{\"pid\":1},\"scan\":{\"time\":0,"
	"\"attempts\":1,\"pause_ns\":0,\"duration_ns\":0,\"bytes_read\":0},\"heaps\":[],"
	"\"totals\":{\"allocations\":0,\"allocation_bytes\":0,\"leaked_allocations\":0,"
	"\"leaked_bytes\":0,\"direct_allocations\":0,\"direct_bytes\":0,"
	"\"indirect_allocations\":0,\"indirect_bytes\":0,\"suppressed_allocations\":0,"
	"\"suppressed_bytes\":0},\"leaks\":[],\"unlisted\":{\"leaks\":0,\"small_leaks\":0},"
	"\"unreachable_mappings\":[],\"warnings\":[],\"later\":{\"a\":[true,1.5e3]}}";

void fuzz_seeds(fuzz_take take)
{
	take_golden(take, "", 0, "tests/golden/report.json");
	take(small, sizeof(small) - 1);
}
