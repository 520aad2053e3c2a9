/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/list.h"

void ms_leaks_strike(const struct ms_leak_list *list, uint64_t *unmarked, uint64_t *allocations,
                     uint64_t *bytes)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &list->blocks->extents)
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++) {
			uint64_t marks = list->blocks->cells.at[extent->cell0 + i].marks;
			uint64_t taken = unmarked[extent->cell0 + i] & marks;

			unmarked[extent->cell0 + i] &= ~marks;
			for (; taken; taken &= taken - 1) {
				++*allocations;
				*bytes += ms_block_size(list->blocks, extent,
				                        i * MS_CELL_GRANULES +
				                                (uint64_t)__builtin_ctzll(taken));
			}
		}
}
