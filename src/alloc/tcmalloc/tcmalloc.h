/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_TCMALLOC_TCMALLOC_H
#define MS_ALLOC_TCMALLOC_TCMALLOC_H

/*
 * What the files of this room share: gperftools' tcmalloc, as far as it has been
 * understood. Each program or library that has one is a copy of its own.
 *
 *	page map ──▶ spans ──▶ one large block
 *	                  └──▶ objects of one size class. These are live but for
 *	                         those on the span's own list,
 *	                         those in the class's transfer slots,
 *	                         those in threads' caches
 *
 *	locate.c     the size classes and central lists in a module's data, by their content
 *	caches.c     the threads' caches: found, and what is in them taken
 *	spans.c      the page map, and all spans by it
 *	objects.c    blocks of the spans, less those on their lists; transfer slots
 *	hands.c      large blocks that a thread may be giving back
 *	metadata.c   memory of tcmalloc's own structures
 *	tcmalloc.c   the decoder: the order of these, and the evidence
 *
 * Google's newer tcmalloc, which has caches for processors, shares nothing of this.
 */

#include "alloc/misplaced.h"
#include "alloc/proof.h"
#include "alloc/tcmalloc/layout.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

struct ms_tc_class {
	uint64_t bytes; /* of an object */
	uint64_t pages; /* of a span */
	uint64_t batch; /* objects in a transfer slot */
	/* Found. */
	uint64_t n_spans;
	uint64_t n_listed; /* objects on spans' own lists */
};

struct ms_tc_span {
	ms_addr at; /* its struct Span */
	uint64_t page;
	uint64_t pages;
	ms_addr objects;
	uint16_t refcount;
	uint8_t class;
	uint8_t location; /* enum ms_tc_location */
	bool sampled;
	bool held; /* of a large block: a thread may be giving it back */
};

struct ms_tc_spans MS_VEC(struct ms_tc_span); /* by address */

struct ms_tc_count {
	uint64_t n;
	uint64_t bytes;
};

/* One tcmalloc. */
struct ms_tc_copy {
	const struct ms_region *region; /* of the module that has it: where its data begins */
	struct ms_range data;           /* that module's, all */
	ms_addr central;                /* address of the array below */
	ms_addr sizes;                  /* of the classes, in its size map */
	struct ms_tc_central *centrals; /* one for each class */
	uint32_t n_classes;
	struct ms_tc_class classes[MS_TC_CLASSES];
	uint8_t page_shift;
	struct ms_tc_span sample; /* that a central list has */
	ms_addr root;             /* of the page map */
	ms_addr first_cache;      /* of the list of threads' caches */
	uint32_t cache_steps;     /* caches looked at in the search for it */
	uint32_t link_at;         /* where in a cache the address of the next one stands */
	struct MS_VEC(ms_addr) caches;
	struct ms_tc_spans spans;
	uint64_t next_page; /* the first one that no span covers so far */
	uint32_t n_leaves;
	uint32_t n_bad_pages;
	struct ms_ranges memory;   /* of the spans */
	struct ms_ranges metadata; /* its own structures */
	struct ms_ranges held;     /* of spans that are held */
	struct ms_tc_stats sums;   /* of the spans, then as they are counted */
	uint32_t group;            /* of its extents */
	struct ms_tc_count used;   /* blocks that were put, then less those taken */
	struct ms_tc_count listed; /* objects free on spans' lists */
	struct ms_tc_count slotted;
	struct ms_tc_count cached;
	struct ms_misplaced misplaced;
	uint64_t
		miscounted; /* bytes of a class whose counts are right with those of others alone */
	ms_addr span_allocator; /* that structures of spans come from */
	ms_addr first_trace;    /* of the list of stack traces */
	struct ms_proof proof;
};

struct ms_tcmalloc {
	struct ms_decoding *d;
	struct ms_peek *peek;
	uint8_t *buffer; /* of MS_WINDOW_BYTES */
	struct MS_VEC(struct ms_tc_copy) copies;
};

/* locate.c: fill tc->copies with all that have classes, a page map and a span. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_tc_locate(struct ms_tcmalloc *tc);

/* Whether a word of a module's data, which stands at @at, is what is looked for. It is aligned. */
typedef bool ms_tc_fits(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at, uint64_t word);

/* locate.c: show every address of metadata in the data of @copy to @fits, until it fits. */
bool ms_tc_find_word(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_tc_fits *fits);

/* caches.c: find the caches of all threads. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_tc_find_caches(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* caches.c: take for free what is in them. Blocks are sorted. */
void ms_tc_take_caches(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* spans.c: find the page map; false when there is none. */
bool ms_tc_find_root(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* spans.c: fill copy->spans, memory, sums and leaves' metadata. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_tc_walk_spans(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* spans.c: compare the sums with the page heap's counters. */
void ms_tc_check_page_heap(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* hands.c: set ms_tc_span.held. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_tc_hold_spans(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* objects.c: put what may be live in the spans. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_tc_put_blocks(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* objects.c: compare what was found on spans' lists with the central lists' counters. */
void ms_tc_check_central(struct ms_tc_copy *copy);

/* objects.c: take for free what is in transfer slots. Blocks are sorted. */
void ms_tc_take_slots(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* A list of free objects. */
struct ms_tc_chain {
	uint32_t class;
	ms_addr head;
	uint64_t n;   /* as is counted */
	ms_addr last; /* out: 0: it has none */
};

/*
 * objects.c: take the objects of @chain for free; disproves @copy where one is no block of that
 * class, or there are more than are counted. Returns how many it took.
 */
uint64_t ms_tc_take_chain(struct ms_tcmalloc *tc, struct ms_tc_copy *copy,
                          struct ms_tc_chain *chain);

/* objects.c: disprove @copy where libtcmalloc_debug has laid out its blocks. All are taken. */
void ms_tc_doubt_debugging(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

/* metadata.c: fill copy->metadata. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_tc_find_metadata(struct ms_tcmalloc *tc, struct ms_tc_copy *copy);

static inline bool ms_tc_read(const struct ms_tcmalloc *tc, ms_addr addr, void *buf, size_t len)
{
	return ms_peek_read(tc->peek, addr, buf, len) == len;
}

/* The word at @addr, or 0 when it cannot be read. */
static inline uint64_t ms_tc_word(const struct ms_tcmalloc *tc, ms_addr addr)
{
	uint64_t word;

	return ms_tc_read(tc, addr, &word, sizeof(word)) ? word : 0;
}

/* Pages are numbered by so many bits, and as many of these choose an entry of a leaf. */
static inline unsigned ms_tc_page_bits(const struct ms_tc_copy *copy)
{
	return MS_TC_ADDRESS_BITS - copy->page_shift;
}

static inline unsigned ms_tc_leaf_bits(const struct ms_tc_copy *copy)
{
	return (ms_tc_page_bits(copy) + 1) / 2;
}

static inline uint64_t ms_tc_leaf_bytes(const struct ms_tc_copy *copy)
{
	return UINT64_C(8) << ms_tc_leaf_bits(copy);
}

static inline uint64_t ms_tc_root_bytes(const struct ms_tc_copy *copy)
{
	return UINT64_C(8) << (ms_tc_page_bits(copy) - ms_tc_leaf_bits(copy));
}

static inline struct ms_range ms_tc_span_range(const struct ms_tc_copy *copy,
                                               const struct ms_tc_span *span)
{
	return (struct ms_range){ span->page << copy->page_shift, (span->page + span->pages)
		                                                          << copy->page_shift };
}

#endif
