/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_NAMES_TYPES_H
#define MS_ENGINE_NAMES_TYPES_H

/*
 * What a block is: no symbols, no debug information, and so in stripped programs as well. By
 * its first word alone it may be an object of a C++ class, or the work of a module; what else
 * a block says of itself, and what points to it, is found for many blocks at once
 * (engine/kinds/kinds.h), and kept here; so is what debug information says of pointers to it
 * (fields/fields.h).
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
 * for all blocks of one type; MS_TYPE_UNKNOWN when nothing can be told.
 *
 * Cost: where the block's type was kept, a look at the table of blocks; else a read of a word,
 * and some more for a first word that was not seen before.
 */
uint32_t ms_types_of_block(struct ms_types *types, ms_addr addr, uint64_t size);

/* The same for the block of sealed blocks that has that @number among them. */
uint32_t ms_types_of_numbered(struct ms_types *types, uint32_t number, ms_addr addr, uint64_t size);

/* Whether all have been kept: then several threads may ask at once for those of numbered blocks. */
bool ms_types_are_kept(const struct ms_types *types);

/* The same by the block's first word. */
uint32_t ms_types_of_word(struct ms_types *types, uint64_t value);

/*
 * From now on the type of a block of sealed @blocks is what @numbers has for it, an entry for
 * each; where that is MS_TYPE_UNKNOWN, its first word says it, unless @whole: it has been asked.
 */
void ms_types_keep(struct ms_types *types, const struct ms_blocks *blocks, uint32_t *numbers,
                   bool whole);

/*
 * The same with what debug information says; a block's own words go before it, others behind.
 * Where all are kept already, this is put among them, and @numbers is free again.
 */
void ms_types_keep_debug(struct ms_types *types, const struct ms_blocks *blocks,
                         const uint32_t *numbers);

/* Where a text begins in its block, and how long it is, as far as MS_TEXT_MOST; 0: not known. */
typedef uint16_t ms_types_span;

enum { MS_TEXT_MOST = 255 };

/* @offset: MS_TEXT_MOST at most */
static inline ms_types_span ms_types_span_of(uint64_t offset, uint64_t len)
{
	return (ms_types_span)(offset << 8 | (len < MS_TEXT_MOST ? len : MS_TEXT_MOST));
}

/*
 * From now on the texts of kept blocks are where @spans has them, an entry for each, whatever the
 * type; NULL: none is known.
 */
void ms_types_keep_texts(struct ms_types *types, const ms_types_span *spans);

/*
 * Whether the block of @size bytes at @addr, whose type has that @number, has text, as far as its
 * type or its holder says.
 *
 * @ret: where it is; no NUL need be behind it, but one may end it
 */
bool ms_types_text(const struct ms_types *types, uint32_t number, ms_addr addr, uint64_t size,
                   struct ms_range *ret);

/* Another type; MS_TYPE_UNKNOWN when there are too many, or no memory. */
uint32_t ms_types_add(struct ms_types *types, const struct ms_type *type);

/* The file of the program or library that has @addr, or "". */
void ms_types_module(const struct ms_types *types, ms_addr addr, char ret[MS_TYPE_TEXT]);

/* How @text, in the memory of @src, begins. Returns how many bytes that are; a NUL follows. */
size_t ms_types_read_text(struct ms_source *src, struct ms_range text, char ret[MS_PREVIEW_TEXT]);

/*
 * How the text of the block at @addr begins, when @number is a type of text, or its length is
 * known; else "".
 */
void ms_types_preview(const struct ms_types *types, uint32_t number, ms_addr addr,
                      char ret[MS_PREVIEW_TEXT]);

/*
 * Whether a type is by a block's own words, and no text: it is the same whatever points to the
 * block, and so the same in another run.
 */
static inline bool ms_type_is_own(const struct ms_type *type)
{
	return type->how != MS_HOW_CONTAINER && type->how != MS_HOW_TEXT;
}

/* The type of that number. Good until the next ms_types_of_block(). */
const struct ms_type *ms_types_at(const struct ms_types *types, uint32_t number);

/*
 * Put the type of that number into @report, if it is not there yet, and return its number
 * there; MS_TYPE_UNKNOWN for itself, and without memory.
 */
uint32_t ms_types_report(struct ms_types *types, uint32_t number, struct ms_report *report);

#endif
