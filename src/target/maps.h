/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_MAPS_H
#define MS_TARGET_MAPS_H

/* The memory map of a process, from /proc/ID/maps. */

#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "engine/source.h"

/*
 * Read the map of the process that thread @tid belongs to, sorted by address.
 *
 * @ret: names are in @arena
 *
 * Returns MS_E_GONE when there is no such process or it has no memory left,
 * MS_E_DENIED, MS_E_CORRUPT when a line is not in the kernel's format.
 * Context: exact only while the target is frozen.
 */
ms_must_check enum ms_status ms_maps_read(pid_t tid, struct ms_arena *arena,
                                          struct ms_mappings *ret, struct ms_error *err);

/* The same from the file's text, @len bytes. */
ms_must_check enum ms_status ms_maps_parse(const char *text, size_t len, struct ms_arena *arena,
                                           struct ms_mappings *ret, struct ms_error *err);

/* Of a mapping's VmFlags in smaps, behind a blank. Source: proc(5). */
#define MS_FLAG_WIPED     " wf" /* MADV_WIPEONFORK: forks find it empty */
#define MS_FLAG_HUGE_PAGE " ht" /* of hugetlbfs */
#define MS_FLAG_MISSING   " um" /* of userfaultfd, which fills its pages when they are touched */
#define MS_FLAG_MINOR     " ui" /* or maps them */

/* Not of VmFlags: it is shared, and a part of it, of which no page table knows, in swap. */
#define MS_SHARED_SWAPPED "Swap:"

/*
 * List the mappings of the process of thread @tid that have @flag, from /proc/TID/smaps.
 * MS_E_NOMEM, MS_E_GONE, MS_E_DENIED.
 * Cost: the kernel looks at every page of the process.
 */
ms_must_check enum ms_status ms_maps_flagged(pid_t tid, const char *flag, struct ms_arena *arena,
                                             struct ms_ranges *ret, struct ms_error *err);

/* The same from the file's text, a string, which is cut into lines. */
ms_must_check enum ms_status ms_maps_parse_flagged(char *text, const char *flag,
                                                   struct ms_arena *arena, struct ms_ranges *ret,
                                                   struct ms_error *err);

/* The mapping that holds @addr, or NULL. */
const struct ms_mapping *ms_maps_find(const struct ms_mappings *maps, ms_addr addr);

/*
 * The first mapping of the file that @map maps a part of, where its ELF header is; NULL when
 * that is not mapped. @map itself when it shows no file.
 */
const struct ms_mapping *ms_maps_head(const struct ms_mappings *maps, const struct ms_mapping *map);

#endif
