/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_KINDS_PYTHON_PLAIN_H
#define MS_ENGINE_KINDS_PYTHON_PLAIN_H

/*
 * Plain data of CPython: words in its objects that are no references, for certain, whatever they
 * look like. They are text, room for more items or the collector's own lists, or are residual: what
 * another object had there once.
 *
 *	str    │ references │ type │ length │ hash │ state … │ 1 2 5 8 NUL ─┬─ residual │
 *	                                                       └─ 0x38353231: an address in the
 *	                                                          heap of a program that runs at
 *	                                                          a fixed address
 *
 * Followed, they would keep leaks alive; they are hidden (strict/veil.h). What a container of
 * another library leaves unused is less certain, and is for --strict-containers (strict/tails.h).
 */

#include "engine/kinds/kinds.h"
#include "engine/kinds/python/collector.h"

/*
 * Find the plain data of sealed @blocks.
 *
 * @collector: in/out, zeroed: what CPython's looks after
 * @hidden: in/out; plain words are added, not tidy
 * @wide: in/out, empty: gets a bit for each block with an object behind links, whose users point
 *        to its middle; stays empty where CPython is not
 *
 * Returns MS_E_NOMEM.
 * Cost: nothing where no file is CPython's; else one read of all blocks.
 */
ms_must_check enum ms_status ms_plain_find(struct ms_blocks *blocks, const struct ms_roots *roots,
                                           struct ms_collector *collector, struct ms_ranges *hidden,
                                           struct ms_marks *wide);

#endif
