/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_KINDS_RUBY_H
#define MS_ENGINE_KINDS_RUBY_H

/*
 * Slots of Ruby's heap that its collector has swept. Objects lie in pages of 16 or 64 KiB, in slots
 * of one size; of each page a block of malloc's says where its slots are:
 *
 *	block                                    page, at a multiple of 16 KiB
 *	┌──────────────────────────────┐        ┌────────┬────────────────┬────────────────┬─ …
 *	│ slot size, slots, free ones  │◀───────┼ block  │ 0 │ next free │…│ flags │ …      │
 *	│ …, start, free list          ┼───────▶│        │                │                │
 *	└──────────────────────────────┘ start  └────────┴────────────────┴────────────────┴─ …
 *
 * The flags of an object are never 0. Where they are, no object is there, and what the last one
 * had, an address of a block among it, is still there: these words are no references.
 *
 * 3.1 and later; before, pages have no size of slots, and nothing is hidden.
 *
 * Source: gc.c of 3.1.2, struct heap_page, heap_page_body, heap_page_add_freeobj().
 */

#include "engine/blocks.h"
#include "engine/roots.h"

/*
 * Add the free slots of @roots' process to @hidden, which is not tidy then.
 *
 * Returns MS_E_NOMEM.
 * Cost: nothing where Ruby's library is not mapped; else one word of all memory in 16 KiB, and
 *       one read of its pages.
 */
ms_must_check enum ms_status ms_ruby_find(struct ms_blocks *blocks, const struct ms_roots *roots,
                                          struct ms_ranges *hidden);

#endif
