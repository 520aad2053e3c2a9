/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOST_SIGNATURE_H
#define MS_ENGINE_LOST_SIGNATURE_H

/*
 * What leaks of one mistake have in common, as a number that is the same in another run, on
 * another host, and for another build of the program. So it is made of names, sizes and
 * places of words, never of addresses, of offsets in modules, or of values:
 *
 *	type known	by the block's own words: what points to it, and texts, vary. Its
 *			name, and the module that has it. Not the size: glibc gives a block
 *			up to 16 bytes more when what would be left over is no chunk
 *	no type		the size, and the shape: what each of the first 8 words points to, and
 *			into which modules the first 64 of them point
 *	stack known	one of the above, and the modules that its calls are in, a run of calls
 *			in one module as one: inlining changes their number
 *
 * A word points to one of these, or to nothing:
 *
 *	code of NAME, constants of NAME	a callback, a table of functions, a name: the mark of
 *					those who made the block. NAME is the module's file
 *	memory				all else that is mapped
 *
 * All memory is one: a short std::string points into its own block, a long one to another;
 * a child is leaked along, still alive, or freed already and its place reused or not. How
 * much hangs on a word does not count either: strings and lists vary in length. Zero is not
 * distinguished from a number, as numbers vary.
 *
 * Two leaks of one mistake do differ if one of their first words is a pointer in one and
 * null in the other; behind these, where blocks are large and have more such words, only a
 * module more or less is seen. Two mistakes look like one if their blocks have the same size
 * and the same shape; their types or stacks would tell. Too many entries were chosen over
 * too few: what was put together a reader cannot take apart.
 */

#include "engine/lost/list.h"
#include "engine/mapping.h"

struct ms_signer;

/* For the leaks of @list, over @regions of its blocks' source; NULL without memory. */
struct ms_signer *ms_signer_new(const struct ms_leak_list *list, const struct ms_regions *regions);

/*
 * The signature of the block of @entry by itself; never 0. Says in @entry where its text is,
 * and whether it is plain.
 * Cost: a read of its type, or of 64 words at most, and a look at the mapping of each pointer.
 */
uint64_t ms_signature(struct ms_signer *signer, struct ms_entry *entry);

/* The @len bytes at @addr, as a rule read for a signature already; NULL when they cannot be read.
 */
const unsigned char *ms_signer_bytes(struct ms_signer *signer, ms_addr addr, size_t len);

#endif
