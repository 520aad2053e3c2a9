/* SPDX-License-Identifier: Apache-2.0 */

/* What programs ask or set in the allocator besides allocating. */

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "shim/gate.h"
#include "shim/next.h"
#include "shim/out/listing.h"
#include "shim/out/stats.h"
#include "shim/shim.h"

/* Android's; the C library answers 1 to whatever it does not know. */
enum {
	PURGE = -101,
	PURGE_ALL = -104,
	LOG_STATS = -205,
	LEAST_OF_GLIBC = M_ARENA_MAX,
	MOST_OF_GLIBC = M_KEEP,
};

MS_SHIM_EXPORT int mallopt(int param, int val)
{
	if (!ms_next_ready() || !ms_next.mallopt)
		return 0;
	if (ms_shim.phase != MS_SHIM_ON && ms_shim.phase != MS_SHIM_HOOKS)
		return ms_next.mallopt(param, val);
	if (param == PURGE || param == PURGE_ALL) {
		if (ms_next.malloc_trim)
			(void)ms_next.malloc_trim(0);
		return 1;
	}
	if (param == LOG_STATS)
		return ms_stats_say();
	if (param < LEAST_OF_GLIBC || param > MOST_OF_GLIBC)
		return 0;
	return ms_next.mallopt(param, val);
}

MS_SHIM_EXPORT struct mallinfo mallinfo(void)
{
	struct mallinfo none = { 0 };

	return ms_next_ready() && ms_next.mallinfo ? ms_next.mallinfo() : none;
}

MS_SHIM_EXPORT struct mallinfo2 mallinfo2(void)
{
	struct mallinfo2 none = { 0 };

	return ms_next_ready() && ms_next.mallinfo2 ? ms_next.mallinfo2() : none;
}

MS_SHIM_EXPORT void malloc_stats(void)
{
	if (ms_next_ready() && ms_next.malloc_stats)
		ms_next.malloc_stats();
}

MS_SHIM_EXPORT int malloc_trim(size_t pad)
{
	return ms_next_ready() && ms_next.malloc_trim ? ms_next.malloc_trim(pad) : 0;
}

static void put_sizes(int fd, const struct ms_live_blocks *blocks)
{
	char text[160];
	size_t nth = 0;

	(void)ms_fd_write_all(fd, "<malloc version=\"debug-malloc-1\">", 33);
	for (size_t i = 0; i < blocks->n; nth++) {
		size_t size = blocks->at[i].size;
		size_t first = i;
		int n;

		while (i < blocks->n && blocks->at[i].size == size)
			i++;
		n = snprintf(text, sizeof(text),
		             "<allocation nr=\"%zu\"><size>%zu</size><total>%zu</total>"
		             "</allocation>",
		             nth, size, i - first);
		(void)ms_fd_write_all(fd, text, (size_t)n);
	}
	(void)ms_fd_write_all(fd, "</malloc>\n", 10);
}

MS_SHIM_EXPORT int malloc_info(int options, FILE *fp)
{
	struct ms_live_blocks blocks = { 0 };
	struct ms_arena arena = { 0 };

	if (!ms_next_ready())
		return -1;
	if (ms_shim.phase != MS_SHIM_ON || !ms_shim_knows_all() || !ms_gate_enter())
		return ms_next.malloc_info ? ms_next.malloc_info(options, fp) : -1;
	if (fflush(fp) == 0 && ms_listing_blocks(&arena, &blocks))
		put_sizes(fileno(fp), &blocks);
	ms_arena_deinit(&arena);
	ms_gate_leave();
	return 0;
}
