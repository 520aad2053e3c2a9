/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_STRICT_VEIL_H
#define MS_ENGINE_STRICT_VEIL_H

/*
 * A source with some ranges hidden: they read as zeros, and all that follows pointers passes
 * them over without knowing of them.
 */

#include "engine/source.h"

struct ms_veil {
	struct ms_source base; /* as the other, but for what it shows */
	struct ms_source *behind;
	const struct ms_ranges *hidden; /* tidy; borrowed */
};

/* Make @veil show @src without @hidden, both of which must live as long. */
void ms_veil_open(struct ms_veil *veil, struct ms_source *src, const struct ms_ranges *hidden);

#endif
