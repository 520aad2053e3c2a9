/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/trust.h"

#include <string.h>

#include "base/hash.h"

/* Why @report cannot be trusted. */
static enum ms_doubt doubt_of(const struct ms_report *report)
{
	enum ms_doubt doubt = MS_DOUBT_NONE;
	const struct ms_heap *heap;

	ms_vec_for_each (heap, &report->heaps)
		if (heap->doubt > doubt)
			doubt = heap->doubt;
	return doubt;
}

/* A number that tells one answer's evidence from another's. */
static uint64_t digest(const struct ms_report *report)
{
	uint64_t hash = MS_HASH_BASIS;
	const struct ms_note *note;

	ms_vec_for_each (note, &report->evidence)
		hash = ms_hash(hash, note->text, strlen(note->text));
	return hash;
}

/* Why an answer is worth asking again. */
static const char *const reasons[] = {
	[MS_DOUBT_NONE] = NULL,
	[MS_DOUBT_DISAGREES] = "the blocks found do not match the allocator's own counts",
	[MS_DOUBT_DAMAGED] = "the heap was in the middle of a change",
	[MS_DOUBT_CHANGES] = "a thread was inside the allocator",
};

const char *ms_trust_doubt(struct ms_trust *trust, enum ms_status st,
                           const struct ms_report *report, const struct ms_error *err)
{
	uint64_t now = st == MS_OK ? digest(report) : 0;
	bool again = now && now == trust->seen;
	enum ms_doubt doubt;

	trust->seen = now;
	trust->attempts++;
	/* The same contradiction twice is no change under way, but damage. */
	if (again || trust->attempts == MS_TRUST_ATTEMPTS)
		return NULL;
	/* An answer in part is one; nothing at all is not. */
	if (trust->attempts > 1 && trust->spent_ns > MS_TRUST_NS && st == MS_OK &&
	    report->totals.allocations)
		return NULL;
	if (st != MS_OK)
		return st == MS_E_BUSY || st == MS_E_CORRUPT ? err->text : NULL;
	doubt = doubt_of(report);
	if (doubt == MS_DOUBT_DISAGREES && trust->attempts >= MS_TRUST_DISAGREEING)
		return NULL;
	if (reasons[doubt])
		trust->why = reasons[doubt];
	return reasons[doubt];
}

uint64_t ms_trust_pause_ns(const struct ms_trust *trust)
{
	return UINT64_C(1000000) << trust->attempts;
}

/* Nothing was proved. Who overwrites what is only asked where headers are damaged. */
static enum ms_status refuse(enum ms_doubt doubt, pid_t pid, const struct ms_report *report,
                             struct ms_error *err)
{
	const struct ms_note *note;
	const char *why = "its structures contradict each other";

	ms_vec_for_each (note, &report->evidence)
		if (strstr(note->text, "not proved")) {
			why = note->text;
			break;
		}
	if (doubt == MS_DOUBT_DAMAGED) {
		(void)ms_fail(err, MS_E_CORRUPT, "the heap of process %d is corrupt: %s", (int)pid,
		              why);
		ms_advise(err, "something may have overwritten it, or blocks were deleted with a "
		               "wrong size; libmalloc_debug.so or AddressSanitizer shows where");
		return MS_E_CORRUPT;
	}
	if (doubt == MS_DOUBT_CHANGES) {
		(void)ms_fail(err, MS_E_BUSY, "the heap of process %d is changing: %s", (int)pid,
		              why);
		ms_advise(err, "scan it again when it is less busy");
		return MS_E_BUSY;
	}
	(void)ms_fail(err, MS_E_UNSUPPORTED, "the heap of process %d could not be verified: %s",
	              (int)pid, why);
	if (strstr(why, "debugging tcmalloc"))
		ms_advise(err, "run the program with libtcmalloc.so in place of "
		               "libtcmalloc_debug.so: memscan does not read blocks of that one");
	else
		ms_advise(err, "memory and the allocator's own counters do not agree; scan it "
		               "again, and report it if that does not help");
	return MS_E_UNSUPPORTED;
}

enum ms_status ms_trust_take(const struct ms_trust *trust, pid_t pid, struct ms_arena *arena,
                             struct ms_report *report, struct ms_error *err)
{
	enum ms_doubt doubt = doubt_of(report);

	if (doubt != MS_DOUBT_NONE && !report->totals.allocations)
		return refuse(doubt, pid, report, err);
	report->scan.attempts = trust->attempts;
	if (trust->attempts > 1)
		ms_note_add(arena, &report->warnings,
		            "scanned %u times, because %s; the process paused each time",
		            trust->attempts, trust->why ? trust->why : reasons[MS_DOUBT_DAMAGED]);
	return MS_OK;
}
