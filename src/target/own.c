/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is listed must neither move nor go afterwards, for it is looked at in place. So
 * the list is read into memory that is there before, and what the arena has is taken
 * between this and its next growth.
 */
#include "target/own.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "target/maps.h"
#include "target/proc.h"

enum { FIRST_READ = 256 * 1024, SPARE_RANGES = 4096 };

struct text MS_VEC(char);

/* Fill text->cap bytes at most. Returns false when that was not all, or @ret is minus errno. */
static bool read_once(struct text *text, ssize_t *ret)
{
	int fd = ms_proc_open(getpid(), "maps", O_RDONLY);
	ssize_t n = fd;

	text->n = 0;
	while (fd >= 0 && text->n < text->cap) {
		n = read(fd, text->at + text->n, text->cap - text->n);
		if (n <= 0)
			break;
		text->n += (size_t)n;
	}
	if (fd >= 0 && n < 0)
		n = -errno;
	if (fd >= 0)
		(void)close(fd);
	*ret = n;
	return n <= 0;
}

static enum ms_status read_text(struct ms_ranges *own, struct ms_arena *arena, struct text *text,
                                struct ms_error *err)
{
	ssize_t n = 0;

	do {
		if (!ms_vec_reserve(arena, text, 2 * text->cap + FIRST_READ) ||
		    !ms_vec_reserve(arena, own, own->n + SPARE_RANGES))
			return ms_fail(err, MS_E_NOMEM, "no memory for the memory map's text");
	} while (!read_once(text, &n));
	if (n < 0)
		return ms_fail_sys(err, (int)-n, "reading the memory map of this process");
	return MS_OK;
}

/* Without growing @own, which would grow the arena. */
static bool add_arena(struct ms_ranges *own, const struct ms_arena *arena)
{
	const void *piece = NULL;
	size_t len;

	while ((piece = ms_arena_next(arena, piece, &len))) {
		ms_addr begin = (uintptr_t)piece;

		if (own->n == own->cap)
			return false;
		own->at[own->n++] = (struct ms_range){ begin, begin + len };
	}
	return true;
}

static enum ms_status cut(const struct ms_mappings *all, const struct ms_ranges *own,
                          struct ms_arena *arena, struct ms_mappings *ret, struct ms_error *err)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, all) {
		struct ms_range rest = map->range;
		struct ms_range gap;

		while (ms_range_next_gap(&rest, own, &gap)) {
			struct ms_mapping *slot = ms_vec_push(arena, ret);

			if (!slot)
				return ms_fail(err, MS_E_NOMEM, "no memory for the mappings");
			*slot = *map;
			slot->range = gap;
			if (map->inode)
				slot->offset += gap.begin - map->range.begin;
		}
	}
	return MS_OK;
}

enum ms_status ms_own_maps(struct ms_ranges *own, struct ms_arena *arena, struct ms_mappings *ret,
                           struct ms_error *err)
{
	struct ms_mappings all = { 0 };
	struct ms_mappings cleared = { 0 };
	struct text text = { 0 };
	enum ms_status st = read_text(own, arena, &text, err);

	if (!st && !add_arena(own, arena))
		st = ms_fail(err, MS_E_NOMEM, "too many pieces of memory of our own");
	if (!st)
		st = ms_maps_parse(text.at, text.n, arena, &all, err);
	if (!st && !ms_ranges_tidy(arena, own))
		st = ms_fail(err, MS_E_NOMEM, "no memory for the mappings");
	if (!st)
		st = cut(&all, own, arena, &cleared, err);
	if (!st)
		*ret = cleared;
	return st;
}
