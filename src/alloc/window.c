/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/window.h"

#include <string.h>

enum { LEAST = 4096, FAR = 16 * 1024 };

void ms_window_init(struct ms_window *window, struct ms_source *src, struct ms_range limits,
                    uint8_t *buffer)
{
	memset(window, 0, sizeof(*window));
	window->src = src;
	window->limits = limits;
	window->stop = limits.end;
	window->buffer = buffer;
	window->bytes = ms_source_view(src, limits.begin, ms_range_len(limits));
	window->shown.begin = limits.begin;
	window->shown.end = window->bytes ? limits.end : limits.begin;
}

/* How much to read from @begin on, to show what ends at @end. */
static size_t piece_for(struct ms_window *window, ms_addr begin, ms_addr end)
{
	bool far = end < window->shown.end || begin > window->shown.end + FAR;
	uint64_t most = window->limits.end - begin;

	window->piece = far || !window->piece ? (size_t)LEAST : 2 * window->piece;
	if (window->piece > MS_WINDOW_BYTES)
		window->piece = MS_WINDOW_BYTES;
	if (window->stop > begin && window->stop - begin < most)
		most = window->stop - begin;
	if (most > window->piece)
		most = window->piece;
	return (size_t)(most < end - begin ? end - begin : most);
}

const uint8_t *ms_window_move(struct ms_window *window, ms_addr addr, size_t len)
{
	ms_addr begin = ms_align_down(addr, LEAST);
	size_t got;

	if (addr < window->limits.begin || addr >= window->limits.end ||
	    window->limits.end - addr < len || len > MS_WINDOW_BYTES - LEAST)
		return NULL;
	if (begin < window->limits.begin)
		begin = window->limits.begin;
	got = ms_source_read(window->src, begin, window->buffer,
	                     piece_for(window, begin, addr + len));
	window->bytes = window->buffer;
	window->shown = (struct ms_range){ begin, begin + got };
	return begin + got < addr + len ? NULL : window->buffer + (addr - begin);
}
