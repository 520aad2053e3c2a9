/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_DECODER_H
#define MS_ENGINE_DECODER_H

/*
 * Port: where an allocator's live blocks are, told from its own structures.
 *
 * A decoder reads a stopped process's memory and knows one allocator. It proves
 * what it says: sums, ends and lists are compared with the allocator's own
 * counters, each comparison is a line of evidence, and what could not be proved
 * is handed over as `unproved` memory instead of blocks. It does not follow the
 * program's pointers, know about leaks, or trace anything.
 *
 * To add a decoder:
 *	1. src/alloc/foo.c (or a room src/alloc/foo/): `const struct ms_decoder ms_foo`;
 *	2. a row in src/alloc/decoders.c;
 *	3. tests/unit/test_foo.c, with a heap drawn by tests/support, and a program
 *	   in tests/targets that uses the allocator.
 */

#include "base/workers.h"
#include "engine/blocks.h"
#include "engine/mapping.h"
#include "engine/report.h"

/* A block of known origin. */
struct ms_origin {
	ms_addr begin;  /* as the blocks have it */
	uint32_t stack; /* an index in ms_origins.stacks */
};

/* Where blocks were allocated. */
struct ms_origins {
	struct MS_VEC(struct ms_origin) blocks; /* by address, no two alike */
	struct ms_stack_list stacks;            /* no two alike */
	struct ms_pcs pcs;
};

/* Another allocator that answers the program's malloc, and that nobody decodes. */
struct ms_rival {
	char name[MS_NAME_TEXT]; /* of the file it is in; "": there is none */
	uint64_t bytes;          /* of that program's or library's own data */
	bool may_pass_on; /* it could be in front of a decoded one, and never called so far */
};

/* What decoders are given, and where they put what they found. */
struct ms_decoding {
	struct ms_source *src;
	const struct ms_regions *regions; /* the classified mappings */
	struct ms_arena *arena;
	struct ms_workers *workers; /* threads to decode with; NULL: alone */

	struct ms_blocks *blocks;   /* out: extents and blocks */
	struct ms_ranges owned;     /* out: the allocator's memory and metadata, never a root */
	struct ms_ranges unproved;  /* out: heap memory without known blocks; all of it roots */
	struct ms_heaps *heaps;     /* out: one entry per allocator found */
	struct ms_notes *evidence;  /* out: in the order of heaps */
	struct ms_notes *warnings;  /* out */
	struct ms_rival rival;      /* out */
	bool unused;                /* out: the decoded allocator was never called */
	struct ms_origins *origins; /* out: who allocated which block, where something kept that */
};

struct ms_decoder {
	const char *name;

	/*
	 * Find this allocator and its blocks. Finding nothing is MS_OK.
	 *
	 * Returns MS_E_NOMEM; MS_E_UNSUPPORTED when the process plainly uses an
	 * allocator that nobody here decodes, with its name in @err. The state of
	 * the target's memory is never a failure.
	 */
	enum ms_status (*decode)(struct ms_decoding *d, struct ms_error *err);
};

#endif
