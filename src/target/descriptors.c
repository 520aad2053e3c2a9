/* SPDX-License-Identifier: Apache-2.0 */
#include "target/descriptors.h"

#include <linux/kcmp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/search.h"
#include "target/proc.h"

enum { NAME_BYTES = 32 };

enum kind { OTHER, EPOLL, RING, FAULTS, FILES, DEVICE };

/* For those that were neither epoll instances nor rings before. */
static const uint64_t LIMIT_NS = 10000000;

static void add(struct ms_arena *arena, struct ms_fds *fds, int32_t fd)
{
	int32_t *slot = ms_vec_push(arena, fds);

	if (slot)
		*slot = fd;
}

static bool has(const struct ms_fds *fds, int32_t fd)
{
	size_t at = ms_lower_bound(0, fds->n, i, fds->at[i] < fd);

	return at < fds->n && fds->at[at] == fd;
}

static enum kind kind_of(pid_t tid, int32_t fd)
{
	static const char *const links[] = { [EPOLL] = "anon_inode:[eventpoll]",
		                             [RING] = "anon_inode:[io_uring]",
		                             [FAULTS] = "anon_inode:[userfaultfd]",
		                             [FILES] = "/dev/fuse",
		                             [DEVICE] = "/dev/cuse" };
	char name[NAME_BYTES];
	char link[NAME_BYTES];

	(void)snprintf(name, sizeof(name), "fd/%d", fd);
	ms_proc_link(tid, name, link, sizeof(link));
	for (enum kind kind = EPOLL; kind <= DEVICE; kind++)
		if (!strcmp(link, links[kind]))
			return kind;
	return OTHER;
}

/*
 * Where @fd's file is among @same, which are in the kernel's own order of files, or where it
 * would be. Where files cannot be compared each is taken for another.
 */
static bool find(pid_t tid, const struct ms_fds *same, int32_t fd, size_t *ret)
{
	size_t low = 0;
	size_t high = same->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		long order = syscall(SYS_kcmp, tid, tid, KCMP_FILE, (unsigned long)fd,
		                     (unsigned long)same->at[middle]);

		*ret = middle;
		if (order == 0)
			return true;
		if (order == 1)
			high = middle;
		else
			low = middle + 1;
	}
	*ret = low;
	return false;
}

static void insert(struct ms_arena *arena, struct ms_fds *same, size_t at, int32_t fd)
{
	int32_t *last = ms_vec_push(arena, same);

	if (!last)
		return;
	memmove(&same->at[at + 1], &same->at[at], (same->n - 1 - at) * sizeof(*same->at));
	same->at[at] = fd;
}

/* A duplicate is quicker to compare than to look at, where there are few instances. */
static void look_at(pid_t tid, int32_t fd, bool likely, struct ms_arena *arena,
                    struct ms_descriptors *ret)
{
	enum kind kind;
	struct ms_fds *same;
	size_t at;

	if (likely && find(tid, &ret->epolls, fd, &at))
		return;
	kind = kind_of(tid, fd);
	same = kind == RING ? &ret->rings : &ret->epolls;
	ret->faults |= kind == FAULTS;
	ret->serves_files |= kind == FILES || kind == DEVICE;
	if (kind != EPOLL && kind != RING)
		add(arena, &ret->others, fd);
	else if (!find(tid, same, fd, &at))
		insert(arena, same, at, fd);
}

/* Those first that may be, so that the limit is for the rest. */
static void list(pid_t tid, const struct ms_descriptors *before, struct ms_arena *arena,
                 struct ms_descriptors *ret, struct ms_fds *rest)
{
	char *buf = ms_arena_alloc(arena, MS_PROC_LIST_BYTES);
	struct ms_proc_list descriptors;
	int32_t fd;

	if (!buf || ms_proc_list_open(&descriptors, tid, "fd", buf) < 0)
		return;
	while (ms_proc_list_next(&descriptors, &fd))
		if (before && has(&before->others, fd))
			add(arena, rest, fd);
		else
			look_at(tid, fd, before != NULL, arena, ret);
	ms_proc_list_close(&descriptors);
}

void ms_descriptors_look(pid_t tid, const struct ms_descriptors *before, struct ms_arena *arena,
                         struct ms_descriptors *ret)
{
	struct ms_fds rest = { 0 };
	uint64_t until_ns;
	const int32_t *fd;

	*ret = (struct ms_descriptors){ .serves_files = before && before->serves_files };
	list(tid, before, arena, ret, &rest);
	until_ns = ms_now_ns() + LIMIT_NS;
	ms_vec_for_each (fd, &rest) {
		if (ms_now_ns() < until_ns)
			look_at(tid, *fd, false, arena, ret);
		else
			ret->n_unseen++;
	}
}
