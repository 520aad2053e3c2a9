/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"
#include "target/room.h"

/* Our own memory: [stack], and a mapping with the stack of a thread in the middle. */
enum {
	STACK = 0,
	TOP = 0x10000,
	OTHER = 0x20000,
	OTHER_TOP = 0x40000,
	ITS_STACK = 0x28000,
	ITS_TOP = 0x38000,
	TCB = 0x37000,
	RECORD = 1680,
	CALLS = 0x400,
};

static ms_addr base;
static struct ms_stack_place at[2];
static const struct ms_stack_places places = { at, 2, 2 };

static void put(ms_addr offset, uint64_t word)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is our own */
	memcpy((void *)(uintptr_t)(base + offset), &word, sizeof(word));
}

static void draw(void)
{
	void *memory =
		mmap(NULL, OTHER_TOP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(memory, MAP_FAILED);
	base = (uintptr_t)memory;
	at[0] = (struct ms_stack_place){ { base + STACK, base + TOP }, true };
	at[1] = (struct ms_stack_place){ { base + OTHER, base + OTHER_TOP }, false };
	put(TCB + RECORD, base + ITS_STACK);
	put(TCB + RECORD + 8, ITS_TOP - ITS_STACK);
}

static const struct {
	const char *what;
	bool main;
	ms_addr sp, tp;
	ms_addr timeout; /* 0: there is no room */
	ms_addr calls;
} cases[] = {
	{ "the main thread", true, 0x8000, 0x3c000, 0x7f40, 0x7b40 },
	{ "an odd stack pointer", true, 0x8039, 0x3c000, 0x7f40, 0x7b40 },
	{ "another thread in [stack]", false, 0x8000, 0x3c000, 0, 0 },
	{ "a thread on the stack of its record", false, 0x30000, TCB, 0x2ff40, 0x2fb40 },
	{ "the first process's thread may have one", true, 0x30000, TCB, 0x2ff40, 0x2fb40 },
	{ "above its stack", false, 0x38800, TCB, 0, 0 },
	{ "below its stack, in the same mapping", false, 0x27ff8, TCB, 0, 0 },
	{ "near the end of its stack, not of the mapping", false, 0x28090, TCB, 0, 0 },
	{ "that has room for a time-out alone", false, 0x280c0, TCB, 0x28000, 0 },
	{ "without a record", false, 0x30000, 0x3c000, 0, 0 },
	{ "a thread pointer below", false, 0x30000, 0x21000, 0, 0 },
	{ "no thread pointer", false, 0x30000, 0, 0, 0 },
	{ "between two", true, 0x18000, 0x19000, 0, 0 },
	{ "too near to the end", true, 0x90, 0x3c000, 0, 0 },
	{ "the end", true, 0, 0x3c000, 0, 0 },
};

static struct ms_room_of thread(bool main, ms_addr sp, ms_addr tp)
{
	return (struct ms_room_of){ &ms_fake_abi_x86_64, getpid(), main, base + sp,
		                    tp ? base + tp : 0 };
}

Test(room, is_below_the_red_zone_of_what_is_known_to_be_stack)
{
	draw();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_room_of of = thread(cases[i].main, cases[i].sp, cases[i].tp);
		struct ms_range range;

		cr_expect_eq(ms_room_for_timeout(&places, &of, &range), cases[i].timeout != 0, "%s",
		             cases[i].what);
		if (cases[i].timeout)
			cr_expect(range.begin == base + cases[i].timeout &&
			                  range.end == range.begin + MS_ROOM_TIMEOUT,
			          "%s: 0x%lx", cases[i].what, range.begin - base);
		cr_expect_eq(ms_room_for_calls(&places, &of, CALLS, &range), cases[i].calls != 0,
		             "%s", cases[i].what);
		if (cases[i].calls)
			cr_expect(range.begin == base + cases[i].calls &&
			                  range.end == range.begin + CALLS,
			          "%s: 0x%lx", cases[i].what, range.begin - base);
	}
}

/* A thread's id, and a pointer into the block behind it: glibc's list of robust mutexes. */
Test(room, is_not_found_by_words_that_are_no_record)
{
	static const struct {
		const char *what;
		uint64_t begin, guard;
		bool relative, believed;
	} words[] = {
		{ "an id", 0x4d20, 0, false, false },
		{ "a begin", ITS_STACK, 0, true, true },
		{ "an odd begin", ITS_STACK + 8, 0, true, false },
		{ "a begin with a guard", ITS_STACK, 0x1000, true, true },
		{ "a guard of an odd size", ITS_STACK, 0x1008, true, false },
		{ "a guard larger than the stack", ITS_STACK, 0x10000, true, false },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct ms_room_of of;
		struct ms_range range;
		uint64_t begin;

		draw();
		begin = words[i].begin + (words[i].relative ? base : 0);
		put(TCB + RECORD, 0);
		put(TCB + 720, begin);
		put(TCB + 728, base + TCB + 736 - (words[i].relative ? begin : 0));
		put(TCB + 736, words[i].guard);
		of = thread(false, 0x30000, TCB);
		cr_expect_eq(ms_room_for_timeout(&places, &of, &range), words[i].believed, "%s",
		             words[i].what);
	}
}

Test(room, ends_with_the_mapping_where_the_record_goes_on)
{
	struct ms_room_of of;
	struct ms_range range;

	draw();
	of = thread(false, 0x28100, TCB);
	at[1].range.begin = base + ITS_STACK + 0x80;
	cr_expect(!ms_room_for_timeout(&places, &of, &range));
	at[1].range.begin = base + ITS_STACK;
	cr_expect(ms_room_for_timeout(&places, &of, &range));
}

/* Wherever the frame is on the stack, also across two readings. */
Test(room, there_is_none_in_a_handler_on_a_signal_stack)
{
	draw();
	for (ms_addr frame = 0x8000; frame < 0xff00; frame += 8) {
		struct ms_room_of of = thread(true, 0x8000, 0);
		struct ms_range range;

		put(frame + 24, base + 0x8000);
		put(frame + 40, TOP - 0x8000);
		put(frame + 168, base + 0x4000);
		put(frame + 192, 0x33);
		cr_expect(!ms_room_for_timeout(&places, &of, &range), "0x%lx", frame);
		put(frame + 192, 0);
		cr_expect(ms_room_for_timeout(&places, &of, &range), "0x%lx", frame);
		put(frame + 24, 0);
		put(frame + 40, 0);
		put(frame + 168, 0);
	}
}

Test(room, there_is_none_where_no_stack_is_known)
{
	const struct ms_stack_places none = { 0 };
	struct ms_room_of of;
	struct ms_range range;

	draw();
	of = thread(true, 0x8000, 0x9000);
	cr_expect(!ms_room_for_timeout(&none, &of, &range));
}
