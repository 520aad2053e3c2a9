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

#include "engine/source.h"
#include "report/writers.h"

static inline void sample_target(struct ms_report *report)
{
	static const char cmdline[] = "server\0--config\0/etc/my server.conf";

	snprintf(report->host.name, sizeof(report->host.name), "alpha");
	snprintf(report->host.kernel, sizeof(report->host.kernel), "6.1.0-18-amd64");
	snprintf(report->host.arch, sizeof(report->host.arch), "x86_64");
	report->target.pid = 4321;
	report->target.ns_pid = 7;
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

	*heap = (struct ms_heap){ .allocator = "glibc",
		                  .version = "2.36",
		                  .verified = true,
		                  .allocations = 9,
		                  .allocation_bytes = 1500,
		                  .free_bytes = 700,
		                  .mapped_bytes = 135168,
		                  .n_evidence = 2 };
	heap = ms_vec_push(arena, &report->heaps);
	*heap = (struct ms_heap){ .allocator = "odd",
		                  .doubt = MS_DOUBT_DAMAGED,
		                  .allocations = 1,
		                  .allocation_bytes = 64,
		                  .mapped_bytes = 4096,
		                  .n_evidence = 1 };
	ms_note_add(arena, &report->evidence, "first of glibc");
	ms_note_add(arena, &report->evidence, "second of glibc");
	ms_note_add(arena, &report->evidence, "only of odd");
}

/* Of the first leak. */
static inline void sample_likes(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_like *like = ms_vec_push(arena, &report->likes);

	*like = (struct ms_like){ .count = 2,
		                  .pattern = "24 bytes of a\033text…",
		                  .first = "24 bytes of a\033text 1",
		                  .last = "24 bytes of a\033text 29" };
	like = ms_vec_push(arena, &report->likes);
	*like = (struct ms_like){ .count = 1, .first = "24 bytes of a text\n, and" };
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
		                  .stack = 2,
		                  .sampled = { 5, 6, 7, 20480, 1234 },
		                  .signature = "0123456789abcdef",
		                  .text = "24 bytes of a text\n, and",
		                  .texts = 4,
		                  .n_likes = 2,
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
		                  .stack = 1,
		                  .signature = "fedcba9876543210",
		                  .contents_len = 32,
		                  .contents = "thirty-two bytes of many, 32 lon",
		                  .maker = { 1, 1, 2, 4 },
		                  .unproved = 1 };
	leak = ms_vec_push(arena, &report->leaks);
	*leak = (struct ms_leak){ .id = 3,
		                  .address = 0x7a03460010,
		                  .size = 24,
		                  .total_size = 24,
		                  .kind = MS_LEAK_POSSIBLE,
		                  .reason = MS_REASON_INTERIOR,
		                  .references = 2,
		                  .references_found = 1,
		                  .older = 1,
		                  .callback = 3,
		                  .maker = { 1, 2, 1, 3 } };
	report->possible = true;
	report->confirm = true;
	report->confirm_ns = 1500000001;
	report->totals = (struct ms_totals){ .allocations = 10,
		                             .unread_bytes = 20 << 20,
		                             .interior_allocations = 3,
		                             .interior_bytes = 99,
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
		                             .unconfirmed_allocations = 14,
		                             .unconfirmed_bytes = 15,
		                             .leaks = 9,
		                             .small_leaks = 3,
		                             .possible = 3,
		                             .small_possible = 1 };
}

static inline void sample_sites(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_site *site = ms_vec_push(arena, &report->sites);

	*site = (struct ms_site){ { 8, 90, 10, 30720, 2345 }, { 4, 40, 5, 12288, 678 }, 2 };
	site = ms_vec_push(arena, &report->sites);
	*site = (struct ms_site){ { 2, 2, 0, 300000, 0 }, { 1, 1, 0, 150000, 0 }, 1 };
	report->sampling = (struct ms_sampling){ .on = 1,
		                                 .interval = 524288,
		                                 .samples = 16,
		                                 .live = 15,
		                                 .dropped = 17,
		                                 .stacks = 18,
		                                 .has_older = 1,
		                                 .older = { 1200000, 530000, 40960, 0 } };
}

static inline void sample_types(struct ms_arena *arena, struct ms_report *report)
{
	struct ms_type *type = ms_vec_push(arena, &report->types);
	struct ms_module_name *module = ms_vec_push(arena, &report->modules);
	struct ms_suppressed *suppressed;

	*module = (struct ms_module_name){ "/opt/my lib/\033shop.so" };
	*type = (struct ms_type){ "", "/usr/lib/libops.so.2", MS_HOW_FUNCTIONS, MS_SURE_CERTAIN };
	type = ms_vec_push(arena, &report->types);
	*type = (struct ms_type){ "pool::Box<int, char const*>", "/opt/my lib/pool.so",
		                  MS_HOW_VTABLE, MS_SURE_LIKELY };
	suppressed = ms_vec_push(arena, &report->suppressed);
	*suppressed = (struct ms_suppressed){ "^pool::*", 11, 12 };
	suppressed = ms_vec_push(arena, &report->suppressed);
	*suppressed = (struct ms_suppressed){ "nothing", 0, 0 };
	suppressed = ms_vec_push(arena, &report->suppressed);
	*suppressed = (struct ms_suppressed){ "libold.so", 1234567, 98765432101 };
}

static inline void sample_code(struct ms_arena *arena, struct ms_report *report)
{
	static const struct ms_code code[] = {
		{ .range = { 0x200000, 0x201000 }, .prot = MS_PROT_EXEC },
		{ .range = { 0x7f0000000000, 0x7f0000001000 },
		  .offset = 0x3000,
		  .inode = 9,
		  .dev_major = 8,
		  .dev_minor = 1,
		  .prot = MS_PROT_READ,
		  .build_id_len = 4,
		  .build_id = { 0x01, 0xfe, 0x23, 0xab },
		  .name = "/opt/my lib/pool.so (deleted)" },
		{ .range = { 0x7f0000002000, 0x7f0000004000 },
		  .offset = 0x4000,
		  .inode = 9,
		  .dev_major = 8,
		  .dev_minor = 1,
		  .prot = MS_PROT_EXEC,
		  .build_id_len = 4,
		  .build_id = { 0x01, 0xfe, 0x23, 0xab },
		  .name = "/opt/my lib/pool.so (deleted)" },
		{ .range = { 0x7f0000005000, 0x7f0000006000 },
		  .inode = 9,
		  .dev_major = 8,
		  .dev_minor = 2,
		  .prot = MS_PROT_EXEC,
		  .name = "/usr/lib/libops.so.2" },
	};

	for (size_t i = 0; i < sizeof(code) / sizeof(code[0]); i++)
		*(struct ms_code *)ms_vec_push(arena, &report->code) = code[i];
}

/* Two stacks, each leak's own. */
static inline void sample_stacks(struct ms_arena *arena, struct ms_report *report)
{
	static const ms_addr pcs[] = { 0x7f0000005123, 0x200010, 0x7f0000002abc, 0x7f0000003000,
		                       0x600000 };

	*(struct ms_stack *)ms_vec_push(arena, &report->stacks) = (struct ms_stack){ 0, 2, 0 };
	*(struct ms_stack *)ms_vec_push(arena, &report->stacks) = (struct ms_stack){ 2, 3, 1 };
	for (size_t i = 0; i < sizeof(pcs) / sizeof(pcs[0]); i++)
		*(ms_addr *)ms_vec_push(arena, &report->pcs) = pcs[i];
	sample_code(arena, report);
}

/* What a first scan leaves to the second. */
static inline void sample_lost(struct ms_arena *arena, struct ms_report *report)
{
	*(struct ms_lost *)ms_vec_push(arena, &report->lost) =
		(struct ms_lost){ 0x7a03454400, 20, 0x1122334455667788 };
	*(struct ms_lost *)ms_vec_push(arena, &report->lost) =
		(struct ms_lost){ 0x7a03460010, 24, 0x99aabbccddeeff01 };
}

/* Of a type, of none, and of sizes that are grouped. */
static inline void sample_live(struct ms_arena *arena, struct ms_report *report)
{
	static const struct ms_live live[] = {
		{ 1023, 896, 1, 901, 0, 0, 0 },
		{ 100, 100, 5, 500, 2, 200, 1 },
		{ 40, 40, 3, 120, 1, 40, 2 },
		{ 43, 43, 1, 43, 0, 0, 0 },
	};

	report->heap = true;
	report->live_limit = 3;
	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
		*(struct ms_live *)ms_vec_push(arena, &report->live) = live[i];
}

/* What only the original adds: the first address is in two functions, the last has no name. */
static inline void sample_names(struct ms_arena *arena, struct ms_report *report)
{
	static const struct ms_function inlined[] = {
		{ "pool::grow(unsigned long)", NULL, "/src/pool/grow.hh", 12 },
		{ "pool::take()", NULL, "/src/pool/take.cc", 34 },
	};
	static const struct ms_named names[] = {
		{ .symbol = { .module = "/usr/lib/libops.so.2",
		              .map_begin = 0x7f0000005000,
		              .rel_pc = 0x11123,
		              .unloaded = true,
		              .function = "ops_new" } },
		{ .symbol = { .module = "", .map_begin = 0x200000, .rel_pc = 0x10 } },
		{ .symbol = { .module = "/opt/my lib/pool.so (deleted)",
		              .map_begin = 0x7f0000002000,
		              .rel_pc = 0x1abc,
		              .elf_offset = 0x3000,
		              .build_id = "01fe23ab",
		              .function = "pool::take()",
		              .function_offset = 24,
		              .file = "/src/pool/grow.hh",
		              .line = 12 } },
		{ .symbol = { .function = "main", .function_offset = 7 } },
		{ .symbol = { .module = NULL } },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		*(struct ms_named *)ms_vec_push(arena, &report->names) = names[i];
	for (size_t i = 0; i < sizeof(inlined) / sizeof(inlined[0]); i++)
		*(struct ms_function *)ms_vec_push(arena, &report->names.at[2].functions) =
			inlined[i];
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
	sample_likes(arena, report);
	sample_types(arena, report);
	sample_sites(arena, report);
	sample_stacks(arena, report);
	sample_lost(arena, report);
	sample_live(arena, report);
	sample_names(arena, report);
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
