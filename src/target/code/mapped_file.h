/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_MAPPED_FILE_H
#define MS_TARGET_MAPPED_FILE_H

/* The file that a part of a running process was mapped from. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "engine/source.h"

/* A process that runs, as it is looked through. */
struct ms_running {
	pid_t tid;                      /* a thread of it */
	int mem_fd;                     /* /proc/tid/mem, to read */
	const struct ms_mappings *maps; /* of the process */
};

/*
 * Open the file of @map, one of those of @in, for reading.
 *
 * Returns -1 when it cannot be opened, is no regular file, or does not begin as what is mapped
 * does, its build-id included: then another has taken its place.
 */
int ms_mapped_file_open(const struct ms_running *in, const struct ms_mapping *map);

/* Read what it has at @addr, which lies in @map, as pread() does. */
ssize_t ms_mapped_file_read(int fd, const struct ms_mapping *map, ms_addr addr, void *buf,
                            size_t len);

/*
 * Read all of @range, which lies in @map, to @arena; NULL when the file has less, too.
 *
 * @fd: of ms_mapped_file_open(), or -1
 */
const uint8_t *ms_mapped_file_take(int fd, const struct ms_mapping *map, struct ms_range range,
                                   struct ms_arena *arena);

#endif
