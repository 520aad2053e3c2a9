/* SPDX-License-Identifier: Apache-2.0 */
#include "report/trust.h"

#include <string.h>

static bool verified(const struct ms_report *report)
{
	const struct ms_heap *heap;

	ms_vec_for_each (heap, &report->heaps) {
		if (!heap->verified)
			return false;
	}
	return true;
}

/* A number that tells one answer's evidence from another's (FNV-1a). */
static uint64_t digest(const struct ms_report *report)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const struct ms_note *note;

	ms_vec_for_each (note, &report->evidence)
		for (const char *c = note->text; *c; c++)
			hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	return hash;
}

const char *ms_trust_doubt(struct ms_trust *trust, enum ms_status st,
                           const struct ms_report *report, const struct ms_error *err)
{
	uint64_t now = st == MS_OK ? digest(report) : 0;
	bool again = now && now == trust->seen;

	trust->seen = now;
	trust->attempts++;
	/* The same contradiction twice is no change under way, but damage. */
	if (again || trust->attempts == MS_TRUST_ATTEMPTS)
		return NULL;
	if (st == MS_OK)
		return verified(report) ? NULL : "the heap was in the middle of a change";
	return st == MS_E_BUSY || st == MS_E_CORRUPT ? err->text : NULL;
}

uint64_t ms_trust_pause_ns(const struct ms_trust *trust)
{
	return UINT64_C(1000000) << trust->attempts;
}

static enum ms_status refuse_corrupt(pid_t pid, const struct ms_report *report,
                                     struct ms_error *err)
{
	const struct ms_note *note;
	const char *why = "its structures contradict each other";

	ms_vec_for_each (note, &report->evidence)
		if (strstr(note->text, "not proved")) {
			why = note->text;
			break;
		}
	(void)ms_fail(err, MS_E_CORRUPT, "the heap of process %d is corrupt: %s", (int)pid, why);
	ms_advise(err, "it was likely overwritten; look for the culprit with a debug malloc or "
	               "AddressSanitizer");
	return MS_E_CORRUPT;
}

enum ms_status ms_trust_take(const struct ms_trust *trust, pid_t pid, struct ms_arena *arena,
                             struct ms_report *report, struct ms_error *err)
{
	if (!verified(report) && !report->totals.allocations)
		return refuse_corrupt(pid, report, err);
	report->scan.attempts = trust->attempts;
	if (trust->attempts > 1)
		ms_note_add(arena, &report->warnings,
		            "scanned %u times, for the heap was in the middle of a change; "
		            "the process paused each time",
		            trust->attempts);
	return MS_OK;
}
