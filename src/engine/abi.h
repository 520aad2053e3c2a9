/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ABI_H
#define MS_ENGINE_ABI_H

/*
 * How a process lays out words and addresses, and the kernel its signal frames. Each source says it
 * of the process that it shows; the engine and the decoders have no other number for these.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/range.h"

enum { MS_WORD_MAX = 8 };

/*
 * The frame by which the kernel enters a signal handler, as far as it says on which stack
 * that runs: numbers of its words, and what stands there.
 */
struct ms_signal_layout {
	uint8_t words;                   /* as many are looked at; 0: nothing is known */
	uint8_t flags, most_flags;       /* of struct ucontext; the most that there can be */
	uint8_t link, stack, stack_size; /* its other members */
	uint8_t sp;                      /* the interrupted stack pointer */
	uint8_t mark;                    /* of which, by the mask, hardly anything else has */
	uint64_t mark_mask, mark_value;
	uint64_t least_stack; /* bytes: MINSIGSTKSZ */
};

struct ms_abi {
	uint32_t page_bytes;     /* a power of two */
	uint16_t red_zone_bytes; /* below the stack pointer, that a leaf function may use */
	uint8_t word_bytes;      /* of a pointer: 4 or 8 */
	bool big_endian;
	bool stays_anywhere; /* makecontext() leaves nothing that says where a stack was left */
	bool tls_above;      /* thread-local storage lies above the thread pointer, not below */
	uint64_t tag_bits;   /* of a pointer, that are no part of the address */
	struct ms_signal_layout signal_frame;
};

/* Whether words are in our order of bytes. */
static inline bool ms_abi_is_native(const struct ms_abi *abi)
{
	return abi->big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* Whether words are as long as ours and in our order, though pointers may have tags. */
static inline bool ms_abi_is_wide(const struct ms_abi *abi)
{
	return abi->word_bytes == sizeof(uint64_t) && ms_abi_is_native(abi);
}

/* Whether words can be taken as they are: then the quick paths serve. */
static inline bool ms_abi_is_plain(const struct ms_abi *abi)
{
	return ms_abi_is_wide(abi) && !abi->tag_bits;
}

/* The @len bytes at @bytes, 4 or 8, as a number. */
static inline uint64_t ms_abi_number(const struct ms_abi *abi, const void *bytes, size_t len)
{
	bool swap = abi->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	uint64_t wide = 0;
	uint32_t half = 0;

	if (len == sizeof(half)) {
		memcpy(&half, bytes, sizeof(half));
		return swap ? __builtin_bswap32(half) : half;
	}
	memcpy(&wide, bytes, sizeof(wide));
	return swap ? __builtin_bswap64(wide) : wide;
}

/* The word at @bytes. */
static inline uint64_t ms_abi_word(const struct ms_abi *abi, const void *bytes)
{
	return ms_abi_number(abi, bytes, abi->word_bytes);
}

/* Make the first @n words at @words, as they lie in the process, words of ours. */
static inline void ms_abi_spread(const struct ms_abi *abi, uint64_t *words, size_t n)
{
	const uint8_t *bytes = (const uint8_t *)words;

	if (ms_abi_is_plain(abi))
		return;
	/* From the end, as words of ours are no shorter than those that were read. */
	for (size_t i = n; i-- > 0;)
		words[i] = ms_abi_word(abi, bytes + i * abi->word_bytes);
}

/* The address that the word @value points to. */
static inline ms_addr ms_abi_address(const struct ms_abi *abi, uint64_t value)
{
	return value & ~abi->tag_bits;
}

#endif
