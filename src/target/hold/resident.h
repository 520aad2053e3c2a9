/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_RESIDENT_H
#define MS_TARGET_RESIDENT_H

/*
 * Which pages of a process are in memory or in swap.
 *
 * Cost follows the pages that are there, not the address space: the kernel walks
 * the page tables for us (PAGEMAP_SCAN, Linux 6.7). Older kernels give 8 bytes
 * for each page of the address space through /proc/TID/pagemap.
 */

#include <sys/types.h>

#include "base/arena.h"
#include "engine/report.h"
#include "engine/source.h"

/* Pages in a row that are alike. */
struct ms_page_run {
	struct ms_range range;
	bool file; /* unchanged pages of a file, or shared memory */
};

struct ms_page_runs MS_VEC(struct ms_page_run);

/* What to look at, and what was found. */
struct ms_resident {
	pid_t tid; /* set by ms_resident_find() */
	const struct ms_mappings *maps;
	struct ms_arena *arena;
	struct ms_notes *warnings; /* mappings that were not looked at */
	struct ms_page_runs runs;  /* found: sorted, no overlap */
};

/*
 * List the pages that are present or swapped out, without the shared page of
 * zeros and without guard pages.
 *
 * @tid: a living thread
 *
 * Returns MS_E_GONE, MS_E_DENIED, MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_resident_find(pid_t tid, struct ms_resident *resident,
                                              struct ms_error *err);

/* The two ways of it, by an open /proc/TID/pagemap; the first answers MS_E_UNSUPPORTED before 6.7.
 */
ms_must_check enum ms_status ms_resident_scan(int pagemap, struct ms_resident *resident,
                                              struct ms_error *err);
ms_must_check enum ms_status ms_resident_list(int pagemap, struct ms_resident *resident,
                                              struct ms_error *err);

#endif
