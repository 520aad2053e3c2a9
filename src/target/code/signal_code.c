/* SPDX-License-Identifier: Apache-2.0 */
#include "target/code/signal_code.h"

#include <string.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/code/image.h"
#include "target/code/mapped_file.h"
#include "target/code/piece.h"
#include "target/maps.h"

enum {
	WINDOW = 256 << 10,
	WINDOWS = 32,
	MOST_READS = 256, /* of windows for one image */
	PAGE = 4096,
};

/* Symbols are read one by one: what lies around each is kept. */
struct windows {
	const struct ms_running *in;
	struct ms_image *image;
	unsigned reads;
	bool limited;
	struct {
		struct ms_range range;
		uint8_t *bytes;
	} at[WINDOWS];
	uint8_t *room; /* WINDOWS of them */
};

/* Read @range, in @map, from the file, or from memory where it has none; as far as it goes. */
static size_t read_constant(const struct windows *w, const struct ms_mapping *map,
                            struct ms_range range, uint8_t *buf)
{
	size_t len = (size_t)ms_range_len(range);
	int fd = ms_mapped_file_open(w->in, map);
	ssize_t n = fd >= 0 ? ms_mapped_file_read(fd, map, range.begin, buf, len) : -1;

	if (fd >= 0)
		(void)close(fd);
	if (n > 0)
		return (size_t)n;
	return ms_image_read(w->image, range.begin, buf, len) ? len : 0;
}

/* The window that has @addr, or NULL. */
static const uint8_t *find_window(struct windows *w, ms_addr addr, struct ms_range *ret)
{
	ms_addr begin = ms_align_down(addr, WINDOW);
	size_t i = addr / WINDOW % WINDOWS;
	const struct ms_mapping *map;

	if (!ms_range_has(w->at[i].range, addr)) {
		struct ms_range range = { begin, begin + WINDOW };

		map = ms_maps_find(w->in->maps, addr);
		w->limited |= w->reads == MOST_READS ||
		              !ms_effort_take(w->image->effort, WINDOW / PAGE, 0);
		if (!map || w->limited)
			return NULL;
		w->reads++;
		range = ms_range_common(range, map->range);
		w->at[i].bytes = w->room + i * WINDOW;
		range.end = range.begin + read_constant(w, map, range, w->at[i].bytes);
		w->at[i].range = range;
	}
	*ret = w->at[i].range;
	return ms_range_has(*ret, addr) ? w->at[i].bytes : NULL;
}

static size_t read_windows(void *ctx, ms_addr addr, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		struct ms_range range;
		const uint8_t *bytes = find_window(ctx, addr + done, &range);
		size_t left = len - done;
		size_t n;

		if (!bytes)
			break;
		n = range.end - (addr + done) < left ? (size_t)(range.end - (addr + done)) : left;
		memcpy((uint8_t *)buf + done, bytes + (addr + done - range.begin), n);
		done += n;
	}
	return done;
}

static struct windows *new_windows(const struct ms_running *in, struct ms_arena *arena)
{
	struct windows *w = ms_arena_alloc(arena, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct windows){ .in = in };
	w->room = ms_arena_alloc(arena, (size_t)WINDOW * WINDOWS);
	return w->room ? w : NULL;
}

/* Where there is too much to read through, it may. */
static bool imports(struct windows *w, struct ms_image *image, const struct ms_dynamic *dynamic)
{
	*w = (struct windows){ .in = w->in, .image = image, .room = w->room };
	return ms_dynamic_imports((struct ms_reader){ read_windows, w }, dynamic, "sigaltstack") ||
	       w->limited;
}

static bool makes_call(const struct ms_image *image, const struct ms_mappings *maps,
                       const struct ms_code_bytes *call, struct ms_arena *arena)
{
	struct ms_piece text;

	return ms_piece_read_text(image, maps, arena, &text) &&
	       memmem(text.bytes, (size_t)ms_range_len(text.range), call->bytes, call->n);
}

/* A program that is linked with a sanitizer has its own function in front of the C library's. */
static bool stands_before(struct ms_image *image)
{
	ms_addr at;

	return ms_image_is_program(image) && ms_image_find(image, "sigaltstack", &at);
}

static bool has_signal_stacks(struct windows *w, struct ms_image *image, const struct ms_arch *arch,
                              struct ms_arena *arena)
{
	struct ms_dynamic dynamic = { 0 };

	if (image->object.dynamic)
		dynamic = ms_dynamic_read(ms_image_reader(image), &image->object);
	if (dynamic.symbols && ms_dynamic_is_shared(&dynamic))
		return imports(w, image, &dynamic) || stands_before(image);
	return !image->object.has_interpreter &&
	       makes_call(image, w->in->maps, &arch->sigaltstack_code, arena);
}

bool ms_signal_stacks_are_in(const struct ms_running *in, const struct ms_arch *arch,
                             struct ms_arena *arena)
{
	struct windows *w = new_windows(in, arena);
	struct ms_effort effort = { 0 };
	const struct ms_mapping *map;

	if (!w)
		return true;
	ms_vec_for_each (map, in->maps) {
		const struct ms_mapping *head;
		struct ms_image image;

		if (!(map->prot & MS_PROT_EXEC) || !map->inode ||
		    ms_effort_may_skip(&effort, map, (size_t)(map - in->maps->at)))
			continue;
		head = ms_maps_head(in->maps, map);
		if (head &&
		    ms_image_open(in->tid, in->mem_fd, head->range.begin, &effort, &image) &&
		    has_signal_stacks(w, &image, arch, arena))
			return true;
		ms_effort_remember(&effort, map, arena);
	}
	return effort.ended;
}
