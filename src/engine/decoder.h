/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_DECODER_H
#define MS_ENGINE_DECODER_H

/*
 * Port: where an allocator's live blocks are, by its own structures.
 *
 * A decoder reads a stopped process's memory and knows one allocator. It proves
 * what it says: sums, ends and lists are compared with the allocator's own
 * counters, each comparison is a line of evidence, and what could not be proved
 * is handed over as `unproved` memory instead of blocks. It does not follow the
 * program's pointers, know about leaks or other allocators, or trace anything.
 *
 * decode.c calls all decoders step by step: every one claims, then every one reads,
 * then every one settles.
 *
 * To add a decoder:
 *	1. src/alloc/foo.c (or a room src/alloc/foo/): `const struct ms_decoder ms_foo_decoder`;
 *	2. a row in src/alloc/decoders.c;
 *	3. tests/unit/test_foo.c, with a heap drawn by tests/support, and a program
 *	   in tests/targets that uses the allocator.
 */

#include "base/workers.h"
#include "engine/anchors.h"
#include "engine/blocks.h"
#include "engine/mapping.h"
#include "engine/report.h"

/* A block of known origin. */
struct ms_origin {
	ms_addr begin;  /* as the blocks have it */
	uint32_t stack; /* an index in ms_origins.stacks */
	uint32_t asked; /* of a sample: bytes that were asked for, the most if they are more; else 0
	                 */
};

/* Code of a library that was unloaded since (origins/unloaded.h). */
struct ms_former_code {
	struct ms_range range;
	uint32_t first_stack;
	uint32_t end_stack;
	uint64_t moved; /* 0: it is loaded again */
};

/* Where blocks were allocated. */
struct ms_origins {
	struct MS_VEC(struct ms_origin) blocks; /* by address, no two alike */
	struct ms_stack_list stacks;            /* no two alike */
	struct ms_pcs pcs;
	struct MS_VEC(struct ms_former_code) formers;
	struct ms_codes unloaded;    /* of these, by address; pcs in there were moved */
	struct ms_sampling sampling; /* what the samples are of */
};

enum { MS_RIVAL_TEXT = 48 };

/* Another allocator that no decoder claimed. */
struct ms_rival {
	char name[MS_NAME_TEXT];  /* of the file it is in, or its own; "": there is none */
	char what[MS_RIVAL_TEXT]; /* which one it is, of which version; "": nothing says */
	uint64_t bytes;           /* of that program's or library's own data */
	bool serves;      /* it answers the program's malloc; else it is there, and that is all */
	bool may_pass_on; /* it could be in front of a decoded one, and never called so far */
};

/* Where threads have the pointer to a cache that the allocator made for each of them. */
struct ms_cache_place {
	uint64_t below_tp;  /* bytes; modulo 2^64, for it may stand above */
	uint64_t min_bytes; /* usable ones of a cache */
	uint64_t max_bytes;
};

struct ms_decoder;

/* What decoders are given, and where they put what they found. */
struct ms_decoding {
	struct ms_source *src;
	const struct ms_regions *regions; /* the classified mappings */
	struct ms_arena *arena;
	struct ms_workers *workers;               /* threads to decode with; NULL: alone */
	const struct ms_decoder *const *decoders; /* all of them, for messages */
	bool ended; /* the program is at its end, and has given up what it does not need */

	struct ms_blocks *blocks;   /* out: extents and blocks */
	struct ms_ranges owned;     /* out: the allocator's memory and metadata, never a root */
	struct ms_ranges own_words; /* out: the same in threads' storage, which else is a root */
	struct MS_VEC(struct ms_cache_place) cache_places; /* out */
	struct ms_ranges unproved;  /* out: heap memory without known blocks; all of it roots */
	struct ms_ranges in_hand;   /* out: owned, but roots: what threads inside may have taken */
	struct ms_heaps *heaps;     /* out: one entry per allocator found */
	struct ms_notes *evidence;  /* out: in the order of heaps */
	struct ms_notes *warnings;  /* out */
	struct ms_origins *origins; /* out: where blocks were allocated, if something kept that */

	/* By decode.c. */
	struct ms_rival rival;
	bool unused;               /* no allocator that was claimed was ever called */
	struct ms_anchors anchors; /* of all claims */
};

/* What a decoder says before any block is read. */
struct ms_claim {
	void *state;                     /* the decoder's own; NULL: its allocator is not here */
	struct MS_VEC(uint32_t) modules; /* that have the allocator's data (ms_region.module) */
	struct ms_ranges memory;         /* the allocator's, as far as it shows by now */
	/*
	 * Its state in these modules' data: what nearly every change of the heap begins at, and
	 * nothing but its own code refers to. None: that code can be found without.
	 */
	struct ms_anchors anchors;
	bool unused;             /* it was never called */
	struct ms_ranges others; /* by decode.c, before the reading: all other claims' memory */
};

/*
 * Whether @thread was caught inside the allocator of @claim. A decoder asks this of each
 * thread, and not thread->in_malloc: that may be another allocator's, whose lists are not its
 * own; and where the allocator's code is not known, whoever runs may be in it, and whoever sleeps
 * where it sleeps.
 */
enum ms_in_malloc ms_claim_in_malloc(const struct ms_decoding *d, const struct ms_claim *claim,
                                     const struct ms_thread *thread);

struct ms_decoder {
	const char *name;
	const char *reads; /* for messages: which allocator; NULL: another decoder's says it */

	/*
	 * Is the allocator here, and which memory is its own? Finding nothing is MS_OK.
	 *
	 * @ret: zeroed
	 *
	 * Each of the three returns MS_E_NOMEM and nothing else: the state of the target's
	 * memory is never a failure.
	 */
	enum ms_status (*claim)(struct ms_decoding *d, struct ms_claim *ret);

	/* Put every block; those of one extent by address. Only after a claim. */
	enum ms_status (*read)(struct ms_decoding *d, const struct ms_claim *claim);

	/*
	 * Blocks are by address now and can be found: take out what is free after all, drop what
	 * is not proved; hand over memory, heaps and evidence.
	 */
	enum ms_status (*settle)(struct ms_decoding *d, const struct ms_claim *claim);
};

#endif
