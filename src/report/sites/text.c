/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "report/frames.h"
#include "report/sites/sites.h"

enum { MOST_SITES = 5, MOST_CALLS = 3 };

static void put_older(struct ms_text *t, uint64_t bytes, uint64_t error, const char *what)
{
	ms_text_print(t, error ? "about " : "");
	ms_text_amount(t, bytes);
	if (error) {
		ms_text_print(t, " (error ");
		ms_text_amount(t, error);
		ms_text_print(t, ")");
	}
	ms_text_print(t, " %s", what);
}

void ms_sites_put_header(struct ms_text *t, const struct ms_sampling *sampling)
{
	const struct ms_older *older = &sampling->older;

	if (!sampling->on)
		return;
	ms_text_print(t, "  stacks: those of ");
	if (sampling->interval)
		ms_text_print(t, "samples, one in about %" PRIu64 " bytes", sampling->interval);
	else
		ms_text_print(t, "all allocations");
	ms_text_print(t, " since attach; %" PRIu64 " of %" PRIu64 " known blocks live",
	              sampling->live, sampling->samples);
	if (sampling->dropped)
		ms_text_print(t, "; there was no room for %" PRIu64 " more", sampling->dropped);
	ms_text_print(t, "\n  without a stack: allocated before attach%s\n",
	              sampling->interval || sampling->dropped ? ", or not sampled" : "");
	if (!sampling->has_older)
		return;
	ms_text_print(t, "  allocated before attach: ");
	put_older(t, older->live_bytes, older->live_bytes_error, "live, ");
	put_older(t, older->leaked_bytes, older->leaked_bytes_error, "of it leaked\n");
}

void ms_sites_put_estimate(struct ms_text *t, const struct ms_estimate *estimate)
{
	bool exact = !estimate->count_error && !estimate->bytes_error;

	ms_text_print(t, exact ? "" : "about ");
	ms_text_amount(t, estimate->bytes);
	if (!exact) {
		ms_text_print(t, " (error ");
		ms_text_amount(t, estimate->bytes_error);
		ms_text_print(t, ")");
	}
	ms_text_print(t, " in %" PRIu64 " allocation%s", estimate->count,
	              ms_plural(estimate->count));
	if (!exact)
		ms_text_print(t, " (error %" PRIu64 ")", estimate->count_error);
	ms_text_print(t, ", by %" PRIu64 " sample%s", estimate->samples,
	              ms_plural(estimate->samples));
}

void ms_sites_put_leaks(struct ms_text *t, const struct ms_report *report)
{
	const struct ms_site *site;
	size_t n = report->sites.n < MOST_SITES ? report->sites.n : MOST_SITES;

	for (site = report->sites.at; site < report->sites.at + n; site++) {
		ms_text_print(t, "  ");
		ms_sites_put_estimate(t, &site->leaked);
		ms_text_print(t, "\n");
		ms_frames_put(t, report, site->stack, MOST_CALLS);
	}
	ms_text_print(t, "\n");
}

void ms_sites_put_live(struct ms_text *t, const struct ms_report *report)
{
	uint64_t more = report->sampling.stacks - report->sites.n;
	const struct ms_site *site;

	ms_vec_for_each (site, &report->sites) {
		ms_text_print(t, "  ");
		ms_sites_put_estimate(t, &site->live);
		if (site->leaked.samples) {
			ms_text_print(t, "\n   leaked: ");
			ms_sites_put_estimate(t, &site->leaked);
		}
		ms_text_print(t, "\n");
		ms_frames_put(t, report, site->stack, SIZE_MAX);
		ms_text_print(t, "\n");
	}
	if (more)
		ms_text_print(t, "%" PRIu64 " more stack%s not listed: --limit all lists them\n\n",
		              more, more == 1 ? " is" : "s are");
}
