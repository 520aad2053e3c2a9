/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/out/stats.h"

#include "shim/next.h"
#include "shim/out/say.h"

bool ms_stats_say(void)
{
	struct mallinfo2 info;

	if (!ms_next.mallinfo2)
		return false;
	info = ms_next.mallinfo2();
	ms_say("arena %zu bytes, in use %zu, free %zu in %zu chunks, mapped %zu in %zu blocks",
	       info.arena, info.uordblks, info.fordblks, info.ordblks, info.hblkhd, info.hblks);
	return true;
}

void ms_stats_log(void)
{
	ms_say("Logging allocator stats...");
	if (!ms_stats_say())
		ms_say("mallopt(M_LOG_STATS, 0) call failed.");
}
