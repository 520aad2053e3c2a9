/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_REQUESTED_H
#define MS_ENGINE_GRAPH_REQUESTED_H

/* Blocks that requests in the kernel may hold, each one, which it does not show. */

#include "engine/graph/walk.h"

/*
 * Mark those unmarked blocks of sealed @blocks that @most requests may hold, with what they lead
 * to: of the sizes of which no more are unmarked, and led to by no other; none where these are more
 * together.
 *
 * @like: how blocks are followed
 *
 * Returns MS_E_NOMEM; marks are then incomplete.
 */
ms_must_check enum ms_status ms_requested_mark(struct ms_blocks *blocks,
                                               const struct ms_walk_options *like, uint64_t most,
                                               struct ms_error *err);

#endif
