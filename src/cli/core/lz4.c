/* SPDX-License-Identifier: Apache-2.0 */
#include <lz4frame.h>

#include "cli/core/packed.h"

/* One piece of what was read; @ret_ended: it ended where a frame does. */
static enum ms_packed_said unpack_piece(LZ4F_dctx *from, struct ms_packed_stream *stream, size_t n,
                                        bool *ret_ended)
{
	size_t at = 0;
	bool full = true;

	while (at < n || full) {
		size_t taken = n - at;
		size_t out = sizeof(stream->out);
		size_t left =
			LZ4F_decompress(from, stream->out, &out, stream->in + at, &taken, NULL);

		if (LZ4F_isError(left) || !ms_packed_put(stream, out))
			return MS_PACKED_DAMAGED;
		at += taken;
		*ret_ended = !left;
		full = left && out == sizeof(stream->out);
	}
	return MS_PACKED_WHOLE;
}

enum ms_packed_said ms_packed_lz4(struct ms_packed_stream *stream)
{
	enum ms_packed_said said = MS_PACKED_WHOLE;
	LZ4F_dctx *from;
	bool ended = false;
	size_t n;

	if (LZ4F_isError(LZ4F_createDecompressionContext(&from, LZ4F_VERSION)))
		return MS_PACKED_LARGE;
	while (said == MS_PACKED_WHOLE && (n = ms_packed_read(stream)) > 0)
		said = unpack_piece(from, stream, n, &ended);
	(void)LZ4F_freeDecompressionContext(from);
	return said == MS_PACKED_WHOLE && !ended ? MS_PACKED_CUT : said;
}
