/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_RECORDS_OPERATION_H
#define MS_REPORT_RECORDS_OPERATION_H

/*
 * One line of a recording, as Malloc Debug's option record_allocs writes it:
 *
 *	TID: malloc 0xADDRESS SIZE
 *	TID: calloc 0xADDRESS NUMBER SIZE
 *	TID: realloc 0xNEW 0xOLD SIZE
 *	TID: memalign 0xADDRESS ALIGNMENT SIZE
 *	TID: free 0xADDRESS
 *	TID: thread_done 0x0
 *
 * Behind each may stand the times at which the call began and ended, START END, in
 * nanoseconds of CLOCK_MONOTONIC; behind thread_done END alone. Since November 2024
 * Android adds a count of present bytes, -1 where it is not known.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/range.h"

enum ms_operation_kind {
	MS_OP_MALLOC,
	MS_OP_CALLOC,
	MS_OP_REALLOC,
	MS_OP_MEMALIGN,
	MS_OP_FREE,
	MS_OP_THREAD_DONE,
	MS_OP_KINDS
};

struct ms_operation {
	enum ms_operation_kind kind;
	uint32_t tid;
	ms_addr address; /* 0: the call failed, or gave nothing out */
	ms_addr old;     /* of realloc */
	uint64_t number; /* calloc: how many; memalign: the alignment */
	uint64_t size;   /* of all bytes; of a calloc that overflows UINT64_MAX */
	bool timed;
	uint64_t start_ns; /* of thread_done: as end_ns */
	uint64_t end_ns;
};

/* What Android's own reader says of a line that it cannot read. */
enum ms_operation_problem {
	MS_OP_READ,     /* there is none */
	MS_OP_NO_LINE,  /* "Failed to process line" */
	MS_OP_NO_DATA,  /* "Failed to read malloc data" */
	MS_OP_NO_TIMES, /* "Failed to read timestamps" */
};

/*
 * Read a line of @len bytes, without its end.
 *
 * @ret: written whole on MS_OP_READ; otherwise its kind is what the line was taken for,
 *       or MS_OP_KINDS
 */
enum ms_operation_problem ms_operation_read(const char *line, size_t len, struct ms_operation *ret);

/* As it stands in the file. */
const char *ms_operation_name(enum ms_operation_kind kind);

/* The form of such a line, for people; of any, for MS_OP_KINDS. */
const char *ms_operation_form(enum ms_operation_kind kind);

#endif
