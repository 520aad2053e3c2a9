/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_BLOCK_H
#define MS_SHIM_BLOCK_H

/*
 * A block's life, as the options want it: made, looked up, resized, released. All inside
 * the gate. Pointers are the user's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/next.h"
#include "shim/track/live.h"

/*
 * @align: 0 when the next allocator's own will do
 *
 * NULL with ENOMEM.
 */
void *ms_block_make(size_t align, size_t size);
void *ms_block_make_zeroed(size_t size);

/* How many bytes this thread's next sample is away; 0 at its start. */
extern MS_SHIM_OWN MS_SHIM_TLS size_t
	ms_until_sample; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* Count @size bytes towards the next sample; false, nothing counted, when it is reached. */
static inline bool ms_block_skips(size_t size)
{
	if (size >= ms_until_sample)
		return false;
	ms_until_sample -= size;
	return true;
}

enum ms_block_whose {
	MS_BLOCK_OURS,
	MS_BLOCK_FOREIGN, /* of the next allocator, by a library that calls it directly */
	MS_BLOCK_NONE,    /* no live block, which was reported */
};

/* Take @p out of the table, for @function to free or resize it. */
enum ms_block_whose ms_block_take(const void *p, const char *function, struct ms_live *ret);
/* The same, but it stays. */
enum ms_block_whose ms_block_find(const void *p, const char *function, struct ms_live *ret);

/* Free a block that was taken. */
void ms_block_release(void *p);

/* Resize a block that was taken, @size > 0. NULL when that fails: it is as before. */
void *ms_block_resize(void *p, size_t size, struct ms_live was);

/* The same of a foreign block, which becomes ours. */
void *ms_block_adopt(void *p, size_t size);

size_t ms_usable_size(const void *p);

/* Check and free what free_track keeps. */
void ms_block_flush_freed(void);

/* When the next allocator was last called by this thread; with record_allocs. */
struct ms_block_times {
	uint64_t start_ns;
	uint64_t end_ns;
};
struct ms_block_times ms_block_times(void);

#endif
