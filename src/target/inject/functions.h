/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_FUNCTIONS_H
#define MS_TARGET_FUNCTIONS_H

/*
 * The functions of malloc in a running process, and where in each a jump can be put.
 *
 * They are found by the library's own table of symbols, in the process's memory. What stood
 * there before anyone changed it is what the library's file has: that is read, too, and what
 * differs is another tool's.
 */

#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "engine/source.h"
#include "target/inject/agent/agent.h"
#include "target/inject/library/library.h"
#include "target/inject/place.h"

struct ms_malloc_function {
	bool found;           /* it has a place; as others, it may be diverted already */
	bool is_other_name;   /* of one that has a place, or it calls one: nothing is lost */
	bool is_outer;        /* its block is made, and counted, by another that has a place */
	bool is_absent;       /* the library does not have it */
	const char *left_out; /* why it has none */
	struct ms_place place;
};

struct ms_malloc_functions {
	const char *file;     /* the library's, as the memory map has it */
	const char *in_front; /* that of a malloc which may pass calls on; NULL: there is none */
	const char *beside;   /* that of an allocator which no call reaches; NULL: there is none */
	bool apart;           /* it is the program's own; other calls reach another malloc */
	char name[64];        /* "glibc 2.36", "libjemalloc.so.2" */
	struct ms_range text; /* its instructions */
	struct ms_range libc_text;
	const struct ms_control *control;
	uint64_t passed_on;  /* struct ms_agent_data */
	ms_addr find_object; /* the same */
	struct ms_malloc_function at[MS_AGENT_N];
};

/* What its library calls it. */
const char *ms_function_name(enum ms_agent_function function);

/* Whether it may free a block. */
bool ms_function_releases(enum ms_agent_function function);

/* Whether it may make one. */
bool ms_function_makes(enum ms_agent_function function);

/*
 * Find them.
 *
 * @ret: its names are those of the maps
 *
 * Returns what ms_malloc_library_find() does; MS_E_UNSUPPORTED, with what to do, when malloc or
 * one that may free a block has no place.
 */
ms_must_check enum ms_status ms_malloc_functions_find(const struct ms_running *in,
                                                      struct ms_arena *arena,
                                                      struct ms_malloc_functions *ret,
                                                      struct ms_error *err);

/* The bytes of a window: what the file has; anything that is neither that nor a jump of ours. */
enum ms_window {
	MS_WINDOW_PLAIN,
	MS_WINDOW_OURS, /* the jump to @slot */
	MS_WINDOW_FOREIGN,
};

/* What of these stands at @place now; at the entry itself a debugger's breakpoint may be. */
enum ms_window ms_window_look(int mem_fd, const struct ms_place *place, ms_addr slot);

#endif
