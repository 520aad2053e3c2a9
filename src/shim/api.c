/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "malloc_debug/malloc_debug.h"
#include "shim/block.h"
#include "shim/gate.h"
#include "shim/next.h"
#include "shim/out/heapdump.h"
#include "shim/out/listing.h"
#include "shim/out/say.h"
#include "shim/pointer.h"
#include "shim/shim.h"
#include "shim/track/outside.h"

static bool is_on(uint32_t bits)
{
	return ms_shim.phase == MS_SHIM_ON && ms_shim_has(bits);
}

/* ---- leak info ---- */

struct leak_info {
	uint8_t *info;
	size_t overall;
	size_t record;
	size_t total;
	size_t frames;
};

/* As wide as the program's addresses are, which the table's need not be. */
static void put_pcs(uint8_t *at, const struct ms_trace *trace, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uintptr_t pc = (uintptr_t)trace->pc[i];

		memcpy(at + i * sizeof(pc), &pc, sizeof(pc));
	}
}

static void put_record(uint8_t *at, const struct ms_group *group)
{
	const struct ms_trace *trace = ms_trace_find(group->trace);

	memcpy(at, &group->size, sizeof(group->size));
	memcpy(at + sizeof(size_t), &group->count, sizeof(group->count));
	if (trace)
		put_pcs(at + 2 * sizeof(size_t), trace, trace->n);
}

/* The records come from the next allocator, and free() may have them as well. */
static struct leak_info list_leaks(struct ms_arena *arena)
{
	struct ms_groups groups = { 0 };
	struct leak_info leaks = { 0 };

	if (!ms_listing_groups(arena, false, &groups) || !groups.n)
		return leaks;
	leaks.frames = ms_shim.options.frames;
	leaks.record = 2 * sizeof(size_t) + leaks.frames * sizeof(uintptr_t);
	leaks.overall = leaks.record * groups.n;
	leaks.info = ms_next.calloc(groups.n, leaks.record);
	ms_outside_add(leaks.info);
	for (size_t i = 0; i < groups.n; i++) {
		leaks.total += groups.at[i].size * groups.at[i].count;
		if (leaks.info)
			put_record(leaks.info + i * leaks.record, &groups.at[i]);
	}
	return leaks;
}

MS_SHIM_EXPORT void get_malloc_leak_info(uint8_t **info, size_t *overall_size, size_t *info_size,
                                         size_t *total_memory, size_t *backtrace_size)
{
	struct leak_info leaks = { 0 };
	struct ms_arena arena = { 0 };

	if (!info || !overall_size || !info_size || !total_memory || !backtrace_size) {
		ms_say("get_malloc_leak_info: At least one invalid parameter.");
		return;
	}
	if (!is_on(MS_OPT_BACKTRACE)) {
		if (ms_shim.phase != MS_SHIM_HOOKS)
			ms_say("get_malloc_leak_info: Allocations not being tracked, to enable set the "
			       "option 'backtrace'.");
	} else if (ms_gate_enter()) {
		leaks = list_leaks(&arena);
		ms_arena_deinit(&arena);
		ms_gate_leave();
	}
	*info = leaks.info;
	*overall_size = leaks.overall;
	*info_size = leaks.record;
	*total_memory = leaks.total;
	*backtrace_size = leaks.frames;
}

MS_SHIM_EXPORT void free_malloc_leak_info(uint8_t *info)
{
	if (!info || !ms_outside_take(info))
		return;
	ms_next.free(info);
	if (ms_next.malloc_trim)
		(void)ms_next.malloc_trim(0);
}

/* ---- heap dumps ---- */

MS_SHIM_EXPORT bool write_malloc_leak_info(FILE *stream)
{
	bool done;

	if (!is_on(MS_OPT_BACKTRACE) || fflush(stream) != 0 || !ms_gate_enter())
		return false;
	done = ms_heapdump_to(fileno(stream));
	ms_gate_leave();
	return done;
}

MS_SHIM_EXPORT bool debug_dump_heap(const char *path)
{
	bool done;

	if (!is_on(MS_OPT_BACKTRACE) || !ms_gate_enter())
		return false;
	done = ms_heapdump_file(path);
	ms_gate_leave();
	return done;
}

/* ---- the same, as Android's programs ask for it ---- */

/* On Linux it is an environment variable; the text is what programs know. */
static bool write_or_tell(FILE *stream)
{
	if (write_malloc_leak_info(stream))
		return true;
	(void)fputs("Native heap dump not available. To enable, run these commands "
	            "(requires root):\n"
	            "# adb shell stop\n"
	            "# adb shell setprop libc.debug.malloc.options backtrace\n"
	            "# adb shell start\n",
	            stream);
	errno = ENOTSUP;
	return false;
}

static void get_info(android_mallopt_leak_info_t *ret)
{
	get_malloc_leak_info(&ret->buffer, &ret->overall_size, &ret->info_size, &ret->total_memory,
	                     &ret->backtrace_size);
}

MS_SHIM_EXPORT bool android_mallopt(int opcode, void *arg, size_t arg_size)
{
	bool writes = opcode == M_WRITE_MALLOC_LEAK_INFO_TO_FILE;
	bool loaded = ms_shim.phase == MS_SHIM_ON || ms_shim.phase == MS_SHIM_HOOKS;

	if (!writes && opcode != M_GET_MALLOC_LEAK_INFO && opcode != M_FREE_MALLOC_LEAK_INFO) {
		errno = ENOTSUP;
		return false;
	}
	if (!arg || arg_size != (writes ? sizeof(FILE *) : sizeof(android_mallopt_leak_info_t))) {
		errno = EINVAL;
		return false;
	}
	if (writes)
		return write_or_tell(arg);
	if (!loaded) {
		errno = ENOTSUP;
		return false;
	}
	if (opcode == M_GET_MALLOC_LEAK_INFO)
		get_info(arg);
	else
		free_malloc_leak_info(((android_mallopt_leak_info_t *)arg)->buffer);
	return true;
}

/* ---- single blocks ---- */

MS_SHIM_EXPORT size_t malloc_backtrace(const void *pointer, uintptr_t *frames, size_t frame_count)
{
	const struct ms_trace *trace = NULL;
	struct ms_live live;
	size_t n;

	if (!pointer || !is_on(MS_OPT_BACKTRACE) || !ms_gate_enter())
		return 0;
	if (ms_live_find(pointer, &live))
		trace = ms_trace_find(live.trace);
	ms_gate_leave();
	n = trace ? trace->n : 0;
	if (n > frame_count)
		n = frame_count;
	if (n)
		put_pcs((uint8_t *)frames, trace, n);
	return n;
}

static size_t usable_of(uintptr_t p)
{
	return ms_usable_size(ms_pointer(p));
}

/* Of a copy of the table, so that the callback may allocate and free. */
MS_SHIM_EXPORT int malloc_iterate(uintptr_t base, size_t size,
                                  void (*callback)(uintptr_t base, size_t size, void *arg),
                                  void *arg)
{
	struct ms_arena arena = { 0 };
	struct ms_live_blocks blocks = { 0 };
	bool was;

	(void)base;
	(void)size;
	if (ms_shim.phase == MS_SHIM_HOOKS)
		return 0;
	if (!is_on(MS_OPT_TRACK)) {
		errno = ENOTSUP;
		return -1;
	}
	was = ms_gate_exclude();
	(void)ms_live_list(&arena, usable_of, &blocks);
	ms_gate_include(was);
	for (size_t i = 0; i < blocks.n; i++)
		callback(blocks.at[i].p, blocks.at[i].usable, arg);
	ms_arena_deinit(&arena);
	return 0;
}

/*
 * A thread that samples goes past the gate most times, and is made to look at it. That is
 * undone by the first thread that enters again (triggers.c).
 */
MS_SHIM_EXPORT void malloc_disable(void)
{
	if (ms_shim.phase != MS_SHIM_ON)
		return;
	ms_gate_close_to_all();
	__atomic_store_n(&ms_shim.way, MS_SHIM_CARE, __ATOMIC_SEQ_CST);
}

MS_SHIM_EXPORT void malloc_enable(void)
{
	if (ms_shim.phase == MS_SHIM_ON)
		ms_gate_open();
}
