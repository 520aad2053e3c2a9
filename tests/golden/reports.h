/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GOLDEN_REPORTS_H
#define TESTS_GOLDEN_REPORTS_H

/* Two reports of one process, ten minutes apart, that the golden files of a diff show. */

#include "golden/sample.h"
#include "report/diff/writers.h"

/* A leak that stands for @count of @size bytes each. */
static inline struct ms_leak *drawn_leak(struct ms_arena *arena, struct ms_report *report,
                                         const char *signature, uint64_t size, uint64_t count)
{
	struct ms_leak *leak = ms_vec_push(arena, &report->leaks);

	*leak = (struct ms_leak){ .id = report->leaks.n,
		                  .address = 0x1000 * report->leaks.n,
		                  .size = size,
		                  .similar_count = count - 1,
		                  .similar_size = size * (count - 1),
		                  .total_size = size * count };
	snprintf(leak->signature, sizeof(leak->signature), "%s", signature);
	report->totals.leaks++;
	report->totals.leaked_allocations += count;
	report->totals.leaked_bytes += size * count;
	return leak;
}

static inline struct ms_live *drawn_live(struct ms_arena *arena, struct ms_report *report,
                                         uint32_t type, uint64_t size, uint64_t count)
{
	struct ms_live *live = ms_vec_push(arena, &report->live);

	*live = (struct ms_live){ .type = type,
		                  .size = size,
		                  .least_size = size,
		                  .allocations = count,
		                  .bytes = size * count };
	report->heap = true;
	report->totals.allocations += count;
	report->totals.allocation_bytes += size * count;
	return live;
}

/* A report without leaks and blocks, of types Session, Node and a table of functions. */
static inline void drawn_report(struct ms_arena *arena, struct ms_report *report)
{
	static const struct ms_type types[] = {
		{ "Session", "/opt/server/server", MS_HOW_VTABLE, MS_SURE_CERTAIN },
		{ "Node", "/opt/server/server", MS_HOW_VTABLE, MS_SURE_CERTAIN },
		{ "", "/usr/lib/libops.so.2", MS_HOW_FUNCTIONS, MS_SURE_CERTAIN },
	};

	memset(report, 0, sizeof(*report));
	sample_target(report);
	sample_scan(report);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		*(struct ms_type *)ms_vec_push(arena, &report->types) = types[i];
	*(struct ms_heap *)ms_vec_push(arena, &report->heaps) =
		(struct ms_heap){ .allocator = "glibc", .version = "2.36", .verified = true };
}

static inline void drawn_heap(struct ms_report *report, uint64_t mapped_bytes)
{
	struct ms_heap *heap = &report->heaps.at[0];

	heap->allocations = report->totals.allocations;
	heap->allocation_bytes = report->totals.allocation_bytes;
	heap->mapped_bytes = mapped_bytes;
}

static inline void drawn_pair(struct ms_arena *arena, struct ms_report *old, struct ms_report *new)
{
	enum { SESSION = 1, NODE, OPS };

	drawn_report(arena, old);
	drawn_leak(arena, old, "a", 152, 1)->type = SESSION;
	drawn_leak(arena, old, "b", 40, 3)->type = OPS;
	drawn_leak(arena, old, "c", 64, 2);
	drawn_leak(arena, old, "d", 24, 10);
	drawn_live(arena, old, 0, 4096, 100);
	drawn_live(arena, old, NODE, 64, 1000);
	drawn_live(arena, old, SESSION, 152, 20);
	drawn_heap(old, 1 << 20);
	drawn_report(arena, new);
	new->scan.time += INT64_C(600000000000);
	drawn_leak(arena, new, "a", 152, 335)->type = SESSION;
	drawn_leak(arena, new, "b", 40, 1)->type = OPS;
	drawn_leak(arena, new, "d", 24, 10);
	drawn_leak(arena, new, "e", 80, 5);
	drawn_live(arena, new, NODE, 64, 200000);
	drawn_live(arena, new, 0, 4096, 90);
	drawn_live(arena, new, SESSION, 152, 354);
	drawn_heap(new, 16 << 20);
}

#endif
