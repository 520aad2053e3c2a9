/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/mimalloc/layout.h"

#define HEAP_2_0                                                                      \
	{                                                                             \
		.queues = 1040, .queue_bytes = 24, .queue_size = 16, .delayed = 2840, \
		.cookie = 2864, .keys = 2872, .page_count = 3024                      \
	}

#define SEGMENT_2_0(bytes)                                                                       \
	{                                                                                        \
		.used = 208, .cookie = 216, .slices_n = 224, .info_slices = 232, .entries = 248, \
		.slices = 264, .slice_bytes = (bytes), .slice_count = 0, .slice_offset = 4       \
	}

const struct ms_mi_layout ms_mi_layouts[] = {
	{ .versions = "2.0.9",
	  .heap = HEAP_2_0,
	  .tld = { .backing = 16 },
	  .segment = SEGMENT_2_0(80),
	  .page = { .capacity = { 10, 2 },
	            .reserved = { 12, 2 },
	            .used = { 24, 4 },
	            .block_size = { 28, 4 },
	            .free = 16,
	            .local_free = 32,
	            .thread_free = 40,
	            .heap = 48,
	            .next = 56,
	            .flags = 3 } },
	{ .versions = "2.0.9, secure",
	  .heap = HEAP_2_0,
	  .tld = { .backing = 16 },
	  .segment = SEGMENT_2_0(96),
	  .page = { .capacity = { 10, 2 },
	            .reserved = { 12, 2 },
	            .used = { 24, 4 },
	            .block_size = { 28, 4 },
	            .free = 16,
	            .local_free = 32,
	            .keys = 40,
	            .thread_free = 56,
	            .heap = 64,
	            .next = 72,
	            .flags = 3 } },
	{ .versions = "3.0.1",
	  .heap = { .queue_bytes = 24, .queue_size = 16 },
	  .map = { .is_there = true, .keeps_gone = true, .arena_slices = 32 },
	  .page = { .capacity = { 18, 2 },
	            .reserved = { 20, 2 },
	            .used = { 16, 2 },
	            .block_size = { 40, 8 },
	            .free = 8,
	            .local_free = 24,
	            .thread_free = 32,
	            .heap = 64,
	            .next = 72,
	            .start = 48,
	            .memory = 96,
	            .flags = 1 } },
	{ .versions = "3.6.0",
	  .heap = { .queue_bytes = 40, .queue_size = 24 },
	  .map = { .is_there = true, .header = 80, .arena_slices = 48 },
	  .page = { .capacity = { 56, 2 },
	            .reserved = { 58, 2 },
	            .used = { 40, 2 },
	            .block_size = { 32, 8 },
	            .free = 16,
	            .local_free = 24,
	            .thread_free = 64,
	            .heap = 72,
	            .next = 88,
	            .offset = 48,
	            .memory = 104,
	            .flags = 1 } },
};

const size_t ms_n_mi_layouts = sizeof(ms_mi_layouts) / sizeof(ms_mi_layouts[0]);
