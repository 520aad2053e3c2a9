/* SPDX-License-Identifier: Apache-2.0 */
#include "target/fork/read.h"

#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "target/arch/arch.h"
#include "target/fork/cache.h"
#include "target/target.h"

enum ms_status ms_fork_no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for the layout of the clone");
}

struct ms_fork *ms_fork_new(const struct ms_source_ops *ops, struct ms_arena *arena)
{
	struct ms_fork *f = ms_arena_alloc(arena, sizeof(*f));

	if (!f)
		return NULL;
	f->base.ops = ops;
	f->base.abi = ms_arch_abi(&ms_native_arch);
	f->pages.maps = &f->base.mappings;
	f->mem_fd = -1;
	f->arena = arena;
	f->cache = ms_cache_new(arena);
	return f->cache ? f : NULL;
}

void ms_fork_close(struct ms_source *src)
{
	struct ms_fork *f = ms_fork_of(src);

	ms_beside_close(&f->beside);
	ms_beside_close(&f->wiped);
	if (f->mem_fd >= 0)
		(void)close(f->mem_fd);
}

/* ---- reading ---- */

/* Read from the clone, at most to the end of the page when it is less than one. */
static size_t read_clone(struct ms_fork *f, struct ms_range part, char *buf)
{
	size_t len = ms_range_len(part);
	size_t in_page = MS_PAGE_BYTES - part.begin % MS_PAGE_BYTES;
	ssize_t got;

	if (len >= MS_PAGE_BYTES)
		got = pread(f->mem_fd, buf, len, (off_t)part.begin);
	else
		got = ms_cache_read(f->cache, f->mem_fd, part.begin, buf,
		                    len < in_page ? len : in_page);
	if (!got)
		f->gone = true;
	if (got <= 0)
		return 0;
	atomic_fetch_add_explicit(&f->bytes, (uint64_t)got, memory_order_relaxed);
	return (size_t)got;
}

static size_t read_part(struct ms_fork *f, ms_addr addr, ms_addr end, char *buf)
{
	struct ms_page_part part;
	size_t got;

	if (!ms_pages_part(&f->pages, addr, end, &part))
		return 0;
	if (part.page && !part.page->in_clone &&
	    (ms_beside_read(&f->beside, part.range, buf, &got) ||
	     ms_beside_read(&f->wiped, part.range, buf, &got)))
		return got;
	if (part.page)
		return read_clone(f, part.range, buf);
	switch (part.absent) {
	case MS_ABSENT_ZERO:
		memset(buf, 0, ms_range_len(part.range));
		return ms_range_len(part.range);
	case MS_ABSENT_FILE:
		return read_clone(f, part.range, buf);
	case MS_ABSENT_NONE:
		break;
	}
	return 0;
}

size_t ms_fork_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	ms_addr end = addr + len < addr ? UINT64_MAX : addr + len;
	size_t done = 0;

	while (addr + done < end) {
		size_t got = read_part(ms_fork_of(src), addr + done, end, (char *)buf + done);

		if (!got)
			break;
		done += got;
	}
	return done;
}

bool ms_fork_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	return ms_pages_present(&ms_fork_of(src)->pages, within, ret);
}

/* ---- what is held ---- */

enum ms_status ms_fork_list_pages(struct ms_fork *f, struct ms_resident *resident, pid_t tid,
                                  struct ms_error *err)
{
	struct ms_wanted_list *list = &f->pages.list;
	enum ms_status st = ms_resident_find(tid, resident, err);

	if (st)
		return st;
	if (!ms_wanted_choose(resident, list))
		return ms_fork_no_memory(err);
	for (size_t i = 0; i < list->n; i++)
		list->at[i].in_clone = true;
	return MS_OK;
}

uint64_t ms_fork_bytes(const struct ms_source *fork)
{
	const struct ms_fork *f = (const struct ms_fork *)fork;

	return f->bytes + f->beside.bytes + f->wiped.bytes;
}

uint64_t ms_fork_private_bytes(const struct ms_source *fork)
{
	return ms_wanted_private_bytes(&((const struct ms_fork *)fork)->pages.list);
}

int ms_fork_descriptor(const struct ms_source *fork)
{
	return ((const struct ms_fork *)fork)->mem_fd;
}

bool ms_fork_is_whole(struct ms_source *src)
{
	struct ms_fork *f = ms_fork_of(src);
	char byte;

	for (size_t i = 0; i < f->pages.list.n; i++)
		if (f->pages.list.at[i].in_clone)
			return !f->gone &&
			       pread(f->mem_fd, &byte, 1, (off_t)f->pages.list.at[i].range.begin);
	return !f->gone;
}
