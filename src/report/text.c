/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The report for people. The summary line and the lines of each leak are
 * libmemunreachable's, to the letter, so that scripts which read Android's logs
 * read ours; what it has no words for (the process, possible leaks, unreachable
 * mappings) stands around them and never looks like one of its lines.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "report/frames.h"
#include "report/print.h"
#include "report/sites/sites.h"
#include "report/version.h"
#include "report/writers.h"

enum { ROW = 16 };

enum ink { INK_PLAIN, INK_TITLE, INK_LEAK, INK_CLEAN, INK_WARNING, INKS };

static const char *const escapes[INKS] = {
	[INK_PLAIN] = "\033[0m",  [INK_TITLE] = "\033[1m",    [INK_LEAK] = "\033[1;31m",
	[INK_CLEAN] = "\033[32m", [INK_WARNING] = "\033[33m",
};

static void ink(struct ms_text *t, enum ink colour)
{
	if (t->sink->colour)
		ms_text_put(t, escapes[colour], strlen(escapes[colour]));
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void write_command(struct ms_text *t, const struct ms_target_facts *target)
{
	size_t at = 0;

	if (target->cmdline_len == 0)
		return;
	ms_text_print(t, "  command:");
	while (at < target->cmdline_len) {
		size_t len = strnlen(target->cmdline + at, target->cmdline_len - at);

		ms_text_print(t, " ");
		ms_text_name(t, target->cmdline + at, len);
		at += len + 1;
	}
	ms_text_print(t, "\n");
}

static void write_heap(struct ms_text *t, const struct ms_heap *heap)
{
	ms_text_print(t, "  allocator: ");
	ms_text_name(t, heap->allocator, strlen(heap->allocator));
	if (heap->version[0]) {
		ms_text_print(t, " ");
		ms_text_name(t, heap->version, strlen(heap->version));
	}
	ms_text_print(t, ", %s, %" PRIu64 " usable bytes in %" PRIu64 " allocation%s\n",
	              heap->verified ? "verified" : "NOT verified", heap->allocation_bytes,
	              heap->allocations, ms_plural(heap->allocations));
}

static void write_warning(struct ms_text *t, const struct ms_note *warning)
{
	ink(t, INK_WARNING);
	ms_text_print(t, "  warning: ");
	ms_text_name(t, warning->text, strlen(warning->text));
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n");
}

static void write_confirm(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_totals *totals = &report->totals;

	if (!report->confirm)
		return;
	if (report->confirm_ns)
		ms_text_print(t,
		              "  confirm: scanned again after %.1f s; not confirmed: %" PRIu64
		              " bytes in %" PRIu64 " allocation%s\n",
		              ms(report->confirm_ns) / 1e3, totals->unconfirmed_bytes,
		              totals->unconfirmed_allocations,
		              ms_plural(totals->unconfirmed_allocations));
	else
		ms_text_print(t, "  confirm: no leaks to confirm, scanned once\n");
}

static void write_header(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_scan_facts *scan = &report->scan;
	const struct ms_heap *heap;
	const struct ms_note *warning;

	ink(t, INK_TITLE);
	ms_text_print(t, "memscan %s: process %" PRId32, MS_VERSION, report->target.pid);
	if (report->target.exe[0]) {
		ms_text_print(t, " ");
		ms_text_name(t, report->target.exe, strlen(report->target.exe));
	}
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n");
	if (report->target.ns_pid)
		ms_text_print(t, "  in its pid namespace: process %" PRId32 "\n",
		              report->target.ns_pid);
	write_command(t, &report->target);
	ms_vec_for_each (heap, &report->heaps)
		write_heap(t, heap);
	/* Of a core nothing was paused. */
	if (scan->pause_ns)
		ms_text_print(t, "  scan: paused %.3f ms of %.3f ms, source ", ms(scan->pause_ns),
		              ms(scan->duration_ns));
	else
		ms_text_print(t, "  scan: %.3f ms, source ", ms(scan->duration_ns));
	ms_text_name(t, scan->source, strlen(scan->source));
	ms_text_print(t, "\n");
	write_confirm(t, report);
	ms_sites_put_header(t, &report->sampling);
	ms_vec_for_each (warning, &report->warnings)
		write_warning(t, warning);
	ms_text_print(t, "\n");
}

/* ---- the few entries that most bytes are in ---- */

enum { LARGEST = 5 };

/* How many of what: leaks of one type or of one stack need not be of one size. */
static void write_kind(struct ms_text *t, const struct ms_leak *leak,
                       const struct ms_report *report)
{
	const struct ms_type *type = leak->type ? &report->types.at[leak->type - 1] : NULL;
	bool one_size = leak->similar_size / leak->size == leak->similar_count &&
	                leak->similar_size % leak->size == 0;

	ms_text_print(t, "  %" PRIu64 " x ", leak->similar_count + 1);
	if (type && type->name[0]) {
		ms_text_name(t, type->name, strlen(type->name));
		if (one_size)
			ms_text_print(t, ", ");
	} else if (!one_size) {
		ms_text_print(t, "blocks of several sizes");
	}
	if (one_size)
		ms_text_print(t, "%" PRIu64 " bytes", leak->size);
	if (one_size && leak->similar_count)
		ms_text_print(t, " each");
}

static void write_large(struct ms_text *t, const struct ms_leak *leak,
                        const struct ms_report *report)
{
	write_kind(t, leak, report);
	if (leak->referenced_count || leak->similar_referenced_count)
		ms_text_print(t, ", with what %s ", leak->similar_count ? "they hold" : "it holds");
	else if (leak->similar_count)
		ms_text_print(t, ", together ");
	if (leak->total_size != leak->size)
		ms_text_amount(t, leak->total_size);
	ms_text_print(t, "\n");
}

/* Nothing where every entry is a leak by itself: the list says as much. */
static bool has_merged(const struct ms_report *report)
{
	const struct ms_leak *leak;

	ms_vec_for_each (leak, &report->leaks)
		if (leak->kind == MS_LEAK_DIRECT && leak->similar_count)
			return true;
	return false;
}

static void write_largest(struct ms_text *t, const struct ms_report *report)
{
	uint64_t most = report->totals.leaked_bytes - report->totals.leaked_bytes / 4;
	const struct ms_leak *leak;
	uint64_t told = 0;
	size_t n = 0;

	if (!has_merged(report))
		return;
	ink(t, INK_TITLE);
	ms_text_print(t, "Largest leaks:");
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n");
	ms_vec_for_each (leak, &report->leaks) {
		if (leak->kind != MS_LEAK_DIRECT || !leak->size)
			continue;
		if (n++ == LARGEST || told >= most)
			break;
		write_large(t, leak, report);
		told += leak->total_size;
	}
	ms_text_print(t, "\n");
}

/* With --heap they are those of all live blocks, and stand behind these. */
static void write_sites(struct ms_text *t, const struct ms_report *report, bool heap)
{
	if (!report->sites.n || report->heap != heap)
		return;
	ink(t, INK_TITLE);
	ms_text_print(t, heap ? "Live blocks by the calls that allocated them, from samples:"
	                      : "Largest leaks by the calls that allocated them, from samples:");
	ink(t, INK_PLAIN);
	ms_text_print(t, heap ? "\n\n" : "\n");
	if (heap)
		ms_sites_put_live(t, report);
	else
		ms_sites_put_leaks(t, report);
}

/* In front of a line that would pass for the answer. */
static void write_unread(struct ms_text *t, const struct ms_report *report)
{
	uint64_t bytes = report->totals.unread_bytes;

	if (!bytes)
		return;
	ink(t, INK_WARNING);
	ms_text_print(t, "Nothing can be said about ");
	ms_text_amount(t, bytes);
	ms_text_print(t, report->mappings.n
	                         ? ": no heap that memscan reads; unreachable mappings are below"
	                         : ": no heap that memscan reads");
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n");
}

static void write_summary(struct ms_text *t, const struct ms_totals *totals)
{
	ink(t, totals->leaked_allocations ? INK_LEAK
	       : totals->unread_bytes     ? INK_PLAIN
	                                  : INK_CLEAN);
	ms_text_print(t,
	              "%" PRIu64 " bytes in %" PRIu64 " allocation%s unreachable out of %" PRIu64
	              " bytes in %" PRIu64 " allocation%s",
	              totals->leaked_bytes, totals->leaked_allocations,
	              ms_plural(totals->leaked_allocations), totals->allocation_bytes,
	              totals->allocations, ms_plural(totals->allocations));
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n");
}

/* What is not asked for is said, as a number. */
static void write_interior(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_totals *totals = &report->totals;

	if (report->possible || !totals->interior_allocations)
		return;
	ms_text_print(t,
	              "%" PRIu64 " bytes in %" PRIu64
	              " more allocation%s reachable by pointers into "
	              "the middle alone (memscan --possible lists them)\n",
	              totals->interior_bytes, totals->interior_allocations,
	              ms_plural(totals->interior_allocations));
}

static void write_row(struct ms_text *t, const struct ms_leak *leak, size_t at)
{
	size_t n = leak->contents_len - at < ROW ? leak->contents_len - at : ROW;
	char ascii[ROW + 1] = "";

	ms_text_print(t, "   %" PRIx64 ":", leak->address + at);
	for (size_t i = 0; i < ROW; i++) {
		uint8_t byte = i < n ? leak->contents[at + i] : 0;

		if (i >= n) {
			ms_text_print(t, "   ");
			continue;
		}
		ms_text_print(t, " %02x", byte);
		ascii[i] = (char)(byte >= 0x20 && byte <= 0x7e ? byte : '.');
	}
	ms_text_print(t, " %s\n", ascii);
}

static void write_contents(struct ms_text *t, const struct ms_leak *leak)
{
	if (leak->contents_len == 0)
		return;
	if (leak->size > leak->contents_len)
		ms_text_print(t, "   first %u bytes of contents:\n", leak->contents_len);
	else
		ms_text_print(t, "   contents:\n");
	for (size_t at = 0; at < leak->contents_len; at += ROW)
		write_row(t, leak, at);
}

static void write_held(struct ms_text *t, uint64_t size, uint64_t count)
{
	if (count)
		ms_text_print(t,
		              "   referencing %" PRIu64 " unreachable bytes in %" PRIu64
		              " allocation%s\n",
		              size, count, ms_plural(count));
}

const char *ms_text_reason(enum ms_reason reason)
{
	switch (reason) {
	case MS_REASON_INTERIOR:
		return "only pointers into its middle lead to it";
	case MS_REASON_MAPPING:
		return "only unreachable mappings point to it";
	case MS_REASON_STACK:
		return "only parts of stacks lead to it that may not be in use";
	case MS_REASON_UNALIGNED:
		return "only unaligned pointers lead to it";
	case MS_REASON_TAGGED:
		return "only pointers with a number or a tag in their word lead to it";
	case MS_REASON_OUTSIDE:
		return "only addresses just in front of it, or behind it, lead to it";
	case MS_REASON_RELATIVE:
		return "only self-relative pointers lead to it";
	case MS_REASON_SIGNAL_STACK:
		return "it may be the signal stack of a thread, or reachable from one";
	case MS_REASON_REQUESTS:
		return "a request of io_uring may hold it";
	case MS_REASON_FUSE:
		return "the kernel may hold it for a file of the file system that the process serves";
	case MS_REASON_UNSEEN:
		return "memory that could not be read may point to it";
	case MS_REASON_GC:
		return "only CPython's collector leads to it, and frees it when it runs";
	case MS_REASON_NONE:
	case MS_REASONS:
		break;
	}
	return "it is not certain that it is unreachable";
}

/* Numbers in front of it are those of the samples alone. */
static void write_sampled(struct ms_text *t, const struct ms_estimate *sampled)
{
	if (!sampled->samples)
		return;
	ms_text_print(t, "   estimate for these calls: ");
	ms_sites_put_estimate(t, sampled);
	ms_text_print(t, "\n");
}

/* The type is that of the block at the address: not all of its group need be text. */
static void write_texts(struct ms_text *t, const struct ms_leak *leak)
{
	uint64_t all = leak->similar_count + 1;

	if (leak->texts && leak->texts != all)
		ms_text_print(t, " (%" PRIu64 " of %" PRIu64 " blocks)", leak->texts, all);
}

static void write_type(struct ms_text *t, const struct ms_type *type, const struct ms_leak *leak)
{
	const char *module = ms_file_name(type->module);

	ms_text_print(t, type->name[0] ? "   type: " : "   module: ");
	if (type->name[0])
		ms_text_name(t, type->name, strlen(type->name));
	if (type->name[0] && type->sure == MS_SURE_LIKELY && type->how != MS_HOW_TEXT)
		ms_text_print(t, ", likely");
	if (type->name[0] && *module)
		ms_text_print(t, type->how == MS_HOW_VTABLE ? " (vtable of " : " (of ");
	ms_text_name(t, module, strlen(module));
	if (type->name[0] && *module)
		ms_text_print(t, ")");
	if (type->how == MS_HOW_TEXT)
		write_texts(t, leak);
	ms_text_print(t, type->name[0] ? "\n" : " (table of functions)\n");
}

/* A name alone where the function of that name begins there; else the place in its file. */
static void write_callback(struct ms_text *t, const struct ms_report *report, size_t pc)
{
	struct ms_named_frame frame;
	const struct ms_symbol *symbol = &frame.symbol;
	const char *module;

	ms_frame_tell(report, pc, ms_frames_at(report, pc) - 1, &frame);
	module = symbol->module ? ms_file_name(symbol->module) : "";
	ms_text_print(t, "   holds callback: ");
	if (symbol->function && !symbol->function_offset && !symbol->unsized) {
		ms_text_name(t, symbol->function, strlen(symbol->function));
		ms_text_print(t, " in ");
		ms_text_name(t, module, strlen(module));
	} else {
		ms_text_name(t, module, strlen(module));
		ms_text_print(t, "+0x%" PRIx64, symbol->rel_pc);
	}
	ms_text_print(t, "\n");
}

static void write_evidence(struct ms_text *t, const struct ms_maker *maker)
{
	const struct {
		uint32_t n;
		const char *one, *many;
	} parts[] = {
		{ maker->tables, "pointer to a table of functions",
		  "pointers to tables of functions" },
		{ maker->code, "pointer to its code", "pointers to its code" },
		{ maker->constants, "pointer to its constants", "pointers to its constants" },
	};
	const char *before = " (";

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!parts[i].n)
			continue;
		ms_text_print(t, "%s%" PRIu32 " %s", before, parts[i].n,
		              parts[i].n == 1 ? parts[i].one : parts[i].many);
		before = ", ";
	}
	ms_text_print(t, ")\n");
}

static void write_maker(struct ms_text *t, const struct ms_report *report,
                        const struct ms_leak *leak)
{
	const struct ms_maker *maker = &leak->maker;
	const char *name;

	if (!maker->module)
		return;
	name = ms_file_name(report->modules.at[maker->module - 1].path);
	ms_text_print(t, leak->unproved ? "   contains pointers to " : "   most likely made by ");
	ms_text_name(t, name, strlen(name));
	write_evidence(t, maker);
}

static void write_quoted(struct ms_text *t, const char *text)
{
	ms_text_print(t, "\"");
	ms_text_name(t, text, strlen(text));
	ms_text_print(t, strlen(text) == MS_PREVIEW_TEXT - 1 ? "…\"" : "\"");
}

/* A sample of them, and what they have in common. */
static void write_like(struct ms_text *t, const struct ms_like *like)
{
	ms_text_print(t, "   text: ");
	write_quoted(t, like->first);
	if (!like->pattern[0]) {
		ms_text_print(t, like->count > 1 ? ", %" PRIu64 " times\n" : "\n", like->count);
		return;
	}
	ms_text_print(t, like->count > 2 ? ", " : " and ");
	write_quoted(t, like->last);
	if (like->count > 2)
		ms_text_print(t, " and %" PRIu64 " more", like->count - 2);
	ms_text_print(t, " like \"");
	ms_text_name(t, like->pattern, strlen(like->pattern));
	ms_text_print(t, "\"\n");
}

static void write_preview(struct ms_text *t, const struct ms_report *report,
                          const struct ms_leak *leak)
{
	uint64_t others = leak->texts;

	if (!leak->n_likes && leak->text[0]) {
		ms_text_print(t, "   text: ");
		write_quoted(t, leak->text);
		ms_text_print(t, "\n");
	}
	for (uint32_t i = 0; i < leak->n_likes; i++) {
		write_like(t, &report->likes.at[leak->first_like + i]);
		others -= report->likes.at[leak->first_like + i].count;
	}
	if (others)
		ms_text_print(t, "   text: %" PRIu64 " other%s\n", others, ms_plural(others));
}

/* @report: what the leak's type and stack are in; NULL when these are not to be written */
static void write_leak(struct ms_text *t, const struct ms_leak *leak,
                       const struct ms_report *report, bool kinds)
{
	bool possible = leak->kind == MS_LEAK_POSSIBLE;

	ink(t, INK_TITLE);
	ms_text_print(t, "  %" PRIu64 " bytes %sunreachable at %" PRIx64, leak->size,
	              possible ? "possibly " : "", leak->address);
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n");
	if (possible)
		ms_text_print(t, "   reason: %s\n", ms_text_reason((enum ms_reason)leak->reason));
	else if (kinds)
		ms_text_print(t, "   kind: %s\n",
		              leak->kind == MS_LEAK_INDIRECT ? "indirect" : "direct");
	if (leak->references)
		ms_text_print(t, "   references: %" PRIu32 " counted by it, %" PRIu32 " found\n",
		              leak->references, leak->references_found);
	write_held(t, leak->referenced_size, leak->referenced_count);
	if (leak->similar_count)
		ms_text_print(t,
		              "   and %" PRIu64 " similar unreachable bytes in %" PRIu64
		              " allocation%s\n",
		              leak->similar_size, leak->similar_count,
		              ms_plural(leak->similar_count));
	write_held(t, leak->similar_referenced_size, leak->similar_referenced_count);
	if (report && leak->type)
		write_type(t, &report->types.at[leak->type - 1], leak);
	if (report && leak->callback)
		write_callback(t, report, leak->callback - 1);
	if (report)
		write_preview(t, report, leak);
	if (report)
		write_maker(t, report, leak);
	if (report && leak->older)
		ms_text_print(t, "   made before attach\n");
	write_contents(t, leak);
	if (report)
		write_sampled(t, &leak->sampled);
	if (report)
		ms_frames_put(t, report, leak->stack, SIZE_MAX);
	ms_text_print(t, "\n");
}

/*
 * Only an unfolded list has indirect leaks in it, and only there does the kind say
 * something. A full list may come in millions: stop when the sink does.
 */
static void write_leaks(struct ms_text *t, const struct ms_report *report, bool possible)
{
	const struct ms_leaks *leaks = &report->leaks;
	const struct ms_leak *leak;
	bool kinds = false;

	ms_vec_for_each (leak, leaks)
		kinds = kinds || leak->kind == MS_LEAK_INDIRECT;
	for (leak = leaks->at; leak && leak < leaks->at + leaks->n && t->ok; leak++) {
		if ((leak->kind == MS_LEAK_POSSIBLE) == possible)
			write_leak(t, leak, report, kinds);
	}
}

static void write_possible(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_totals *totals = &report->totals;

	if (!report->possible)
		return;
	ink(t, INK_TITLE);
	ms_text_print(t, "Possible leaks: %" PRIu64 " bytes in %" PRIu64 " allocation%s",
	              totals->possible_bytes, totals->possible_allocations,
	              ms_plural(totals->possible_allocations));
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n\n");
	write_leaks(t, report, true);
}

static void write_mappings(struct ms_text *t, const struct ms_lost_mappings *mappings)
{
	const struct ms_lost_mapping *mapping;

	if (mappings->n == 0)
		return;
	ink(t, INK_TITLE);
	ms_text_print(t, "Unreachable mappings: %zu that nothing points to", mappings->n);
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n\n");
	ms_vec_for_each (mapping, mappings) {
		ms_text_print(t, "  %" PRIu64 " bytes mapped at %" PRIx64 " ",
		              ms_range_len(mapping->range), mapping->range.begin);
		ms_text_name(t, mapping->name, strlen(mapping->name));
		ms_text_print(t, "\n");
	}
	ms_text_print(t, "\n");
}

static void write_count(struct ms_text *t, uint64_t n, const char *before, const char *behind)
{
	if (n)
		ms_text_print(t, "%" PRIu64 " %sleak%s not listed: %s\n\n", n, before,
		              n == 1 ? " is" : "s are", behind);
}

/* What is not in the list, and why. */
static void write_rest(struct ms_text *t, const struct ms_report *report)
{
	static const char limit[] = "--limit all lists them";
	static const char size[] = "--min-size 0 lists them";
	struct ms_unlisted rest = ms_report_unlisted(report);

	write_count(t, rest.leaks, "more ", limit);
	write_count(t, rest.small_leaks, "smaller ", size);
	write_count(t, rest.possible, "more possible ", limit);
	write_count(t, rest.small_possible, "smaller possible ", size);
}

static void write_live_row(struct ms_text *t, const struct ms_report *report,
                           const struct ms_live *live)
{
	char size[48];

	if (live->least_size == live->size)
		(void)snprintf(size, sizeof(size), "%" PRIu64, live->size);
	else
		(void)snprintf(size, sizeof(size), "%" PRIu64 "-%" PRIu64, live->least_size,
		               live->size);
	ms_text_print(t, "%14" PRIu64 " %12" PRIu64 " %12s %14" PRIu64 "  ", live->bytes,
	              live->allocations, size, live->leaked_bytes);
	ms_text_type(t, live->type ? &report->types.at[live->type - 1] : NULL);
	ms_text_print(t, "\n");
}

static void write_live(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_live_list *list = &report->live;
	size_t n = report->live_limit < list->n ? (size_t)report->live_limit : list->n;

	if (!report->heap)
		return;
	ink(t, INK_TITLE);
	ms_text_print(t, "Live blocks by type and size, most bytes first:");
	ink(t, INK_PLAIN);
	ms_text_print(t, "\n\n%14s %12s %12s %14s  %s\n", "bytes", "blocks", "size", "leaked bytes",
	              "type");
	for (size_t i = 0; i < n && t->ok; i++)
		write_live_row(t, report, &list->at[i]);
	ms_text_print(t, "\n");
	if (n < list->n)
		ms_text_print(t, "%zu more row%s not listed: --limit all lists them\n\n",
		              list->n - n, list->n - n == 1 ? " is" : "s are");
}

/* As LeakSanitizer prints it; what matched nothing is among the warnings. */
static void write_suppressed(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_suppressed *s;

	if (!report->totals.suppressed_allocations)
		return;
	ms_text_print(t, "Suppressions used:\n  count      bytes template\n");
	ms_vec_for_each (s, &report->suppressed) {
		if (!s->allocations)
			continue;
		ms_text_print(t, "%7" PRIu64 " %10" PRIu64 " ", s->allocations, s->bytes);
		ms_text_name(t, s->pattern, strlen(s->pattern));
		ms_text_print(t, "\n");
	}
	ms_text_print(t, "Suppressed in all: %" PRIu64 " bytes in %" PRIu64 " allocation%s\n\n",
	              report->totals.suppressed_bytes, report->totals.suppressed_allocations,
	              ms_plural(report->totals.suppressed_allocations));
}

static bool write_text(const struct ms_report *report, struct ms_sink *sink)
{
	struct ms_text t = { sink, true };

	write_header(&t, report);
	write_sites(&t, report, false);
	write_largest(&t, report);
	write_unread(&t, report);
	write_summary(&t, &report->totals);
	write_interior(&t, report);
	ms_text_print(&t, "\n");
	write_leaks(&t, report, false);
	write_possible(&t, report);
	write_rest(&t, report);
	write_live(&t, report);
	write_sites(&t, report, true);
	write_mappings(&t, &report->mappings);
	write_suppressed(&t, report);
	return t.ok;
}

void ms_text_summary(const struct ms_totals *totals, struct ms_sink *sink)
{
	struct ms_text t = { sink, true };

	write_summary(&t, totals);
}

void ms_text_leak(const struct ms_leak *leak, const struct ms_report *report, struct ms_sink *sink)
{
	struct ms_text t = { sink, true };

	write_leak(&t, leak, report, false);
}

const struct ms_writer ms_text_writer = { .name = "text", .write = write_text };
