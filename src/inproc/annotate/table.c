/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/annotate/table.h"

#include <errno.h>
#include <sys/mman.h>

/* The largest page of this architecture would do as well; what matters is that it is there. */
enum { FENCE_BYTES = 4096 };

static size_t whole_pages(size_t bytes)
{
	return (bytes + FENCE_BYTES - 1) & ~(size_t)(FENCE_BYTES - 1);
}

void *ms_table_map(size_t bytes)
{
	int kept = errno;
	size_t inner = whole_pages(bytes);
	size_t outer = inner + 2 * (size_t)FENCE_BYTES;
	char *fence =
		mmap(NULL, outer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fence != MAP_FAILED &&
	    mprotect(fence + FENCE_BYTES, inner, PROT_READ | PROT_WRITE) != 0) {
		(void)munmap(fence, outer);
		fence = MAP_FAILED;
	}
	errno = kept;
	return fence == MAP_FAILED ? NULL : fence + FENCE_BYTES;
}

void ms_table_unmap(void *table, size_t bytes)
{
	int kept = errno;

	(void)munmap((char *)table - FENCE_BYTES, whole_pages(bytes) + 2 * (size_t)FENCE_BYTES);
	errno = kept;
}
