/* SPDX-License-Identifier: Apache-2.0 */
#include "target/code/mapped_file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/page.h"
#include "target/maps.h"
#include "target/room.h"

enum { MOST_BYTES = 256 << 20 };

/* See image.c for why this is tried first. */
static bool read_memory(const struct ms_running *in, ms_addr at, void *buf, size_t len)
{
	return ms_room_read(in->tid, at, buf, len) == len ||
	       pread(in->mem_fd, buf, len, (off_t)at) == (ssize_t)len;
}

static bool is_same(const struct ms_running *in, const struct ms_mapping *map, int fd)
{
	const struct ms_mapping *head = ms_maps_head(in->maps, map);
	uint8_t file[MS_PAGE_BYTES], memory[MS_PAGE_BYTES];

	return head && pread(fd, file, sizeof(file), 0) == sizeof(file) &&
	       read_memory(in, head->range.begin, memory, sizeof(memory)) &&
	       !memcmp(file, memory, sizeof(file));
}

int ms_mapped_file_open(const struct ms_running *in, const struct ms_mapping *map)
{
	char path[96];
	int fd;

	/* Only root may open it so; it is the file itself, though it was deleted. */
	(void)snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, in->tid,
	               map->range.begin, map->range.end);
	fd = ms_file_open_regular(path);
	if (fd < 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/root", in->tid);
		fd = ms_file_open_below(path, map->name);
	}
	if (fd >= 0 && !is_same(in, map, fd)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

ssize_t ms_mapped_file_read(int fd, const struct ms_mapping *map, ms_addr addr, void *buf,
                            size_t len)
{
	return pread(fd, buf, len, (off_t)(map->offset + (addr - map->range.begin)));
}

const uint8_t *ms_mapped_file_take(int fd, const struct ms_mapping *map, struct ms_range range,
                                   struct ms_arena *arena)
{
	size_t len = (size_t)ms_range_len(range);
	uint8_t *bytes = fd >= 0 && len <= MOST_BYTES ? ms_arena_alloc(arena, len) : NULL;
	ssize_t n = bytes ? ms_mapped_file_read(fd, map, range.begin, bytes, len) : 0;

	/* The last page of a mapping may be behind the file's end. */
	return n > 0 && len - (size_t)n < MS_PAGE_BYTES ? bytes : NULL;
}
