/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_READER_H
#define MS_BASE_READER_H

/* Where the bytes of a process come from, for what needs no more of a source. */

#include <stdbool.h>
#include <stddef.h>

#include "base/range.h"

struct ms_reader {
	/* Read @len bytes; returns how many, from @addr on, there were. */
	size_t (*read)(void *ctx, ms_addr addr, void *buf, size_t len);
	void *ctx;
};

static inline bool ms_read_all(struct ms_reader from, ms_addr addr, void *buf, size_t len)
{
	return from.read(from.ctx, addr, buf, len) == len;
}

#endif
