/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LIBC_MANGLING_H
#define MS_ENGINE_LIBC_MANGLING_H

/*
 * How a C library hides addresses of code and frames that it stores, as setjmp() and atexit()
 * do: xored with a secret, then rotated to the left.
 */

#include "engine/abi.h"
#include "engine/source.h"

struct ms_mangling {
	uint64_t guard;  /* the secret; 0: no word is mangled */
	unsigned rotate; /* bits, fewer than a word has */
	/*
	 * The process's. Where words are short, one in a hundred leads to a large block when it is
	 * read as if it was mangled. So only the stack pointer counts that setjmp() keeps: a
	 * mangled address of an instruction follows. NULL: that is not asked for.
	 */
	const struct ms_mappings *code;
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

/* Of a word of which it is not known what follows. */
static inline bool ms_abi_may_be_mangled_alone(const struct ms_abi *abi, uint64_t value,
                                               struct ms_mangling mangling)
{
	return (abi->word_bytes == sizeof(value) || !mangling.code) &&
	       ms_abi_may_be_mangled(abi, value);
}

/*
 * Whether the first word of the @len bytes at @bytes, of any kind, may have been mangled; what it
 * led to before.
 */
static inline bool ms_abi_take_mangled(const struct ms_abi *abi, const uint8_t *bytes, size_t len,
                                       struct ms_mangling mangling, ms_addr *ret)
{
	const uint8_t word = abi->word_bytes;
	uint64_t value = ms_abi_word(abi, bytes);
	const struct ms_mapping *map;

	if (!ms_abi_may_be_mangled(abi, value))
		return false;
	*ret = ms_abi_address(abi, ms_abi_unmangled(abi, value, mangling));
	if (!mangling.code || word == sizeof(value))
		return true;
	if (len < (size_t)2 * word)
		return false;
	value = ms_abi_unmangled(abi, ms_abi_word(abi, bytes + word), mangling);
	map = ms_range_find(mangling.code, value);
	return map && map->prot & MS_PROT_EXEC;
}

#endif
