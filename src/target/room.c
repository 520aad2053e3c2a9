/* SPDX-License-Identifier: Apache-2.0 */
#include "target/room.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/libc/libc.h"
#include "engine/signal_frame.h"
#include "target/maps.h"
#include "target/proc.h"

enum { ALIGNMENT = 64 /* XRSTOR wants it */, PIECE_WORDS = 512 };

static bool add_place(struct ms_arena *arena, const struct ms_mapping *map,
                      struct ms_stack_places *ret)
{
	bool main = !strcmp(map->name, "[stack]");
	struct ms_stack_place *place;

	if (map->inode || map->shared || !(map->prot & MS_PROT_WRITE) ||
	    !(map->prot & MS_PROT_READ) || !strcmp(map->name, "[heap]"))
		return true;
	place = ms_vec_push(arena, ret);
	if (place)
		*place = (struct ms_stack_place){ map->range, main };
	return place;
}

enum ms_status ms_stack_places_find(pid_t pid, struct ms_arena *arena, struct ms_stack_places *ret,
                                    struct ms_error *err)
{
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;
	enum ms_status st = ms_maps_read(ms_proc_thread_of(pid), arena, &maps, err);

	if (st)
		return st;
	ms_vec_for_each (map, &maps)
		if (!add_place(arena, map, ret))
			return ms_fail(err, MS_E_NOMEM, "no memory for the list of stacks");
	return MS_OK;
}

/*
 * The part of @place that is the thread's stack, as the C library has it, or the kernel for the
 * main thread.
 */
static bool find_stack(const struct ms_stack_place *place, const struct ms_room_of *thread,
                       struct ms_range *ret)
{
	uint8_t bytes[MS_LIBC_BLOCK_BYTES];
	struct ms_libc_bytes block = { .abi = thread->abi,
		                       .at = ms_libc_from(thread->abi, thread->tp),
		                       .bytes = bytes,
		                       .tp = thread->tp };
	const struct ms_libc_ops *libc;
	struct ms_stack_record record;
	size_t at = 0;

	if (thread->tp)
		block.n = ms_room_read(thread->tid, block.at, bytes, sizeof(bytes));
	libc = ms_libc_of(ms_libcs, &block);
	while (libc->next_stack(&block, &at, &record)) {
		if (!ms_range_has(record.block, thread->sp))
			continue;
		*ret = record.block;
		if (ret->begin < place->range.begin)
			ret->begin = place->range.begin;
		if (ret->end > place->range.end)
			ret->end = place->range.end;
		return true;
	}
	*ret = place->range;
	return place->main && thread->main;
}

/* Whether what lies below may be a stack that a signal handler has interrupted, not a free one. */
static bool is_on_signal_stack(const struct ms_room_of *thread, struct ms_range stack)
{
	const struct ms_signal_layout *layout = &thread->abi->signal_frame;
	const uint8_t word = thread->abi->word_bytes;
	ms_addr at = ms_align_up(thread->sp, word);
	ms_addr end = stack.end;
	uint64_t words[PIECE_WORDS];
	ms_addr interrupted;

	if (end > at && end - at > MS_SIGNAL_FRAMES_BYTES)
		end = at + MS_SIGNAL_FRAMES_BYTES;
	while (at < end) {
		const size_t most = PIECE_WORDS * (size_t)word;
		size_t len = end - at < most ? (size_t)(end - at) : most;
		size_t n = ms_room_read(thread->tid, at, words, len) / word;

		if (n < layout->words)
			return false;
		ms_abi_spread(thread->abi, words, n);
		for (size_t i = 0; i + layout->words <= n; i++)
			if (ms_signal_frame_at(layout, words + i, at + word * i, thread->sp,
			                       &interrupted))
				return true;
		at += word * (n - layout->words + 1);
	}
	return false;
}

/* All that is free below the red zone. */
static bool find(const struct ms_stack_places *places, const struct ms_room_of *thread,
                 struct ms_range *ret)
{
	const ms_addr red_zone = thread->abi->red_zone_bytes;
	ms_addr sp = thread->sp;
	size_t i = ms_range_search(places->at, places->n, sizeof(*places->at), sp);
	struct ms_range stack;

	if (i == places->n || !ms_range_has(places->at[i].range, sp) ||
	    !find_stack(&places->at[i], thread, &stack) ||
	    sp - stack.begin < red_zone + ALIGNMENT || is_on_signal_stack(thread, stack))
		return false;
	*ret = (struct ms_range){ stack.begin, ms_align_down(sp - red_zone, ALIGNMENT) };
	return true;
}

/* Leave the uppermost @bytes of @room. */
static bool cut(struct ms_range *room, size_t bytes)
{
	if (room->end - room->begin < bytes)
		return false;
	room->begin = room->end - bytes;
	return true;
}

bool ms_room_for_timeout(const struct ms_stack_places *places, const struct ms_room_of *thread,
                         struct ms_range *ret)
{
	return find(places, thread, ret) && cut(ret, MS_ROOM_TIMEOUT);
}

bool ms_room_for_calls(const struct ms_stack_places *places, const struct ms_room_of *thread,
                       size_t bytes, struct ms_range *ret)
{
	if (!find(places, thread, ret) || ret->end - ret->begin < MS_ROOM_TIMEOUT)
		return false;
	ret->end -= MS_ROOM_TIMEOUT;
	return cut(ret, bytes);
}

bool ms_room_is_allowed(void)
{
	return !process_vm_readv(getpid(), NULL, 0, NULL, 0, 0) &&
	       !process_vm_writev(getpid(), NULL, 0, NULL, 0, 0);
}

/* Not through /proc/TID/mem, which writes to read-only pages, too. */

size_t ms_room_read(pid_t tid, ms_addr addr, void *buf, size_t len)
{
	/* cppcheck-suppress ctuuninitvar ; it is written to, as its type cannot say */
	struct iovec local = { buf, len };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	struct iovec remote = { (void *)(uintptr_t)addr, len };
	ssize_t n = process_vm_readv(tid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

size_t ms_room_write(pid_t tid, ms_addr addr, const void *buf, size_t len)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is only read, as its type cannot say */
	struct iovec local = { (void *)(uintptr_t)buf, len };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	struct iovec remote = { (void *)(uintptr_t)addr, len };
	ssize_t n = process_vm_writev(tid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}
