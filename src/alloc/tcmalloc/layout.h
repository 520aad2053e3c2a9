/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_TCMALLOC_LAYOUT_H
#define MS_ALLOC_TCMALLOC_LAYOUT_H

/*
 * How gperftools' tcmalloc lays out its structures on 64-bit machines, as they are read
 * from the target. All names are tcmalloc's own, or say more.
 * Source: gperftools 2.10 and 2.16, src/span.h, central_freelist.h, thread_cache.h,
 * page_heap_allocator.h; the memory of Debian's 2.8.1 to 2.18.1 is laid out the same, but
 * for what follows a thread's lists.
 */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MS_TC_CLASSES = 128,       /* kClassSizesMax */
	MS_TC_LEAST_CLASSES = 40,  /* fewer are no tcmalloc's */
	MS_TC_SLOTS = 64,          /* kMaxNumTransferEntries */
	MS_TC_LARGEST = 256 << 10, /* kMaxSize: of a size class */
	MS_TC_AREA = 128 << 10,    /* metadata of one kind is taken in such areas */
	MS_TC_ADDRESS_BITS = 48,
	MS_TC_LEAST_SHIFT = 12, /* of pages: as Debian builds it 13 */
	MS_TC_LEAST_PAGE = 1 << MS_TC_LEAST_SHIFT,
	MS_TC_MOST_SHIFT = 18,
};

enum ms_tc_location { MS_TC_IN_USE, MS_TC_NORMAL, MS_TC_RETURNED };

/* struct Span: a run of pages. */
struct ms_tc_raw_span {
	uint64_t start; /* its first page's number */
	uint64_t length;
	uint64_t next;
	uint64_t prev;
	uint64_t objects; /* free ones, linked; of a sampled span its stack trace */
	uint16_t refcount;
	uint8_t class; /* 0: one large block */
	uint8_t flags; /* from the lowest bit on: location (2 bits), sample, has_span_iter */
	uint32_t unused;
};

static_assert(sizeof(struct ms_tc_raw_span) == 48, "as in tcmalloc");

struct ms_tc_slot {
	uint64_t head;
	uint64_t tail;
};

/* class CentralFreeList, one for each size class; stands at multiples of 64 bytes. */
struct ms_tc_central {
	uint32_t lock; /* 0: nobody holds it */
	uint32_t unused;
	uint64_t class;
	struct ms_tc_raw_span empty;    /* head of a ring: spans without free objects */
	struct ms_tc_raw_span nonempty; /* the same of those with some */
	uint64_t n_spans;
	uint64_t n_free; /* objects on spans' lists */
	struct ms_tc_slot slots[MS_TC_SLOTS];
	int32_t used_slots; /* what stands in slots from here on is stale */
	int32_t cache_size;
	int32_t max_cache_size;
	uint8_t padding[52];
};

static_assert(sizeof(struct ms_tc_central) == 1216, "as in tcmalloc");

/* class ThreadCache::FreeList. */
struct ms_tc_list {
	uint64_t head;
	uint32_t length;
	uint32_t low;
	uint32_t max_length;
	uint32_t overages;
	int32_t object_bytes;
	uint32_t unused;
};

static_assert(sizeof(struct ms_tc_list) == 32, "as in tcmalloc");

/* class ThreadCache. */
struct ms_tc_raw_cache {
	struct ms_tc_list lists[MS_TC_CLASSES];
	int32_t bytes; /* of all objects in its lists */
	int32_t max_bytes;
	uint64_t sampler[3];
	/* Here the caches are linked; to 2.10 after thread and flag, in 2.16 without these. */
	uint64_t rest[4];
};

static_assert(sizeof(struct ms_tc_raw_cache) == 4160, "as in tcmalloc");

/* class PageHeapAllocator. */
struct ms_tc_allocator {
	uint64_t area;  /* what is not given yet */
	uint64_t avail; /* bytes of it */
	uint64_t free;  /* what was given back, linked */
	uint32_t inuse;
	uint32_t unused;
};

/* The begin of struct PageHeap::Stats. */
struct ms_tc_stats {
	uint64_t system;
	uint64_t free;
	uint64_t unmapped;
	uint64_t committed;
	uint64_t of_calls[5];
	uint64_t n_grown; /* how often memory was taken from the system */
};

/* struct StackTrace. */
struct ms_tc_trace {
	uint64_t size; /* asked for */
	uint64_t depth;
	uint64_t stack[30]; /* with frame pointers that are none, anything */
	uint64_t next;      /* of those taken when memory was */
};

static_assert(sizeof(struct ms_tc_trace) == 264, "as in tcmalloc");

#endif
