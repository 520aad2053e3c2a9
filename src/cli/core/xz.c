/* SPDX-License-Identifier: Apache-2.0 */
#include <lzma.h>

#include "cli/core/packed.h"

/* xz -9 needs 65 MiB. */
static const uint64_t MOST_MEMORY = (uint64_t)512 << 20;

static enum ms_packed_said said_of(lzma_ret ret)
{
	switch (ret) {
	case LZMA_STREAM_END:
		return MS_PACKED_WHOLE;
	case LZMA_BUF_ERROR:
		return MS_PACKED_CUT;
	case LZMA_MEM_ERROR:
	case LZMA_MEMLIMIT_ERROR:
		return MS_PACKED_LARGE;
	default:
		return MS_PACKED_DAMAGED;
	}
}

enum ms_packed_said ms_packed_xz(struct ms_packed_stream *stream)
{
	lzma_stream from = LZMA_STREAM_INIT;
	lzma_ret ret = lzma_stream_decoder(&from, MOST_MEMORY, LZMA_CONCATENATED);
	lzma_action action = LZMA_RUN;

	while (ret == LZMA_OK) {
		if (!from.avail_in && action == LZMA_RUN) {
			from.next_in = stream->in;
			from.avail_in = ms_packed_read(stream);
			action = from.avail_in ? LZMA_RUN : LZMA_FINISH;
		}
		from.next_out = stream->out;
		from.avail_out = sizeof(stream->out);
		ret = lzma_code(&from, action);
		if (!ms_packed_put(stream, sizeof(stream->out) - from.avail_out))
			ret = LZMA_PROG_ERROR;
	}
	lzma_end(&from);
	return said_of(ret);
}
