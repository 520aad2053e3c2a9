/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_SHIM_H
#define MS_SHIM_SHIM_H

/* What the parts of the shim have in common. */

#include <stdbool.h>
#include <stdint.h>

#include "shim/next.h"
#include "shim/options/options.h"

#define MS_SHIM_EXPORT __attribute__((visibility("default")))

enum ms_shim_phase {
	MS_SHIM_STARTING, /* what is allocated is remembered as not ours */
	MS_SHIM_ON,
	/* for good, and no block is ours: */
	MS_SHIM_OFF,   /* everything goes to the next allocator */
	MS_SHIM_HOOKS, /* to the program's hooks */
};

/* How malloc() and free() go, in one word that says all that they must know at once. */
enum ms_shim_way {
	MS_SHIM_CARE, /* look at all else */
	MS_SHIM_PAST, /* to the next allocator */
	MS_SHIM_LIGHT /* so, too, but for samples; no trigger is pending, no block is early */
};

struct ms_shim {
	enum ms_shim_way way;   /* a trigger, by a signal, makes it MS_SHIM_CARE for a while */
	enum ms_shim_way usual; /* which it is otherwise */
	enum ms_shim_phase phase;
	uint32_t capturing; /* backtraces: 0 or 1 */
	bool light;         /* nothing is done but to sample: most calls go straight past */
	struct ms_opts options;
	char program[256]; /* its name, without folders */
};

/* Written at the start, but for `way` and `capturing`, which signals switch. */
extern MS_SHIM_OWN struct ms_shim
	ms_shim; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static inline enum ms_shim_way ms_shim_way(void)
{
	return __atomic_load_n(&ms_shim.way, __ATOMIC_RELAXED);
}

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
