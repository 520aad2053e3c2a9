/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/mimalloc/layout.h"

/* Its fields behind the queues, which then stand behind what leads to pages by size. */
#define HEAP_2_0(table)                                                                            \
	{                                                                                          \
		.queues = (table), .queue_bytes = 24, .queue_size = 16, .delayed = (table) + 1800, \
		.cookie = (table) + 1824, .keys = (table) + 1832, .page_count = (table) + 1984     \
	}

/* In front of them, with more or fewer counters. */
#define HEAP_2_1(table)                                                               \
	{                                                                             \
		.queues = (table), .queue_bytes = 24, .queue_size = 16, .delayed = 8, \
		.cookie = 32, .keys = 40, .page_count = 192                           \
	}

#define SEGMENT_2_0(bytes, with)                                                                 \
	{                                                                                        \
		.used = 208, .cookie = 216, .slices_n = 224, .info_slices = 232, .entries = 248, \
		.slices = 264, .slice_bytes = (bytes), .slice_count = 0, .slice_offset = 4,      \
		.gap = (with)                                                                    \
	}

/* It knows its process's part, and others that were abandoned. */
#define SEGMENT_2_2(bytes)                                                                       \
	{                                                                                        \
		.used = 216, .cookie = 224, .slices_n = 248, .info_slices = 256, .entries = 272, \
		.slices = 288, .slice_bytes = (bytes), .slice_count = 0, .slice_offset = 4       \
	}

#define TLD_2                 \
	{                     \
		.backing = 16 \
	}

#define PAGE_2_0                                                                          \
	{                                                                                 \
		.capacity = { 10, 2 }, .reserved = { 12, 2 }, .used = { 24, 4 },          \
		.block_size = { 28, 4 }, .free = 16, .local_free = 32, .thread_free = 40, \
		.heap = 48, .next = 56, .flags = 3                                        \
	}

#define PAGE_2_0_SECURE(pad)                                                            \
	{                                                                               \
		.capacity = { 10, 2 }, .reserved = { 12, 2 }, .used = { 24, 4 },        \
		.block_size = { 28, 4 }, .free = 16, .local_free = 32, .keys = 40,      \
		.thread_free = 56, .heap = 64, .next = 72, .flags = 3, .padding = (pad) \
	}

#define PAGE_2_1                                                                    \
	{                                                                           \
		.capacity = { 10, 2 }, .reserved = { 12, 2 }, .used = { 32, 2 },    \
		.block_size = { 40, 8 }, .free = 16, .local_free = 24, .start = 48, \
		.thread_free = 56, .heap = 64, .next = 72, .flags = 3               \
	}

#define PAGE_3_0                                                                         \
	{                                                                                \
		.capacity = { 18, 2 }, .reserved = { 20, 2 }, .used = { 16, 2 },         \
		.block_size = { 40, 8 }, .free = 8, .local_free = 24, .thread_free = 32, \
		.heap = 64, .next = 72, .start = 48, .memory = 96, .flags = 1            \
	}

const struct ms_mi_layout ms_mi_layouts[] = {
	{ .versions = "2.0.9",
	  .heap = HEAP_2_0(1040),
	  .tld = TLD_2,
	  .segment = SEGMENT_2_0(80, MS_MI_GAP_FIXED),
	  .page = PAGE_2_0 },
	{ .versions = "2.0.9, secure",
	  .heap = HEAP_2_0(1040),
	  .tld = TLD_2,
	  .segment = SEGMENT_2_0(96, MS_MI_GAP_FIXED),
	  .page = PAGE_2_0_SECURE(0) },
	{ .versions = "2.1.2",
	  .heap = HEAP_2_0(1040),
	  .tld = TLD_2,
	  .segment = SEGMENT_2_0(80, MS_MI_GAP_BY_SIZE),
	  .page = PAGE_2_0 },
	{ .versions = "2.1.2, secure",
	  .heap = HEAP_2_0(1048),
	  .tld = TLD_2,
	  .segment = SEGMENT_2_0(96, MS_MI_GAP_BY_SIZE),
	  .page = PAGE_2_0_SECURE(8) },
	{ .versions = "2.1.7",
	  .heap = HEAP_2_1(1264),
	  .tld = TLD_2,
	  .segment = SEGMENT_2_0(96, MS_MI_GAP_FIXED),
	  .page = PAGE_2_1 },
	{ .versions = "2.2.4 to 2.2.6",
	  .heap = HEAP_2_1(1280),
	  .tld = TLD_2,
	  .segment = SEGMENT_2_2(96),
	  .page = PAGE_2_1 },
	{ .versions = "2.5.1",
	  .heap = HEAP_2_1(1288),
	  .tld = TLD_2,
	  .segment = SEGMENT_2_2(96),
	  .page = PAGE_2_1 },
	{ .versions = "3.0.1",
	  .heap = { .queue_bytes = 24, .queue_size = 16 },
	  .map = { .is_there = true, .keeps_gone = true, .arena_slices = 32 },
	  .page = PAGE_3_0 },
	{ .versions = "3.1.5",
	  .heap = { .queue_bytes = 32, .queue_size = 24 },
	  .map = { .is_there = true, .arena_slices = 32 },
	  .page = PAGE_3_0 },
	{ .versions = "3.4.1",
	  .heap = { .queue_bytes = 32, .queue_size = 24 },
	  .map = { .is_there = true, .arena_slices = 40 },
	  .page = { .capacity = { 18, 2 },
	            .reserved = { 20, 2 },
	            .used = { 16, 2 },
	            .block_size = { 40, 8 },
	            .free = 8,
	            .local_free = 24,
	            .thread_free = 32,
	            .heap = 56,
	            .next = 72,
	            .offset = { 48, 4 },
	            .offset_unit = 8,
	            .memory = 88,
	            .flags = 1 } },
	{ .versions = "3.4.1, secure",
	  .heap = { .queue_bytes = 32, .queue_size = 24 },
	  .map = { .is_there = true, .arena_slices = 40 },
	  .page = { .capacity = { 18, 2 },
	            .reserved = { 20, 2 },
	            .used = { 16, 2 },
	            .block_size = { 40, 8 },
	            .free = 8,
	            .local_free = 24,
	            .thread_free = 32,
	            .keys = 56,
	            .heap = 72,
	            .next = 88,
	            .offset = { 48, 4 },
	            .offset_unit = 8,
	            .memory = 104,
	            .flags = 1,
	            .padding = 8 } },
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
	            .offset = { 48, 8 },
	            .offset_unit = 1,
	            .memory = 104,
	            .flags = 1 } },
	{ .versions = "3.6.1",
	  .heap = { .queue_bytes = 40, .queue_size = 24 },
	  .map = { .is_there = true, .header = 72, .arena_slices = 48 },
	  .page = { .capacity = { 56, 2 },
	            .reserved = { 58, 2 },
	            .used = { 40, 2 },
	            .block_size = { 32, 8 },
	            .free = 16,
	            .local_free = 24,
	            .thread_free = 64,
	            .heap = 72,
	            .next = 88,
	            .start = 48,
	            .memory = 104,
	            .flags = 1 } },
};

const size_t ms_n_mi_layouts = sizeof(ms_mi_layouts) / sizeof(ms_mi_layouts[0]);
