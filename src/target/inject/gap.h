/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_GAP_H
#define MS_TARGET_GAP_H

/* Where in a process there is room for the agent, and where one is already. */

#include "engine/source.h"
#include "target/inject/agent/agent.h"

/* From the begin of its text to the end of its data. */
uint64_t ms_gap_bytes(void);

/*
 * The place for the agent: from every byte of it each of @text can be reached by a jump of
 * 32 bits. It leaves the heap and the stack room to grow.
 *
 * @brk:   where the heap of brk() begins, though nothing of it may be mapped; 0 if not known
 * @least: the lowest address that a process may map
 *
 * Returns 0 when there is none.
 */
ms_addr ms_gap_find(const struct ms_mappings *maps, struct ms_range text, ms_addr brk,
                    ms_addr least);

/*
 * The agent's text in a process, or 0: the last MS_AGENT_TEXT_BYTES of a mapping that is read and
 * executed, in front of one that is read and written, with the magic word in front.
 *
 * @mem_fd: the process's memory
 */
ms_addr ms_gap_find_agent(int mem_fd, const struct ms_mappings *maps,
                          struct ms_agent_head *ret_head);

/*
 * What stands at the begin of the data while the agent is being mapped: nothing else is in the
 * process from the agent's place to its end. The table's magic word replaces it.
 */
#define MS_AGENT_BEGUN "memscan begun x1" /* without an end */

/*
 * The place of an agent whose mapping was begun and did not come to its end, or 0.
 *
 * @pagemap_fd: the process's; no page that is not there is read
 */
ms_addr ms_gap_find_begun(int mem_fd, int pagemap_fd, const struct ms_mappings *maps);

/* Whether it is at @at yet. */
bool ms_gap_is_begun(int mem_fd, ms_addr at);

#endif
