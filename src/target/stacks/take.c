/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/follow.h"
#include "base/page.h"
#include "target/arch/arch.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/stacks/stacks.h"
#include "target/target.h"

/* What the collection process gets to end by itself. */
static const uint64_t grace_ns = UINT64_C(2000000000);

/* The collection process and our end of the channel to it. */
struct collector {
	struct ms_collection *shared;
	int channel;
	pid_t pid;
};

static enum ms_status start(struct collector *c, struct ms_error *err)
{
	pid_t original = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return ms_fail_sys(err, errno, "no socket for the collection process");
	c->channel = ends[0];
	c->pid = fork();
	if (c->pid < 0) {
		(void)close(ends[1]);
		return ms_fail_sys(err, errno, "cannot start the collection process");
	}
	if (c->pid == 0) {
		(void)close(ends[0]);
		if (!ms_follow_parent(original))
			_exit(0);
		(void)prctl(PR_SET_NAME, "memscan-collect");
		ms_follow_unseen();
		_exit(ms_collection_serve(c->shared, ends[1]));
	}
	(void)close(ends[1]);
	return MS_OK;
}

/* Closing the channel frees the target; should that fail, the end of its tracer does. */
static void end(struct collector *c)
{
	uint64_t deadline_ns = ms_now_ns() + grace_ns;
	const struct timespec nap = { 0, 250000 };

	if (c->channel >= 0)
		(void)close(c->channel);
	while (c->pid > 0 && waitpid(c->pid, NULL, WNOHANG) == 0) {
		if (ms_now_ns() > deadline_ns)
			(void)kill(c->pid, SIGKILL);
		(void)nanosleep(&nap, NULL);
	}
}

/* Whether the map, read while threads ran, still has where they are now. */
static bool map_fits(const struct ms_frozen_stacks *stacks)
{
	const struct ms_thread *thread;

	ms_vec_for_each (thread, &stacks->threads)
		if (!ms_maps_find(&stacks->maps, thread->sp) ||
		    !ms_maps_find(&stacks->maps, thread->pc))
			return false;
	return true;
}

/* How much is copied of a thread's stack: the part that it has of all, within limits. */
static uint64_t most_of(const struct ms_frozen_stacks *stacks, const struct ms_thread *thread)
{
	uint64_t part = MS_ALL_STACK_BYTES / (stacks->threads.n + 1);

	if (thread->tid == stacks->pid)
		return MS_MAIN_STACK_BYTES;
	if (part < MS_LEAST_STACK_BYTES)
		return MS_LEAST_STACK_BYTES;
	return part < MS_STACK_BYTES ? part : MS_STACK_BYTES;
}

/* List the stack of @thread as far as it is copied, and the rest of it. */
static bool list_stack(struct ms_frozen_stacks *stacks, const struct ms_thread *thread,
                       struct ms_arena *arena)
{
	uint64_t most = most_of(stacks, thread);
	const struct ms_mapping *map = ms_maps_find(&stacks->maps, thread->sp);
	struct ms_range in_use;

	if (!map)
		return true;
	in_use = ms_range_common(map->range,
	                         (struct ms_range){ thread->sp - ms_native_arch.abi.red_zone_bytes,
	                                            thread->sp + most });
	return ms_ranges_add(arena, &stacks->copied, in_use.begin, in_use.end) &&
	       ms_ranges_add(arena, &stacks->missing, in_use.end, map->range.end);
}

/* List what to copy. Two stacks may lie in one mapping: then they are copied once. */
static bool list_stacks(struct ms_frozen_stacks *stacks, struct ms_arena *arena,
                        uint64_t *ret_bytes)
{
	const struct ms_thread *thread;
	struct ms_range *range;
	uint64_t bytes = 0;

	ms_vec_for_each (thread, &stacks->threads)
		if (!list_stack(stacks, thread, arena))
			return false;
	if (!ms_ranges_tidy(arena, &stacks->copied))
		return false;
	ms_vec_for_each (range, &stacks->copied) {
		if (bytes + ms_range_len(*range) <= MS_ALL_STACK_BYTES) {
			bytes += ms_range_len(*range);
			continue;
		}
		if (!ms_ranges_add(arena, &stacks->missing, range->begin, range->end))
			return false;
		range->end = range->begin;
	}
	*ret_bytes = bytes;
	return ms_ranges_tidy(arena, &stacks->missing);
}

static uint64_t read_memory(const struct ms_frozen_stacks *stacks, struct ms_range range, char *ret)
{
	uint64_t done = 0;

	while (range.begin + done < range.end && range.end <= INT64_MAX) {
		ssize_t n = pread(stacks->mem, ret + done, range.end - range.begin - done,
		                  (off_t)(range.begin + done));

		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	return done;
}

/*
 * Take memory for what is copied, as much as many threads may need: while they stand, each page
 * of it would take its time.
 */
static void reserve(struct ms_frozen_stacks *stacks, struct ms_arena *arena)
{
	const uint64_t wanted = (uint64_t)stacks->shared->n_before * MS_STACK_BYTES;
	size_t before;

	stacks->room = wanted < MS_ALL_STACK_BYTES ? wanted : MS_ALL_STACK_BYTES;
	stacks->bytes = ms_arena_alloc(arena, stacks->room);
	if (!stacks->bytes)
		return;
	before = (uintptr_t)stacks->bytes % ms_page_bytes();
	(void)madvise(stacks->bytes - before, before + stacks->room, MADV_POPULATE_WRITE);
}

/* The target is frozen: copy its stacks. */
static enum ms_status copy(struct ms_frozen_stacks *stacks, struct ms_arena *arena,
                           struct ms_error *err)
{
	enum ms_status st = ms_collection_threads(stacks->shared, arena, &stacks->threads, err);
	uint64_t bytes;
	uint64_t at = 0;

	stacks->living = stacks->shared->live_tid;
	if (!st && !map_fits(stacks))
		st = ms_maps_read(stacks->living, arena, &stacks->maps, err);
	if (st)
		return st;
	if (!list_stacks(stacks, arena, &bytes))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of stacks");
	if (!stacks->bytes || bytes > stacks->room)
		stacks->bytes = ms_arena_alloc(arena, bytes);
	stacks->copied_at =
		ms_arena_alloc(arena, (stacks->copied.n + 1) * sizeof(*stacks->copied_at));
	if (!stacks->bytes || !stacks->copied_at)
		return ms_fail(err, MS_E_NOMEM, "no memory for the stacks");
	for (size_t i = 0; i < stacks->copied.n; i++) {
		struct ms_range *range = &stacks->copied.at[i];

		range->end = range->begin + read_memory(stacks, *range, stacks->bytes + at);
		stacks->copied_at[i] = at;
		at += ms_range_len(*range);
	}
	return MS_OK;
}

static enum ms_status freeze_and_copy(struct ms_frozen_stacks *stacks, struct ms_arena *arena,
                                      struct ms_error *err)
{
	struct collector c = { .shared = stacks->shared, .channel = -1 };
	struct ms_ending endings;
	enum ms_status st;

	ms_ending_hold(&endings);
	st = start(&c, err);
	if (!st)
		reserve(stacks, arena); /* for this process alone */
	/* The collection process gets no code of malloc: threads stay where they are. */
	if (!st)
		st = ms_collection_freeze(c.shared, c.channel, err);
	if (!st) {
		struct ms_error ignored;
		enum ms_status copied = copy(stacks, arena, err);

		st = ms_collection_release(c.shared, c.channel, copied ? &ignored : err);
		st = copied ? copied : st;
	}
	end(&c);
	ms_ending_allow(&endings);
	return st;
}

/* What /proc has to say, for who unwinds may have no right to ask. */
static enum ms_status look_up(struct ms_frozen_stacks *stacks, struct ms_arena *arena,
                              struct ms_error *err)
{
	size_t n = stacks->threads.n;

	stacks->names = ms_arena_alloc(arena, (n + 1) * sizeof(*stacks->names));
	if (!stacks->names)
		return ms_fail(err, MS_E_NOMEM, "no memory for the names of threads");
	for (size_t i = 0; i < n; i++)
		ms_proc_name(stacks->threads.at[i].tid, stacks->names[i], MS_THREAD_NAME);
	return MS_OK;
}

enum ms_status ms_stacks_take(pid_t pid, uint64_t timeout_ns, struct ms_arena *arena,
                              struct ms_frozen_stacks *ret, struct ms_error *err)
{
	enum ms_status st;

	*ret = (struct ms_frozen_stacks){ .pid = pid,
		                          .living = ms_proc_living_thread(pid),
		                          .mem = -1 };
	if (!ret->living)
		return ms_fail(err, MS_E_GONE, "process %d ended", pid);
	ret->arch = ms_target_arch(ret->living);
	st = ms_maps_read(ret->living, arena, &ret->maps, err);
	if (!st)
		st = ms_target_open_mem(ret->living, &ret->mem, err);
	if (!st)
		st = ms_collection_create(pid, timeout_ns, &ret->shared, err);
	if (!st) {
		ret->shared->captured = MS_CAPTURED_GENERAL;
		st = freeze_and_copy(ret, arena, err);
	}
	return st ? st : look_up(ret, arena, err);
}

void ms_stacks_close(struct ms_frozen_stacks *stacks)
{
	if (stacks->mem >= 0)
		(void)close(stacks->mem);
	if (stacks->shared)
		ms_collection_destroy(stacks->shared);
}

/* Read what is at @addr in one piece: from a copy, or up to the next one. */
static size_t read_piece(const struct ms_frozen_stacks *stacks, ms_addr addr, char *buf, size_t len)
{
	struct ms_range live = { addr, addr + len >= addr ? addr + len : UINT64_MAX };
	const struct ms_ranges *copied = &stacks->copied;
	size_t i = ms_range_search(copied->at, copied->n, sizeof(*copied->at), addr);
	struct ms_range next;

	if (i == copied->n)
		return read_memory(stacks, live, buf);
	next = copied->at[i];
	if (ms_range_has(next, addr)) {
		size_t n = len < next.end - addr ? len : next.end - addr;

		memcpy(buf, stacks->bytes + stacks->copied_at[i] + (addr - next.begin), n);
		return n;
	}
	live.end = live.end < next.begin ? live.end : next.begin;
	return read_memory(stacks, live, buf);
}

size_t ms_stacks_read(const struct ms_frozen_stacks *stacks, ms_addr addr, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len && addr + done >= addr) {
		size_t n = read_piece(stacks, addr + done, (char *)buf + done, len - done);

		if (!n)
			break;
		done += n;
	}
	return done;
}
