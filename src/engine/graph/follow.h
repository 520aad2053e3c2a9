/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_FOLLOW_H
#define MS_ENGINE_GRAPH_FOLLOW_H

/* The walk's loop: what one worker does with words, edges and blocks. */

#include "engine/graph/walker.h"

/* Take the words of @s; what they lead to waits. */
void ms_walker_scan(struct walker *w, struct stretch s);

/* Follow what waits until nothing does or the budget is used up. */
void ms_walker_drain(struct walker *w);

/* Mark what the queues have: what waits then is in the list, and ahead. */
void ms_walker_settle(struct walker *w);

#endif
