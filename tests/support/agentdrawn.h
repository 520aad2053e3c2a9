/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_AGENTDRAWN_H
#define MS_TESTS_AGENTDRAWN_H

/*
 * A fake process with blocks, and the table of an agent that has sampled some of them:
 *
 *	struct agentdrawn a;
 *
 *	agentdrawn_init(&a);
 *	p = agentdrawn_block(&a, 40);
 *	agentdrawn_enter(&a, p, 33, (ms_addr[]){ agentdrawn_code(0), agentdrawn_code(1) }, 2);
 *	agentdrawn_decode(&a);
 *	cr_expect_eq(agentdrawn_pc(&a, p), agentdrawn_code(0));
 *	agentdrawn_deinit(&a);
 *
 * The code is one module, in which each function has two words of frame by the unwind table.
 * Every byte of the process may be written over before it is decoded.
 */

#include "engine/agent.h"
#include "engine/decoder.h"
#include "fake.h"

enum { AGENTDRAWN_FUNCTIONS = 64, AGENTDRAWN_BLOCKS = 256, AGENTDRAWN_ROOM = 60000 };

struct agentdrawn {
	struct ms_fake fake;

	/* In the fake's memory. */
	ms_addr at; /* of the data */
	struct ms_agent_data *data;
	uint8_t *text;
	ms_addr tables; /* of unwinding */

	struct {
		ms_addr begin;
		uint64_t usable;
	} blocks[AGENTDRAWN_BLOCKS];
	size_t n_blocks;
	ms_addr next_block;

	/* What the annotator told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_blocks told;
	struct ms_heaps heaps;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_origins origins;
	struct ms_decoding decoding;
	bool preloaded; /* somebody else knows where blocks come from */
};

/* With an empty table, one sample in 4096 bytes. */
void agentdrawn_init(struct agentdrawn *a);
void agentdrawn_deinit(struct agentdrawn *a);

/* A live block of the allocator's, behind the others. */
ms_addr agentdrawn_block(struct agentdrawn *a, uint64_t usable);

/* An address in the function of that number, which is no first one. */
ms_addr agentdrawn_code(unsigned function);

/*
 * Have the agent sample @block: @pcs are the calls that led there, innermost first. Returns the
 * number of the record.
 */
uint32_t agentdrawn_enter(struct agentdrawn *a, ms_addr block, uint64_t size, const ms_addr *pcs,
                          size_t n);

enum ms_status agentdrawn_decode(struct agentdrawn *a);

/* The stack of the block at @p: its first pc, or 0; how many calls it has. */
ms_addr agentdrawn_pc(const struct agentdrawn *a, ms_addr p);
size_t agentdrawn_calls(const struct agentdrawn *a, ms_addr p);

/* Make what is to be read for each frame as long as it can be. */
void agentdrawn_lengthen_tables(struct agentdrawn *a);

/*
 * Add a module whose table for unwinding is 16 MiB and names no frame that there is; an address in
 * its code, each @number another, below 2^16. Frames are followed by frame pointers then.
 */
void agentdrawn_add_liar(struct agentdrawn *a);
ms_addr agentdrawn_liar_code(unsigned number);
void agentdrawn_link_frames(struct ms_agent_record *record);

/*
 * Note a library, drawn as the module is, that has been unloaded; an address in one of its
 * functions. Stacks with no unload before them may lead through it.
 */
struct ms_agent_module *agentdrawn_unload(struct agentdrawn *a);
ms_addr agentdrawn_former_code(unsigned function);

/* What is wrong with the result, whatever was drawn, or NULL. */
const char *agentdrawn_check(const struct agentdrawn *a);

#endif
