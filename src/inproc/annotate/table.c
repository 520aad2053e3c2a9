/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/annotate/table.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/range.h"

/* Before and behind a table lies a fence of one page. */

void *ms_table_map(size_t bytes)
{
	int kept = errno;
	const size_t page = ms_page_bytes();
	size_t inner = ms_align_up(bytes, page);
	size_t outer = inner + 2 * page;
	char *fence =
		mmap(NULL, outer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fence != MAP_FAILED && mprotect(fence + page, inner, PROT_READ | PROT_WRITE) != 0) {
		(void)munmap(fence, outer);
		fence = MAP_FAILED;
	}
	errno = kept;
	return fence == MAP_FAILED ? NULL : fence + page;
}

void ms_table_unmap(void *table, size_t bytes)
{
	const size_t page = ms_page_bytes();
	int kept = errno;

	(void)munmap((char *)table - page, ms_align_up(bytes, page) + 2 * page);
	errno = kept;
}
