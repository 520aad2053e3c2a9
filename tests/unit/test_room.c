/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "target/room.h"

enum { STACK = 0x10000, TOP = 0x20000, OTHER = 0x30000, OTHER_TOP = 0x40000, CALLS = 0x400 };

static struct ms_stack_place at[] = {
	{ { STACK, TOP }, true },
	{ { OTHER, OTHER_TOP }, false },
};
static const struct ms_stack_places places = { at, 2, 2 };

static const struct {
	const char *what;
	ms_addr sp, tp;
	ms_addr timeout; /* 0: there is no room */
	ms_addr calls;
} cases[] = {
	{ "the main thread", 0x18000, 0x90000, 0x17f40, 0x17b40 },
	{ "an odd stack pointer", 0x18039, 0x90000, 0x17f40, 0x17b40 },
	{ "a thread whose thread pointer is above", 0x38000, 0x3f000, 0x37f40, 0x37b40 },
	{ "a coroutine, whose thread pointer is elsewhere", 0x38000, 0x90000, 0, 0 },
	{ "a thread pointer below", 0x38000, 0x31000, 0, 0 },
	{ "no stack at all", 0x50000, 0x51000, 0, 0 },
	{ "between two", 0x28000, 0x29000, 0, 0 },
	{ "the last that has room for a time-out alone", 0x100c0, 0x90000, 0x10000, 0 },
	{ "too near to the end", 0x10090, 0x90000, 0, 0 },
	{ "the end", 0x10000, 0x90000, 0, 0 },
};

Test(room, is_below_the_red_zone_of_stacks_that_go_on)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_range range;
		ms_addr sp = cases[i].sp;
		ms_addr tp = cases[i].tp;

		cr_expect_eq(ms_room_for_timeout(&places, sp, tp, &range), cases[i].timeout != 0,
		             "%s", cases[i].what);
		if (cases[i].timeout)
			cr_expect(range.begin == cases[i].timeout &&
			                  range.end == range.begin + MS_ROOM_TIMEOUT,
			          "%s: 0x%lx", cases[i].what, range.begin);
		cr_expect_eq(ms_room_for_calls(&places, sp, tp, CALLS, &range), cases[i].calls != 0,
		             "%s", cases[i].what);
		if (cases[i].calls)
			cr_expect(range.begin == cases[i].calls && range.end == range.begin + CALLS,
			          "%s: 0x%lx", cases[i].what, range.begin);
	}
}

Test(room, there_is_none_where_no_stack_is_known)
{
	const struct ms_stack_places none = { 0 };
	struct ms_range range;

	cr_expect(!ms_room_for_timeout(&none, 0x18000, 0x19000, &range));
}
