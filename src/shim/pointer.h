/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_POINTER_H
#define MS_SHIM_POINTER_H

#include <stdint.h>
#include <string.h>

/* An address that was kept as a number, or inverted; and a way around const for what other
 * allocators take without it. */
static inline void *ms_pointer(uintptr_t address)
{
	void *p;

	memcpy(&p, &address, sizeof(p));
	return p;
}

#endif
