/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the reader of our own JSON.
 *
 *	fuzz: -max_len=8192
 *
 * It must neither crash nor run on. What it takes is written again and read again, and is
 * the same text then; types, stacks and names are where the leaks say. Compared with itself
 * nothing grew, and with an empty report every comparison can be written. The same of what
 * roots hold.
 */

#include <string.h>

#include "report/diff/holders.h"
#include "report/diff/writers.h"
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

static void check_live(const struct ms_report *report)
{
	const struct ms_live *live;

	ms_vec_for_each (live, &report->live)
		require(live->type <= report->types.n && live->least_size <= live->size &&
		                live->leaked_allocations <= live->allocations &&
		                live->leaked_bytes <= live->bytes,
		        "live blocks make sense");
}

static void check(const struct ms_report *report)
{
	const struct ms_stack *stack;
	const struct ms_heap *heap;
	uint64_t evidence = 0;

	check_leaks(report);
	check_live(report);
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

/* ---- comparing ---- */

static bool swallow(struct ms_sink *sink, const char *bytes, size_t len)
{
	(void)sink;
	require(!memchr(bytes, '\0', len), "text has no NUL");
	return true;
}

static void compare(struct ms_diff *diff, struct ms_arena *arena)
{
	static const char *const formats[] = { "text", "json" };
	struct ms_sink sink = { swallow, false };
	struct ms_error err;

	diff->files[MS_DIFF_OLD] = diff->files[MS_DIFF_NEW] = "fuzz";
	diff->limit = UINT64_MAX;
	require(!ms_diff_make(diff, arena, &err), "there is memory for comparing");
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		require(ms_diff_writer_find(formats[i])->write(diff, &sink), "it is written");
}

/* With itself, and either way with a report that has nothing. */
static void compare_all(const struct ms_report *report, const struct ms_holders *holders,
                        struct ms_arena *arena)
{
	static const struct ms_report empty = { .heap = true };
	static const struct ms_holders none;
	const struct ms_holders *other = holders ? &none : NULL;
	struct ms_diff same = { .reports = { report, report }, .holders = { holders, holders } };
	struct ms_diff grown = { .reports = { &empty, report }, .holders = { other, holders } };
	struct ms_diff gone = { .reports = { report, &empty }, .holders = { holders, other } };

	compare(&same, arena);
	require(!same.leaks.n && !same.live.n && !same.roots.n && !ms_diff_grew(&same),
	        "a report did not grow beyond itself");
	compare(&grown, arena);
	compare(&gone, arena);
	require(grown.leaks.n == gone.leaks.n && grown.live.n == gone.live.n &&
	                grown.roots.n == gone.roots.n,
	        "what comes one way goes the other");
}

static void read_holders(const struct ms_json_file *file, struct ms_arena *arena)
{
	struct ms_holders holders;
	struct ms_report report;
	struct ms_error err;

	memset(&err, 0, sizeof(err));
	if (!ms_holders_read(file, arena, &report, &holders, &err))
		compare_all(&report, &holders, arena);
	else
		require(err.text[0] && err.advice[0], "an error is told");
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
		compare_all(&report, NULL, &arena);
		read_again(&report, &arena);
	} else {
		require(err.text[0] && err.advice[0], "an error is told");
		read_holders(&file, &arena);
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

static const char held[] =
	"{\"schema\":\"memscan.retained/1\",\"target\":{\"pid\":7},\"scan\":{\"time\":1},"
	"\"totals\":{\"reachable\":{\"count\":1,\"bytes\":8},\"unreachable\":{\"count\":0,"
	"\"bytes\":0},\"roots\":1},\"by_root\":[{\"root\":{\"kind\":\"data\",\"module\":\"/bin/p\","
	"\"symbol\":\"g\",\"offset\":-8},\"retained_count\":1,\"retained_bytes\":8}],"
	"\"by_type\":[{\"type\":{\"name\":\"T\"},\"count\":1,\"bytes\":8},"
	"{\"size\":24,\"count\":0,\"bytes\":0}]}";

void fuzz_seeds(fuzz_take take)
{
	take_golden(take, "", 0, "tests/golden/report.json");
	take(small, sizeof(small) - 1);
	take(held, sizeof(held) - 1);
}
