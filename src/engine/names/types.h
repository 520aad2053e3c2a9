/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_NAMES_TYPES_H
#define MS_ENGINE_NAMES_TYPES_H

/*
 * What a block is, by its first word alone: no symbols, no debug information,
 * and so in stripped programs as well. What else says it is added to that (fields/fields.h).
 */

#include "engine/blocks.h"
#include "engine/mapping.h"
#include "engine/report.h"

struct ms_types;

/* In @arena, over @regions of @src; NULL without memory. Not thread-safe. */
struct ms_types *ms_types_new(struct ms_source *src, const struct ms_regions *regions,
                              struct ms_arena *arena);

/* Of more types than any program has, some are not told. */
enum { MS_TYPE_UNKNOWN = 0, MS_TYPES_MOST = 1 << 16 };

/*
 * The type of the block of @size bytes at @addr, as a number from 1 on that is the same
 * for all blocks with the same first word; MS_TYPE_UNKNOWN when nothing can be told.
 *
 * Cost: a read of a word, and some more for a first word that was not seen before.
 */
uint32_t ms_types_of_block(struct ms_types *types, ms_addr addr, uint64_t size);

/* A number for @type, that was found in another way; MS_TYPE_UNKNOWN when there are too many. */
uint32_t ms_types_add(struct ms_types *types, const struct ms_type *type);

/*
 * From now on a block has the type that @numbers say, where its first word names none.
 *
 * @numbers: of each of sealed @blocks by its number; both are borrowed
 */
void ms_types_use(struct ms_types *types, const struct ms_blocks *blocks, const uint32_t *numbers);

/* The type of that number. Good until the next ms_types_of_block(). */
const struct ms_type *ms_types_at(const struct ms_types *types, uint32_t number);

/*
 * Put the type of that number into @report, if it is not there yet, and return its number
 * there; MS_TYPE_UNKNOWN for itself, and without memory.
 */
uint32_t ms_types_report(struct ms_types *types, uint32_t number, struct ms_report *report);

#endif
