/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LIBC_MANGLING_H
#define MS_ENGINE_LIBC_MANGLING_H

/*
 * How a C library hides addresses of code and frames that it stores, as setjmp() and atexit()
 * do: xored with a secret, then rotated to the left.
 */

#include "engine/abi.h"

struct ms_mangling {
	uint64_t guard;  /* the secret; 0: no word is mangled */
	unsigned rotate; /* bits, fewer than a word has */
};

/* Of plain words: one that is mangled is no user-space address, save once in 2^17 times. */
static inline bool ms_may_be_mangled(uint64_t value)
{
	return value >> 47;
}

/* What the plain word @value was before it was mangled. */
static inline uint64_t ms_unmangled(uint64_t value, struct ms_mangling mangling)
{
	return (value >> mangling.rotate | value << (-mangling.rotate & 63)) ^ mangling.guard;
}

/* The same of words of any kind: of short ones, any may be mangled. */

static inline bool ms_abi_may_be_mangled(const struct ms_abi *abi, uint64_t value)
{
	return abi->word_bytes < sizeof(value) || ms_may_be_mangled(value);
}

static inline uint64_t ms_abi_unmangled(const struct ms_abi *abi, uint64_t value,
                                        struct ms_mangling mangling)
{
	uint32_t half = (uint32_t)value;

	if (abi->word_bytes == sizeof(half))
		return (half >> mangling.rotate | half << (-mangling.rotate & 31)) ^
		       (uint32_t)mangling.guard;
	return ms_unmangled(value, mangling);
}

#endif
