/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_SCAN_H
#define MS_ENGINE_SCAN_H

/* Steps 3 to 7 of a scan, in order: classify, decode, root, mark, fold. */

#include "base/workers.h"
#include "engine/annotator.h"
#include "engine/decoder.h"
#include "engine/libc/libc.h"
#include "engine/names/suppressions.h"
#include "engine/report.h"
#include "engine/source.h"

struct ms_scan_options {
	/* Of the allocators to look for; ended by NULL. */
	const struct ms_decoder *const *decoders;
	const struct ms_annotator *const *annotators; /* likewise; NULL: none */
	/* Of the C libraries to look for; ended by NULL. NULL: every one. */
	const struct ms_libc_ops *const *libcs;
	uint64_t limit;    /* leaks to list; UINT64_MAX for every one */
	uint64_t min_size; /* smaller leaks (total_size) are not listed, but counted */
	bool no_fold;
	bool contents;
	bool possible;
	bool unaligned;
	const struct ms_suppressions *suppressions; /* leaks not to tell; NULL: none */
	bool keep_lost; /* the first of two scans (confirm.h): fill report.lost, list no leaks */
	const struct ms_lost_blocks *lost; /* of the second: what the first kept; NULL: one scan */
	/*
	 * Say which suppression each of @asked's stacks matches, by its index from 1 on, or
	 * 0: only stacks, pcs and code of @asked are filled. False when nobody can say, with
	 * the reason in @err, and then no stack matches. NULL: stacks are not looked at.
	 */
	bool (*judge)(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
	              struct ms_error *err);
	void *judge_ctx;
	struct ms_workers *workers; /* threads to search with; NULL: alone */
	void (*phase_ended)(void *ctx, enum ms_phase phase); /* told when it is; or NULL */
	void *ctx;
};

/*
 * Scan what @src shows.
 *
 * Fills in report: heaps, evidence, totals, leaks, mappings, warnings and the
 * phases from CLASSIFY on; leaves the rest alone.
 *
 * @arena: owns everything that the report points to
 *
 * Returns MS_E_UNSUPPORTED when no allocator was understood, MS_E_NOMEM.
 * Context: no malloc; needs nothing of the OS but memory and the clock.
 */
ms_must_check enum ms_status ms_scan(struct ms_source *src, const struct ms_scan_options *options,
                                     struct ms_arena *arena, struct ms_report *report,
                                     struct ms_error *err);

#endif
