/* SPDX-License-Identifier: Apache-2.0 */
#include "target/fork/cache.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"

enum { PLACES = 1024 };

struct ms_cache {
	pthread_mutex_t lock;
	ms_addr pages[PLACES]; /* address + 1 of the page in that place; 0: none */
	unsigned char bytes[PLACES][MS_PAGE_BYTES];
};

struct ms_cache *ms_cache_new(struct ms_arena *arena)
{
	struct ms_cache *cache = ms_arena_alloc(arena, sizeof(*cache));

	if (cache)
		(void)pthread_mutex_init(&cache->lock, NULL);
	return cache;
}

ssize_t ms_cache_read(struct ms_cache *cache, int mem_fd, ms_addr addr, void *buf, size_t len)
{
	ms_addr page = ms_align_down(addr, MS_PAGE_BYTES);
	size_t place = page / MS_PAGE_BYTES % PLACES;
	ssize_t got = MS_PAGE_BYTES;

	(void)pthread_mutex_lock(&cache->lock);
	if (cache->pages[place] != page + 1) {
		got = pread(mem_fd, cache->bytes[place], MS_PAGE_BYTES, (off_t)page);
		cache->pages[place] = got == MS_PAGE_BYTES ? page + 1 : 0;
	}
	if (got == MS_PAGE_BYTES)
		memcpy(buf, cache->bytes[place] + (addr - page), len);
	else if (got < 0)
		got = -errno;
	(void)pthread_mutex_unlock(&cache->lock);
	return got == MS_PAGE_BYTES ? (ssize_t)len : got;
}
