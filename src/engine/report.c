/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const phase_names[] = {
	[MS_PHASE_FREEZE] = "freeze", [MS_PHASE_HOLD] = "hold", [MS_PHASE_CLASSIFY] = "classify",
	[MS_PHASE_DECODE] = "decode", [MS_PHASE_ROOT] = "root", [MS_PHASE_MARK] = "mark",
	[MS_PHASE_FOLD] = "fold",
};

static_assert(sizeof(phase_names) / sizeof(phase_names[0]) == MS_PHASES, "a name for each phase");

const char *ms_phase_name(enum ms_phase phase)
{
	return phase_names[phase];
}

/* The totals may be anybody's. */
static uint64_t less(uint64_t n, uint64_t part)
{
	return n > part ? n - part : 0;
}

struct ms_unlisted ms_report_unlisted(const struct ms_report *report)
{
	const struct ms_totals *totals = &report->totals;
	struct ms_unlisted ret = { .small_leaks = less(totals->small_leaks, totals->small_possible),
		                   .small_possible = totals->small_possible };
	const struct ms_leak *leak;
	uint64_t possible = 0;

	ms_vec_for_each (leak, &report->leaks)
		possible += leak->kind == MS_LEAK_POSSIBLE;
	ret.leaks = less(less(totals->leaks, totals->possible),
	                 ret.small_leaks + report->leaks.n - possible);
	ret.possible = less(totals->possible, ret.small_possible + possible);
	return ret;
}

struct ms_heap *ms_heaps_main(const struct ms_heaps *heaps)
{
	struct ms_heap *most = NULL;
	struct ms_heap *heap;

	ms_vec_for_each (heap, heaps)
		if (!heap->beside && (!most || heap->allocations > most->allocations))
			most = heap;
	return most;
}

void ms_heap_shrink(struct ms_heap *heap, uint64_t allocations, uint64_t bytes)
{
	heap->allocations = less(heap->allocations, allocations);
	heap->allocation_bytes = less(heap->allocation_bytes, bytes);
}

bool ms_type_is_same(const struct ms_type *a, const struct ms_type *b)
{
	return a->how == b->how && a->sure == b->sure && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->module, b->module) == 0;
}

/* False without memory. */
__attribute__((format(printf, 3, 0))) static bool add_note(struct ms_arena *arena,
                                                           struct ms_notes *notes, const char *fmt,
                                                           va_list ap)
{
	struct ms_note *note = ms_vec_push(arena, notes);

	if (note)
		(void)vsnprintf(note->text, sizeof(note->text), fmt, ap);
	return note;
}

void ms_note_add(struct ms_arena *arena, struct ms_notes *notes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)add_note(arena, notes, fmt, ap);
	va_end(ap);
}

void ms_evidence_add(struct ms_arena *arena, struct ms_notes *evidence, struct ms_heaps *heaps,
                     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	heaps->at[heaps->n - 1].n_evidence += add_note(arena, evidence, fmt, ap);
	va_end(ap);
}
