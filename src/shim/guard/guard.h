/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_GUARD_GUARD_H
#define MS_SHIM_GUARD_GUARD_H

/*
 * Blocks with a header:
 *
 *	chunk      header        front guard    user          rear guard
 *	| 32 bytes | 32 bytes    | 0xaa ...     | as asked    | 0xbb ...      |
 *	           tag orig size usable sum     ^ a multiple of 16
 *
 * The next allocator keeps its lists in the first bytes of free chunks, 32 at most; those
 * are before the header, so a freed block's tag can still be told.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "malloc_debug/registry.h"
#include "shim/options/options.h"

enum { MS_TAG_LIVE = 0x1ee7d00d, MS_TAG_FREED = 0x1cc7dccd };

struct ms_header {
	uint32_t tag;
	void *orig; /* of the next allocator */
	size_t size;
	size_t usable;
	uint32_t sum; /* of orig, size and usable: nothing else guards them without a front guard */
} __attribute__((packed));

enum { MS_HEADER_BYTES = 32, MS_HEADER_BEFORE = 32, MS_BLOCK_ALIGN = 16 };

_Static_assert(sizeof(struct ms_header) <= MS_HEADER_BYTES, "the header's room");
_Static_assert((int)MS_TAG_LIVE == (int)MALLOC_DEBUG_TAG_LIVE &&
                       (int)MS_HEADER_BEFORE == (int)MALLOC_DEBUG_HEADER_BEFORE,
               "the registry's");

/* From the chunk's beginning to the user's first byte, at alignments that malloc() has. */
size_t ms_guard_offset(const struct ms_opts *options);

/* What a block needs besides the user's bytes, at @align, a power of two, at least 16. */
size_t ms_guard_extra(const struct ms_opts *options, size_t align);

struct ms_header *ms_guard_header(const struct ms_opts *options, const void *p);

/*
 * Make a block of @size bytes at @align of the chunk @orig, of @whole usable bytes; the
 * user's address.
 */
void *ms_guard_make(const struct ms_opts *options, void *orig, size_t whole, size_t align,
                    size_t size);

/* Let a block end at @size bytes, which it has room for; the guard behind is written anew. */
void ms_guard_shrink(const struct ms_opts *options, void *p, size_t size);

/* The first byte of @n at @p that is not @expected, or @n. */
size_t ms_guard_differs(const void *p, uint8_t expected, size_t n);

enum { MS_FRONT_BYTE = 0xaa, MS_REAR_BYTE = 0xbb, MS_ALLOC_BYTE = 0xeb, MS_FREE_BYTE = 0xef };

/* Whether the header of a block, live or freed, has what was written to it, but for the tag. */
bool ms_guard_is_whole(const struct ms_opts *options, const void *p);

/* The tag of a block that may be none: false when the memory cannot be read. */
bool ms_guard_probe_tag(const struct ms_opts *options, const void *p, uint32_t *ret);

#endif
