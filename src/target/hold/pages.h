/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_PAGES_H
#define MS_TARGET_PAGES_H

/*
 * What the address space of a held process is made of: pages that are held one by
 * one, and the rest, which reads as zeros, as its file, or not at all. Where held
 * pages lie is the source's business.
 */

#include <stdatomic.h>

#include "target/descriptors.h"
#include "target/hold/wanted.h"

struct ms_pages {
	struct ms_mappings *maps;   /* borrowed */
	struct ms_wanted_list list; /* the held ones */
	atomic_size_t last;         /* where the last search ended */
};

/* A stretch of memory that is read in one way. */
struct ms_part {
	struct ms_range range;
	const struct ms_wanted *page; /* where it is held; NULL: it is not */
	enum ms_absent absent;        /* how it reads when it is not held */
};

/* The part that begins at @addr and ends at @end at the latest; false where nothing is mapped. */
bool ms_pages_part(struct ms_pages *pages, ms_addr addr, ms_addr end, struct ms_part *ret);

/* For ms_source_ops.present. */
bool ms_pages_present(struct ms_pages *pages, struct ms_range within, struct ms_range *ret);

/*
 * List the memory of the process of thread @tid of which absent pages are no zeros and in no file:
 * what userfaultfd fills when it is touched, as @descriptors say that there may be some, and shared
 * memory that is in swap. What cannot be found out is all.
 */
bool ms_pages_find_elsewhere(pid_t tid, const struct ms_descriptors *descriptors,
                             struct ms_arena *arena, struct ms_ranges *ret);

/*
 * List what of @elsewhere is not held, and @lost where that is no guard page. False without
 * memory; @ret is tidy.
 */
ms_must_check bool ms_pages_unseen(const struct ms_pages *pages, const struct ms_ranges *elsewhere,
                                   const struct ms_ranges *lost, struct ms_arena *arena,
                                   struct ms_ranges *ret);

/* Bytes of all held pages, and of those that no file has. */
uint64_t ms_wanted_bytes(const struct ms_wanted_list *list);
uint64_t ms_wanted_private_bytes(const struct ms_wanted_list *list);

#endif
