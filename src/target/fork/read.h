/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_READ_H
#define MS_TARGET_READ_H

/*
 * What three sources have in common: a process that nothing else runs in is read through its
 * /proc/PID/mem.
 *
 *	fork.c      the process is a clone of the target
 *	self.c      it is a clone that reads itself
 *	standing.c  it is the target, which stands
 */

#include <stdatomic.h>

#include "target/descriptors.h"
#include "target/fork/beside.h"

struct ms_fork {
	struct ms_source base;
	struct ms_pages pages;
	int mem_fd; /* the clone's */
	struct ms_cache *cache;
	atomic_bool gone; /* the clone ended while it was read */
	atomic_uint_least64_t bytes;
	struct ms_arena *arena;

	struct ms_descriptors descriptors; /* before the process stood */
	struct ms_ranges elsewhere;        /* whose absent pages are no zeros; before that */

	struct ms_beside beside; /* copied in the pause */
	struct ms_beside wiped;  /* copied behind it */

	/* List what the clone has of the target. */
	enum ms_status (*maps)(struct ms_fork *f, pid_t image, struct ms_mappings *ret,
	                       struct ms_error *err);
	const struct ms_ranges *own; /* of the clone that reads itself: this is not the target's */
};

static inline struct ms_fork *ms_fork_of(struct ms_source *src)
{
	return (struct ms_fork *)src; /* base is its first member */
}

/* NULL without memory. */
struct ms_fork *ms_fork_new(const struct ms_source_ops *ops, struct ms_arena *arena);
enum ms_status ms_fork_no_memory(struct ms_error *err);

/* For ms_source_ops. */
size_t ms_fork_read(struct ms_source *src, ms_addr addr, void *buf, size_t len);
bool ms_fork_present(struct ms_source *src, struct ms_range within, struct ms_range *ret);
bool ms_fork_is_whole(struct ms_source *src);
void ms_fork_close(struct ms_source *src);

/* List the pages of process @tid, all of them to be read from it. */
ms_must_check enum ms_status ms_fork_list_pages(struct ms_fork *f, struct ms_resident *resident,
                                                pid_t tid, struct ms_error *err);

#endif
