/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_ORIGINS_H
#define MS_TESTS_ORIGINS_H

/*
 * Who allocated which block of a graph, drawn: "A=x B=x C=y D=-", blocks in order.
 * Stacks are called a to z, and have as many frames as the letter's place; - is one
 * without any.
 */

#include <assert.h>
#include <string.h>

#include "engine/decoder.h"
#include "graph.h"

enum { ORIGINS_CODE = 0x900000, ORIGINS_EACH = 0x100 /* bytes of code for each letter */ };

/* Frame @i of the stack of that letter. */
static inline ms_addr origins_pc(char letter, uint32_t i)
{
	return ORIGINS_CODE + (ms_addr)(letter - 'a') * ORIGINS_EACH + i;
}

static inline void origins_add_stack(struct ms_arena *arena, struct ms_origins *ret, char letter)
{
	struct ms_stack *stack = ms_vec_push(arena, &ret->stacks);
	uint32_t n = letter == '-' ? 0 : (uint32_t)(letter - 'a' + 1);

	assert(stack);
	*stack = (struct ms_stack){ (uint32_t)ret->pcs.n, n, 0 };
	for (uint32_t i = 0; i < n; i++) {
		ms_addr *pc = ms_vec_push(arena, &ret->pcs);

		assert(pc);
		*pc = origins_pc(letter, i);
	}
}

static inline void origins_draw(struct ms_arena *arena, const char *picture, struct ms_origins *ret)
{
	uint32_t known[128] = { 0 }; /* of each letter: its stack, from 1 on */

	memset(ret, 0, sizeof(*ret));
	for (const char *c = picture; *c; c += c[3] ? 4 : 3) {
		unsigned char letter = (unsigned char)c[2];
		struct ms_origin *origin = ms_vec_push(arena, &ret->blocks);

		assert(origin && c[1] == '=');
		if (!known[letter]) {
			origins_add_stack(arena, ret, c[2]);
			known[letter] = (uint32_t)ret->stacks.n;
		}
		*origin =
			(struct ms_origin){ .begin = graph_addr(c[0]), .stack = known[letter] - 1 };
	}
}

/* The letter of stack @number, from 1 on, of a report; '-' for 0. */
static inline char origins_letter(const struct ms_report *report, uint32_t number)
{
	ms_addr first;

	if (!number)
		return '-';
	first = report->pcs.at[report->stacks.at[number - 1].first];
	return (char)('a' + (first - ORIGINS_CODE) / ORIGINS_EACH);
}

#endif
