/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_PTPLACES_H
#define MS_TESTS_PTPLACES_H

/* What ptheap.c, which draws, and ptheap_break.c, which finds places in what is drawn, both know.
 */

#include "ptheap.h"

enum key { KEY_NONE, KEY_CACHE, KEY_RANDOM };

struct ptheap_version {
	const char *name;
	uint8_t arena;  /* index in ms_arena_layouts */
	uint8_t par;    /* in ms_par_layouts */
	uint8_t tcache; /* in ms_tcache_layouts */
	bool safe;      /* links are safe-linked */
	uint8_t key;
	uint8_t heap_info; /* bytes before the first arena of a heap */
	uint8_t tcache_count;
};

/* A test's own mistake. */
_Noreturn void ptheap_refuse(const char *text, const char *is_no);

/* The word at @addr; 0 where nothing is. */
uint64_t ptheap_word(const struct ptheap *h, ms_addr addr);

/* A link as it is stored at @place. */
uint64_t ptheap_link_at(const struct ptheap_version *version, ms_addr place, ms_addr to);

/* Where the thread of @tp has the word that points to its cache of the library @libc. */
ms_addr ptheap_tls_slot(const struct ptheap *h, ms_addr tp, size_t libc);

#endif
