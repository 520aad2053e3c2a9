/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RETAINED_ANSWER_H
#define MS_ENGINE_RETAINED_ANSWER_H

/*
 * What holds memory (engine/retained.h).
 *
 *	flow.c        the graph from one node down: clusters, words of roots, blocks
 *	dominators.c  which node dominates which
 *	weights.c     what each retains, and classes.c each type
 *	holders.c     which words are one holder
 *	ranking.c     the heaviest
 *	answer.c      all of it, for a report
 */

#include "engine/holding/why.h"

/*
 * Answer @why's question, of which the report's retained, types, pcs and code are filled.
 * After the table of blocks was sealed.
 *
 * Returns MS_E_NOMEM.
 * Memory: 40 bytes a block, and 4 a pointer to what has several (dominators.h), given back at the
 * end.
 */
ms_must_check enum ms_status ms_retained_answer(struct ms_why *why, struct ms_error *err);

#endif
