/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_WORDS_H
#define MS_ENGINE_GRAPH_WORDS_H

/*
 * Which of many words lie in a range: most lie in none, and are passed over in less
 * than a cycle each.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/abi.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline uint64_t ms_word_at(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* What the word at @bytes points to. @plain: ms_abi_is_plain(), which loops ask once. */
static inline ms_addr ms_pointer_at(const struct ms_abi *abi, bool plain, const uint8_t *bytes)
{
	return plain ? ms_word_at(bytes) : ms_abi_address(abi, ms_abi_word(abi, bytes));
}

/*
 * A bit for each of the @n words at @bytes, 64 at most, that may lie in [@low, @low + @span).
 * Where just upper halves are compared, that is all that do and a few others near its end.
 *
 * @all: in/out: gets the bits that any of the words has
 */
static inline uint64_t ms_words_between(const uint8_t *bytes, size_t n, uint64_t low, uint64_t span,
                                        uint64_t *all)
{
	uint64_t found = 0;
	uint64_t seen = *all;
	size_t i = 0;

#ifdef __SSE2__
	/* Four upper halves at a time; there is no unsigned comparison, nor one of whole words. */
	uint64_t first = low + (UINT64_C(1) << 63);
	__m128i from = _mm_set1_epi64x((long long)first);
	__m128i last = _mm_set1_epi32((int)(uint32_t)((span - 1) >> 32 ^ UINT32_C(1) << 31));
	__m128i both = _mm_setzero_si128();

	for (; i + 4 <= n; i += 4) {
		__m128i a = _mm_loadu_si128((const void *)(bytes + i * sizeof(uint64_t)));
		__m128i b = _mm_loadu_si128((const void *)(bytes + (i + 2) * sizeof(uint64_t)));
		__m128 halves = _mm_shuffle_ps(_mm_castsi128_ps(_mm_sub_epi64(a, from)),
		                               _mm_castsi128_ps(_mm_sub_epi64(b, from)),
		                               _MM_SHUFFLE(3, 1, 3, 1));
		__m128i over = _mm_cmpgt_epi32(_mm_castps_si128(halves), last);

		both = _mm_or_si128(both, _mm_or_si128(a, b));
		found |= (uint64_t)(unsigned)(_mm_movemask_ps(_mm_castsi128_ps(over)) ^ 15) << i;
	}
	both = _mm_or_si128(both, _mm_unpackhi_epi64(both, both));
	seen |= (uint64_t)_mm_cvtsi128_si64(both);
#endif
	for (; i < n; i++) {
		uint64_t value = ms_word_at(bytes + i * sizeof(uint64_t));

		found |= (uint64_t)(value - low < span) << i;
		seen |= value;
	}
	*all = seen;
	return found;
}

/* A bit for each of the @n words at @bytes, 64 at most, of which the lower four bits are @low. */
static inline uint64_t ms_words_ending(const uint8_t *bytes, size_t n, uint32_t low)
{
	const uint32_t mask = 15;
	uint64_t found = 0;
	size_t i = 0;

#ifdef __SSE2__
	const __m128i masks = _mm_set1_epi32((int)mask);
	const __m128i lows = _mm_set1_epi32((int)low);

	for (; i + 4 <= n; i += 4) {
		__m128i a = _mm_loadu_si128((const void *)(bytes + i * sizeof(uint64_t)));
		__m128i b = _mm_loadu_si128((const void *)(bytes + (i + 2) * sizeof(uint64_t)));
		__m128i halves = _mm_castps_si128(_mm_shuffle_ps(
			_mm_castsi128_ps(a), _mm_castsi128_ps(b), _MM_SHUFFLE(2, 0, 2, 0)));
		__m128i same = _mm_cmpeq_epi32(_mm_and_si128(halves, masks), lows);

		found |= (uint64_t)(unsigned)_mm_movemask_ps(_mm_castsi128_ps(same)) << i;
	}
#endif
	for (; i < n; i++)
		found |= (uint64_t)((ms_word_at(bytes + i * sizeof(uint64_t)) & mask) == low) << i;
	return found;
}

#endif
