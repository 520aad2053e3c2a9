/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_WRITES_H
#define MS_TESTS_FUZZ_WRITES_H

/* Words of a drawn process that are written over, four bytes of the input for each. */

#include "fake.h"
#include "fuzz.h"

struct write {
	uint8_t place;
	uint8_t word;
	uint8_t how;
	uint8_t value;
};

/* What @n below 64 means: numbers at the borders of what a decoder believes. */
static inline uint64_t number(uint8_t n)
{
	static const uint64_t numbers[] = {
		0,          1,          2,          3,
		4,          8,          16,         17,
		24,         32,         64,         0x1000,
		0x4000,     0x10000,    0x4000000,  UINT64_C(1) << 32,
		1ull << 47, 1ull << 63, UINT64_MAX, 0xfffffffffffffff0
	};

	return numbers[n % (sizeof(numbers) / sizeof(numbers[0]))];
}

/* What @how makes of @old and @value; @other: what stands for its 4. */
static inline uint64_t changed_word(uint64_t old, uint8_t how, uint64_t value, uint64_t other)
{
	switch (how % 6) {
	case 1:
		return old + value;
	case 2:
		return old ^ value;
	case 3:
		return old - value;
	case 4:
		return other;
	case 5:
		return (old & UINT64_C(0xffffffff00000000)) | (uint32_t)value;
	}
	return value;
}

/* Make of the word at @place and of @value what @how says, as above. */
static inline void write_word(struct ms_fake *fake, ms_addr place, uint8_t how, uint64_t value,
                              uint64_t other)
{
	uint64_t old;

	if (ms_source_read(&fake->base, place, &old, sizeof(old)) == sizeof(old))
		ms_fake_put(fake, place, changed_word(old, how, value, other));
}

#endif
