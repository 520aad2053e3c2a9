/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"
#include "cli/dump/dump.h"

enum { LEVEL = 3 }; /* zstd's own default */

static bool stop(struct ms_dump_file *file, int sys_errno)
{
	*file->sys_errno = sys_errno;
	return false;
}

/* ---- as it is ---- */

static bool write_out(struct ms_dump_file *file, const void *bytes, size_t len)
{
	if (file->hole && lseek(file->fd, (off_t)file->hole, SEEK_CUR) < 0)
		return stop(file, errno);
	file->hole = 0;
	return ms_fd_write_all(file->fd, bytes, len) || stop(file, errno);
}

static bool flush(struct ms_dump_file *file)
{
	size_t used = file->used;

	file->used = 0;
	return !used || write_out(file, file->buffer, used);
}

static bool put_plain(void *ctx, const void *bytes, size_t len)
{
	struct ms_dump_file *file = ctx;

	if (len > MS_DUMP_BUFFER - file->used && !flush(file))
		return false;
	if (len > MS_DUMP_BUFFER)
		return write_out(file, bytes, len);
	if (len)
		memcpy(file->buffer + file->used, bytes, len);
	file->used += len;
	return true;
}

static bool skip_plain(void *ctx, uint64_t len)
{
	struct ms_dump_file *file = ctx;

	if (!flush(file))
		return false;
	file->hole += len;
	return true;
}

/* A hole at the end is made by the file's length. */
static bool finish_plain(void *ctx)
{
	struct ms_dump_file *file = ctx;
	off_t at;

	if (!flush(file))
		return false;
	if (!file->hole)
		return true;
	at = lseek(file->fd, (off_t)file->hole, SEEK_CUR);
	return (at >= 0 && !ftruncate(file->fd, at)) || stop(file, errno);
}

/* ---- compressed ---- */

static bool pack(struct ms_dump_file *file, const void *bytes, size_t len, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = { bytes, len, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { file->packed, MS_DUMP_BUFFER, 0 };

		left = ZSTD_compressStream2(file->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return stop(file, ENOMEM);
		if (!ms_fd_write_all(file->fd, file->packed, out.pos))
			return stop(file, errno);
	} while (in.pos < in.size || (end == ZSTD_e_end && left));
	return true;
}

static bool put_packed(void *ctx, const void *bytes, size_t len)
{
	return pack(ctx, bytes, len, ZSTD_e_continue);
}

static bool skip_packed(void *ctx, uint64_t len)
{
	static const uint8_t zeros[MS_DUMP_BUFFER];
	bool ok = true;

	for (; ok && len > sizeof(zeros); len -= sizeof(zeros))
		ok = pack(ctx, zeros, sizeof(zeros), ZSTD_e_continue);
	return ok && pack(ctx, zeros, (size_t)len, ZSTD_e_continue);
}

static bool finish_packed(void *ctx)
{
	return pack(ctx, NULL, 0, ZSTD_e_end);
}

bool ms_dump_file_sink(struct ms_dump_file *file, bool compress, struct ms_dump_sink *ret)
{
	static const struct ms_dump_sink plain = { put_plain, skip_plain, finish_plain, NULL };
	static const struct ms_dump_sink packed = { put_packed, skip_packed, finish_packed, NULL };

	*ret = compress ? packed : plain;
	ret->ctx = file;
	file->buffer = malloc(MS_DUMP_BUFFER);
	file->packed = malloc(MS_DUMP_BUFFER);
	file->zstd = compress ? ZSTD_createCCtx() : NULL;
	if (!file->buffer || !file->packed || (compress && !file->zstd))
		return false;
	return !compress ||
	       (!ZSTD_isError(ZSTD_CCtx_setParameter(file->zstd, ZSTD_c_compressionLevel, LEVEL)) &&
	        !ZSTD_isError(ZSTD_CCtx_setParameter(file->zstd, ZSTD_c_checksumFlag, 1)));
}
