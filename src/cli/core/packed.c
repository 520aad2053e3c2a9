/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

size_t ms_packed_read(struct ms_packed_stream *stream)
{
	ssize_t n;

	do {
		n = read(stream->from, stream->in, sizeof(stream->in));
	} while (n < 0 && errno == EINTR);
	return n > 0 ? (size_t)n : 0;
}

static bool put_record(int to, enum ms_packed_said said, size_t n)
{
	const struct ms_packed_record record = { said, (uint32_t)n };

	return ms_fd_write_all(to, &record, sizeof(record));
}

bool ms_packed_put(struct ms_packed_stream *stream, size_t n)
{
	return !n || (put_record(stream->to, MS_PACKED_PIECE, n) &&
	              ms_fd_write_all(stream->to, stream->out, n));
}

int ms_packed_work(void *ctx, const struct ms_worker_side *side)
{
	const struct ms_packed_job *job = ctx;
	struct ms_packed_stream *stream = malloc(sizeof(*stream));
	enum ms_packed_said said;

	if (!stream)
		return 1;
	stream->from = job->from;
	stream->to = side->fd;
	said = job->unpack(stream);
	free(stream);
	return put_record(side->fd, said, 0) ? 0 : 1;
}
