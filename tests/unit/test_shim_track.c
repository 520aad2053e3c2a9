/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "shim/guard/guard.h"
#include "shim/out/listing.h"
#include "shim/pointer.h"
#include "shim/track/deferred.h"
#include "shim/track/freed.h"
#include "shim/track/live.h"
#include "shim/track/outside.h"
#include "shim/track/trace.h"

enum { MANY = 50000, THREADS = 4 };

static const void *at(uintptr_t address)
{
	return (const char *)NULL + address;
}

static const void *nth(size_t i)
{
	return at(0x700000000000 + i * 48);
}

Test(shim_live, finds_what_was_added_until_it_is_removed)
{
	struct ms_live live;

	for (size_t i = 0; i < MANY; i++)
		cr_assert(ms_live_add(nth(i), (struct ms_live){ .size = i, .trace = (uint32_t)i }));
	for (size_t i = 0; i < MANY; i += 2) {
		cr_assert(ms_live_remove(nth(i), &live));
		cr_assert_eq(live.size, i);
		cr_assert_not(ms_live_remove(nth(i), &live));
	}
	for (size_t i = 0; i < MANY; i++) {
		cr_assert_eq(ms_live_find(nth(i), &live), i % 2 == 1, "%zu", i);
		cr_assert(i % 2 == 0 || (live.size == i && live.trace == i));
	}
}

Test(shim_live, has_a_block_once)
{
	struct ms_live_blocks blocks = { 0 };
	struct ms_arena arena = { 0 };

	cr_assert(ms_live_add(nth(1), (struct ms_live){ .size = 5 }));
	cr_assert(ms_live_add(nth(1), (struct ms_live){ .size = 6 }));
	cr_assert(ms_live_list(&arena, NULL, &blocks));
	cr_assert_eq(blocks.n, 1);
	cr_expect_eq(blocks.at[0].size, 6);
	cr_expect_eq(blocks.at[0].p, (uintptr_t)nth(1));
	ms_arena_deinit(&arena);
}

Test(shim_live, keeps_flags_with_the_block)
{
	struct ms_live live;

	for (size_t i = 0; i < MANY; i++)
		cr_assert(ms_live_add(nth(i), (struct ms_live){ .size = 1 + i }));
	for (size_t i = 0; i < MANY; i += 3)
		ms_live_flag(nth(i), MALLOC_DEBUG_USABLE_ASKED);
	ms_live_flag(nth(MANY), MALLOC_DEBUG_USABLE_ASKED);
	cr_expect_not(ms_live_find(nth(MANY), &live));
	for (size_t i = 1; i < MANY; i += 3)
		cr_assert(ms_live_remove(nth(i), &live));
	for (size_t i = 0; i < MANY; i++)
		if (i % 3 != 1 && ms_live_find(nth(i), &live))
			cr_expect_eq(live.flags, i % 3 ? 0 : MALLOC_DEBUG_USABLE_ASKED, "%zu", i);
}

static void *add_and_remove(void *first)
{
	size_t i = *(size_t *)first;
	struct ms_live live;

	for (size_t n = 0; n < MANY; n++) {
		const void *p = nth(i + THREADS * (n % 1000));

		if (!ms_live_add(p, (struct ms_live){ .size = n }) || !ms_live_remove(p, &live) ||
		    live.size != n)
			return first;
		ms_outside_add(p);
		if (!ms_outside_take(p))
			return first;
	}
	return NULL;
}

Test(shim_live, serves_many_threads)
{
	pthread_t thread[THREADS];
	size_t first[THREADS];
	void *failed;

	for (size_t i = 0; i < THREADS; i++) {
		first[i] = i;
		cr_assert_eq(pthread_create(&thread[i], NULL, add_and_remove, &first[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_join(thread[i], &failed), 0);
		cr_expect_null(failed);
	}
}

Test(shim_outside, remembers_more_than_a_chunk)
{
	for (size_t i = 0; i < MANY; i++)
		ms_outside_add(nth(i));
	for (size_t i = 0; i < MANY; i++) {
		cr_assert(ms_outside_has(nth(i)), "%zu", i);
		cr_assert(ms_outside_take(nth(i)));
		cr_assert_not(ms_outside_take(nth(i)));
	}
	ms_outside_add(NULL);
	cr_expect_not(ms_outside_has(NULL));
}

Test(shim_trace, stores_a_stack_once)
{
	const uintptr_t one[] = { 1, 2, 3 };
	const uintptr_t longer[] = { 1, 2, 3, 4 };
	uint32_t first = ms_trace_keep(one, 3);
	uint32_t second = ms_trace_keep(longer, 4);

	cr_assert_geq(first, (uint32_t)MS_TRACE_FIRST);
	cr_expect_neq(first, second);
	cr_expect_eq(ms_trace_keep(one, 3), first);
	cr_expect_eq(ms_trace_keep(longer, 3), first);
	cr_assert_eq(ms_trace_find(second)->n, 4);
	cr_expect_arr_eq(ms_trace_find(second)->pc, longer, sizeof(longer));
	cr_expect_eq(ms_trace_keep(one, 0), MS_TRACE_NONE);
	cr_expect_null(ms_trace_find(MS_TRACE_NONE));
	cr_expect_null(ms_trace_find(MS_TRACE_OFF));
	cr_expect_null(ms_trace_find(second + 1));
}

Test(shim_trace, stores_many)
{
	const struct ms_trace *first = NULL;

	for (uintptr_t i = 1; i < 3 * (uintptr_t)MANY; i++) {
		uintptr_t pc[] = { i, i * 7 };
		const struct ms_trace *trace = ms_trace_find(ms_trace_keep(pc, 2));

		cr_assert(trace);
		cr_assert_eq(trace->pc[0], i);
		first = i == 1 ? trace : first;
	}
	cr_expect_eq(ms_trace_find(ms_trace_keep((const uintptr_t[]){ 1, 7 }, 2)), first,
	             "stored again, as others came meanwhile");
}

Test(shim_freed, gives_the_oldest_when_full)
{
	struct ms_freed out = { 0 };

	cr_assert(ms_freed_init(3));
	for (size_t i = 0; i < 3; i++)
		cr_assert_not(ms_freed_push((struct ms_freed){ (uintptr_t)nth(i), i, 0 }, &out));
	cr_assert(ms_freed_push((struct ms_freed){ (uintptr_t)nth(3), 3, 9 }, &out));
	cr_expect_eq(out.p, (uintptr_t)nth(0));
	cr_assert(ms_freed_find(nth(3), &out));
	cr_expect_eq(out.trace, 9);
	cr_expect_not(ms_freed_find(nth(0), &out));
	for (size_t i = 1; i < 4; i++) {
		cr_assert(ms_freed_pop(&out));
		cr_expect_eq(out.usable, i);
	}
	cr_expect_not(ms_freed_pop(&out));
}

Test(shim_freed, has_no_word_of_what_it_gave_back)
{
	struct ms_freed out = { 0 };
	struct malloc_debug_list list;
	const struct malloc_debug_freed *kept;
	unsigned n = 0;

	cr_assert(ms_freed_init(3));
	for (size_t i = 0; i < 5; i++)
		(void)ms_freed_push((struct ms_freed){ (uintptr_t)nth(i), i, 7 }, &out);
	cr_assert(ms_freed_pop(&out));
	list = ms_freed_kept();
	cr_assert_eq(list.n, 3);
	kept = ms_pointer((uintptr_t)list.at);
	for (unsigned i = 0; i < 3; i++) {
		uintptr_t p = ~kept[i].inverted;

		n += kept[i].inverted && (p == (uintptr_t)nth(3) || p == (uintptr_t)nth(4));
		cr_expect(!kept[i].inverted || kept[i].stack == 7);
	}
	cr_expect_eq(n, 2);
	cr_expect_eq((kept[0].inverted != 0) + (kept[1].inverted != 0) + (kept[2].inverted != 0),
	             2);
}

Test(shim_deferred, gives_each_once_and_keeps_it_inverted)
{
	struct malloc_debug_list list = ms_deferred_list();
	const uint64_t *kept = ms_pointer((uintptr_t)list.at);
	unsigned at = 0;
	unsigned n = 0;
	void *p;

	for (size_t i = 0; i <= MS_DEFERRED; i++)
		ms_deferred_add(nth(i));
	cr_expect(ms_deferred_any());
	cr_expect_eq(kept[5], ~(uint64_t)(uintptr_t)nth(5));
	while ((at = ms_deferred_take(at, &p)) < MS_DEFERRED)
		cr_expect_eq(p, nth(n++));
	cr_expect_eq(n, MS_DEFERRED, "one was too many");
	cr_expect_not(ms_deferred_any());
	cr_expect_eq(kept[5], 0);
}

/* ---- as the registry shows them ---- */

/* The blocks in the shards, each address added up. */
static size_t count_slots(uint64_t *ret_sum)
{
	struct malloc_debug_list list = ms_live_shards();
	size_t n = 0;

	*ret_sum = 0;
	for (uint32_t i = 0; i < list.n; i++) {
		const struct malloc_debug_shard *shard =
			ms_pointer((uintptr_t)list.at + (uintptr_t)i * list.bytes);
		const struct malloc_debug_table *table = ms_pointer((uintptr_t)shard->table);
		const struct malloc_debug_slot *slot =
			table ? ms_pointer((uintptr_t)(table + 1)) : NULL;

		for (uint64_t k = 0; table && k < table->n_slots; k++) {
			n += slot[k].inverted != 0;
			*ret_sum += slot[k].inverted ? ~slot[k].inverted + slot[k].size : 0;
		}
	}
	return n;
}

Test(shim_live, is_laid_out_as_the_registry_says)
{
	uint64_t sum = 0;
	uint64_t told;
	struct ms_live was;

	for (size_t i = 0; i < MANY; i++) {
		cr_assert(ms_live_add(nth(i), (struct ms_live){ .size = i }));
		sum += (uintptr_t)nth(i) + i;
	}
	for (size_t i = 0; i < MANY; i += 3) {
		cr_assert(ms_live_remove(nth(i), &was));
		sum -= (uintptr_t)nth(i) + i;
	}
	cr_expect_eq(count_slots(&told), MANY - (MANY + 2) / 3);
	cr_expect_eq(told, sum);
}

Test(shim_trace, is_laid_out_as_the_registry_says)
{
	uint32_t a_page;
	struct malloc_debug_list pages = ms_trace_pages(&a_page);

	for (uintptr_t pc = 1; pc < 10000; pc += 1000) {
		uint32_t id = ms_trace_keep(&pc, 1);
		uint32_t i = id - MALLOC_DEBUG_FIRST_STACK;
		const uint64_t *page = ms_pointer((uintptr_t)pages.at);
		const struct malloc_debug_stack *stack;

		page = ms_pointer((uintptr_t)page[i / a_page]);
		stack = ms_pointer((uintptr_t)page[i % a_page]);
		cr_expect_eq(stack->id, id);
		cr_expect_eq(stack->n, 1);
		cr_expect_eq(stack->pc[0], pc);
	}
}

Test(shim_listing, merges_what_has_one_size_and_stack)
{
	const uintptr_t a[] = { 1, 2 };
	const uintptr_t b[] = { 3, 4 };
	uint32_t one = ms_trace_keep(a, 2);
	uint32_t other = ms_trace_keep(b, 2);
	/* two stacks of a length take turns by address, where Android's does not merge */
	const struct ms_live blocks[] = { { 8, one, 0 },          { 8, other, 0 },
		                          { 8, one, 0 },          { 8, other, 0 },
		                          { 9, MS_TRACE_OFF, 0 }, { 8, MS_TRACE_NONE, 0 } };
	struct ms_groups groups = { 0 };
	struct ms_arena arena = { 0 };

	for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
		cr_assert(ms_live_add(nth(i), blocks[i]));
	cr_assert(ms_listing_groups(&arena, true, &groups));
	cr_assert_eq(groups.n, 4);
	cr_expect_eq(groups.at[0].size, 9);
	cr_expect(groups.at[1].trace == one && groups.at[1].count == 2);
	cr_expect(groups.at[2].trace == other && groups.at[2].count == 2);
	cr_expect(groups.at[3].trace == MS_TRACE_NONE && groups.at[3].count == 1);
	groups = (struct ms_groups){ 0 };
	cr_assert(ms_listing_groups(&arena, false, &groups));
	cr_expect_eq(groups.n, 3);
	ms_arena_deinit(&arena);
}

Test(shim_guard, lays_a_block_out)
{
	struct ms_opts options = { .on = MS_OPT_FRONT_GUARD | MS_OPT_REAR_GUARD,
		                   .front_guard = 48,
		                   .rear_guard = 33 };
	static char chunk[1024] __attribute__((aligned(16)));
	char *p = ms_guard_make(&options, chunk, sizeof(chunk), 256, 100);
	uint32_t tag;

	cr_expect_eq((uintptr_t)p % 256, 0);
	cr_expect_leq(ms_guard_extra(&options, 256) + 100, sizeof(chunk));
	cr_expect_eq(ms_guard_header(&options, p)->orig, chunk);
	cr_expect_eq(ms_guard_header(&options, p)->usable, 100);
	cr_expect_eq((char *)ms_guard_header(&options, p), p - 48 - 32);
	cr_assert(ms_guard_probe_tag(&options, p, &tag));
	cr_expect_eq(tag, MS_TAG_LIVE);
	cr_expect_eq(ms_guard_differs(p - 48, MS_FRONT_BYTE, 48), 48);
	cr_expect_eq(ms_guard_differs(p + 100, MS_REAR_BYTE, 33), 33);
	p[132]++;
	cr_expect_eq(ms_guard_differs(p + 100, MS_REAR_BYTE, 33), 32);
	ms_guard_shrink(&options, p, 10);
	cr_expect_eq(ms_guard_differs(p + 10, MS_REAR_BYTE, 33), 33);
	cr_expect_not(ms_guard_probe_tag(&options, at(0x10000), &tag));
}
