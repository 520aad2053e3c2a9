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
	/*
	 * Asked from inside: where the frames of the thread that asks stand, from that of its
	 * call on; without its TLS. A pointer there may be no more than the address that it asks
	 * with: what else leads to the block counts, and only if nothing does, this. Empty: asked
	 * from outside.
	 */
	struct ms_range asking;
};

#endif
