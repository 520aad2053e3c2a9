/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_AHEAD_H
#define MS_ENGINE_AHEAD_H

/*
 * The beginnings of blocks that are asked for one after the other, in address order as a
 * rule: where a source has no view, one read serves many of them.
 */

#include "engine/source.h"

enum { MS_AHEAD_BYTES = 4096 };

/* Zeroed but for src, it is empty. */
struct ms_ahead {
	struct ms_source *src;
	ms_addr begin;
	size_t len;
	unsigned char bytes[MS_AHEAD_BYTES];
};

/*
 * The @len bytes at @addr, MS_AHEAD_BYTES at most, good until the next call; NULL when not
 * all of them are readable.
 */
static inline const unsigned char *ms_ahead_at(struct ms_ahead *ahead, ms_addr addr, size_t len)
{
	const void *view = ms_source_view(ahead->src, addr, len);

	if (view)
		return view;
	if (addr < ahead->begin || addr - ahead->begin > ahead->len ||
	    ahead->len - (size_t)(addr - ahead->begin) < len) {
		ahead->begin = addr;
		ahead->len = ms_source_read(ahead->src, addr, ahead->bytes, MS_AHEAD_BYTES);
		if (ahead->len < len)
			return NULL;
	}
	return ahead->bytes + (addr - ahead->begin);
}

#endif
