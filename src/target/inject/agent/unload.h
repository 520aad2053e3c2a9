/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_AGENT_UNLOAD_H
#define MS_TARGET_AGENT_UNLOAD_H

/*
 * What is kept of a library that is about to be unloaded, for the stacks that lead through it.
 *
 * Before its memory goes, the loader has it call __cxa_finalize(), which is diverted: it is then
 * certain that it stays while it is looked at. Nothing is waited for, and no memory is allocated.
 */

#include "engine/agent.h"

/* Source: glibc's struct dl_find_object on x86-64, 2.35 to 2.43, as far as it is used. */
struct ms_agent_object {
	uint64_t flags;
	uint64_t begin; /* of its mappings: of the ELF header */
	uint64_t end;
	uint64_t link_map;
	uint64_t eh_frame; /* its .eh_frame_hdr; 0: none */
	uint64_t unused[7];
};

/*
 * Note that @object goes. Where there is no room, or another thread notes one at this moment,
 * nothing is kept.
 *
 * Context: it is loaded, and stays so.
 */
void ms_agent_note_unload(struct ms_agent_data *data, const struct ms_agent_object *object);

#endif
