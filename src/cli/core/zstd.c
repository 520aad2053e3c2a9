/* SPDX-License-Identifier: Apache-2.0 */
#include <zstd.h>
#include <zstd_errors.h>

#include "cli/core/packed.h"

/* One piece of what was read; @ret_ended: it ended where a frame does. */
static enum ms_packed_said unpack_piece(ZSTD_DStream *from, struct ms_packed_stream *stream,
                                        size_t n, bool *ret_ended)
{
	ZSTD_inBuffer in = { stream->in, n, 0 };
	bool full = true;

	while (in.pos < in.size || full) {
		ZSTD_outBuffer out = { stream->out, sizeof(stream->out), 0 };
		size_t left = ZSTD_decompressStream(from, &out, &in);

		if (ZSTD_isError(left) &&
		    ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge)
			return MS_PACKED_LARGE;
		if (ZSTD_isError(left) || !ms_packed_put(stream, out.pos))
			return MS_PACKED_DAMAGED;
		*ret_ended = !left;
		full = left && out.pos == out.size;
	}
	return MS_PACKED_WHOLE;
}

enum ms_packed_said ms_packed_zstd(struct ms_packed_stream *stream)
{
	enum ms_packed_said said = MS_PACKED_WHOLE;
	ZSTD_DStream *from = ZSTD_createDStream();
	bool ended = false;
	size_t n;

	if (!from)
		return MS_PACKED_LARGE;
	while (said == MS_PACKED_WHOLE && (n = ms_packed_read(stream)) > 0)
		said = unpack_piece(from, stream, n, &ended);
	(void)ZSTD_freeDStream(from);
	return said == MS_PACKED_WHOLE && !ended ? MS_PACKED_CUT : said;
}
