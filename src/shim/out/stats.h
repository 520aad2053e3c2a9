/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OUT_STATS_H
#define MS_SHIM_OUT_STATS_H

#include <stdbool.h>

/* Log how much the allocator behind has in use; the first says so, also when it cannot. */
void ms_stats_log(void);
bool ms_stats_say(void);

#endif
