/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/deferred.h"

#include "shim/pointer.h"

struct ms_deferred ms_deferred; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

void ms_deferred_add(const void *p)
{
	for (unsigned i = 0; i < MS_DEFERRED; i++) {
		uint64_t expected = 0;

		if (!__atomic_compare_exchange_n(&ms_deferred.inverted[i], &expected,
		                                 ~(uint64_t)(uintptr_t)p, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_RELAXED))
			continue;
		(void)__atomic_fetch_add(&ms_deferred.n, 1, __ATOMIC_RELEASE);
		return;
	}
}

unsigned ms_deferred_take(unsigned from, void **ret)
{
	for (unsigned i = from; i < MS_DEFERRED; i++) {
		uint64_t inverted =
			__atomic_exchange_n(&ms_deferred.inverted[i], 0, __ATOMIC_ACQ_REL);

		if (!inverted)
			continue;
		(void)__atomic_fetch_sub(&ms_deferred.n, 1, __ATOMIC_RELAXED);
		*ret = ms_pointer((uintptr_t)~inverted);
		return i;
	}
	return MS_DEFERRED;
}

struct malloc_debug_list ms_deferred_list(void)
{
	return (struct malloc_debug_list){ (uintptr_t)ms_deferred.inverted, MS_DEFERRED,
		                           sizeof(*ms_deferred.inverted) };
}
