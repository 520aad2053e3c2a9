/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_PAGE_H
#define MS_BASE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

/*
 * The smallest page that a kernel has, and the largest, aarch64's. What a source shows may have
 * others than the smallest: see its ABI.
 */
enum { MS_PAGE_BYTES = 4096, MS_LARGEST_PAGE_BYTES = 65536 };

/* A page of this machine's, as its kernel was built. */
static inline size_t ms_page_bytes(void)
{
	return getauxval(AT_PAGESZ);
}

/* Whether @n bytes are zeros, as a page is that nobody wrote to. */
static inline bool ms_is_zero(const void *bytes, size_t n)
{
	const unsigned char *at = bytes;

	return !n || (!at[0] && !memcmp(at, at + 1, n - 1));
}

#endif
