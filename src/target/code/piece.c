/* SPDX-License-Identifier: Apache-2.0 */
#include "target/code/piece.h"

#include <unistd.h>

#include "target/code/mapped_file.h"
#include "target/maps.h"

/* A byte that is read to stay costs memory, too. */
static bool afford(const struct ms_image *image, struct ms_range range)
{
	return !image->effort || ms_effort_take(image->effort, 1, ms_range_len(range));
}

static struct ms_range cut(struct ms_range range)
{
	enum { MOST = 256 << 20 };

	if (ms_range_len(range) > MOST)
		range.end = range.begin + MOST;
	return range;
}

bool ms_piece_read(const struct ms_image *image, struct ms_range range, struct ms_arena *arena,
                   struct ms_piece *ret)
{
	unsigned char *bytes;

	range = cut(range);
	if (!afford(image, range))
		return false;
	bytes = ms_arena_alloc(arena, (size_t)ms_range_len(range));
	if (!bytes || !ms_image_read(image, range.begin, bytes, (size_t)ms_range_len(range)))
		return false;
	*ret = (struct ms_piece){ range, bytes };
	return true;
}

bool ms_piece_read_constant(const struct ms_image *image, const struct ms_mappings *maps,
                            struct ms_range range, struct ms_arena *arena, struct ms_piece *ret)
{
	const struct ms_running in = { image->tid, image->mem_fd, maps };
	const struct ms_mapping *map = ms_maps_find(maps, range.begin);
	int fd;

	range = cut(range);
	if (!image->tid || !map || !map->inode || range.end > map->range.end)
		return ms_piece_read(image, range, arena, ret);
	if (!afford(image, range))
		return false;
	fd = ms_mapped_file_open(&in, map);
	*ret = (struct ms_piece){ range, ms_mapped_file_take(fd, map, range, arena) };
	if (fd >= 0)
		(void)close(fd);
	return ret->bytes || ms_piece_read(image, range, arena, ret);
}

bool ms_piece_read_text(const struct ms_image *image, const struct ms_mappings *maps,
                        struct ms_arena *arena, struct ms_piece *ret)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, maps) {
		struct ms_range part = ms_range_common(map->range, image->object.span);

		if (map->prot & MS_PROT_EXEC && part.begin < part.end)
			return ms_piece_read_constant(image, maps, part, arena, ret);
	}
	return false;
}
