/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/hooks/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "malloc_debug/malloc_debug.h"
#include "shim/next.h"
#include "shim/shim.h"

typedef void *malloc_hook(size_t size, const void *caller);
typedef void *realloc_hook(void *p, size_t size, const void *caller);
typedef void free_hook(void *p, const void *caller);
typedef void *memalign_hook(size_t align, size_t size, const void *caller);

static void *next_malloc(size_t size, const void *caller)
{
	(void)caller;
	return ms_next.malloc(size);
}

static void *next_realloc(void *p, size_t size, const void *caller)
{
	(void)caller;
	return ms_next.realloc(p, size);
}

static void next_free(void *p, const void *caller)
{
	(void)caller;
	ms_next.free(p);
}

static void *next_memalign(size_t align, size_t size, const void *caller)
{
	(void)caller;
	return ms_next.memalign(align, size);
}

/* Their names, and that they are variables, are the interface. */
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables,bugprone-reserved-identifier) */
MS_SHIM_EXPORT malloc_hook *volatile __malloc_hook = next_malloc;
MS_SHIM_EXPORT realloc_hook *volatile __realloc_hook = next_realloc;
MS_SHIM_EXPORT free_hook *volatile __free_hook = next_free;
MS_SHIM_EXPORT memalign_hook *volatile __memalign_hook = next_memalign;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables,bugprone-reserved-identifier) */

/*
 * The C library's own variables, of which programs know that were linked when it had hooks
 * (before 2.34). Since then they are without effect, but for us. NULL: there are none.
 */
static struct {
	malloc_hook *volatile *malloc;
	realloc_hook *volatile *realloc;
	free_hook *volatile *free;
	memalign_hook *volatile *memalign;
} old; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* An older library calls them itself, and has them under their plain names. */
static void find_old(const char *name, void *ret)
{
	static const char *const versions[] = { "GLIBC_2.2.5", "GLIBC_2.17" };
	void *found = NULL;

	if (dlsym(RTLD_NEXT, name))
		return;
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions) && !found; i++)
		found = dlvsym(RTLD_DEFAULT, name, versions[i]);
	memcpy(ret, &found, sizeof(found));
}

void ms_hooks_init(void)
{
	find_old("__malloc_hook", &old.malloc);
	find_old("__realloc_hook", &old.realloc);
	find_old("__free_hook", &old.free);
	find_old("__memalign_hook", &old.memalign);
}

/* Each variable is read once: another thread may take the hook away. */
static malloc_hook *hook_of_malloc(void)
{
	malloc_hook *hook = __malloc_hook;

	if (hook && hook != next_malloc)
		return hook;
	return old.malloc ? *old.malloc : NULL;
}

static realloc_hook *hook_of_realloc(void)
{
	realloc_hook *hook = __realloc_hook;

	if (hook && hook != next_realloc)
		return hook;
	return old.realloc ? *old.realloc : NULL;
}

static free_hook *hook_of_free(void)
{
	free_hook *hook = __free_hook;

	if (hook && hook != next_free)
		return hook;
	return old.free ? *old.free : NULL;
}

static memalign_hook *hook_of_memalign(void)
{
	memalign_hook *hook = __memalign_hook;

	if (hook && hook != next_memalign)
		return hook;
	return old.memalign ? *old.memalign : NULL;
}

void *ms_hooks_malloc(size_t size, const void *caller)
{
	malloc_hook *hook = hook_of_malloc();

	return hook ? hook(size, caller) : ms_next.malloc(size);
}

void *ms_hooks_calloc(size_t size, const void *caller)
{
	malloc_hook *hook = hook_of_malloc();
	void *p;

	if (!hook)
		return ms_next.calloc(1, size);
	p = hook(size, caller);
	return p ? memset(p, 0, size) : NULL;
}

void *ms_hooks_realloc(void *p, size_t size, const void *caller)
{
	realloc_hook *hook = hook_of_realloc();

	return hook ? hook(p, size, caller) : ms_next.realloc(p, size);
}

void ms_hooks_free(void *p, const void *caller)
{
	free_hook *hook = hook_of_free();

	if (hook)
		hook(p, caller);
	else
		ms_next.free(p);
}

void *ms_hooks_memalign(size_t align, size_t size, const void *caller)
{
	memalign_hook *hook = hook_of_memalign();
	void *p = hook ? hook(align, size, caller) : ms_next.memalign(align, size);

	if (!p)
		errno = ENOMEM;
	return p;
}
