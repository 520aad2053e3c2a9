/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/registry/registry.h"
#include "engine/origins/unloaded.h"

/* The option's limit; and what all stacks together may have, 512 MiB. */
enum { MOST_FRAMES = 256, MOST_PCS = 1 << 26 };

/* Of a stack that is wanted, until it is read. */
#define WANTED UINT32_MAX

/* The address of the stack of number FIRST + @i, or 0. */
static ms_addr address_of(struct ms_registry *r, uint64_t i)
{
	const struct malloc_debug_list *pages = &r->told.stack_pages;
	uint64_t page = i / r->told.stacks_a_page;
	ms_addr at = 0;

	if (ms_peek_read(&r->peek, pages->at + page * pages->bytes, &at, sizeof(at)) !=
	            sizeof(at) ||
	    !at)
		return 0;
	at += i % r->told.stacks_a_page * sizeof(at);
	return ms_peek_read(&r->peek, at, &at, sizeof(at)) == sizeof(at) ? at : 0;
}

static bool no_memory(bool *ret)
{
	*ret = true;
	return false;
}

/* Append the stack at @at; false when it makes no sense. */
static bool read_stack(struct ms_registry *r, ms_addr at, uint64_t id, bool *ret_no_memory)
{
	struct ms_origins *origins = r->d->origins;
	struct malloc_debug_stack head;
	struct ms_stack *stack;
	size_t len;

	if (!at || ms_peek_read(&r->peek, at, &head, sizeof(head)) != sizeof(head) ||
	    head.id != id || !head.n || head.n > MOST_FRAMES || origins->pcs.n + head.n > MOST_PCS)
		return false;
	if (!ms_vec_reserve(r->d->arena, &origins->pcs, origins->pcs.n + head.n))
		return no_memory(ret_no_memory);
	len = head.n * sizeof(*origins->pcs.at);
	if (ms_peek_read(&r->peek, at + sizeof(head), origins->pcs.at + origins->pcs.n, len) != len)
		return false;
	stack = ms_vec_push(r->d->arena, &origins->stacks);
	if (!stack)
		return no_memory(ret_no_memory);
	*stack = (struct ms_stack){ (uint32_t)origins->pcs.n, head.n, 0 };
	for (uint32_t i = 0; origins->formers.n && i < head.n; i++)
		origins->pcs.at[origins->pcs.n + i] =
			ms_unloaded_move(origins, origins->pcs.at[origins->pcs.n + i], head.id);
	origins->pcs.n += head.n;
	return true;
}

/* In the order of their numbers, in which they lie in memory. */
static bool read_wanted(struct ms_registry *r, uint32_t *place, uint64_t n)
{
	bool no_memory = false;

	for (uint64_t i = 0; i < n && !no_memory; i++) {
		if (place[i] != WANTED)
			continue;
		if (read_stack(r, address_of(r, i), MALLOC_DEBUG_FIRST_STACK + i, &no_memory)) {
			place[i] = (uint32_t)r->d->origins->stacks.n;
		} else {
			place[i] = 0;
			r->n_lost_stacks++;
		}
	}
	return !no_memory;
}

bool ms_registry_read_stacks(struct ms_registry *r, uint64_t n)
{
	uint64_t most = (uint64_t)r->told.stack_pages.n * r->told.stacks_a_page;
	uint32_t *place = ms_arena_resize(r->d->arena, NULL, (size_t)(most + 1) * sizeof(*place));
	uint64_t end = 0;

	if (!place)
		return false;
	for (uint64_t i = 0; i < n; i++) {
		if (r->stack[i] < MALLOC_DEBUG_FIRST_STACK)
			continue;
		place[r->stack[i] - MALLOC_DEBUG_FIRST_STACK] = WANTED;
		if (r->stack[i] - MALLOC_DEBUG_FIRST_STACK >= end)
			end = r->stack[i] - MALLOC_DEBUG_FIRST_STACK + UINT64_C(1);
	}
	if (!read_wanted(r, place, end))
		return false;
	for (uint64_t i = 0; i < n; i++)
		r->stack[i] = r->stack[i] < MALLOC_DEBUG_FIRST_STACK
		                      ? 0
		                      : place[r->stack[i] - MALLOC_DEBUG_FIRST_STACK];
	return true;
}
