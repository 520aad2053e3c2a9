/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_NEXT_H
#define MS_SHIM_NEXT_H

/*
 * The allocator behind us: whatever else defines malloc, usually the C library. What is
 * asked for before it is known, by the loader or by the search for it, is served from a
 * few bytes of our own, which are never reused.
 */

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/libc.h"

/* Small, and the same register as the thread's other variables: no call to find it. */
#define MS_SHIM_TLS _Thread_local __attribute__((tls_model("initial-exec")))

/* Of a variable that headers declare: no detour through the table of those that others have. */
#define MS_SHIM_OWN __attribute__((visibility("hidden")))

struct ms_next {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *p, size_t size);
	void (*free)(void *p);
	void *(*memalign)(size_t align, size_t size);
	size_t (*usable_size)(void *p);
	struct mallinfo (*mallinfo)(void);
	struct mallinfo2 (*mallinfo2)(void);
	int (*mallopt)(int what, int value);
	int (*malloc_info)(int options, FILE *stream);
	void (*malloc_stats)(void);
	int (*malloc_trim)(size_t pad);
	void *(*dlopen)(const char *file, int mode);
};

/* Its functions may be called once ms_next_ready() has said so; those not found are NULL. */
extern MS_SHIM_OWN struct ms_next
	ms_next; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* False only while this thread looks for them. */
bool ms_next_ready(void);

enum { MS_EARLY_ALIGN = 16, MS_EARLY_BYTES = 16384 };

extern MS_SHIM_OWN char
	ms_early[MS_EARLY_BYTES]; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static inline bool ms_is_early(const void *p)
{
	return (uintptr_t)p - (uintptr_t)ms_early < MS_EARLY_BYTES;
}

/* Zeroed and aligned so, or NULL when they are used up. */
void *ms_early_alloc(size_t size);
size_t ms_early_size(const void *p);
/* Whether there are any. */
bool ms_early_any(void);

#endif
