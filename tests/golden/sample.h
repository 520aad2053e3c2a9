/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GOLDEN_SAMPLE_H
#define TESTS_GOLDEN_SAMPLE_H

/*
 * The report that the golden files show, and a sink that keeps what a writer says.
 * Every field has a value of its own, so that a writer which mixes two up is seen.
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "report/writers.h"

static inline void sample_target(struct ms_report *report)
{
	static const char cmdline[] = "server\0--config\0/etc/my server.conf";

	snprintf(report->host.name, sizeof(report->host.name), "alpha");
	snprintf(report->host.kernel, sizeof(report->host.kernel), "6.1.0-18-amd64");
	snprintf(report->host.arch, sizeof(report->host.arch), "x86_64");
	report->target.pid = 4321;
	report->target.threads = 7;
	report->target.word_size = 8;
	snprintf(report->target.arch, sizeof(report->target.arch), "x86_64");
	snprintf(report->target.exe, sizeof(report->target.exe), "/usr/sbin/server");
	memcpy(report->target.cmdline, cmdline, sizeof(cmdline));
	report->target.cmdline_len = sizeof(cmdline);
	report->target.start_time = INT64_C(1700000000000000001);
}

static inline void sample_scan(struct ms_report *report)
{
	report->scan.time = INT64_C(1700000100000000002);
	snprintf(report->scan.source, sizeof(report->scan.source), "copy");
	report->scan.attempts = 2;
	report->scan.pause_ns = 1234567;
	report->scan.duration_ns = 23456789;
	report->scan.bytes_read = 135168;
	report->scan.peak_rss_bytes = 9437184;
	report->scan.steps = 11;
	for (int i = 0; i < MS_PHASES; i++)
		report->scan.phase_ns[i] = 1001 + (uint64_t)i;
}

static inline void sample_heaps(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_heap *heap = ms_vec_push(arena, &report->heaps);

	*heap = (struct ms_heap){ "glibc", "2.36", true, 9, 1500, 700, 135168, 2 };
	heap = ms_vec_push(arena, &report->heaps);
	*heap = (struct ms_heap){ "odd", "", false, 1, 64, 0, 4096, 1 };
	ms_note_add(arena, &report->evidence, "first of glibc");
	ms_note_add(arena, &report->evidence, "second of glibc");
	ms_note_add(arena, &report->evidence, "only of odd");
}

static inline void sample_leaks(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_leak *leak = ms_vec_push(arena, &report->leaks);

	*leak = (struct ms_leak){ .id = 1,
		                  .address = 0x7a03454400,
		                  .size = 20,
		                  .referenced_count = 2,
		                  .referenced_size = 48,
		                  .similar_count = 4,
		                  .similar_size = 96,
		                  .similar_referenced_count = 1,
		                  .similar_referenced_size = 10,
		                  .total_size = 174,
		                  .kind = MS_LEAK_DIRECT,
		                  .type = 2,
		                  .contents_len = 20,
		                  .contents = { 0x1f, 0x20, 'A', 0x7e, 0x7f, 0x80, 0xff,
		                                0,    1,    2,   3,    4,    5,    6,
		                                7,    8,    'l', 'a',  's',  't' } };
	leak = ms_vec_push(arena, &report->leaks);
	*leak = (struct ms_leak){ .id = 2,
		                  .address = 0x7a03450000,
		                  .size = 40,
		                  .total_size = 40,
		                  .kind = MS_LEAK_DIRECT,
		                  .type = 1,
		                  .contents_len = 32,
		                  .contents = "thirty-two bytes of many, 32 lon" };
	leak = ms_vec_push(arena, &report->leaks);
	*leak = (struct ms_leak){ .id = 3,
		                  .address = 0x7a03460010,
		                  .size = 24,
		                  .total_size = 24,
		                  .kind = MS_LEAK_POSSIBLE,
		                  .reason = MS_REASON_INTERIOR };
	report->possible = true;
	report->totals = (struct ms_totals){ .allocations = 10,
		                             .allocation_bytes = 1564,
		                             .leaked_allocations = 9,
		                             .leaked_bytes = 214,
		                             .direct_allocations = 6,
		                             .direct_bytes = 156,
		                             .indirect_allocations = 3,
		                             .indirect_bytes = 58,
		                             .possible_allocations = 1,
		                             .possible_bytes = 24,
		                             .suppressed_allocations = 12,
		                             .suppressed_bytes = 13,
		                             .leaks = 5 };
}

static inline void sample_types(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_type *type = ms_vec_push(arena, &report->types);
	struct ms_suppressed *suppressed;

	*type = (struct ms_type){ "", "/usr/lib/libops.so.2", MS_HOW_FUNCTIONS };
	type = ms_vec_push(arena, &report->types);
	*type = (struct ms_type){ "pool::Box<int, char const*>", "/opt/my lib/pool.so",
		                  MS_HOW_VTABLE };
	suppressed = ms_vec_push(arena, &report->suppressed);
	*suppressed = (struct ms_suppressed){ "^pool::*", 11, 12 };
	suppressed = ms_vec_push(arena, &report->suppressed);
	*suppressed = (struct ms_suppressed){ "nothing", 0, 0 };
	suppressed = ms_vec_push(arena, &report->suppressed);
	*suppressed = (struct ms_suppressed){ "libold.so", 1234567, 98765432101 };
}

/* The full report; its vectors are in @arena. */
static inline void sample_report(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_lost_mapping *mapping;

	memset(report, 0, sizeof(*report));
	sample_target(report);
	sample_scan(report);
	sample_heaps(arena, report);
	sample_leaks(arena, report);
	sample_types(arena, report);
	mapping = ms_vec_push(arena, &report->mappings);
	mapping->range = (struct ms_range){ 0x7f0000000000, 0x7f0000100000 };
	snprintf(mapping->name, sizeof(mapping->name), "[anon: pool]");
	ms_note_add(arena, &report->warnings, "1 page could not be read");
}

enum { KEPT_BYTES = 64 * 1024 };

struct keeper {
	struct ms_sink base;
	size_t len;
	size_t room; /* it refuses what goes beyond */
	char bytes[KEPT_BYTES];
};

static inline bool keeper_write(struct ms_sink *sink, const char *bytes, size_t len)
{
	struct keeper *keeper = (struct keeper *)sink;

	if (len > keeper->room - keeper->len)
		return false;
	memcpy(keeper->bytes + keeper->len, bytes, len);
	keeper->len += len;
	keeper->bytes[keeper->len] = '\0';
	return true;
}

static inline void keeper_init(struct keeper *keeper)
{
	memset(keeper, 0, sizeof(*keeper));
	keeper->base.write = keeper_write;
	keeper->room = KEPT_BYTES - 1;
}

/* Write @report in @format; the text is in @keeper. */
static inline void keep_report(struct keeper *keeper, const char *format,
                               const struct ms_report *report)
{
	keeper_init(keeper);
	cr_assert(ms_writer_find(format)->write(report, &keeper->base));
}

/* The text must be that of the file, which is read from the root of the tree. */
static inline void assert_golden(const struct keeper *keeper, const char *path)
{
	static char wanted[KEPT_BYTES];
	FILE *file = fopen(path, "r");
	size_t len;

	cr_assert_not_null(file, "%s is missing; the text is:\n%s", path, keeper->bytes);
	len = fread(wanted, 1, sizeof(wanted) - 1, file);
	fclose(file);
	wanted[len] = '\0';
	cr_assert_str_eq(keeper->bytes, wanted, "not as in %s but:\n%s", path, keeper->bytes);
}

#endif
