/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_SOURCE_SUITE_H
#define MS_TESTS_SOURCE_SUITE_H

/*
 * What every source promises (engine/source.h), as Criterion assertions.
 *
 * The process that the source shows must have been prepared:
 *
 *	filled         filled_len bytes, page-aligned, all of them in the source
 *	untouched      a page directly behind it, mapped but never written to
 *	unmapped       a page directly behind that, where nothing is mapped
 *
 * Show the first two by one mapping, or by several that adjoin.
 */

#include <stddef.h>

#include "engine/source.h"

/* The largest page that a kernel of this machine can have. */
#ifdef __aarch64__
enum { SOURCE_SUITE_PAGE = 65536 };
#else
enum { SOURCE_SUITE_PAGE = 4096 };
#endif

struct source_sample {
	ms_addr filled;
	size_t filled_len;
	const unsigned char *bytes; /* what is at `filled` */
	size_t page;                /* bytes of one; SOURCE_SUITE_PAGE at most */
};

/* The byte that a prepared process writes at offset @i of `filled`. */
static inline unsigned char source_suite_byte(size_t i)
{
	return (unsigned char)(1 + i % 251 + i / 4096 % 4);
}

/*
 * Map the sample in this process. Returns where it is, so that a test can fork,
 * or scan itself; @filled_len must be a multiple of SOURCE_SUITE_PAGE.
 */
unsigned char *source_suite_map(size_t filled_len);

/* Run the whole suite; does not close @src. */
void source_suite_run(struct ms_source *src, const struct source_sample *sample);

#endif
