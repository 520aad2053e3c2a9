/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_QUESTION_H
#define MS_ENGINE_QUESTION_H

/* What a scan is to find out in place of leaks: why some block lives, or what holds memory. */

#include "base/range.h"

enum ms_asked { MS_ASKED_NOTHING, MS_ASKED_ADDRESS, MS_ASKED_TYPE, MS_ASKED_RETAINED };

struct ms_question {
	enum ms_asked kind;
	ms_addr address;
	const char *type; /* as reports name it */
	bool all;         /* every root that leads there, not the nearest alone */
	uint64_t limit;   /* entries of each list, of RETAINED */
};

#endif
