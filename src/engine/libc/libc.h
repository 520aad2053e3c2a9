/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LIBC_LIBC_H
#define MS_ENGINE_LIBC_LIBC_H

/*
 * Port: what a C library keeps of a thread in the thread's own memory.
 *
 * At the thread pointer lies a control block, or, where thread-local storage lies above that,
 * before it. A C library knows such a block when it sees one, and what it says: which stack
 * the thread has, where its table of dynamic thread-local storage is, which thread it is or
 * was, and how stored code addresses are mangled.
 *
 * It does not decide what is a root (stacks.h does), and knows nothing of registers, of signal
 * frames (signal_frame.h) or of malloc (decoder.h). Its bytes are brought to it, for threads are
 * looked at in sources and, by ptrace, in processes that run.
 *
 * To add a C library:
 *	1. src/engine/libc/foo.c: `const struct ms_libc_ops ms_libc_foo`;
 *	2. a row in libcs.c, before the last one, which is taken for what no other knows;
 *	3. tests/unit/test_libc.c: blocks as it draws them.
 * Another machine's version of a C library is another row.
 */

#include "base/range.h"
#include "engine/abi.h"
#include "engine/libc/mangling.h"
#include "engine/source.h"

enum {
	MS_LIBC_BLOCK_BYTES = 2304, /* as much of a control block as is looked at, at most */
	/*
	 * Memory is searched for blocks from multiples of this on: blocks begin at such addresses,
	 * and are known by as many bytes.
	 */
	MS_LIBC_BLOCK_ALIGN = 64,
	MS_LIBC_KNOWN_BYTES = 256, /* by as many from its begin on a block is known */
	MS_LIBC_TCB_BYTES = 16,    /* from the thread pointer on, where the block ends there */
};

/* Some memory of the process; a control block when it begins at one. */
struct ms_libc_bytes {
	const struct ms_abi *abi;
	ms_addr at;
	const uint8_t *bytes; /* borrowed */
	size_t n;
	ms_addr tp; /* the thread pointer that the block belongs to; 0: not known */
};

struct ms_stack_record {
	struct ms_range block;
	bool guarded; /* the C library's own stacks are, a program's own ones are not */
};

/* What a control block says of its thread. */
struct ms_libc_thread {
	int32_t tid;
	bool known;  /* the block is all there, and its state is one that can be */
	bool over;   /* the thread has ended, and nothing can ask for its result any more */
	ms_addr tls; /* the table of dynamic thread-local storage, as malloc gave it; 0: none */
	struct ms_mangling mangling;
};

struct ms_libc_ops {
	const char *name;
	size_t block_bytes; /* of a control block, to MS_LIBC_BLOCK_BYTES */

	/*
	 * Where from @from on the first control block begins in @memory, which may end in the
	 * middle of it; memory->n when none does. Quick: all anonymous memory is searched. Where
	 * storage lies above the thread pointer, other functions get memory with a block inside.
	 */
	size_t (*next_block)(const struct ms_libc_bytes *memory, size_t from);

	/*
	 * The next record of a stack from *@at on, 0 at first: there are several where its place
	 * varies between versions, so that it is known only by what it must satisfy. False: there
	 * are no more.
	 */
	bool (*next_stack)(const struct ms_libc_bytes *block, size_t *at,
	                   struct ms_stack_record *ret);

	/* @ret: zeros */
	void (*thread)(const struct ms_libc_bytes *block, struct ms_libc_thread *ret);

	/*
	 * Whether the C library itself still has the stack of a thread that ended, for the next
	 * one. Otherwise it is the program's memory again, whatever is left there.
	 */
	bool (*keeps)(struct ms_source *src, const struct ms_libc_bytes *block);
};

/* Every C library that memscan knows, ended by NULL. */
extern const struct ms_libc_ops *const ms_libcs[];

/* The C library of one process. */
struct ms_libc_view {
	const struct ms_libc_ops *ops;
	bool layout_known;  /* every living thread's id and state are where they are expected */
	uint64_t tp_offset; /* of the thread pointer, from the begin of a block on */
	struct ms_mangling mangling;
};

/*
 * The first of @libcs that knows @block; the last one when none does: threads' blocks cannot
 * always be read.
 */
const struct ms_libc_ops *ms_libc_of(const struct ms_libc_ops *const *libcs,
                                     const struct ms_libc_bytes *block);

/* Find which of @libcs, at least one, ended by NULL, serves @src. */
struct ms_libc_view ms_libc_find(struct ms_source *src, const struct ms_libc_ops *const *libcs);

/* Read memory with the control block of thread pointer @tp to @room, of MS_LIBC_BLOCK_BYTES. */
struct ms_libc_bytes ms_libc_read(struct ms_source *src, ms_addr tp, uint8_t *room);

/* Read the control block that next_block() has found at @at. */
struct ms_libc_bytes ms_libc_read_found(struct ms_source *src, const struct ms_libc_view *view,
                                        ms_addr at, uint8_t *room);

/* Where memory with the control block of @tp begins. */
static inline ms_addr ms_libc_from(const struct ms_abi *abi, ms_addr tp)
{
	return abi->tls_above ? tp + MS_LIBC_TCB_BYTES - MS_LIBC_BLOCK_BYTES : tp;
}

/* Where the control block of @tp may begin. */
static inline struct ms_range ms_libc_begins(const struct ms_abi *abi, ms_addr tp)
{
	return (struct ms_range){ ms_libc_from(abi, tp), abi->tls_above ? tp : tp + 1 };
}

#endif
