/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tcb.h"

enum {
	HEADER_BYTES = 704,    /* tcbhead_t */
	ABOVE_TCB = 64 * 1024, /* at most so much of the stack lies behind the control block */
	PAGE = 4096,
	LOWEST = 1 << 16,          /* where memory may be mapped: a thread's id is no address */
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

bool ms_tcb_next_record(const uint64_t *words, size_t n, ms_addr tcb, size_t *at,
                        struct ms_stack_record *ret)
{
	if (*at < HEADER_BYTES / 8)
		*at = HEADER_BYTES / 8;
	while (*at + 2 < n) {
		const uint64_t *record = &words[(*at)++];
		ms_addr begin = record[0];
		uint64_t len = record[1];
		uint64_t guard = record[2];

		if (begin < LOWEST || begin > tcb || begin % 16 || len < PAGE ||
		    tcb - begin >= len || len - (tcb - begin) > ABOVE_TCB || guard % PAGE ||
		    guard > tcb - begin)
			continue;
		*ret = (struct ms_stack_record){ { begin, begin + len }, guard != 0 };
		return true;
	}
	return false;
}

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
