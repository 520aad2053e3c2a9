/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two pieces of code that every C library has, found by their bytes: symbols would not
 * do, for the one is no function of its own and the other is hidden.
 */
#include "target/code/gadgets.h"

#include <unistd.h>

#include "target/arch/arch.h"
#include "target/maps.h"

enum {
	PIECE = 1 << 16,
	OVERLAP = MS_GADGET_BYTES,
	MAX_PIECES = 1 << 12,
};

struct search {
	const struct ms_arch_calls *calls;
	const struct ms_running *in;
	uint8_t *buf;
	unsigned pieces;
};

/* The file that code was mapped from; or none. */
struct file {
	int fd; /* or -1 */
	const struct ms_mapping *map;
};

static struct file open_file(const struct ms_running *in, struct ms_range text)
{
	const struct ms_mapping *map = ms_maps_find(in->maps, text.begin);

	if (!map || !map->inode || text.end > map->range.end)
		return (struct file){ -1, map };
	return (struct file){ ms_mapped_file_open(in, map), map };
}

/* Whether @file has, in @len bytes from @at on, what @known lacks; or cannot say. */
static bool may_have(const struct search *s, const struct file *file, ms_addr at, size_t len,
                     const struct ms_gadgets *known)
{
	struct ms_gadgets found = *known;
	ssize_t n;

	if (file->fd < 0)
		return true;
	n = ms_mapped_file_read(file->fd, file->map, at, s->buf, len);
	if (n < 0)
		return true;
	s->calls->find(s->buf, (size_t)n, at, &found);
	return found.call != known->call || found.restore != known->restore;
}

/*
 * Look through @text, until both are found or enough has been read in all.
 *
 * What is read of a process's memory counts as resident in it from then on, and a static
 * program's own code lies before the C library's: the file says where it is worth it.
 */
static void search(struct search *s, struct ms_range text, struct ms_gadgets *ret)
{
	struct file file;

	if (ret->call && ret->restore)
		return;
	file = open_file(s->in, text);
	for (ms_addr at = text.begin; at < text.end && s->pieces < MAX_PIECES;
	     at += PIECE - OVERLAP, s->pieces++) {
		size_t len = text.end - at < PIECE ? (size_t)(text.end - at) : PIECE;
		ssize_t n;

		if (!may_have(s, &file, at, len, ret))
			continue;
		n = pread(s->in->mem_fd, s->buf, len, (off_t)at);
		if (n <= 0)
			break;
		s->calls->find(s->buf, (size_t)n, at, ret);
		if (ret->call && ret->restore)
			break;
	}
	if (file.fd >= 0)
		(void)close(file.fd);
}

void ms_gadgets_find(const struct ms_running *in, struct ms_collection *shared,
                     struct ms_arena *arena)
{
	struct search s = { shared->arch->calls, in, ms_arena_alloc(arena, PIECE), 0 };

	if (!s.buf || !s.calls)
		return;
	/* The C library's first: then few others need to be read. */
	for (uint32_t i = 0; i < shared->n_libc_code; i++)
		search(&s, shared->libc_code[i], &shared->gadgets);
	for (uint32_t i = 0; i < shared->n_all_code; i++)
		search(&s, shared->all_code[i], &shared->gadgets);
}
