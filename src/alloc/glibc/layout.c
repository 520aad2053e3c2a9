/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/layout.h"

const struct ms_arena_layout ms_arena_layouts[] = {
	{ .versions = "2.26", .flags = 4, .fastbins = 0x8, .n_fastbins = 10, .top = 0x58,
	  .bins = 0x68, .next = 0x868, .attached = 0x878, .system_mem = 0x880, .size = 0x890,
	  .first_par = 0, .end_par = 1 },
	{ .versions = "2.27 to 2.42", .flags = 4, .fastbins = 0x10, .n_fastbins = 10, .top = 0x60,
	  .bins = 0x70, .next = 0x870, .attached = 0x880, .system_mem = 0x888, .size = 0x898,
	  .first_par = 0, .end_par = 2 },
	{ .versions = "2.43", .flags = 4, .fastbins = 0, .n_fastbins = 0, .top = 0x8,
	  .bins = 0x18, .next = 0x818, .attached = 0x828, .system_mem = 0x830, .size = 0x840,
	  .first_par = 2, .end_par = 3 },
};

const size_t ms_n_arena_layouts = sizeof(ms_arena_layouts) / sizeof(ms_arena_layouts[0]);

const struct ms_par_layout ms_par_layouts[] = {
	{ .versions = "2.26 to 2.34", .n_mmaps = 0x28, .mmapped_mem = 0x38, .sbrk_base = 0x48,
	  .tcache_bins = 0x50, .size = 0x70 },
	{ .versions = "2.35 to 2.42", .thp_pagesize = 0x28, .hp_pagesize = 0x30, .n_mmaps = 0x3c,
	  .mmapped_mem = 0x50, .sbrk_base = 0x60, .tcache_bins = 0x68, .size = 0x88 },
	{ .versions = "2.43", .thp_pagesize = 0x30, .hp_pagesize = 0x38, .n_mmaps = 0x44,
	  .mmapped_mem = 0x58, .sbrk_base = 0x68, .tcache_bins = 0x70, .size = 0x90,
	  .mmap_extra = 16 },
};

const struct ms_tcache_layout ms_tcache_layouts[] = {
	{ .versions = "2.26 to 2.29", .n_bins = 64, .count_bytes = 1, .entries = 64,
	  .usable = 0x248 },
	{ .versions = "2.30 to 2.41", .n_bins = 64, .count_bytes = 2, .entries = 128,
	  .usable = 0x288 },
	{ .versions = "2.42 to 2.43", .n_bins = 76, .count_bytes = 2, .entries = 152,
	  .usable = 0x2f8, .counts_free = 1 },
};

const size_t ms_n_tcache_layouts = sizeof(ms_tcache_layouts) / sizeof(ms_tcache_layouts[0]);
