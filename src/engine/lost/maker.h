/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOST_MAKER_H
#define MS_ENGINE_LOST_MAKER_H

/*
 * Which module has most likely made a block, where its calls are not known: the one that the
 * first 64 of its words point to, if that is one alone.
 *
 *	code              a callback
 *	constants         a name, a description
 *	table             of functions, as in C; or the virtual table of a class
 *
 * A table of functions that the block begins with is the mark of who made it, whatever its
 * other words point to. A virtual table alone is not: objects of a library's classes are made
 * by those who use it. Nor is what a runtime library has, libc's free() or a locale's name.
 * Below 4 GiB one word may be a number: there it takes two.
 *
 * Where words point to several modules nothing is said, as neither is more likely.
 */

#include "engine/lost/list.h"
#include "engine/mapping.h"

struct ms_makers;

/* For the leaks of @list, over @regions of its blocks' source; NULL without memory. */
struct ms_makers *ms_makers_new(const struct ms_leak_list *list, const struct ms_regions *regions);

/*
 * The maker of the block of @entry; its module is 0 when that cannot be told. The module is
 * put into the report.
 *
 * Cost: a read of 64 words at most, and a look at the mapping of each pointer.
 */
struct ms_maker ms_maker_of(struct ms_makers *makers, const struct ms_entry *entry);

#endif
