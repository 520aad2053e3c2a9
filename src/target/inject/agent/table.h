/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_AGENT_TABLE_H
#define MS_TARGET_AGENT_TABLE_H

/*
 * How an agent in a foreign process keeps the blocks that it has sampled (engine/agent.h).
 *
 * It runs inside malloc and free, in signal handlers and between fork and exec. So it
 * waits for nobody: no lock, no system call, no function of the C library; each step is
 * one compare-and-swap. Whoever is interrupted in the middle, or does not exist any more
 * behind a fork, costs a record, never a wrong answer. Where there is no room a sample is
 * dropped and counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/agent.h"

/* What no record has as its number. */
#define MS_AGENT_NONE UINT32_MAX

/* Take a free record, to fill it. Returns its number or NONE, and counts that as dropped. */
uint32_t ms_agent_reserve(struct ms_agent_data *data);

/*
 * Make a filled record known as that of @block.
 *
 * Context: the block is the caller's alone, as before malloc returns it.
 *
 * Returns false when there is no room: the record is free again.
 */
bool ms_agent_enter(struct ms_agent_data *data, uint64_t block, uint32_t record);

/* Whether a block may have been sampled: no more than two loads. */
bool ms_agent_may_have(const struct ms_agent_data *data, uint64_t block);

/*
 * Take a block out, before it is freed. Returns its record, which is the caller's then:
 * to be entered once more, as when realloc fails, or to be released; NONE if there is none.
 */
uint32_t ms_agent_take(struct ms_agent_data *data, uint64_t block);

void ms_agent_release(struct ms_agent_data *data, uint32_t record);

#endif
