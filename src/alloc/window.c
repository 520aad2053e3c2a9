/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/window.h"

#include <string.h>

enum { WINDOW_BYTES = 1 << 20 };

void ms_window_init(struct ms_window *window, struct ms_source *src, struct ms_range limits,
                    struct ms_arena *arena)
{
	memset(window, 0, sizeof(*window));
	window->src = src;
	window->limits = limits;
	window->arena = arena;
	window->bytes = ms_source_view(src, limits.begin, ms_range_len(limits));
	window->shown.begin = limits.begin;
	window->shown.end = window->bytes ? limits.end : limits.begin;
}

const uint8_t *ms_window_move(struct ms_window *window, ms_addr addr, size_t len)
{
	uint64_t left = window->limits.end - addr;
	size_t got;

	if (addr < window->limits.begin || addr >= window->limits.end || left < len ||
	    len > WINDOW_BYTES)
		return NULL;
	if (!window->buffer)
		window->buffer = ms_arena_alloc(window->arena, WINDOW_BYTES);
	if (!window->buffer)
		return NULL;
	got = ms_source_read(window->src, addr, window->buffer,
	                     left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES);
	window->bytes = window->buffer;
	window->shown = (struct ms_range){ addr, addr + got };
	return got < len ? NULL : window->buffer;
}
