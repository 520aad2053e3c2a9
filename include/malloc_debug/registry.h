/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MALLOC_DEBUG_REGISTRY_H
#define MALLOC_DEBUG_REGISTRY_H

/*
 * How libmalloc_debug.so keeps what it knows of a program's blocks, for tools that look
 * at the program's memory: from outside, or at a core dump.
 *
 *	registry ──> shards ──> table: n_slots | slot slot slot … │ live blocks
 *	         ├─> pages of stacks ──> page ──> stack: id, n, pc pc pc …
 *	         ├─> kept, deferred: blocks that the program has freed
 *	         ├─> records of calls
 *	         └─> modules: libraries, those that were unloaded since, too
 *
 * A struct malloc_debug_registry stands in the writable data of the mapped file, whose
 * name begins with "libmalloc_debug.so", at a multiple of 8. It has its magic once all of
 * it is valid, which is when the library has started with options that record something.
 * Then it does not change any more, but for two of its flags; what it leads to does.
 *
 * Addresses of blocks are kept inverted (~address), so that what looks for leaks does not
 * find a reference to every block here; 0 is no block. Other addresses, of tables, pages
 * and stacks, are plain, and 0 where there is none. Everything has a fixed width, in a
 * 32-bit process, too, and no padding.
 *
 * A reader of a process that runs on meanwhile, or whose threads were stopped anywhere,
 * finds each address either the old or the new one, and what it leads to complete, for a
 * table that was replaced is unmapped only after its successor is in place. It must expect
 *
 *	a live block that is not in the table: it is just being made, resized or freed,
 *	and some thread's registers or stack have its address; or there was no memory for it
 *	the same block twice, with the same size and stack: its entry is just being moved
 *	a freed block neither among the live ones nor among those kept: a thread has it
 *	a deferred block that still is in the table
 *
 * He need not expect a block in the table, or among the freed ones, that the allocator
 * behind has back already.
 *
 * Layouts of one version do not change but by what is added behind: `bytes` says how long
 * the registry is, and each kind of entry says how long it is.
 */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "memscan:" and "registry", as little-endian numbers. */
#define MALLOC_DEBUG_MAGIC_1 UINT64_C(0x3a6e6163736d656d)
#define MALLOC_DEBUG_MAGIC_2 UINT64_C(0x7972747369676572)

enum { MALLOC_DEBUG_REGISTRY_VERSION = 1 };

enum malloc_debug_registry_flags {
	MALLOC_DEBUG_ALL_BLOCKS = 1,  /* every live block is in the table, not only sampled ones */
	MALLOC_DEBUG_HEADERS = 2,     /* blocks begin behind a header in the allocator's chunk */
	MALLOC_DEBUG_REAR_GUARDS = 4, /* the program may not use a byte beyond a block's size */
	/*
	 * Nor does it, but for blocks with MALLOC_DEBUG_USABLE_ASKED. It is taken back when the
	 * program may have asked unnoticed.
	 */
	MALLOC_DEBUG_USABLE_NOTED = 8,
	/*
	 * Some library has called the allocator behind directly, so an entry may be that of a
	 * block which is free, or another one's. Set later.
	 */
	MALLOC_DEBUG_BYPASSED = 16,
};

/* Of a block. */
enum malloc_debug_slot_flags {
	MALLOC_DEBUG_USABLE_ASKED = 1, /* the program asked for its malloc_usable_size() */
};

/* The stack of a block: a number. Others stand for none. */
enum { MALLOC_DEBUG_FIRST_STACK = 2 };

/* A list of @n entries of @bytes each at @at. */
struct malloc_debug_list {
	uint64_t at;
	uint32_t n;
	uint32_t bytes;
};

struct malloc_debug_registry {
	uint64_t magic[2];
	uint32_t version;
	uint32_t bytes; /* of this struct */
	uint32_t flags; /* enum malloc_debug_registry_flags */
	/* With headers: the least that stands in a chunk before the user's first byte. */
	uint32_t least_offset;

	struct malloc_debug_list shards;      /* begin with a struct malloc_debug_shard */
	uint32_t slot_bytes;                  /* entries of a table */
	uint32_t stacks_a_page;               /* addresses of stacks in one page */
	struct malloc_debug_list stack_pages; /* uint64_t each: address of a page, or 0 */
	struct malloc_debug_list kept;        /* struct malloc_debug_freed: by free_track */
	struct malloc_debug_list deferred;    /* uint64_t each, inverted: to be freed soon */
	struct malloc_debug_list records;     /* of calls; nothing in them refers to a block */
	struct malloc_debug_list modules;     /* struct malloc_debug_module, up to an empty one */
};

/* The live blocks are spread over shards by address. */
struct malloc_debug_shard {
	uint64_t table; /* of a struct malloc_debug_table, or 0 */
};

/* Followed by its slots: empty ones and others in no order. */
struct malloc_debug_table {
	uint64_t n_slots;
	uint64_t reserved;
};

struct malloc_debug_slot {
	uint64_t inverted; /* the block's address, or 0: empty; written last, cleared first */
	uint64_t size;     /* bytes, as asked for */
	uint32_t stack;    /* its number: of its allocation */
	uint32_t flags;    /* enum malloc_debug_slot_flags */
};

/*
 * Number i is found at place i - MALLOC_DEBUG_FIRST_STACK: that, divided by
 * stacks_a_page, is the place of its page; the remainder is the place in that page of
 * the stack's address. Stacks are never changed nor taken away.
 */
struct malloc_debug_stack {
	uint64_t next; /* of the library's own, as the hash */
	uint64_t hash;
	uint32_t id;
	uint32_t n;
	uint64_t pc[]; /* in the calling instructions, innermost first */
};

/*
 * With headers, of a live block, in front of its guard: least_offset less HEADER_BEFORE bytes
 * before the user's first. As words are in the process; this is a 64-bit one's.
 */
enum { MALLOC_DEBUG_HEADER_BEFORE = 32, MALLOC_DEBUG_TAG_LIVE = 0x1ee7d00d };

struct malloc_debug_header {
	uint32_t tag;
	uint64_t orig; /* where the allocator's block begins */
	uint64_t size; /* as asked for, or some bytes more (expand_alloc) */
} __attribute__((packed));

struct malloc_debug_freed {
	uint64_t inverted; /* 0: empty */
	uint64_t usable;   /* bytes */
	uint32_t stack;    /* of the free() */
	uint32_t reserved;
};

enum { MALLOC_DEBUG_BUILD_ID = 32 };

/*
 * A library with executable code as it was when a stack was kept: it may be gone since, and
 * another one be where it was. The stacks with the numbers from first_stack up to, but not,
 * end_stack may have addresses in it. The list is in the order of loading; the same address may be
 * in several entries. The program itself is not in it.
 */
struct malloc_debug_module {
	uint64_t inverted; /* where its file begins in memory; 0: empty; written last */
	uint64_t vaddr;    /* the same as the ELF file has it */
	uint64_t code_at;  /* bytes from there to the code */
	uint64_t code_bytes;
	uint64_t code_offset; /* of the code in the file */
	uint64_t path;        /* where its path stands */
	uint32_t path_len;
	uint32_t build_id_len; /* 0: it has none */
	uint32_t first_stack;
	uint32_t end_stack; /* 0: it was not seen to be gone */
	uint8_t build_id[MALLOC_DEBUG_BUILD_ID];
};

#ifdef __cplusplus
}
#else
_Static_assert(sizeof(struct malloc_debug_list) == 16, "no padding");
_Static_assert(sizeof(struct malloc_debug_registry) == 136, "no padding");
_Static_assert(sizeof(struct malloc_debug_slot) == 24, "no padding");
_Static_assert(sizeof(struct malloc_debug_freed) == 24, "no padding");
_Static_assert(sizeof(struct malloc_debug_stack) == 24, "no padding");
_Static_assert(sizeof(struct malloc_debug_module) == 96, "no padding");
_Static_assert(sizeof(struct malloc_debug_header) == 20, "no padding");
#endif

#endif
