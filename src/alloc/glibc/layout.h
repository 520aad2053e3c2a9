/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_GLIBC_LAYOUT_H
#define MS_ALLOC_GLIBC_LAYOUT_H

/*
 * Where ptmalloc's fields stand, in processes of 64 bits and of 32 (i386).
 *
 * A family is recognized by the data itself: the place of the bins inside the arena
 * falls out of where the ring of arenas closes (locate.c), never from a version
 * string, which distributions' backports make unreliable.
 *
 * Source: glibc malloc/malloc.c and malloc/arena.c (struct malloc_state,
 * malloc_par, _heap_info), the debug information of Debian's packages.
 */

#include <stddef.h>
#include <stdint.h>

enum {
	MS_ALIGNMENT = 16, /* MALLOC_ALIGNMENT, of a chunk's bytes */
	MS_HEADER_MAX = 16,
	MS_BINS = 127,
};

/* The low bits of a chunk's size. */
enum { MS_PREV_INUSE = 1, MS_IS_MMAPPED = 2, MS_NON_MAIN = 4, MS_SIZE_BITS = 7 };

/* struct malloc_state. Offsets in bytes. */
struct ms_arena_layout {
	const char *versions;
	uint16_t flags;
	uint16_t fastbins;
	uint16_t n_fastbins;
	uint16_t top;
	uint16_t bins;
	uint16_t next;
	uint16_t attached;
	uint16_t system_mem;
	uint16_t size;
	uint16_t first_par; /* entries of ms_pt_shape.pars that go with it: [first, end) */
	uint16_t end_par;
};

/* struct malloc_par. */
struct ms_par_layout {
	const char *versions;
	uint16_t thp_pagesize; /* 0: there is none */
	uint16_t hp_pagesize;  /* 0: there is none */
	uint16_t n_mmaps;      /* followed by n_mmaps_max, max_n_mmaps, no_dyn_threshold: ints */
	uint16_t mmapped_mem;  /* followed by max_mmapped_mem */
	uint16_t sbrk_base;
	uint16_t
		tcache_bins; /* followed by tcache_max_bytes, tcache_count; 0: there is no tcache */
	uint16_t size;
	uint16_t mmap_extra; /* bytes of an mmapped chunk that its size leaves out */
};

enum {
	MS_TCACHE_SMALL_BINS = 64, /* bins of one chunk size each; more are by powers of two */
	MS_TCACHE_MAX_BINS = 76,
};

/* tcache_perthread_struct: counters, then heads of lists. */
struct ms_tcache_layout {
	const char *versions;
	uint16_t n_bins;
	uint16_t count_bytes; /* of one counter */
	uint16_t entries;     /* where the heads stand */
	uint16_t usable;      /* bytes of the block it lives in, or 16 or 32 more */
	uint16_t counts_free; /* 1: a counter says how many more fit, not how many there are */
};

/* All that depends on how long a word is. */
struct ms_pt_shape {
	const struct ms_arena_layout *arenas;
	size_t n_arenas;
	const struct ms_par_layout *pars;
	const struct ms_tcache_layout *tcaches;
	size_t n_tcaches;
	uint64_t heap_max;  /* HEAP_MAX_SIZE, bytes */
	uint16_t cache_min; /* sizes of chunks that hold a thread's cache */
	uint16_t cache_max;
	uint8_t heap_infos[2]; /* bytes of struct _heap_info, up to 2.34 and from 2.35 on */
	uint8_t arena_test;    /* malloc_par.arena_test by default */
	uint8_t word;          /* bytes */
	uint8_t header;        /* from a chunk to its bytes: two words */
	uint8_t min_chunk;     /* MINSIZE */
};

/* Of processes whose words have @word_bytes; NULL: there is none. */
const struct ms_pt_shape *ms_pt_shape_of(unsigned int word_bytes);

#endif
