/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_FRONT_H
#define MS_INPROC_ANNOTATE_FRONT_H

/*
 * What the functions in front of malloc (front.c) and the annotations (malloc.c) share.
 *
 * They are two objects for the sake of programs that are linked statically: the first is
 * taken out of the archive only where malloc is not defined otherwise, and it then brings
 * the C library's with it; the second may stand beside any malloc.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inproc/annotate/ignored.h"

/* Without a look into the table that a library has of what may be another's. */
#define MS_FRONT_OWN     __attribute__((visibility("hidden")))
#define MS_FRONT_RARE(x) __builtin_expect(!!(x), 0)
/* Small, and the same register as the thread's other variables: no call to find it. */
#define MS_FRONT_TLS MS_FRONT_OWN _Thread_local __attribute__((tls_model("initial-exec")))

enum { MS_EARLY_BYTES = 16384, MS_EARLY_ALIGN = 16 };

/* The next definitions in the search order. */
struct ms_next_malloc {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *p, size_t size);
	void (*free)(void *p);
	void *(*memalign)(size_t align, size_t size);
	void *(*aligned_alloc)(size_t align, size_t size);
	int (*posix_memalign)(void **ret, size_t align, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
	size_t (*usable_size)(void *p); /* NULL when it is not of the same allocator */
};

/*
 * Two sets, for free() of a block whose beginning alone can be an entry is one look,
 * while a program may also have us ignore an address inside of a block.
 */
struct ms_ignored_sets {
	struct ms_ignored made;   /* in windows: beginnings of blocks */
	struct ms_ignored chosen; /* by the program: any address inside */
};

/* An interposer has no caller that could hold its state. Scans find the sets in here. */
struct ms_front {
	struct ms_next_malloc next;
	bool ready;
	bool reached;  /* the program's calls come to ours */
	size_t behind; /* what a malloc in front puts before its caller's bytes in a block of ours
	                */
	size_t early_used;
	struct ms_ignored_sets sets;
	char early[MS_EARLY_BYTES] __attribute__((aligned(MS_EARLY_ALIGN)));
};

/* Per thread, which is the point of it. */
struct ms_front_own {
	unsigned windows; /* open ones */
	bool resolving;
	bool probing;
	void *probe; /* what came out of ours meanwhile */
};

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
extern MS_FRONT_OWN struct ms_front ms_front;
extern MS_FRONT_TLS struct ms_front_own ms_front_own;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

/* Fill in ms_front.next. Several threads may do so at once: all find the same. */
void ms_front_resolve(void);

/* Note what this thread allocated in an open window; returns it. */
void *ms_front_made(void *p);

/* Take out what points to a block that is about to be freed. Whether the program chose it. */
bool ms_front_forget(void *p);

/* Whether the next definitions can be called; false while this thread looks for them. */
static inline bool ms_front_ready(void)
{
	if (!MS_FRONT_RARE(!__atomic_load_n(&ms_front.ready, __ATOMIC_ACQUIRE)))
		return true;
	if (ms_front_own.resolving)
		return false;
	ms_front_resolve();
	return true;
}

static inline bool ms_front_in_window(void)
{
	return MS_FRONT_RARE(ms_front_own.windows != 0);
}

static inline bool ms_front_any_ignored(void)
{
	return ms_ignored_any(&ms_front.sets.made) || ms_ignored_any(&ms_front.sets.chosen);
}

#endif
