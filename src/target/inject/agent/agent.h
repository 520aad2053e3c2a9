/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_AGENT_H
#define MS_TARGET_AGENT_H

/*
 * What is mapped into a process whose malloc is to be sampled.
 *
 *	text   0      struct ms_agent_head, hooks, what they call: ms_agent_blob
 *	       12288  a slot for each function, written by memscan:
 *	              +0   glue: undoes the instruction that stays, jumps to the hook
 *	              +64  the moved code (ms_place_move)
 *	       24576
 *	data          struct ms_agent_data
 *
 * The blob knows text and data by their distance, so it runs wherever both lie, whoever has
 * malloc. Of each thread it has a word and a byte of the control block that the C library
 * leaves free; the data say where (target/inject/control.h).
 *
 * A hook's fast path counts bytes down, or asks the filter, and jumps to the moved code:
 *
 *	malloc ─▶ glue ─▶ hook ─▶ moved code ─▶ malloc, behind the window
 *	                    └─▶ slow: keep the stack, call the moved code, enter the block
 *
 * It calls nothing of the process's but the functions that it stands in front of, and where a
 * library is unloaded the C library's _dl_find_object(), which neither waits nor allocates. It
 * makes no system call, waits for nobody, changes no vector register, and takes less than 250 bytes
 * of stack. In the fast path nothing but flags, these two and registers that a function may change
 * and is not given has changed. In the slow path, return addresses into the text are on the stack
 * only while the function that they lead to is at work.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/agent_layout.h"
#include "target/inject/agent/table.h"

/*
 * In the C library one leads to the other: so free() and realloc() have to be diverted, or
 * blocks stay known that are freed; and with realloc(), malloc()'s slot is in use. Two
 * of them can be one function: it is diverted once, as the first.
 *
 * From mallocx on they are other allocators'. The operators are C++'s: those that make blocks
 * call malloc or memalign instead of what they stand in front of, so that no exception has to
 * find its way through the agent.
 */
enum ms_agent_function {
	MS_AGENT_MALLOC,
	MS_AGENT_FREE,
	MS_AGENT_CALLOC,
	MS_AGENT_REALLOC,
	MS_AGENT_MEMALIGN,
	MS_AGENT_ALIGNED_ALLOC,
	MS_AGENT_POSIX_MEMALIGN,
	MS_AGENT_VALLOC,
	MS_AGENT_PVALLOC,
	MS_AGENT_OF_LIBC,
	MS_AGENT_MALLOCX = MS_AGENT_OF_LIBC,
	MS_AGENT_RALLOCX,
	MS_AGENT_DALLOCX,
	MS_AGENT_SDALLOCX,
	MS_AGENT_CFREE,
	MS_AGENT_FREE_SIZED,
	MS_AGENT_FREE_ALIGNED_SIZED,
	MS_AGENT_NEW,
	MS_AGENT_NEW_ARRAY,
	MS_AGENT_NEW_NOTHROW,
	MS_AGENT_NEW_ARRAY_NOTHROW,
	MS_AGENT_NEW_ALIGNED,
	MS_AGENT_NEW_ARRAY_ALIGNED,
	MS_AGENT_NEW_ALIGNED_NOTHROW,
	MS_AGENT_NEW_ARRAY_ALIGNED_NOTHROW,
	MS_AGENT_DELETE,
	MS_AGENT_DELETE_ARRAY,
	MS_AGENT_DELETE_NOTHROW,
	MS_AGENT_DELETE_ARRAY_NOTHROW,
	MS_AGENT_DELETE_SIZED,
	MS_AGENT_DELETE_ARRAY_SIZED,
	MS_AGENT_DELETE_ALIGNED,
	MS_AGENT_DELETE_ARRAY_ALIGNED,
	MS_AGENT_DELETE_ALIGNED_NOTHROW,
	MS_AGENT_DELETE_ARRAY_ALIGNED_NOTHROW,
	MS_AGENT_DELETE_SIZED_ALIGNED,
	MS_AGENT_DELETE_ARRAY_SIZED_ALIGNED,
	MS_AGENT_CXA_FINALIZE, /* makes no block: libraries call it before they are unloaded */
	MS_AGENT_N,
};

struct ms_agent_head {
	char magic[16]; /* MS_AGENT_TEXT_MAGIC */
	uint32_t n_functions;
	struct {
		uint32_t hook;     /* where the glue leads to, in the text */
		uint32_t fast_end; /* a thread before it may go to the function's entry instead */
	} functions[MS_AGENT_N];
};

/* What is written to the begin of the text; no bytes where there is no agent for this machine. */
extern const uint8_t ms_agent_blob[];
extern const size_t ms_agent_blob_bytes;

#endif
