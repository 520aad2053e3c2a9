/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_AGENT_LAYOUT_H
#define MS_TARGET_AGENT_LAYOUT_H

/* What the assembler must know, too, of agent.h and table.h: numbers alone. */

#define MS_AGENT_TEXT_MAGIC  "memscan agent x3" /* without an end */

#define MS_AGENT_TEXT_BYTES  24576
#define MS_AGENT_SLOTS_AT    12288 /* in the text; in front of it is the blob */
#define MS_AGENT_SLOT_BYTES  256
#define MS_AGENT_MOVED_AT    64 /* in a slot */

#define MS_AGENT_PASSED_AT   88 /* in the data */
#define MS_AGENT_LEFT_AT     104
#define MS_AGENT_OUTER_AT    120
#define MS_AGENT_FIND_AT     128
#define MS_AGENT_FILTER_AT   256
#define MS_AGENT_HASH        2654435761
#define MS_AGENT_HASH_SHIFT  3
#define MS_AGENT_PLACE_SHIFT 19

#endif
