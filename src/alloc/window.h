/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_WINDOW_H
#define MS_ALLOC_WINDOW_H

/*
 * Reading upwards through target memory, a few bytes at a time, at the cost of
 * large reads: the window lies over the bytes asked for last and is moved when
 * they are not in it. Where the source can be viewed it is never moved.
 *
 * A read of a clone's memory costs as much as nine more kilobytes do. So a window
 * that is asked for what comes next grows, up to MS_WINDOW_BYTES, and one that is
 * asked for something far away shrinks to 4 KiB: large blocks are jumped over.
 * Reads begin with a page of the smallest kind, because others cost the kernel two pages for each.
 */

#include <stddef.h>

#include "engine/source.h"

enum { MS_WINDOW_BYTES = 1 << 20 };

struct ms_window {
	struct ms_source *src;
	struct ms_range limits; /* nothing outside is ever shown */
	ms_addr stop;           /* nothing behind is read ahead; limits.end unless set */
	struct ms_range shown;
	const uint8_t *bytes; /* of shown */
	uint8_t *buffer;      /* borrowed */
	size_t piece;         /* read last */
};

/* @buffer: of MS_WINDOW_BYTES, for as long as the window is used */
void ms_window_init(struct ms_window *window, struct ms_source *src, struct ms_range limits,
                    uint8_t *buffer);

/* Move the window; NULL when [@addr, @addr + @len) cannot be shown. For ms_window_at(). */
const uint8_t *ms_window_move(struct ms_window *window, ms_addr addr, size_t len);

/* The @len bytes at @addr, good until the next call, or NULL when they cannot be read. */
static inline const uint8_t *ms_window_at(struct ms_window *window, ms_addr addr, size_t len)
{
	if (addr >= window->shown.begin && addr < window->shown.end &&
	    window->shown.end - addr >= len)
		return window->bytes + (addr - window->shown.begin);
	return ms_window_move(window, addr, len);
}

#endif
