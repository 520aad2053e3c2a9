/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* An interposer has no caller that could hold its state. */
struct ms_next ms_next; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static struct {
	bool ready;
	size_t early_used;
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
char ms_early[MS_EARLY_BYTES] __attribute__((aligned(MS_EARLY_ALIGN)));

static MS_SHIM_TLS bool resolving; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* The size stands in front. */
void *ms_early_alloc(size_t size)
{
	size_t whole = (size + 2 * (size_t)MS_EARLY_ALIGN - 1) & ~(size_t)(MS_EARLY_ALIGN - 1);
	size_t at;

	if (size > MS_EARLY_BYTES - 2 * (size_t)MS_EARLY_ALIGN)
		return NULL;
	at = __atomic_fetch_add(&state.early_used, whole, __ATOMIC_RELAXED);
	if (at > MS_EARLY_BYTES - whole)
		return NULL;
	memcpy(ms_early + at, &size, sizeof(size));
	return ms_early + at + MS_EARLY_ALIGN;
}

size_t ms_early_size(const void *p)
{
	size_t size;

	memcpy(&size, (const char *)p - MS_EARLY_ALIGN, sizeof(size));
	return size;
}

bool ms_early_any(void)
{
	return __atomic_load_n(&state.early_used, __ATOMIC_RELAXED) != 0;
}

/* Several threads may do so at once: all find the same. */
static void resolve(void)
{
	static const struct {
		const char *name;
		size_t at;
	} wanted[] = {
		{ "malloc", offsetof(struct ms_next, malloc) },
		{ "calloc", offsetof(struct ms_next, calloc) },
		{ "realloc", offsetof(struct ms_next, realloc) },
		{ "free", offsetof(struct ms_next, free) },
		{ "memalign", offsetof(struct ms_next, memalign) },
		{ "malloc_usable_size", offsetof(struct ms_next, usable_size) },
		{ "mallinfo", offsetof(struct ms_next, mallinfo) },
		{ "mallinfo2", offsetof(struct ms_next, mallinfo2) },
		{ "mallopt", offsetof(struct ms_next, mallopt) },
		{ "malloc_info", offsetof(struct ms_next, malloc_info) },
		{ "malloc_stats", offsetof(struct ms_next, malloc_stats) },
		{ "malloc_trim", offsetof(struct ms_next, malloc_trim) },
		{ "dlopen", offsetof(struct ms_next, dlopen) },
	};
	struct ms_next next = { 0 };
	int kept = errno;

	resolving = true;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		void *p = dlsym(RTLD_NEXT, wanted[i].name);

		memcpy((char *)&next + wanted[i].at, &p, sizeof(p));
	}
	ms_next = next;
	__atomic_store_n(&state.ready, true, __ATOMIC_RELEASE);
	resolving = false;
	errno = kept;
}

bool ms_next_ready(void)
{
	if (__builtin_expect(__atomic_load_n(&state.ready, __ATOMIC_ACQUIRE), 1))
		return true;
	if (resolving)
		return false;
	resolve();
	return true;
}
