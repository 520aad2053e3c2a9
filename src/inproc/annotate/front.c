/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/annotate/front.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "inproc/export.h"

/*
 * Weak, so that a static program, where nothing can stand in front of malloc, links: the
 * C library's strong malloc and free win there, and what is left of ours passes on to
 * its __libc_ names. Among shared objects weak is as good as strong.
 *
 * What is called before the next definitions are known, by dlsym() itself or by one of
 * its callees, is served from a few bytes of our own, which are never reused.
 */
#define INTERPOSE MS_EXPORT __attribute__((weak))

/*
 * A strong reference, unlike those of malloc.c: when the linker takes this object out of
 * the archive, because malloc is wanted and not defined yet, it has to take the C
 * library's malloc as well.
 */
extern void *__libc_malloc(size_t size);
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): it is a constant */
static void *(*const library_malloc)(size_t size) __attribute__((used)) = __libc_malloc;

/* ---- before the next definitions are known ---- */

static bool is_early(const void *p)
{
	return (uintptr_t)p - (uintptr_t)ms_front.early < MS_EARLY_BYTES;
}

/* Zeroed; the size stands in front, for realloc(). */
static void *early_alloc(size_t size)
{
	size_t whole = (size + 2 * (size_t)MS_EARLY_ALIGN - 1) & ~(size_t)(MS_EARLY_ALIGN - 1);
	size_t at;

	if (size > MS_EARLY_BYTES - 2 * (size_t)MS_EARLY_ALIGN)
		return NULL;
	at = __atomic_fetch_add(&ms_front.early_used, whole, __ATOMIC_RELAXED);
	if (at > MS_EARLY_BYTES - whole)
		return NULL;
	memcpy(ms_front.early + at, &size, sizeof(size));
	return ms_front.early + at + MS_EARLY_ALIGN;
}

static void *early_realloc(const void *p, size_t size)
{
	void *grown = malloc(size);
	size_t old;

	if (!grown)
		return NULL;
	memcpy(&old, (const char *)p - MS_EARLY_ALIGN, sizeof(old));
	return memcpy(grown, p, old < size ? old : size);
}

/* ---- the interposers ---- */

INTERPOSE void *malloc(size_t size)
{
	if (MS_FRONT_RARE(!ms_front_ready()))
		return early_alloc(size);
	/* Else it is missing in the backtraces that a malloc behind this one takes. */
	if (ms_front_in_window())
		return ms_front_made(ms_front.next.malloc(size));
	return ms_front.next.malloc(size);
}

INTERPOSE void *calloc(size_t nmemb, size_t size)
{
	size_t bytes;

	if (MS_FRONT_RARE(!ms_front_ready()))
		return __builtin_mul_overflow(nmemb, size, &bytes) ? NULL : early_alloc(bytes);
	if (ms_front_in_window())
		return ms_front_made(ms_front.next.calloc(nmemb, size));
	return ms_front.next.calloc(nmemb, size);
}

INTERPOSE void free(void *ptr)
{
	if (MS_FRONT_RARE(is_early(ptr)) || MS_FRONT_RARE(!ms_front_ready()))
		return;
	if (MS_FRONT_RARE(ms_front_any_ignored()) && ptr)
		(void)ms_front_forget(ptr);
	ms_front.next.free(ptr);
}

/* As LeakSanitizer has it, the new block is a new one: ignored if made in a window. */
INTERPOSE void *realloc(void *ptr, size_t size)
{
	bool was = false;
	void *grown;

	if (MS_FRONT_RARE(is_early(ptr)))
		return early_realloc(ptr, size);
	if (MS_FRONT_RARE(!ms_front_ready()))
		return early_alloc(size);
	if (MS_FRONT_RARE(ms_front_any_ignored()) && ptr)
		was = ms_front_forget(ptr);
	if (!was && !ms_front_in_window())
		return ms_front.next.realloc(ptr, size);
	grown = ms_front.next.realloc(ptr, size);
	if (MS_FRONT_RARE(was) && !grown && size > 0)
		(void)ms_ignored_add(&ms_front.sets.chosen,
		                     ptr); /* it failed, the block lives on */
	return ms_front_in_window() ? ms_front_made(grown) : grown;
}

INTERPOSE void *memalign(size_t alignment, size_t size)
{
	if (!ms_front_ready())
		return NULL;
	if (ms_front_in_window())
		return ms_front_made(ms_front.next.memalign(alignment, size));
	return ms_front.next.memalign(alignment, size);
}

INTERPOSE void *aligned_alloc(size_t alignment, size_t size)
{
	if (!ms_front_ready())
		return NULL;
	if (ms_front_in_window())
		return ms_front_made(ms_front.next.aligned_alloc(alignment, size));
	return ms_front.next.aligned_alloc(alignment, size);
}

INTERPOSE int posix_memalign(void **memptr, size_t alignment, size_t size)
{
	int failed =
		ms_front_ready() ? ms_front.next.posix_memalign(memptr, alignment, size) : ENOMEM;

	if (!failed && ms_front_in_window())
		(void)ms_front_made(*memptr);
	return failed;
}

INTERPOSE void *valloc(size_t size)
{
	if (!ms_front_ready())
		return NULL;
	if (ms_front_in_window())
		return ms_front_made(ms_front.next.valloc(size));
	return ms_front.next.valloc(size);
}

INTERPOSE void *pvalloc(size_t size)
{
	if (!ms_front_ready())
		return NULL;
	if (ms_front_in_window())
		return ms_front_made(ms_front.next.pvalloc(size));
	return ms_front.next.pvalloc(size);
}
