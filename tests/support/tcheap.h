/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_TCHEAP_H
#define MS_TESTS_TCHEAP_H

/*
 * A fake process with gperftools' tcmalloc, drawn in one line:
 *
 *	struct tcheap h;
 *
 *	tcheap_init(&h);
 *	tcheap_draw(&h, "2.10", "64:uf0ss* 16:u1 L3 n2 r4 | S1=100");
 *	tcheap_set(&h, TC_SPAN, 0, offsetof(struct ms_tc_raw_span, refcount), 2, 7);
 *	cr_expect_str_empty(tcheap_try(&h, ""));
 *	tcheap_deinit(&h);
 *
 * The picture, spans in the order of their pages:
 *
 *	SIZE:OBJECTS   a span of that size class, its objects from the first on:
 *	               u   used              f   free, on the span's list
 *	               s   in a transfer slot; each slot has two of one class
 *	               0…9 in the cache of that thread
 *	               *   behind them all are used, of 32 at most; otherwise they are free
 *	LN     a large block of N pages      SN=BYTES   the same, sampled
 *	nN     N free pages                  rN   the same, returned to the system
 *	|      what follows was taken from the system by itself: there is a gap
 *
 * Objects that have a letter, and large blocks, are numbered from 0 on; so are spans.
 */

#include "alloc/tcmalloc/layout.h"
#include "engine/decoder.h"
#include "fake.h"

enum { TCHEAP_OBJECTS = 256, TCHEAP_SPANS = 64, TCHEAP_CACHES = 10, TCHEAP_BATCH = 2 };

struct tcheap_object {
	char kind; /* its letter */
	ms_addr addr;
	uint64_t usable;
};

struct tcheap_span {
	ms_addr at; /* its struct Span */
	uint64_t page;
	uint64_t pages;
	uint32_t class;
};

struct tcheap {
	struct ms_fake fake;
	ms_addr data; /* of the module */
	struct tcheap_object objects[TCHEAP_OBJECTS];
	size_t n_objects;
	struct tcheap_span spans[TCHEAP_SPANS];
	size_t n_spans;
	uint32_t n_caches;
	uint32_t n_sampled; /* blocks; their traces are those from the 63rd down */

	/* To be set before drawing. */
	uint32_t data_before; /* bytes of the module's data before tcmalloc's, a multiple of 8 */
	uint8_t page_shift;   /* 13 unless set */
	bool sparse;          /* long runs of pages that nothing was drawn to are not present */

	/* What the decoder told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_heaps found;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_decoding decoding;
	struct ms_error err;
	char wrong[MS_ERROR_TEXT]; /* what tcheap_try() returns */
};

/* What can be damaged; the @index-th of it. */
enum tc_place {
	TC_SPAN,      /* struct Span of a span */
	TC_ENTRY,     /* its first page's entry in the page map */
	TC_OBJECT,    /* an object's first word */
	TC_CENTRAL,   /* central list of the class that the span has */
	TC_CACHE,     /* a thread's cache */
	TC_CACHED,    /* the list of thread 0's cache that the span's class has */
	TC_HEAPS,     /* the three words for the list of caches */
	TC_STATS,     /* the page heap's counters */
	TC_SIZES,     /* of classes; index counts them */
	TC_PAGES,     /* of their spans */
	TC_ROOT,      /* of the page map; index counts words */
	TC_ALLOCATOR, /* of spans */
	TC_TRACE,     /* a stack trace */
};

void tcheap_init(struct tcheap *h);
void tcheap_deinit(struct tcheap *h);

/* @version: 2.10 or 2.18, as it also says of itself */
void tcheap_draw(struct tcheap *h, const char *version, const char *picture);

ms_addr tcheap_at(const struct tcheap *h, enum tc_place place, uint32_t index);

/* Store @value, of @width bytes, @offset bytes into a place. */
void tcheap_set(struct tcheap *h, enum tc_place place, uint32_t index, size_t offset,
                unsigned int width, uint64_t value);

/* What is stored there. */
uint64_t tcheap_get(const struct tcheap *h, enum tc_place place, uint32_t index, size_t offset,
                    unsigned int width);

/* Classify, decode, seal. Forgets what an earlier call found. */
enum ms_status tcheap_decode(struct tcheap *h);

/*
 * Decode, with view() and without, and compare with the picture: used objects and large
 * blocks are told, with their bytes, and nothing else.
 *
 * @says: "" for a heap that is verified; otherwise what the evidence must have, nothing is
 *        told, and all objects are in memory that is handed over as not proved
 *
 * Returns "" or what is wrong, good until the next decode.
 */
const char *tcheap_try(struct tcheap *h, const char *says);

/* Whether @addr is no root, because the allocator has it. */
bool tcheap_is_owned(const struct tcheap *h, ms_addr addr);

#endif
