/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_PACKED_H
#define MS_CLI_PACKED_H

/*
 * Unpacking, in a worker (cli/worker.h): the compressed file may be anything, and the libraries
 * are others'. What it says is records:
 *
 *	PIECE    @n bytes follow
 *	the rest how it ended: one of them is last
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/worker.h"

enum ms_packed_said {
	MS_PACKED_PIECE,
	MS_PACKED_WHOLE,
	MS_PACKED_CUT,     /* the file ends too early */
	MS_PACKED_DAMAGED, /* it makes no sense at some place */
	MS_PACKED_LARGE,   /* it takes more memory to unpack than is given */
	MS_PACKED_SAIDS
};

struct ms_packed_record {
	uint32_t said; /* enum ms_packed_said */
	uint32_t n;
};

enum { MS_PACKED_BYTES = 1 << 20 }; /* of a piece, at most */

/* Where a codec reads and writes. */
struct ms_packed_stream {
	int from;
	int to;
	uint8_t in[MS_PACKED_BYTES];
	uint8_t out[MS_PACKED_BYTES];
};

/* Read on. Returns how many bytes; 0 at the end. */
size_t ms_packed_read(struct ms_packed_stream *stream);

/* Say the first @n bytes of stream->out; false when nobody listens. */
bool ms_packed_put(struct ms_packed_stream *stream, size_t n);

/* Unpack all of it; how that ended. */
typedef enum ms_packed_said ms_packed_fn(struct ms_packed_stream *stream);

ms_packed_fn ms_packed_zstd;
ms_packed_fn ms_packed_lz4;
ms_packed_fn ms_packed_xz;

struct ms_packed_job {
	int from;
	ms_packed_fn *unpack;
};

/* What the process does: ms_worker_call.work, with a struct ms_packed_job for @ctx. */
int ms_packed_work(void *ctx, const struct ms_worker_side *side);

#endif
