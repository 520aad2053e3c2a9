/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_REGDRAWN_H
#define MS_TESTS_REGDRAWN_H

/*
 * A fake process with blocks, and a malloc_debug that knows some of them:
 *
 *	struct regdrawn r;
 *
 *	regdrawn_init(&r);
 *	p = regdrawn_block(&r, 40);
 *	regdrawn_enter(&r, p, 33, regdrawn_stack(&r, 0x1234, 3));
 *	regdrawn_decode(&r);
 *	cr_expect_eq(regdrawn_size(&r, p), 33);
 *	regdrawn_deinit(&r);
 *
 * What it tells of itself may be written over before it is decoded.
 */

#include "engine/decoder.h"
#include "fake.h"
#include "malloc_debug/registry.h"

enum { REGDRAWN_SHARDS = 4, REGDRAWN_SLOTS = 64, REGDRAWN_PAGES = 4, REGDRAWN_A_PAGE = 8 };
enum { REGDRAWN_KEPT = 8, REGDRAWN_DEFERRED = 8, REGDRAWN_BLOCKS = 256, REGDRAWN_BESIDE = 1 << 20 };
enum { REGDRAWN_MODULES = 4 };

struct regdrawn_block {
	ms_addr begin;
	uint64_t usable;
	bool single; /* in an extent of its own */
};

struct regdrawn {
	struct ms_fake fake;
	const char *library; /* the file that the registry stands in */
	ms_addr at;          /* the registry's address */

	/* In the fake's memory. */
	struct malloc_debug_registry *registry;
	struct malloc_debug_table *tables[REGDRAWN_SHARDS];
	uint64_t *pages;    /* REGDRAWN_PAGES of them */
	uint64_t *deferred; /* REGDRAWN_DEFERRED */
	struct malloc_debug_freed *kept;
	struct malloc_debug_module *modules; /* REGDRAWN_MODULES, all empty */

	struct regdrawn_block blocks[REGDRAWN_BLOCKS];
	size_t n_blocks;
	size_t n_entered;
	uint32_t n_stacks;
	uint32_t n_modules;
	ms_addr next_stack;
	ms_addr next_block;
	ms_addr next_single;

	/* What the decoder told. The blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks told;
	bool beside; /* there is another heap, with more blocks, that is not malloc's */
	struct ms_heaps heaps;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_origins origins;
	struct ms_decoding decoding;
	struct ms_error err;
};

/* With an empty registry. */
void regdrawn_init(struct regdrawn *r);
void regdrawn_deinit(struct regdrawn *r);

/* A live block of the allocator's, behind the others; the second: with memory of its own. */
ms_addr regdrawn_block(struct regdrawn *r, uint64_t usable);
ms_addr regdrawn_single(struct regdrawn *r, uint64_t usable);

/* Enter a block into the table. */
struct malloc_debug_slot *regdrawn_enter(struct regdrawn *r, ms_addr p, uint64_t size,
                                         uint32_t stack);

/* A stack @pc, @pc + 1, … of @n calls; its number. */
uint32_t regdrawn_stack(struct regdrawn *r, uint64_t pc, uint32_t n);
/* Where stack @id stands. */
struct malloc_debug_stack *regdrawn_stack_at(struct regdrawn *r, uint32_t id);

/* A library with one page of code at @code, behind one of others; in the order of loading. */
struct malloc_debug_module *regdrawn_module(struct regdrawn *r, ms_addr code, const char *path);

enum ms_status regdrawn_decode(struct regdrawn *r);

/* The told size of the block that begins at @p, 0 when none does. */
uint64_t regdrawn_size(const struct regdrawn *r, ms_addr p);

/* The stack of the block at @p: its first pc, or 0. */
uint64_t regdrawn_pc(const struct regdrawn *r, ms_addr p);

/* Whether some warning, or line of evidence, has @text. */
bool regdrawn_says(const struct ms_notes *notes, const char *text);

/* What is wrong with the result, whatever the registry was, or NULL. */
const char *regdrawn_check(const struct regdrawn *r);

#endif
