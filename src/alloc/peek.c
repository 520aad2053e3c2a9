/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/peek.h"

#include <assert.h>
#include <string.h>

bool ms_peek_init(struct ms_peek *peek, struct ms_source *src, struct ms_arena *arena)
{
	peek->src = src;
	peek->pages = ms_arena_resize(arena, NULL, MS_PEEK_PAGES * sizeof(*peek->pages));
	return peek->pages;
}

static_assert(MS_PEEK_PAGES == 1 << 8, "as many as there are slots");

/* Mappings begin at round addresses; their first pages shall not share a slot. */
static size_t slot_of(ms_addr page)
{
	return (size_t)(page / MS_PEEK_PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

/* The bytes of the page at @addr, and how many there are from its begin on. */
static const uint8_t *page_at(struct ms_peek *peek, ms_addr addr, size_t *ret_len)
{
	const uint8_t *view = ms_source_view(peek->src, addr, MS_PEEK_PAGE);
	struct ms_peek_page *page = &peek->pages[slot_of(addr)];

	*ret_len = MS_PEEK_PAGE;
	if (view)
		return view;
	if (!page->kept || page->addr != addr) {
		page->kept = true;
		page->addr = addr;
		page->len = ms_source_read(peek->src, addr, page->bytes, MS_PEEK_PAGE);
	}
	*ret_len = page->len;
	return page->bytes;
}

size_t ms_peek_read(struct ms_peek *peek, ms_addr addr, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ms_addr page = ms_align_down(addr + done, MS_PEEK_PAGE);
		size_t from = (size_t)(addr + done - page);
		size_t there;
		const uint8_t *bytes = page_at(peek, page, &there);
		size_t n;

		if (there <= from)
			break;
		n = there - from < len - done ? there - from : len - done;
		memcpy((char *)buf + done, bytes + from, n);
		done += n;
	}
	return done;
}
