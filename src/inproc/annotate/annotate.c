/* SPDX-License-Identifier: Apache-2.0 */
#include "memunreachable/annotate.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/libc.h"
#include "inproc/annotate/malloc.h"
#include "inproc/annotate/regions.h"
#include "inproc/export.h"
#include "inproc/log.h"

/*
 * Where LeakSanitizer ends the process because of a wrong call, this says so and goes on:
 * no library may end a program that is in production.
 */

/* The first page is never mapped: what is below is a number or an error code. */
enum { NONSENSE_BELOW = 4096 };

/* Each is said once, not for every call of a loop. */
static struct {
	bool not_in_front;
	bool no_memory;
} warned; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* NOLINTNEXTLINE(readability-non-const-parameter): the check does not see the exchange */
static void say_once(bool *already, const char *text)
{
	if (!__atomic_exchange_n(already, true, __ATOMIC_RELAXED))
		ms_log("%s", text);
}

static const char *why_not_in_front(void)
{
	if (MS_FOR_MUSL)
		return "this library does not stand in front of musl's malloc: disable has no "
		       "effect, and memory allocated anew at the address of an ignored block is "
		       "ignored too; ignore single blocks that are never freed";
	if (ms_malloc_is_library())
		return "the program calls the C library's malloc directly, as it is linked "
		       "statically or loaded this library late: disable has no effect, and memory "
		       "allocated anew at the address of an ignored block is ignored too; link the "
		       "shared library, or preload it";
	return "another malloc stands in front of this library: disable has no effect, and memory "
	       "allocated anew at the address of an ignored block is ignored too; run without "
	       "that malloc";
}

/* Without our free() in front an ignored block can be freed unnoticed. */
static void check_in_front(void)
{
	if (!ms_malloc_reached())
		say_once(&warned.not_in_front, why_not_in_front());
}

MS_EXPORT void memunreachable_ignore(const void *p)
{
	if ((uintptr_t)p < NONSENSE_BELOW)
		return;
	check_in_front();
	if (!ms_malloc_ignore(p))
		say_once(&warned.no_memory, "out of memory: a block to be ignored may be reported");
}

MS_EXPORT void memunreachable_disable(void)
{
	check_in_front();
	ms_malloc_disable();
}

MS_EXPORT void memunreachable_enable(void)
{
	if (!ms_malloc_enable())
		ms_log("memunreachable_enable() or __lsan_enable() was called without a disable "
		       "before it in this thread; the call is ignored");
}

MS_EXPORT void memunreachable_register_root(const void *p, size_t size)
{
	if ((uintptr_t)p < NONSENSE_BELOW || size == 0)
		return;
	if (size > UINTPTR_MAX - (uintptr_t)p)
		ms_log("root region not registered: it ends beyond the address space; check its "
		       "size");
	else if (!ms_regions_add(p, size))
		ms_log("root region not registered: out of memory, or there are 4096 already; "
		       "register fewer and larger ones");
}

MS_EXPORT void memunreachable_unregister_root(const void *p, size_t size)
{
	if ((uintptr_t)p < NONSENSE_BELOW || size == 0)
		return;
	if (!ms_regions_remove(p, size))
		ms_log("root region not unregistered: none was registered with this address and "
		       "size");
}
