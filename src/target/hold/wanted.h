/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_WANTED_H
#define MS_TARGET_WANTED_H

/* Which pages of a process a copy must hold. */

#include "target/hold/resident.h"

/* How a page that is not in the copy reads afterwards. */
enum ms_absent {
	MS_ABSENT_ZERO, /* anonymous memory that was never touched */
	MS_ABSENT_FILE, /* what the file has: read on from the target */
	MS_ABSENT_NONE, /* not at all: devices, the kernel's own pages */
};

enum ms_absent ms_absent_of(const struct ms_mapping *map);

/*
 * Whether a clone of process @tid does not know which pages of @map there are: the kernel
 * copies no page table of what it can read from a file again.
 */
bool ms_wanted_beside(pid_t tid, const struct ms_mapping *map);

/* Pages to copy, in a row and in one mapping. */
struct ms_wanted {
	struct ms_range range;
	bool forced;     /* PROT_NONE: only /proc/TID/mem reads it */
	bool in_clone;   /* not copied: read from the clone */
	bool of_file;    /* what a file has there, unchanged: other mappings may have the same */
	ms_addr held_at; /* where the same pages are copied from: range.begin, or elsewhere */
};

struct ms_wanted_list MS_VEC(struct ms_wanted);

/*
 * Choose from resident->runs. Sorted, no overlap.
 *
 * Returns false when there is no memory.
 */
bool ms_wanted_choose(const struct ms_resident *resident, struct ms_wanted_list *ret);

/* By address. False when there is no memory. */
bool ms_wanted_sort(struct ms_wanted_list *list, struct ms_arena *arena);

/*
 * Find the pages of files that are mapped more than once, and let all but one of each say
 * where that is held: memory that looks like much may be little. May split runs.
 *
 * @ret_own: those whose own pages are to be copied
 *
 * Returns false when there is no memory.
 */
bool ms_wanted_once(const struct ms_resident *resident, struct ms_wanted_list *list,
                    struct ms_wanted_list *ret_own);

#endif
