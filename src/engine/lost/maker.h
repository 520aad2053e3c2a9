/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOST_MAKER_H
#define MS_ENGINE_LOST_MAKER_H

/*
 * Which module has most likely made the blocks of an entry, where their calls are not known: the
 * one that the owner's words among the first 64 point to (loaded/aims.h), if that is one alone.
 *
 *	code              a callback
 *	constants         a name, a description
 *	table             of functions, as in C; or the virtual table of a class
 *
 * A table of functions that the block begins with is the mark of who made it, whatever its
 * other words point to. A virtual table alone is not: objects of a library's classes are made
 * by those who use it. Nor is what a runtime library has, libc's free() or a locale's name.
 * Below 4 GiB one word may be a number: there it takes two. And a module that calls neither
 * malloc nor operator new has made nothing by itself.
 *
 * If the owner's words point to no module, the one that all words shared by the members point to is
 * reported, as unproved. If words point to several modules, none is reported: neither is more
 * likely.
 */

#include "engine/loaded/aims.h"
#include "engine/lost/list.h"

struct ms_makers;

/* For the leaks of @list, over @regions of its blocks' source; NULL without memory. */
struct ms_makers *ms_makers_new(const struct ms_leak_list *list, const struct ms_regions *regions);

/*
 * Write the maker of the block with @aims to @ret, and its module to the report. @ret stays as it
 * is if the maker is not known.
 *
 * Cost: of each module once, its table of imported symbols.
 */
void ms_maker_of(struct ms_makers *makers, const struct ms_aims *aims, struct ms_leak *ret);

#endif
