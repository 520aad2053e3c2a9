/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CACHE_H
#define MS_TARGET_CACHE_H

/*
 * Pages of a clone that were read of late. A read from /proc/PID/mem takes as long for
 * a word as for a page, and decoders look at many words of few pages.
 */

#include <pthread.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/range.h"

struct ms_cache;

/* In @arena; NULL without memory. */
struct ms_cache *ms_cache_new(struct ms_arena *arena);

/*
 * Read @len bytes at @addr of @mem_fd, all of them in one page. Returns how many: @len,
 * 0 when the process is gone, or minus errno. Any thread may call it.
 */
ssize_t ms_cache_read(struct ms_cache *cache, int mem_fd, ms_addr addr, void *buf, size_t len);

#endif
