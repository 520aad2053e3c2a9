/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/hidden.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/range.h"
#include "inproc/lock.h"

enum { FIRST_PLACES = 128 };

/* Of the process, as its memory is. */
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static struct {
	struct ms_lock lock;
	size_t n;
	size_t cap;
	struct ms_range *at; /* in no order; an entry is whole before n counts it */
	struct ms_range first[FIRST_PLACES];
} hidden = { .cap = FIRST_PLACES, .at = hidden.first };
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

static bool grow(void)
{
	size_t bytes = 2 * hidden.cap * sizeof(*hidden.at);
	struct ms_range *more =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ms_range *before = hidden.at;

	if (more == MAP_FAILED)
		return false;
	memcpy(more, before, hidden.n * sizeof(*more));
	__atomic_store_n(&hidden.at, more, __ATOMIC_RELEASE);
	if (before != hidden.first)
		(void)munmap(before, bytes / 2);
	hidden.cap *= 2;
	return true;
}

void ms_hidden_add(pid_t process, const void *p, size_t size)
{
	int error = errno;
	struct ms_range range = { (uintptr_t)p, (uintptr_t)p + size };

	if (!p || range.end <= range.begin || !ms_lock_take(&hidden.lock, process))
		return;
	if (hidden.n < hidden.cap || grow()) {
		hidden.at[hidden.n] = range;
		__atomic_store_n(&hidden.n, hidden.n + 1, __ATOMIC_RELEASE);
	}
	ms_lock_give(&hidden.lock);
	errno = error;
}

void ms_hidden_remove(pid_t process, const void *p, size_t size)
{
	int error = errno;
	ms_addr begin = (uintptr_t)p;

	if (!ms_lock_take(&hidden.lock, process))
		return;
	for (size_t i = 0; i < hidden.n; i++) {
		if (hidden.at[i].begin != begin || hidden.at[i].end != begin + size)
			continue;
		hidden.at[i] = hidden.at[hidden.n - 1];
		__atomic_store_n(&hidden.n, hidden.n - 1, __ATOMIC_RELEASE);
		break;
	}
	ms_lock_give(&hidden.lock);
	errno = error;
}

void ms_hidden_wipe(struct ms_range own)
{
	for (size_t i = 0; i < hidden.n; i++) {
		if (hidden.at[i].begin == own.begin)
			continue;
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of this process */
		char *at = (char *)(uintptr_t)hidden.at[i].begin;

		/* Whole pages may be guards, or gone since: no write may be tried. */
		if ((hidden.at[i].begin | hidden.at[i].end) % ms_page_bytes() == 0)
			(void)madvise(at, ms_range_len(hidden.at[i]), MADV_DONTNEED);
		else
			memset(at, 0, ms_range_len(hidden.at[i]));
	}
}
