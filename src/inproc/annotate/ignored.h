/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_IGNORED_H
#define MS_INPROC_ANNOTATE_IGNORED_H

/*
 * A set of ignored blocks: plain references to them, kept in anonymous memory that a
 * global of this library points to. So every search of this process, from inside or
 * from outside, reaches these blocks and what they lead to, and need not know of us.
 *
 * There is no lock, so there is none to be held over a fork or by the code that a signal
 * handler interrupted; see ignored.c. Any thread, any time; errno is kept.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MS_IGNORED_TABLES = 10, MS_IGNORED_PAGE_WORDS = 512 };

struct ms_ignored_bucket;

/* Empty when zeroed; never given back. */
struct ms_ignored {
	size_t count;
	struct ms_ignored_bucket *tables[MS_IGNORED_TABLES];
	uint64_t pages[MS_IGNORED_PAGE_WORDS]; /* a bit for each page that ever had an entry */
};

/* Whether to look at all. All that free() pays when nothing is ignored. */
static inline bool ms_ignored_any(const struct ms_ignored *set)
{
	return __atomic_load_n(&set->count, __ATOMIC_RELAXED) != 0;
}

/* Put @p in, any address inside a block. False without memory. */
bool ms_ignored_add(struct ms_ignored *set, const void *p);

/*
 * Take out all that points to the @size bytes at @begin, @size > 0. The caller owns the
 * block, so that no thread puts in the same address meanwhile.
 *
 * Returns whether there was any.
 * Cost: a bit for each page; if it is set, a cache line for each 128 bytes and table.
 */
bool ms_ignored_remove(struct ms_ignored *set, const void *begin, size_t size);

#endif
