/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_PTPLACES_H
#define MS_TESTS_PTPLACES_H

/* What ptheap.c, which draws, and ptheap_break.c, which finds places in what is drawn, both know.
 */

#include "alloc/glibc/layout.h"
#include "ptheap.h"

enum key { KEY_NONE, KEY_CACHE, KEY_RANDOM };

struct ptheap_version {
	const char *name;
	uint8_t word;   /* bytes; chooses the shape */
	uint8_t arena;  /* index in ms_pt_shape.arenas */
	uint8_t par;    /* in its pars */
	uint8_t tcache; /* in its tcaches */
	bool safe;      /* links are safe-linked */
	uint8_t key;
	uint8_t heap_info; /* bytes before the first arena of a heap */
	uint8_t tcache_count;
};

/* A test's own mistake. */
_Noreturn void ptheap_refuse(const char *text, const char *is_no);

/* What the version's words make of sizes and places. */
const struct ms_pt_shape *ptheap_shape(const struct ptheap *h);

/* Where the bytes of @chunk begin. */
ms_addr ptheap_mem(const struct ptheap *h, const struct ptheap_chunk *chunk);

/* The word at @addr; 0 where nothing is. */
uint64_t ptheap_word(const struct ptheap *h, ms_addr addr);

/* A link as it is stored at @place. */
uint64_t ptheap_link_at(const struct ptheap_version *version, ms_addr place, ms_addr to);

/* Where the thread of @tp has the word that points to its cache of the library @libc. */
ms_addr ptheap_tls_slot(const struct ptheap *h, ms_addr tp, size_t libc);

#endif
