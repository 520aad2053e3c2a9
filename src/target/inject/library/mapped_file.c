/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/library/mapped_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "target/maps.h"
#include "target/proc.h"

enum { MOST_TEXT = 256 << 20 };

static bool is_same(const struct ms_malloc_functions_in *in, const struct ms_image *image,
                    const struct ms_mapping *text, int fd)
{
	const struct ms_mapping *head = ms_maps_head(in->maps, text);
	uint8_t file[MS_PAGE_BYTES], memory[MS_PAGE_BYTES];

	return head && pread(fd, file, sizeof(file), 0) == sizeof(file) &&
	       ms_image_read(image, head->range.begin, memory, sizeof(memory)) &&
	       !memcmp(file, memory, sizeof(file));
}

int ms_mapped_file_open(const struct ms_malloc_functions_in *in, const struct ms_image *image,
                        const struct ms_mapping *text)
{
	char name[512];
	int fd;

	/* Only root may open it so; it is the file itself, though it was deleted. */
	(void)snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, text->range.begin,
	               text->range.end);
	fd = ms_proc_open(in->tid, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (size_t)snprintf(name, sizeof(name), "root%s", text->name) < sizeof(name))
		fd = ms_proc_open(in->tid, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && !is_same(in, image, text, fd)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

const uint8_t *ms_mapped_file_text(int fd, const struct ms_mapping *text, struct ms_arena *arena)
{
	size_t len = (size_t)ms_range_len(text->range);
	uint8_t *bytes = fd >= 0 && len <= MOST_TEXT ? ms_arena_alloc(arena, len) : NULL;
	ssize_t n = bytes ? pread(fd, bytes, len, (off_t)text->offset) : 0;

	/* The last page of a mapping may be behind the file's end. */
	return n > 0 && len - (size_t)n < MS_PAGE_BYTES ? bytes : NULL;
}
