/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "engine/stacks.h"
#include "fake.h"
#include "module.h"

/*
 * One module with data at DATA, the main stack, and thread stacks of 64 KiB each.
 * Offsets inside the thread control block are those of stacks.c.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	MODULE = 0x400000,
	DATA = 0x401000,
	CACHE_HEAD = DATA + 0x100,
	USED_HEAD = DATA + 0x200,
	THREADS = 0x500000,
	STACK_BYTES = 0x10000,
	TCB_PLACE = STACK_BYTES - 0x900,
	MAIN_STACK = 0x900000,
	LIST = 704,
	TID = 720,
	JOINID = 1576,
	BLOCK = 1680,
};

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_stacks stacks;

static ms_addr tcb_of(int i)
{
	return THREADS + (ms_addr)i * STACK_BYTES + TCB_PLACE;
}

/* A stack with its control block, alone in the list of @head. */
static void draw_stack(int i, int tid, ms_addr head)
{
	ms_addr tcb = tcb_of(i);

	ms_fake_put(&fake, tcb, tcb);
	ms_fake_put(&fake, tcb + 8, 0x12340 + 16);
	ms_fake_put(&fake, tcb + 16, tcb);
	ms_fake_put(&fake, tcb + LIST, head);
	ms_fake_put(&fake, tcb + LIST + 8, head);
	ms_fake_put(&fake, head, tcb + LIST);
	ms_fake_put(&fake, head + 8, tcb + LIST);
	ms_fake_put(&fake, tcb + TID, (uint32_t)tid);
	ms_fake_put(&fake, tcb + BLOCK, THREADS + (ms_addr)i * STACK_BYTES);
	ms_fake_put(&fake, tcb + BLOCK + 8, STACK_BYTES);
}

static void draw(void)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	phdr = elf_write(ms_fake_map(&fake, MODULE, 0x1000, MS_PROT_READ, "/lib/ld.so"), 2);
	phdr[0] = elf_load(0, 0x1000, PF_R);
	phdr[1] = elf_load(0x1000, 0x1000, PF_R | PF_W);
	ms_fake_map(&fake, DATA, 0x1000, RW, "/lib/ld.so");
	ms_fake_map(&fake, THREADS, 4 * STACK_BYTES, RW, "");
	ms_fake_map(&fake, MAIN_STACK, STACK_BYTES, RW, "[stack]");
}

static void find(void)
{
	struct ms_ranges owned = { 0 };
	struct ms_error err;

	memset(&regions, 0, sizeof(regions));
	memset(&stacks, 0, sizeof(stacks));
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	cr_assert_eq(ms_stacks_find(&fake.base, &regions, &owned, &fake.arena, &stacks), MS_OK);
}

static bool is_in(const struct ms_ranges *ranges, ms_addr addr)
{
	const struct ms_range *r;

	ms_vec_for_each (r, ranges)
		if (ms_range_has(*r, addr))
			return true;
	return false;
}

Test(stacks, live_from_the_red_zone_to_the_end_of_the_block)
{
	ms_addr sp = tcb_of(0) - 0x2000;

	draw();
	draw_stack(0, 7, USED_HEAD);
	ms_fake_thread(&fake, 7, sp, tcb_of(0));
	find();
	cr_assert(!is_in(&stacks.live, sp - 129));
	cr_assert(is_in(&stacks.live, sp - 128));
	cr_assert(is_in(&stacks.live, THREADS + STACK_BYTES - 1));
	cr_assert(!is_in(&stacks.live, THREADS + STACK_BYTES));
	cr_assert(is_in(&stacks.whole, THREADS));
	cr_assert_eq(stacks.n_dead, 0);
	ms_fake_deinit(&fake);
}

Test(stacks, of_the_main_thread_live_to_the_end_of_the_mapping)
{
	draw();
	ms_fake_thread(&fake, 7, MAIN_STACK + 0x8000, 0);
	find();
	cr_assert(!is_in(&stacks.live, MAIN_STACK + 0x7000));
	cr_assert(is_in(&stacks.live, MAIN_STACK + STACK_BYTES - 1));
	cr_assert(is_in(&stacks.whole, MAIN_STACK));
	ms_fake_deinit(&fake);
}

Test(stacks, left_for_a_signal_stack_live_from_the_saved_pointer)
{
	draw();
	ms_fake_put(&fake, THREADS + 0x5040, MAIN_STACK + 0x9000);
	ms_fake_thread(&fake, 7, THREADS + 0x5000, 0);
	find();
	cr_assert(is_in(&stacks.live, THREADS + 0x5000));
	cr_assert(!is_in(&stacks.live, MAIN_STACK + 0x8fff));
	cr_assert(is_in(&stacks.live, MAIN_STACK + 0x9000));
	ms_fake_deinit(&fake);
}

/* What is read of the stack of a thread that ended: nothing, or its control block. */
static void check_dead(bool block_is_live)
{
	ms_fake_thread(&fake, 7, MAIN_STACK + 0x8000, 0);
	find();
	cr_assert_eq(stacks.n_dead, 1);
	cr_assert(is_in(&stacks.whole, THREADS));
	cr_assert(!is_in(&stacks.live, tcb_of(0) - 8));
	cr_assert_eq(is_in(&stacks.live, tcb_of(0)), block_is_live);
	cr_assert_eq(stacks.words.n, 1, "the table of dynamic TLS stays");
	cr_assert_eq(stacks.words.at[0], 0x12340);
	ms_fake_deinit(&fake);
}

Test(stacks, of_threads_awaiting_a_join_keep_the_control_block)
{
	draw();
	draw_stack(0, 0, USED_HEAD);
	check_dead(true);
}

Test(stacks, of_joined_threads_keep_nothing)
{
	draw();
	draw_stack(0, -1, USED_HEAD);
	check_dead(false);
}

Test(stacks, of_detached_threads_keep_nothing)
{
	draw();
	draw_stack(0, 0, USED_HEAD);
	ms_fake_put(&fake, tcb_of(0) + JOINID, tcb_of(0));
	check_dead(false);
}

Test(stacks, in_the_cache_are_told_by_its_sum_of_sizes)
{
	draw();
	draw_stack(0, 0, CACHE_HEAD);
	ms_fake_put(&fake, CACHE_HEAD + 16, STACK_BYTES);
	check_dead(false);
}

Test(stacks, are_not_believed_where_nothing_is_mapped)
{
	draw();
	draw_stack(0, 7, USED_HEAD);
	ms_fake_put(&fake, tcb_of(0) + BLOCK, 0);
	ms_fake_put(&fake, tcb_of(0) + BLOCK + 8, tcb_of(0) + 0x900);
	ms_fake_thread(&fake, 7, tcb_of(0) - 0x100, tcb_of(0));
	find();
	cr_assert(!is_in(&stacks.live, THREADS));
	cr_assert(!is_in(&stacks.live, 0x1000));
	ms_fake_deinit(&fake);
}
