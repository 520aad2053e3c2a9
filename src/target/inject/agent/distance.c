/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/agent/distance.h"

/* Fixed point: no floating point, whose registers are the program's. */
enum {
	FRACTION_BITS = 16,
	ONE_BIT = 31, /* of a number from 1 to 2, whose square fits into a word */
	LN_2 = 45426, /* times 2 to the 16 */
	HALF = 32,
};

/* A counter, and what stirs its bits. Source: Steele, Lea, Flood, SplitMix, 2014, "mix13". */
uint64_t ms_agent_random(struct ms_agent_data *data)
{
	uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = __atomic_add_fetch(&data->random, step, __ATOMIC_RELAXED);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The binary logarithm of a number from 1 to 2: squared, it is above 2 if the next bit is one. */
static uint64_t log_2(uint64_t x)
{
	uint64_t log = 0;

	for (unsigned i = 0; i < FRACTION_BITS; i++) {
		x = x * x >> ONE_BIT;
		uint64_t bit = x >> (ONE_BIT + 1);
		x >>= bit;
		log = log << 1 | bit;
	}
	return log;
}

/* -ln(u) * interval, where u = random / 2^64 = 2^-(zeros + 1) * (a number from 1 to 2) */
uint64_t ms_agent_distance(uint64_t random, uint64_t interval)
{
	unsigned zeros = (unsigned)__builtin_clzll(random | 1);
	uint64_t x = random << zeros >> HALF | UINT64_C(1) << ONE_BIT;
	uint64_t log = ((uint64_t)zeros + 1) << FRACTION_BITS;
	uint64_t ln = (log - log_2(x)) * LN_2;
	unsigned __int128 distance = (unsigned __int128)interval * ln >> 2 * FRACTION_BITS;

	return distance < INT64_MAX ? (uint64_t)distance : INT64_MAX;
}
