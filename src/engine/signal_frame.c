/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/signal_frame.h"

enum {
	LEAST_SIGNAL_STACK = 2048, /* MINSIGSTKSZ */
	ALL_FLAGS = 7,             /* of a struct ucontext */
	USER_CODE = 0x33,          /* the segment of 64-bit code */
	SEGMENT = 0xffff,
};

/* Words of the kernel's struct rt_sigframe. */
enum {
	FRAME_FLAGS = 1,
	FRAME_LINK = 2,
	FRAME_STACK = 3,
	FRAME_STACK_SIZE = 5,
	FRAME_SP = 21,
	FRAME_SEGMENTS = 24,
};

bool ms_signal_frame_at(const uint64_t *words, ms_addr addr, ms_addr sp, ms_addr *ret)
{
	ms_addr begin = words[FRAME_STACK];
	uint64_t len = words[FRAME_STACK_SIZE];

	if ((words[FRAME_SEGMENTS] & SEGMENT) != USER_CODE || words[FRAME_FLAGS] > ALL_FLAGS ||
	    words[FRAME_LINK] || len < LEAST_SIGNAL_STACK)
		return false;
	if (!begin || begin > sp || addr < begin || addr - begin >= len)
		return false;
	*ret = words[FRAME_SP];
	return true;
}
