/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/signal_frame.h"

bool ms_signal_frame_at(const struct ms_signal_layout *layout, const uint64_t *words, ms_addr addr,
                        ms_addr sp, ms_addr *ret)
{
	ms_addr begin;

	if (!layout->words || (words[layout->mark] & layout->mark_mask) != layout->mark_value ||
	    words[layout->flags] > layout->most_flags || words[layout->link] ||
	    words[layout->stack_size] < layout->least_stack)
		return false;
	begin = words[layout->stack];
	if (!begin || begin > sp || addr < begin || addr - begin >= words[layout->stack_size])
		return false;
	*ret = words[layout->sp];
	return true;
}
