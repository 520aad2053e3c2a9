/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_SHIM_H
#define MS_SHIM_SHIM_H

/* What the parts of the shim have in common. */

#include <stdbool.h>
#include <stdint.h>

#include "shim/options/options.h"

#define MS_SHIM_EXPORT __attribute__((visibility("default")))

enum ms_shim_phase {
	MS_SHIM_STARTING, /* what is allocated is remembered as not ours */
	MS_SHIM_ON,
	/* for good, and no block is ours: */
	MS_SHIM_OFF,   /* everything goes to the next allocator */
	MS_SHIM_HOOKS, /* to the program's hooks */
};

struct ms_shim {
	enum ms_shim_phase phase;
	uint32_t capturing; /* backtraces: 0 or 1 */
	bool light;         /* nothing is done but to sample: most calls go straight past */
	struct ms_opts options;
	char program[256]; /* its name, without folders */
};

/* Written at the start, but for `capturing`, which a signal switches. */
extern struct ms_shim ms_shim; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static inline bool ms_shim_has(uint32_t bits)
{
	return (ms_shim.options.on & bits) != 0;
}

/* Whether the table knows every live block; with sampling alone it knows some. */
static inline bool ms_shim_knows_all(void)
{
	return ms_shim_has(MS_OPT_TRACK);
}

static inline bool ms_shim_tracks(void)
{
	return ms_shim_has(MS_OPT_TRACK | MS_OPT_BACKTRACE);
}

#endif
