/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_AGENT_DISTANCE_H
#define MS_TARGET_AGENT_DISTANCE_H

/*
 * How many bytes are passed over until the next sample.
 *
 * Distances are exponentially distributed: whatever lies behind, the next byte is sampled
 * with the same probability. So a block of n bytes is among the samples with the
 * probability 1 - exp(-n / interval), whatever sizes a program mixes in which order, and
 * stands for as many blocks as the inverse of it.
 */

#include <stdint.h>

#include "target/inject/agent/table.h"

/* A number that no other call gets, from any thread. */
uint64_t ms_agent_random(struct ms_agent_data *data);

/*
 * A distance of @interval in the mean. A block is a sample if it is larger.
 *
 * @random: 64 bits, all equally likely
 */
uint64_t ms_agent_distance(uint64_t random, uint64_t interval);

#endif
