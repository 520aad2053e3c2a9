/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "alloc/agent/agent.h"

enum {
	MOST_FRAMES = 256,
	MOST_ALIKE = 64, /* stacks of one hash are looked at; it is the target's to have more */
};

/* Of what the agent keeps of registers: DWARF's numbers, in its order. */
static const uint8_t registers[MS_AGENT_REGISTERS] = {
	MS_ROW_RETURN, MS_ROW_RSP,     MS_ROW_RBX,     MS_ROW_RBP,
	MS_ROW_R12,    MS_ROW_R12 + 1, MS_ROW_R12 + 2, MS_ROW_R12 + 3,
};

static struct ms_kept_stack kept_stack(const struct ms_agent_record *record)
{
	struct ms_kept_stack stack = { .bytes = record->stack,
		                       .n = record->n_stack,
		                       .number = record->n_unloads };

	for (size_t i = 0; i < MS_AGENT_REGISTERS; i++) {
		stack.registers[registers[i]] = record->registers[i];
		stack.known |= 1U << registers[i];
	}
	stack.at = stack.registers[MS_ROW_RSP];
	return stack;
}

static uint64_t hash_of(const ms_addr *pcs, size_t n)
{
	uint64_t hash = n;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ pcs[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static bool is_stack(const struct ms_origins *origins, const struct ms_stack *stack,
                     const ms_addr *pcs, size_t n)
{
	return stack->n == n && memcmp(origins->pcs.at + stack->first, pcs, n * sizeof(*pcs)) == 0;
}

/* Append; its place plus one, or 0 without memory. */
static uint32_t append(struct ms_agent_reading *r, const ms_addr *pcs, size_t n, bool cut)
{
	struct ms_origins *origins = r->d->origins;
	struct ms_stack *stack = ms_vec_push(r->d->arena, &origins->stacks);

	if (!stack || !ms_vec_reserve(r->d->arena, &origins->pcs, origins->pcs.n + n))
		return 0;
	*stack = (struct ms_stack){ (uint32_t)origins->pcs.n, (uint32_t)n, cut };
	memcpy(origins->pcs.at + origins->pcs.n, pcs, n * sizeof(*pcs));
	origins->pcs.n += n;
	return (uint32_t)origins->stacks.n;
}

/* The number of the stack of these calls, or 0 without memory. Cut is one of which any was. */
static uint32_t number_of(struct ms_agent_reading *r, const ms_addr *pcs, size_t n, bool cut)
{
	struct ms_origins *origins = r->d->origins;
	uint64_t hash = hash_of(pcs, n);
	uint64_t number;
	uint32_t ret;

	/* Others of the same hash stand behind it. */
	for (unsigned i = 0; i < MOST_ALIKE && (number = ms_map_find(&r->stacks, hash));
	     i++, hash++) {
		struct ms_stack *stack = &origins->stacks.at[number - 1];

		if (!is_stack(origins, stack, pcs, n))
			continue;
		stack->cut |= cut;
		return (uint32_t)number;
	}
	ret = append(r, pcs, n, cut);
	if (ret && !ms_map_find(&r->stacks, hash) &&
	    !ms_map_add(&r->stacks, r->d->arena, hash, ret))
		return 0;
	return ret;
}

/* @unloads: whether the same addresses may be of other code, by what was unloaded before */
static uint64_t hash_of_record(const struct ms_agent_record *record, bool unloads)
{
	uint64_t words[MS_AGENT_STACK / sizeof(uint64_t)];
	size_t n = record->n_stack / sizeof(words[0]);
	uint64_t hash = hash_of(record->registers, MS_AGENT_REGISTERS);
	uint64_t rest = 0;

	static_assert(MS_AGENT_STACK % sizeof(words[0]) == 0, "whole words");
	memcpy(words, record->stack, record->n_stack);
	memcpy(&rest, record->stack + n * sizeof(words[0]), record->n_stack % sizeof(words[0]));
	if (unloads)
		hash += record->n_unloads * UINT64_C(0x9e3779b97f4a7c15);
	return hash_of(words, n) ^ hash * 3 ^ rest ^ record->n_stack;
}

bool ms_agent_take_stack(struct ms_agent_reading *r, uint32_t *ret)
{
	const uint64_t hash = hash_of_record(r->record, r->d->origins->formers.n);
	struct ms_kept_stack stack = kept_stack(r->record);
	uint64_t answer = ms_map_find(&r->kept, hash);
	ms_addr pcs[MOST_FRAMES];
	size_t n;

	static_assert(MS_AGENT_RECORDS * MOST_FRAMES < UINT32_MAX, "places fit into a stack");
	/* Who allocates in a loop does it with the same bytes on the stack. */
	if (!answer) {
		n = ms_unwind(r->unwinder, &stack, pcs, MOST_FRAMES);
		answer = n ? number_of(r, pcs, n, ms_unwinder_was_cut(r->unwinder)) + UINT64_C(1)
		           : 1;
		if ((n && answer == 1) || !ms_map_add(&r->kept, r->d->arena, hash, answer))
			return false;
	}
	r->n_unwound += !ms_unwinder_over_budget(r->unwinder);
	*ret = (uint32_t)(answer - 1);
	return true;
}
