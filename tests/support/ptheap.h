/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_PTHEAP_H
#define MS_TESTS_PTHEAP_H

/*
 * A fake process of glibc's, drawn in one line:
 *
 *	struct ptheap h;
 *
 *	ptheap_init(&h);
 *	ptheap_draw(&h, "2.36", "T u24 u100 f64 u40 c24 t ; u500 t ; m200000");
 *	ptheap_break(&h, "chunk3.prev = 0");
 *	cr_expect_str_eq(ptheap_try(&h, "M"), "");
 *	ptheap_deinit(&h);
 *
 * The picture: the main arena, then further arenas, separated by ";".
 *
 *	uN  used, malloc(N)           T   a thread's cache, and the thread whose it is
 *	fN  free, in the unsorted bin cN  in the cache drawn last
 *	bN  free, in its size's bin   qN  in a fastbin
 *	t   top, for all that is left
 *	oN  first of all: N bytes of somebody else's before the heap (a static program)
 *	xN  a fence; N bytes of somebody else's break memory; the heap goes on behind
 *	|   what is left of this piece is freed, a fence, and on in a new one: of a
 *	    main arena an anonymous mapping (it gets its NONCONTIGUOUS flag), of
 *	    another a new heap
 *	mN  used, with a mapping of its own; adjoining the one before
 *	aN  the same, aligned to a page, a stale header at the mapping's begin
 *	AN  the same, aligned to 64 bytes
 *	lN  what looks like mN, and is the program's own: no counter counts it
 *	sN  N bytes of the program's own that look like nothing
 *
 * A library drawn later lies higher. Its caches are those of the same threads, and
 * its main arena has no break memory: it begins with an anonymous mapping.
 */

#include "engine/decoder.h"
#include "fake.h"

/* Where the first thread has its thread pointer; all heaps are behind. */
#define PTHEAP_STORAGE UINT64_C(0x900000)

enum { PTHEAP_CHUNKS = 256, PTHEAP_ARENAS = 8, PTHEAP_HEAPS = 16, PTHEAP_LIBCS = 2 };

/* Every piece of an arena's memory has so many bytes. */
enum { PTHEAP_PIECE = 0x4000 };

enum ptheap_tls {
	PTHEAP_TLS_NEAREST,   /* it is a static program */
	PTHEAP_TLS_RELOCATED, /* it is a library, with relocations for it */
	PTHEAP_TLS_UNKNOWN,   /* it does not say that it has any */
};

struct ptheap_chunk {
	char kind; /* its letter; what "|" frees is an f */
	char owner; /* M or N: main arena of the first or second library; 0, 1, …: arena; m: none */
	ms_addr addr;
	uint64_t size;   /* with the header, without the bits */
	uint64_t usable; /* bytes */
};

struct ptheap_libc {
	const struct ptheap_version *version;
	ms_addr data; /* the module's */
	ms_addr par;
	ms_addr arena;
};

struct ptheap {
	struct ms_fake fake;
	const struct ms_source_ops *fake_ops; /* of fake; it has ops, which count */
	struct ms_source_ops ops;
	struct ptheap_libc libcs[PTHEAP_LIBCS];
	size_t n_libcs;
	struct ptheap_chunk chunks[PTHEAP_CHUNKS]; /* in the picture's order */
	size_t n_chunks;
	ms_addr arenas[PTHEAP_ARENAS]; /* but for main ones */
	size_t n_arenas;
	ms_addr heaps[PTHEAP_HEAPS]; /* of these */
	size_t n_heaps;

	/* To be set before drawing. */
	ms_addr base;            /* where the first main heap begins; 0: far above 4 GiB */
	uint64_t heap_max;       /* of arenas but main ones; 0: as without huge pages */
	uint64_t data_before;    /* bytes of the module's data before malloc's */
	uint64_t cache_distance; /* of tlsN below the thread pointer; ptheap_init_tls() sets it */
	enum ptheap_tls tls;     /* how the module says where its thread-local storage is */

	/* How it is decoded. */
	struct ms_workers *workers;
	uint64_t part_bytes; /* 0: as always */
	uint64_t reads;      /* of the source, since it was last set to 0 */
	uint64_t read_bytes;

	/* What the decoder told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_heaps found;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_decoding decoding;
	struct ms_error err;
	char wrong[MS_ERROR_TEXT]; /* what ptheap_try() returns */
};

void ptheap_init(struct ptheap *h);

/* The same; the words that point to caches stand @distance bytes below the thread pointers. */
void ptheap_init_tls(struct ptheap *h, uint64_t distance, enum ptheap_tls tls);

void ptheap_deinit(struct ptheap *h);

/*
 * Draw a C library with its heap; @version is one of 2.26 2.27 2.31 2.33 2.36 2.42 2.43, with
 * "/32" behind for a process of 32 bits.
 */
void ptheap_draw(struct ptheap *h, const char *version, const char *picture);

/*
 * Write into the fake process, for instance "chunk2.size += 16, par.n_mmaps = 3".
 * The operator is = += -= |= ^= or ->, which stores a link as free lists of that
 * version have them. The value is a number or a place.
 *
 *	chunkN  . prev size fd bk mem foot next_size     N as in the picture, from 0
 *	main arenaN . flags top next attached system_mem fastN binN fdN bkN    (bin N)
 *	heapN   . ar_ptr prev_heap heap_size mprotect_size
 *	par     . trim n_mmaps max_n_mmaps mmapped_mem max_mmapped_mem sbrk_base
 *	          tcache_count
 *	cacheN  . countN entryN
 *	tlsN            the word that points to the cache of thread N
 *
 * "main1" and "par1" are those of the second library. Without a field it is the
 * thing's own address.
 */
void ptheap_break(struct ptheap *h, const char *damage);

/* The address of such a place. */
ms_addr ptheap_place(const struct ptheap *h, const char *name);

/* Classify, decode, seal. Forgets what an earlier call found. */
enum ms_status ptheap_decode(struct ptheap *h);

/* Every block told, as "begin:usable" by address; good until the next decode. */
const char *ptheap_told(struct ptheap *h);

/*
 * Decode and compare with the picture: u, m, a and A must be told, and nothing else.
 *
 * @lost: owners (struct ptheap_chunk) whose chunks must not be told, but handed
 *        over as not proved; the second is not demanded of those behind a "~"
 *
 * Tried with view() and without, by one thread and by several in the smallest parts
 * there are, which must give the same. Returns "" or what is wrong, good until the
 * next decode.
 */
const char *ptheap_try(struct ptheap *h, const char *lost);

/*
 * Decode by @n_workers in parts of @part_bytes (0: as always), without view(), and
 * tell everything: blocks, evidence, what is not proved. The caller frees it.
 */
char *ptheap_account(struct ptheap *h, unsigned int n_workers, uint64_t part_bytes);

/* Whether all evidence together has @text. */
bool ptheap_says(const struct ptheap *h, const char *text);

/* Whether the memory of @addr was handed over as not proved. */
bool ptheap_is_unproved(const struct ptheap *h, ms_addr addr);

/* All heaps found are verified, and there is one. */
bool ptheap_is_verified(const struct ptheap *h);

#endif
