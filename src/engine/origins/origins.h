/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ORIGINS_H
#define MS_ENGINE_ORIGINS_H

/*
 * Which stack allocated a block, and the same for a report: there every stack that is
 * reported stands once, with the code that its addresses lie in.
 */

#include "engine/decoder.h"

enum { MS_STACK_NONE = UINT32_MAX };

/* Looks blocks up; it remembers where it was, since most are asked for in order. */
struct ms_origin_finder {
	const struct ms_origins *origins;
	size_t at; /* the entry that was looked at last */
};

/*
 * What is known of the block that begins at @begin; NULL when that is nothing, or it has no
 * frames. Costs as below.
 */
const struct ms_origin *ms_origin_at(struct ms_origin_finder *finder, ms_addr begin);

/*
 * The stack of the block that begins at @begin, as an index in the origins' stacks;
 * MS_STACK_NONE when it is not known, or has no frames.
 *
 * Cost: O(1) for the next one in address order, else O(log n).
 */
uint32_t ms_origin_find(struct ms_origin_finder *finder, ms_addr begin);

/*
 * Whether a block of @size bytes of which no stack is known was made before attach: as each since
 * then might have been a sample, it would be one, but for one in a million of its size.
 */
bool ms_origin_is_older(const struct ms_report *report, uint64_t size);

/* Puts stacks into a report. */
struct ms_origin_teller {
	const struct ms_origins *origins;
	struct ms_source *src;
	struct ms_arena *arena;
	struct ms_report *report; /* its stacks, pcs and code are filled */
	uint32_t *numbers;        /* of each stack: its number in the report, or 0 */
};

/*
 * Put a stack into the report, if it is not there yet, and return its number there, from
 * 1 on; 0 for MS_STACK_NONE, and without memory.
 */
uint32_t ms_origin_tell(struct ms_origin_teller *teller, uint32_t stack);

/*
 * List the code of all stacks reported: every mapping of the files that their addresses lie
 * in. To be called once, behind the last stack. False without memory.
 */
bool ms_origin_tell_code(const struct ms_origin_teller *teller);

#endif
