/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OUT_RECORD_H
#define MS_SHIM_OUT_RECORD_H

/*
 * record_allocs: what was called, in the order in which it began.
 *
 * A slot is reserved before the operation and filled after it; those never filled are left
 * out when the file is written, which a signal handler may do at any moment, without a lock
 * or malloc. Writing begins a new generation: what is filled for an older one is dropped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "malloc_debug/registry.h"

enum ms_record_what {
	MS_RECORD_MALLOC,
	MS_RECORD_CALLOC,
	MS_RECORD_REALLOC,
	MS_RECORD_MEMALIGN,
	MS_RECORD_FREE,
	MS_RECORD_THREAD_DONE,
};

struct ms_record {
	uint32_t generation; /* 0: empty */
	int32_t tid;
	enum ms_record_what what;
	uint64_t p;
	uint64_t size;
	uint64_t more; /* calloc: number; realloc: the old block; memalign: the alignment */
	uint64_t start_ns;
	uint64_t end_ns;
};

/* Room for @max; false with the reason logged. */
bool ms_record_init(size_t max);

/* A slot for what begins now; 0 when there is none, or records are off. */
uint64_t ms_record_reserve(void);

/* Fill @slot, which may be 0, with @record; the thread and the times are added. */
void ms_record_fill(uint64_t slot, const struct ms_record *record);

/* Write all to @path and begin anew. Context: any, signal handlers too. */
void ms_record_write(const char *path);

/* The slots themselves, for the registry. */
struct malloc_debug_list ms_record_slots(void);

#endif
