/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LIBC_MANGLING_H
#define MS_ENGINE_LIBC_MANGLING_H

/*
 * How a C library hides code addresses and frame pointers that it stores, as setjmp() and
 * atexit() do: xored with a secret, then rotated to the left.
 *
 * Knows words of 64 bits alone.
 */

#include <stdbool.h>
#include <stdint.h>

struct ms_mangling {
	uint64_t guard;  /* the secret; 0: no word is mangled */
	unsigned rotate; /* bits, 0 to 63 */
};

/* A mangled word is no user-space address, save once in 2^17 times. */
static inline bool ms_may_be_mangled(uint64_t value)
{
	return value >> 47;
}

/* What @value was before it was mangled. */
static inline uint64_t ms_unmangled(uint64_t value, struct ms_mangling mangling)
{
	return (value >> mangling.rotate | value << (-mangling.rotate & 63)) ^ mangling.guard;
}

#endif
