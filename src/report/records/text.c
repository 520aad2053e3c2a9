/* SPDX-License-Identifier: Apache-2.0 */

/* A recording for people: first what there was, then what is left, largest first. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/print.h"
#include "report/records/formats.h"

/* "1 block", "2 blocks" */
static const char *s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* The largest unit that leaves a digit before the point: "16 ns", "1.02 us", "17.2 s". */
static const char *duration(uint64_t ns, char *ret, size_t cap)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = (double)ns;
	int unit = 0;

	while (unit < 3 && value >= 1000) {
		value /= 1000;
		unit++;
	}
	(void)snprintf(ret, cap, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
	return ret;
}

static void put_head(struct ms_text *t, const struct ms_recording *r)
{
	ms_text_name(t, r->file, strlen(r->file));
	ms_text_print(t, ": %" PRIu64 " operation%s of %zu thread%s", r->operations,
	              s(r->operations), r->threads.n, s(r->threads.n));
	if (r->timed)
		ms_text_print(t, " in %.9f s, from %" PRIu64 " to %" PRIu64 " ns",
		              ms_recording_seconds(ms_recording_span_ns(r)), r->first_ns,
		              r->last_ns);
	ms_text_print(t, "\n");
	switch (r->until.what) {
	case MS_UNTIL_END:
		break;
	case MS_UNTIL_LINE:
		ms_text_print(t, "up to line %" PRIu64 "\n", r->until.value);
		break;
	case MS_UNTIL_NS:
		ms_text_print(t, "up to %" PRIu64 " ns\n", r->until.value);
		break;
	}
}

static void put_calls(struct ms_text *t, const struct ms_recording *r)
{
	ms_text_print(t, "\n%-12s %12s %10s %16s\n", "CALL", "COUNT", "FAILED", "BYTES");
	for (int i = 0; i < MS_OP_KINDS; i++) {
		const struct ms_recorded_calls *calls = &r->calls[i];

		if (calls->calls)
			ms_text_print(t, "%-12s %12" PRIu64 " %10" PRIu64 " %16" PRIu64 "\n",
			              ms_operation_name((enum ms_operation_kind)i), calls->calls,
			              calls->failed, calls->bytes);
	}
}

static void put_moment(struct ms_text *t, const struct ms_recording *r, const char *name,
                       const struct ms_recorded_moment *moment)
{
	ms_text_print(t, "%-10s %" PRIu64 " byte%s in %" PRIu64 " block%s", name, moment->bytes,
	              s(moment->bytes), moment->blocks, s(moment->blocks));
	if (moment->ns)
		ms_text_print(t, ", at %.9f s (%" PRIu64 " ns)",
		              ms_recording_seconds(ms_recording_offset_ns(r, moment->ns)),
		              moment->ns);
	if (moment->line)
		ms_text_print(t, ", line %" PRIu64, moment->line);
	ms_text_print(t, "\n");
}

static void put_totals(struct ms_text *t, const struct ms_recording *r)
{
	ms_text_print(t, "\n");
	put_moment(t, r, "peak:", &r->peak);
	put_moment(t, r, "live:", &r->end);
	ms_text_print(t, "allocated: %" PRIu64 " byte%s in %" PRIu64 " block%s", r->allocated_bytes,
	              s(r->allocated_bytes), r->allocations, s(r->allocations));
	if (ms_recording_span_ns(r))
		ms_text_print(t, ", %.0f a second", ms_recording_rate(r));
	ms_text_print(t, "\nfreed:     %" PRIu64 " block%s", r->freed, s(r->freed));
	if (r->freed_foreign)
		ms_text_print(t, ", %" PRIu64 " by another thread than gave them out",
		              r->freed_foreign);
	ms_text_print(t, "\n");
	if (r->resized)
		ms_text_print(t,
		              "resized:   %" PRIu64 " time%s, %" PRIu64 " of them moved, %" PRIu64
		              " bytes copied\n",
		              r->resized, s(r->resized), r->moved, r->copied_bytes);
	if (r->freed_unseen)
		ms_text_print(t,
		              "unseen:    %" PRIu64
		              " freed or resized that the recording did not see given out\n",
		              r->freed_unseen);
	if (r->lost)
		ms_text_print(t,
		              "lost:      %" PRIu64
		              " of which the address was given out again without a free\n",
		              r->lost);
}

static void put_rest(struct ms_text *t, size_t listed, size_t all, const char *what)
{
	if (listed < all)
		ms_text_print(t, "%zu more %s: --limit all lists every one\n", all - listed, what);
}

static void put_sizes(struct ms_text *t, const struct ms_recording *r)
{
	const uint32_t *i;

	if (r->n_live_sizes) {
		ms_text_print(t, "\nLive, by size\n%16s %12s %12s %12s\n", "BYTES", "SIZE", "LIVE",
		              "ALLOCATED");
		ms_vec_for_each (i, &r->live_sizes) {
			const struct ms_recorded_size *size = &r->sizes.at[*i];

			ms_text_print(t,
			              "%16" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
			              size->live_blocks * size->size, size->size, size->live_blocks,
			              size->allocations);
		}
		put_rest(t, r->live_sizes.n, r->n_live_sizes, "sizes");
	}
	if (!r->all_sizes.n)
		return;
	ms_text_print(t, "\nMost often allocated sizes\n%12s %12s %12s\n", "ALLOCATED", "SIZE",
	              "LIVE");
	ms_vec_for_each (i, &r->all_sizes) {
		const struct ms_recorded_size *size = &r->sizes.at[*i];

		ms_text_print(t, "%12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", size->allocations,
		              size->size, size->live_blocks);
	}
	put_rest(t, r->all_sizes.n, r->sizes.n, "sizes");
}

static void put_threads(struct ms_text *t, const struct ms_recording *r)
{
	const uint32_t *i;

	ms_text_print(t, "\nThreads\n%10s %16s %12s %12s %12s %12s\n", "TID", "LIVE BYTES", "LIVE",
	              "ALLOCATED", "FREED", "OPERATIONS");
	ms_vec_for_each (i, &r->by_thread) {
		const struct ms_recorded_thread *thread = &r->threads.at[*i];

		ms_text_print(t,
		              "%10" PRIu32 " %16" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
		              " %12" PRIu64 "%s\n",
		              thread->tid, thread->live_bytes, thread->live_blocks,
		              thread->allocations, thread->frees, thread->operations,
		              thread->ended ? " (ended)" : "");
	}
	put_rest(t, r->by_thread.n, r->threads.n, "threads");
}

static void put_oldest(struct ms_text *t, const struct ms_recording *r)
{
	const uint32_t *i;

	if (!r->oldest.n)
		return;
	ms_text_print(t, "\nOldest live blocks\n%14s %18s %14s %10s %8s %10s\n", "AGE", "ADDRESS",
	              "SIZE", "TID", "RESIZED", "LINE");
	ms_vec_for_each (i, &r->oldest) {
		const struct ms_recorded_block *block = &r->blocks.at[*i];
		char age[32] = "-";

		if (block->born_ns)
			(void)duration(r->end.ns > block->born_ns ? r->end.ns - block->born_ns : 0,
			               age, sizeof(age));
		ms_text_print(t,
		              "%14s %#18" PRIx64 " %14" PRIu64 " %10" PRIu32 " %8" PRIu32
		              " %10" PRIu64 "\n",
		              age, block->address, block->size, r->threads.at[block->thread].tid,
		              block->resized, block->line);
	}
	put_rest(t, r->oldest.n, (size_t)r->end.blocks, "blocks");
}

static void put_ages(struct ms_text *t, const struct ms_recording *r)
{
	uint64_t so_far = 0;
	char age[32];

	if (!r->aged)
		return;
	ms_text_print(t, "\nFreed blocks, by how long they lived\n%14s %12s %9s\n", "LESS THAN",
	              "BLOCKS", "SO FAR");
	for (unsigned i = 0; i < MS_RECORDING_AGES && so_far < r->aged; i++) {
		so_far += r->ages[i];
		if (r->ages[i])
			ms_text_print(t, "%14s %12" PRIu64 " %8.2f%%\n",
			              duration(UINT64_C(1) << i, age, sizeof(age)), r->ages[i],
			              100 * (double)so_far / (double)r->aged);
	}
}

static void put_chains(struct ms_text *t, const struct ms_recording *r)
{
	if (!r->n_chains)
		return;
	ms_text_print(t, "\nMost often resized blocks\n%10s %16s %14s %14s %10s %10s\n", "RESIZED",
	              "BYTES COPIED", "FROM SIZE", "TO SIZE", "TID", "LINE");
	for (size_t i = 0; i < r->n_chains; i++) {
		const struct ms_recorded_block *chain = &r->chains[i];

		ms_text_print(t,
		              "%10" PRIu32 " %16" PRIu64 " %14" PRIu64 " %14" PRIu64 " %10" PRIu32
		              " %10" PRIu64 "\n",
		              chain->resized, chain->copied_bytes, chain->first_size, chain->size,
		              r->threads.at[chain->thread].tid, chain->line);
	}
}

static bool write_text(const struct ms_recording *r, struct ms_sink *sink)
{
	struct ms_text t = { sink, true };

	put_head(&t, r);
	put_calls(&t, r);
	put_totals(&t, r);
	put_sizes(&t, r);
	put_threads(&t, r);
	put_oldest(&t, r);
	put_ages(&t, r);
	put_chains(&t, r);
	return t.ok;
}

const struct ms_recording_writer ms_recording_text = { "text", write_text };
