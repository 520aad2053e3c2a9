/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/block.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "shim/bypass.h"
#include "shim/frames/frames.h"
#include "shim/guard/guard.h"
#include "shim/next.h"
#include "shim/out/reports.h"
#include "shim/out/say.h"
#include "shim/pointer.h"
#include "shim/registry.h"
#include "shim/shim.h"
#include "shim/track/freed.h"
#include "shim/track/trace.h"

/* Per thread. */
static MS_SHIM_TLS struct {
	struct ms_block_times times;
	uint64_t random;
} own; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

MS_SHIM_TLS size_t ms_until_sample; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- the next allocator ---- */

static void start_clock(void)
{
	if (ms_shim_has(MS_OPT_RECORD))
		own.times.start_ns = ms_now_ns();
}

static void stop_clock(void)
{
	if (ms_shim_has(MS_OPT_RECORD))
		own.times.end_ns = ms_now_ns();
}

struct ms_block_times ms_block_times(void)
{
	return own.times;
}

static void *get_chunk(size_t align, size_t size, bool zeroed)
{
	void *p;

	start_clock();
	if (zeroed)
		p = ms_next.calloc(1, size);
	else if (align)
		p = ms_next.memalign(align, size);
	else
		p = ms_next.malloc(size);
	stop_clock();
	return p;
}

static void give_chunk(void *orig)
{
	start_clock();
	ms_next.free(orig);
	stop_clock();
}

/* ---- which stack ---- */

/* Between one byte and twice the distance, so that no pattern of sizes is left out. */
static size_t next_distance(void)
{
	size_t sample = ms_shim.options.sample;

	if (!own.random)
		own.random = ms_now_ns() ^ (uint64_t)(uintptr_t)&own;
	own.random ^= own.random << 13;
	own.random ^= own.random >> 7;
	own.random ^= own.random << 17;
	return 1 + (size_t)(own.random % (sample < SIZE_MAX / 2 ? 2 * sample : SIZE_MAX));
}

static bool is_sampled(size_t size)
{
	if (!ms_shim.options.sample)
		return true;
	if (!ms_until_sample)
		ms_until_sample = next_distance();
	if (size < ms_until_sample) {
		ms_until_sample -= size;
		return false;
	}
	ms_until_sample = next_distance();
	return true;
}

static bool is_filtered(size_t size)
{
	return size < ms_shim.options.min_size || size > ms_shim.options.max_size;
}

static uint32_t take_trace(size_t size, size_t frames)
{
	uint64_t pc[MS_FRAMES_MAX];

	if (is_filtered(size))
		return MS_TRACE_NONE;
	return ms_trace_keep(pc, ms_frames_take(pc, frames));
}

/* ---- blocks that the table has no room for ---- */

/* Without memory for it; then they cannot be distinguished from what is no block. */
static size_t untracked; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static void enter(const void *p, struct ms_live live)
{
	static bool warned;

	if (ms_live_add(p, live) || !ms_shim_knows_all())
		return;
	(void)__atomic_fetch_add(&untracked, 1, __ATOMIC_RELAXED);
	if (!__atomic_exchange_n(&warned, true, __ATOMIC_RELAXED))
		ms_say("Unable to track all blocks: out of memory.");
}

/* What the header and the list of freed blocks say of a pointer that is not in the table. */
static bool may_be_untracked(const void *p)
{
	struct ms_freed freed;
	uint32_t tag;

	if (!__atomic_load_n(&untracked, __ATOMIC_RELAXED))
		return false;
	if (ms_shim_has(MS_OPT_HEADER))
		return ms_guard_probe_tag(&ms_shim.options, p, &tag) && tag == MS_TAG_LIVE &&
		       ms_guard_is_whole(&ms_shim.options, p);
	return !ms_shim_has(MS_OPT_FREE_TRACK) || !ms_freed_find(p, &freed);
}

static bool take_untracked(const void *p)
{
	size_t n = __atomic_load_n(&untracked, __ATOMIC_RELAXED);

	if (!may_be_untracked(p))
		return false;
	while (n && !__atomic_compare_exchange_n(&untracked, &n, n - 1, true, __ATOMIC_RELAXED,
	                                         __ATOMIC_RELAXED))
		;
	return n > 0;
}

/* Enter a new block; with sampling alone the table has those with a stack. */
static void track(const void *p, size_t size)
{
	struct ms_live live = { .size = size, .trace = MS_TRACE_OFF };

	if (!p || !ms_shim_tracks())
		return;
	ms_live_prefetch(p);
	if (ms_shim_has(MS_OPT_BACKTRACE) && __atomic_load_n(&ms_shim.capturing, __ATOMIC_RELAXED))
		live.trace =
			is_sampled(size) ? take_trace(size, ms_shim.options.frames) : MS_TRACE_NONE;
	if (ms_shim_knows_all() || live.trace >= MS_TRACE_FIRST)
		enter(p, live);
}

/* ---- making ---- */

static void fill_new(void *p, size_t from)
{
	size_t n = least(ms_usable_size(p), ms_shim.options.fill_on_alloc);

	if (n > from)
		memset((char *)p + from, MS_ALLOC_BYTE, n - from);
}

static void *make_with_header(size_t align, size_t size, bool zeroed)
{
	size_t whole;
	void *orig;

	if (align < MS_BLOCK_ALIGN)
		align = MS_BLOCK_ALIGN;
	while (align & (align - 1))
		align += align & -align; /* to the next power of two */
	if (!align ||
	    __builtin_add_overflow(size, ms_guard_extra(&ms_shim.options, align), &whole)) {
		errno = ENOMEM;
		return NULL;
	}
	orig = get_chunk(0, whole, zeroed);
	if (!orig)
		return NULL;
	return ms_guard_make(&ms_shim.options, orig, ms_next.usable_size(orig), align, size);
}

static void *make_plain(size_t align, size_t size, bool zeroed)
{
	size_t whole;

	if (__builtin_add_overflow(size, ms_shim.options.expand, &whole)) {
		errno = ENOMEM;
		return NULL;
	}
	return get_chunk(align, whole, zeroed);
}

static void *make(size_t align, size_t size, bool zeroed)
{
	void *p;

	if (!size)
		size = 1;
	if (ms_shim_has(MS_OPT_HEADER))
		p = make_with_header(align, size, zeroed);
	else
		p = make_plain(align, size, zeroed);
	track(p, size);
	return p;
}

void *ms_block_make(size_t align, size_t size)
{
	void *p = make(align, size, false);

	if (p && ms_shim_has(MS_OPT_FILL_ON_ALLOC))
		fill_new(p, 0);
	return p;
}

void *ms_block_make_zeroed(size_t size)
{
	return make(0, size, true);
}

/* ---- looking ---- */

size_t ms_usable_size(const void *p)
{
	if (ms_shim_has(MS_OPT_HEADER))
		return ms_guard_header(&ms_shim.options, p)->usable;
	return ms_next.usable_size(ms_pointer((uintptr_t)p));
}

static bool is_damaged(const void *p)
{
	return ms_shim_has(MS_OPT_HEADER) &&
	       (ms_guard_header(&ms_shim.options, p)->tag != MS_TAG_LIVE ||
	        !ms_guard_is_whole(&ms_shim.options, p));
}

/*
 * Whether nothing in front of @p is as we have written it, not even in part. Zeros have the
 * right sum.
 */
static bool has_no_header(const void *p, bool found)
{
	const struct ms_header *header = ms_guard_header(&ms_shim.options, p);
	const uint8_t *guard = (const uint8_t *)p - ms_shim.options.front_guard;
	size_t offset;
	uint32_t tag;

	if (!ms_guard_probe_tag(&ms_shim.options, p, &tag))
		return true;
	offset = (uintptr_t)p - (uintptr_t)header->orig;
	if (header->orig && offset >= ms_guard_offset(&ms_shim.options) &&
	    ms_guard_is_whole(&ms_shim.options, p))
		return false;
	if (found && (tag == MS_TAG_LIVE || tag == MS_TAG_FREED))
		return false;
	return !ms_shim.options.front_guard || *guard != MS_FRONT_BYTE;
}

/*
 * Whether @p, which is not in the table, or has another header than its entry says, is a block
 * of a library that calls the next allocator itself. Ours that was freed still has its header,
 * or is among those kept.
 */
static bool is_foreign(const void *p, bool found)
{
	struct ms_freed freed;

	if (!ms_bypass_look() || (ms_shim_has(MS_OPT_HEADER) && !has_no_header(p, found)) ||
	    (ms_shim_has(MS_OPT_FREE_TRACK) && ms_freed_find(p, &freed)))
		return false;
	ms_registry_bypassed();
	return true;
}

enum ms_block_whose ms_block_take(const void *p, const char *function, struct ms_live *ret)
{
	bool found;

	*ret = (struct ms_live){ 0 };
	if (!ms_shim_tracks())
		return MS_BLOCK_OURS;
	found = ms_live_remove(p, ret);
	if (!ms_shim_knows_all())
		return MS_BLOCK_OURS;
	if (found ? !is_damaged(p) : take_untracked(p))
		return MS_BLOCK_OURS;
	if (is_foreign(p, found))
		return MS_BLOCK_FOREIGN;
	if (found)
		enter(p, *ret);
	ms_report_pointer(p, function, found);
	return MS_BLOCK_NONE;
}

enum ms_block_whose ms_block_find(const void *p, const char *function, struct ms_live *ret)
{
	bool found = ms_live_find(p, ret);

	if (found ? !is_damaged(p) : may_be_untracked(p))
		return MS_BLOCK_OURS;
	if (is_foreign(p, found))
		return MS_BLOCK_FOREIGN;
	ms_report_pointer(p, function, found);
	return MS_BLOCK_NONE;
}

/* Put back what was taken. */
static void put_back(const void *p, struct ms_live was)
{
	if (ms_shim_knows_all() || was.trace >= MS_TRACE_FIRST)
		enter(p, was);
}

/* ---- releasing ---- */

static void *chunk_of(const void *p)
{
	if (ms_shim_has(MS_OPT_HEADER))
		return ms_guard_header(&ms_shim.options, p)->orig;
	return ms_pointer((uintptr_t)p);
}

static void check_and_free(const struct ms_freed *block)
{
	if (ms_report_freed(block))
		give_chunk(chunk_of(ms_pointer(block->p)));
}

/* A damaged header is left alone: its chunk is lost. */
static void keep_for_a_while(const void *p, size_t usable)
{
	struct ms_freed block = { (uintptr_t)p, usable, MS_TRACE_OFF };
	struct ms_freed oldest;

	if (ms_shim.options.free_frames)
		block.trace = take_trace(usable, ms_shim.options.free_frames);
	if (ms_freed_push(block, &oldest))
		check_and_free(&oldest);
}

void ms_block_release(void *p)
{
	size_t usable = 0;

	if (ms_shim_has(MS_OPT_FILL_ON_FREE | MS_OPT_FREE_TRACK))
		usable = ms_usable_size(p);
	if (ms_shim_has(MS_OPT_HEADER)) {
		ms_report_guards(p);
		ms_guard_header(&ms_shim.options, p)->tag = MS_TAG_FREED;
	}
	if (ms_shim_has(MS_OPT_FILL_ON_FREE))
		memset(p, MS_FREE_BYTE, least(usable, ms_shim.options.fill_on_free));
	start_clock();
	stop_clock(); /* it may only be kept */
	if (ms_shim_has(MS_OPT_FREE_TRACK))
		keep_for_a_while(p, usable);
	else
		give_chunk(chunk_of(p));
}

void ms_block_flush_freed(void)
{
	struct ms_freed block;

	while (ms_freed_pop(&block))
		check_and_free(&block);
}

/* ---- resizing ---- */

/* The guard behind is where the block's end is now, and moves with it. */
static void *resize_with_header(void *p, size_t size, struct ms_live was)
{
	struct ms_header *header = ms_guard_header(&ms_shim.options, p);
	size_t wanted;
	void *grown;

	if (__builtin_add_overflow(size, ms_shim.options.expand, &wanted)) {
		errno = ENOMEM;
		put_back(p, was);
		return NULL;
	}
	if (wanted == header->size || wanted < header->usable) {
		if (wanted != header->size)
			ms_guard_shrink(&ms_shim.options, p, wanted);
		track(p, size);
		return p;
	}
	grown = ms_block_make(0, size);
	if (!grown) {
		put_back(p, was);
		return NULL;
	}
	memcpy(grown, p, least(header->usable, ms_usable_size(grown)));
	ms_block_release(p);
	return grown;
}

void *ms_block_resize(void *p, size_t size, struct ms_live was)
{
	size_t usable;
	size_t whole;
	void *grown = NULL;

	if (ms_shim_has(MS_OPT_HEADER))
		return resize_with_header(p, size, was);
	usable = ms_next.usable_size(p);
	if (!__builtin_add_overflow(size, ms_shim.options.expand, &whole)) {
		start_clock();
		grown = ms_next.realloc(p, whole);
		stop_clock();
	} else {
		errno = ENOMEM;
	}
	if (!grown) {
		put_back(p, was);
		return NULL;
	}
	track(grown, size);
	if (ms_shim_has(MS_OPT_FILL_ON_ALLOC))
		fill_new(grown, usable);
	return grown;
}

void *ms_block_adopt(void *p, size_t size)
{
	void *moved = size ? ms_block_make(0, size) : NULL;

	if (size && !moved)
		return NULL;
	if (moved)
		memcpy(moved, p, least(ms_next.usable_size(p), size));
	give_chunk(p);
	return moved;
}
