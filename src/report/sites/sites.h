/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_SITES_H
#define MS_REPORT_SITES_H

/*
 * Who allocated what, by samples: a report's sites (engine/report.h).
 *
 *	text.c     as lines of a report for people
 *	live.c     as a profile of what lives, in each format of it
 */

#include "engine/report.h"
#include "report/print.h"

/* What is known by samples, and of what not, in lines of the report's header; or nothing. */
void ms_sites_put_header(struct ms_text *t, const struct ms_sampling *sampling);

/* "about 12 MB (error 1 MB) in 345 allocations (error 34), by 67 samples" */
void ms_sites_put_estimate(struct ms_text *t, const struct ms_estimate *estimate);

/* The stacks that leaked most, a few, each with its innermost calls. */
void ms_sites_put_leaks(struct ms_text *t, const struct ms_report *report);

/* All stacks that are listed, with what of their live blocks is leaked. */
void ms_sites_put_live(struct ms_text *t, const struct ms_report *report);

#endif
