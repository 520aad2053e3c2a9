/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_SEARCH_H
#define MS_BASE_SEARCH_H

#include <stddef.h>

/*
 * The first @i from @from up to @to of which @before, an expression with @i in it, is false; @to
 * when it is true of all. Where it is false, it is so of all that follow.
 *
 *	size_t at = ms_lower_bound(0, n, i, sorted[i] < wanted);
 */
#define ms_lower_bound(from, to, i, before)                         \
	({                                                          \
		size_t ms_low = (from);                             \
		size_t ms_high = (to);                              \
                                                                    \
		while (ms_low < ms_high) {                          \
			size_t i = ms_low + (ms_high - ms_low) / 2; \
                                                                    \
			if (before)                                 \
				ms_low = (i) + 1;                   \
			else                                        \
				ms_high = i;                        \
		}                                                   \
		ms_low;                                             \
	})

#endif
