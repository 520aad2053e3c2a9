/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The functions that stand in front of the C library's. Each has three ways: before the
 * next allocator is known, from early bytes; inside the gate, as the options want it; and
 * otherwise (before the start, without the shim, or called from inside of it) straight to
 * the next allocator, or the program's hooks; that is remembered as long as blocks of ours
 * are distinguished.
 */

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/block.h"
#include "shim/frames/frames.h"
#include "shim/frames/walk.h"
#include "shim/gate.h"
#include "shim/hooks/hooks.h"
#include "shim/next.h"
#include "shim/out/record.h"
#include "shim/registry.h"
#include "shim/shim.h"
#include "shim/track/deferred.h"
#include "shim/track/live.h"
#include "shim/track/outside.h"
#include "shim/triggers.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

static void free_inside(void *p)
{
	uint64_t record;
	struct ms_live was;

	ms_live_prefetch(p);
	__builtin_prefetch((const char *)p - sizeof(void *)); /* what allocators keep of it */
	if (ms_shim_knows_all() && ms_outside_take(p)) {
		ms_next.free(p);
		return;
	}
	record = ms_record_reserve();
	switch (ms_block_take(p, "free", &was)) {
	case MS_BLOCK_OURS:
		ms_block_release(p);
		break;
	case MS_BLOCK_FOREIGN:
		ms_next.free(p);
		break;
	case MS_BLOCK_NONE:
		return;
	}
	ms_record_fill(record, &(struct ms_record){ .what = MS_RECORD_FREE, .p = (uintptr_t)p });
}

static void free_deferred(void)
{
	unsigned at = 0;
	void *p;

	while ((at = ms_deferred_take(at, &p)) < MS_DEFERRED)
		free_inside(p);
}

/*
 * True inside the gate, which the caller then leaves by leave(). In line, as the frame is
 * to be that of a function which returns later than that.
 */
static inline __attribute__((always_inline)) bool enter(void)
{
	if (!LIKELY(ms_shim.phase == MS_SHIM_ON) || !ms_gate_enter())
		return false;
	ms_frames_from = __builtin_frame_address(0);
	/* with samples alone, most calls by the loader do not come here */
	if (ms_shim.light || !LIKELY(!ms_walk_is_loader((uintptr_t)__builtin_return_address(0))))
		ms_walk_doubt();
	if (!LIKELY(ms_shim_way() == ms_shim.usual) || !LIKELY(!ms_triggers_pending()))
		ms_triggers_run();
	if (!LIKELY(!ms_deferred_any()))
		free_deferred();
	return true;
}

static inline void leave(void)
{
	ms_frames_from = NULL;
	ms_gate_leave();
}

/* Whether nothing is to be done about @p, a block of whatever origin, which is not early. */
static inline bool is_plain(const void *p)
{
	return LIKELY(ms_shim_way() == MS_SHIM_LIGHT) ? LIKELY(!ms_live_maybe(p))
	                                              : ms_shim_way() == MS_SHIM_PAST;
}

/* Whether a new block of @size bytes is none of our business. */
static inline bool passes(size_t size)
{
	return LIKELY(ms_shim_way() == MS_SHIM_LIGHT) ? LIKELY(ms_block_skips(size))
	                                              : ms_shim_way() == MS_SHIM_PAST;
}

/* Whether blocks of ours are distinguished from others, or may have to be. */
static inline bool remembers(void)
{
	return ms_shim.phase < MS_SHIM_OFF &&
	       (ms_shim.phase == MS_SHIM_STARTING || ms_shim_knows_all());
}

static void *outside(void *p)
{
	if (remembers())
		ms_outside_add(p);
	return p;
}

/* ---- allocating ---- */

static void *allocate_inside(size_t align, size_t size)
{
	uint64_t record = ms_record_reserve();
	void *p = ms_block_make(align, size);

	ms_record_fill(record,
	               &(struct ms_record){ .what = align ? MS_RECORD_MEMALIGN : MS_RECORD_MALLOC,
	                                    .p = (uintptr_t)p,
	                                    .size = size,
	                                    .more = align });
	return p;
}

/*
 * Not through the gate. In line, as allocate(), so that the caller, and whose frame it is,
 * is the program; or at least one of us that the program called.
 */
static inline __attribute__((always_inline)) void *allocate_past(size_t align, size_t size)
{
	const bool hooked = ms_shim.phase == MS_SHIM_HOOKS;

	if (hooked && align)
		return ms_hooks_memalign(align, size, __builtin_return_address(0));
	if (hooked)
		return ms_hooks_malloc(size, __builtin_return_address(0));
	return outside(align ? ms_next.memalign(align, size) : ms_next.malloc(size));
}

static inline __attribute__((always_inline)) void *allocate(size_t align, size_t size)
{
	void *p;

	if (!ms_next_ready())
		return align <= MS_EARLY_ALIGN ? ms_early_alloc(size) : NULL;
	if (!enter())
		return allocate_past(align, size);
	p = allocate_inside(align, size);
	leave();
	return p;
}

/*
 * What may pass at once does so in a function that needs no frame: the other one is called
 * last, by a jump, so that it returns to the program.
 */
__attribute__((noinline)) static void *malloc_with_care(size_t size)
{
	return allocate(0, size);
}

MS_SHIM_EXPORT void *malloc(size_t size)
{
	return passes(size) ? ms_next.malloc(size) : malloc_with_care(size);
}

MS_SHIM_EXPORT void *memalign(size_t alignment, size_t size)
{
	return allocate(alignment ? alignment : 1, size);
}

__attribute__((noinline)) static void *calloc_with_care(size_t nmemb, size_t size)
{
	size_t bytes = nmemb * size;
	uint64_t record;
	void *p;

	if (!ms_next_ready())
		return ms_early_alloc(bytes);
	if (!enter())
		return ms_shim.phase == MS_SHIM_HOOKS
		               ? ms_hooks_calloc(bytes, __builtin_return_address(0))
		               : outside(ms_next.calloc(1, bytes));
	record = ms_record_reserve();
	p = ms_block_make_zeroed(bytes);
	ms_record_fill(record, &(struct ms_record){ .what = MS_RECORD_CALLOC,
	                                            .p = (uintptr_t)p,
	                                            .size = size,
	                                            .more = nmemb });
	leave();
	return p;
}

MS_SHIM_EXPORT void *calloc(size_t nmemb, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(nmemb, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return passes(bytes) ? ms_next.calloc(nmemb, size) : calloc_with_care(nmemb, size);
}

/* Stricter than the C library up to 2.37, as Android is. */
MS_SHIM_EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	if (!alignment || (alignment & (alignment - 1)) != 0 || size % alignment != 0) {
		errno = EINVAL;
		return NULL;
	}
	return allocate(alignment, size);
}

MS_SHIM_EXPORT int posix_memalign(void **memptr, size_t alignment, size_t size)
{
	int kept = errno;
	void *p;

	if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0)
		return EINVAL;
	p = allocate(alignment, size);
	errno = kept;
	if (!p)
		return ENOMEM;
	*memptr = p;
	return 0;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

MS_SHIM_EXPORT void *valloc(size_t size)
{
	return allocate(page_bytes(), size);
}

MS_SHIM_EXPORT void *pvalloc(size_t size)
{
	size_t more;

	if (__builtin_add_overflow(size ? size : 1, page_bytes() - 1, &more)) {
		errno = ENOMEM;
		return NULL;
	}
	return allocate(page_bytes(), more & ~(page_bytes() - 1));
}

/* ---- freeing ---- */

__attribute__((noinline)) static void free_with_care(void *ptr)
{
	int kept = errno;

	if (!ptr && ms_shim.phase == MS_SHIM_HOOKS)
		ms_hooks_free(NULL, __builtin_return_address(0));
	if (!ptr || ms_is_early(ptr) || !ms_next_ready())
		return;
	if (enter()) {
		free_inside(ptr);
		leave();
	} else if (ms_shim.phase == MS_SHIM_ON && ms_shim_tracks() && !ms_outside_take(ptr)) {
		ms_deferred_add(ptr);
	} else if (ms_shim.phase == MS_SHIM_HOOKS) {
		ms_hooks_free(ptr, __builtin_return_address(0));
	} else {
		if (ms_shim.phase == MS_SHIM_STARTING)
			(void)ms_outside_take(ptr);
		ms_next.free(ptr);
	}
	errno = kept;
}

MS_SHIM_EXPORT void free(void *ptr)
{
	/* early blocks are known behind this, or there are none */
	if (LIKELY(is_plain(ptr)))
		ms_next.free(ptr);
	else
		free_with_care(ptr);
}

/* ---- resizing ---- */

static void *realloc_inside(void *ptr, size_t size)
{
	uint64_t record = ms_record_reserve();
	struct ms_record done = { .what = MS_RECORD_REALLOC, .size = size, .more = (uintptr_t)ptr };
	enum ms_block_whose whose;
	struct ms_live was;
	void *p = NULL;

	whose = ptr ? ms_block_take(ptr, "realloc", &was) : MS_BLOCK_OURS;
	if (!ptr) {
		p = ms_block_make(0, size);
	} else if (whose == MS_BLOCK_NONE) {
		return NULL;
	} else if (whose == MS_BLOCK_FOREIGN) {
		p = ms_block_adopt(ptr, size);
	} else if (!size) {
		ms_block_release(ptr);
	} else {
		p = ms_block_resize(ptr, size, was);
	}
	done.p = (uintptr_t)p;
	/* as on Android, what fails is not recorded, nor what stays where it is by its header */
	if (!ptr || !size || (p && (p != ptr || !ms_shim_has(MS_OPT_HEADER))))
		ms_record_fill(record, &done);
	return p;
}

/* Into a block that is made as this call would make one. */
static void *move(const void *from, size_t usable, size_t size)
{
	void *p = malloc(size);

	return p ? memcpy(p, from, usable < size ? usable : size) : NULL;
}

/* Of the next allocator's own. NULL with @size 0, for then it is freed. */
static void *realloc_outside(void *ptr, size_t size)
{
	void *p;

	if (!size) {
		free(ptr);
		return NULL;
	}
	p = move(ptr, ms_next.usable_size(ptr), size);
	if (p)
		free(ptr);
	return p;
}

/* Ours, called from inside of the shim. The table may be locked; the header is not. */
static void *realloc_from_inside(void *ptr, size_t size)
{
	void *p = NULL;

	if (size) {
		p = move(ptr, ms_usable_size(ptr), size);
		if (!p)
			return NULL;
	}
	ms_deferred_add(ptr);
	return p;
}

__attribute__((noinline)) static void *realloc_with_care(void *ptr, size_t size)
{
	void *p;

	if (ms_is_early(ptr))
		return move(ptr, ms_early_size(ptr), size);
	if (!ms_next_ready())
		return ms_early_alloc(size);
	if (ptr && remembers() && ms_outside_has(ptr))
		return realloc_outside(ptr, size);
	if (enter()) {
		p = realloc_inside(ptr, size);
		leave();
		return p;
	}
	if (ptr && ms_shim.phase == MS_SHIM_ON && ms_shim_tracks())
		return realloc_from_inside(ptr, size);
	if (ms_shim.phase == MS_SHIM_HOOKS)
		return ms_hooks_realloc(ptr, size, __builtin_return_address(0));
	return outside(ms_next.realloc(ptr, size));
}

MS_SHIM_EXPORT void *realloc(void *ptr, size_t size)
{
	if (is_plain(ptr) && passes(size))
		return ms_next.realloc(ptr, size);
	return realloc_with_care(ptr, size);
}

MS_SHIM_EXPORT void *reallocarray(void *ptr, size_t nmemb, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(nmemb, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(ptr, bytes);
}

/* ---- asking ---- */

/* From now on the program may use all of it. */
static size_t usable_inside(void *ptr)
{
	enum ms_block_whose whose;
	struct ms_live live;

	if (ms_outside_has(ptr))
		return ms_next.usable_size(ptr);
	whose = ms_shim_knows_all() ? ms_block_find(ptr, "malloc_usable_size", &live)
	                            : MS_BLOCK_OURS;
	if (whose == MS_BLOCK_NONE)
		return 0;
	if (whose == MS_BLOCK_FOREIGN)
		return ms_next.usable_size(ptr);
	if (ms_shim_tracks())
		ms_live_flag(ptr, MALLOC_DEBUG_USABLE_ASKED);
	return ms_usable_size(ptr);
}

MS_SHIM_EXPORT size_t malloc_usable_size(void *ptr)
{
	size_t size;

	if (!ptr)
		return 0;
	if (ms_is_early(ptr))
		return ms_early_size(ptr);
	if (!ms_next_ready())
		return 0;
	if (enter()) {
		size = usable_inside(ptr);
		leave();
		return size;
	}
	if (ms_shim.phase == MS_SHIM_ON && ms_shim_tracks() && !ms_outside_has(ptr)) {
		ms_registry_unnoted(); /* the table may be locked */
		return ms_usable_size(ptr);
	}
	return ms_next.usable_size(ptr);
}

/* No header of this C library declares these: of old programs, and of C23's. */
void cfree(void *ptr);
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);

MS_SHIM_EXPORT void cfree(void *ptr)
{
	free(ptr);
}

MS_SHIM_EXPORT void free_sized(void *ptr, size_t size)
{
	(void)size;
	free(ptr);
}

MS_SHIM_EXPORT void free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(ptr);
}
