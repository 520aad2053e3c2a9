/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_TABLE_H
#define MS_INPROC_ANNOTATE_TABLE_H

#include <stddef.h>

/*
 * Zeroed memory for references that every scan shall follow, or NULL. Never malloc's,
 * for it is asked for inside malloc. errno is kept.
 *
 * A page that cannot be accessed stands before and behind it: the kernel would make one
 * mapping of it and of anonymous memory beside it, and what the scan reaches a part of
 * counts as reached, so that leaks in a neighbour would be hidden.
 */
void *ms_table_map(size_t bytes);
void ms_table_unmap(void *table, size_t bytes);

#endif
