/* SPDX-License-Identifier: Apache-2.0 */
#include "drawn_thread.h"

void drawn_thread(struct ms_fake *fake, ms_addr tcb, int tid, struct ms_range stack, uint64_t guard)
{
	ms_fake_put(fake, tcb, tcb);
	ms_fake_put(fake, tcb + 8, DRAWN_TABLE + 16);
	ms_fake_put(fake, tcb + 16, tcb);
	ms_fake_put(fake, tcb + DRAWN_LINKS, tcb + DRAWN_LINKS);
	ms_fake_put(fake, tcb + DRAWN_LINKS + 8, tcb + DRAWN_LINKS);
	ms_fake_put(fake, tcb + DRAWN_TID, (uint32_t)tid);
	ms_fake_put(fake, tcb + DRAWN_FLAGS, 0);
	ms_fake_put(fake, tcb + DRAWN_STACK, stack.begin);
	ms_fake_put(fake, tcb + DRAWN_STACK + 8, ms_range_len(stack));
	ms_fake_put(fake, tcb + DRAWN_STACK + 16, guard);
}
