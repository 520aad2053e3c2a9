/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/file.h"
#include "base/page.h"
#include "cli/core/core.h"
#include "cli/core/packed.h"

enum { LIMIT_S = 24 * 3600, MOST_MAGIC = 6, SHOWN = 100, HEAD_BYTES = 64 };

static const uint64_t second_ns = UINT64_C(1000000000);

/*
 * Cores of real programs are 3 to 30 times as long as what they are packed to, and some hundred
 * times where the heap is of one pattern; a bomb is up to 30,000 times as long. Zeros, of which a
 * core can have any number, do not count: they are holes and take no room.
 */
static const uint64_t most_ratio = 2048;
static const uint64_t least_most_bytes = (uint64_t)256 << 20;

/* Of a file system this much stays free for others: a part of it, but not more than that. */
static const uint64_t reserve_part = 20;
static const uint64_t most_reserve_bytes = (uint64_t)1 << 30;
static const uint64_t check_bytes = (uint64_t)16 << 20; /* so often it is asked how much is free */

/* By the first bytes of a file, how it is compressed. */
static const struct format {
	const char *name;
	uint8_t magic[MOST_MAGIC];
	uint8_t n;
	ms_packed_fn *unpack; /* NULL: that is not for us */
	const char *by_hand;
} formats[] = {
	{ "zstd", { 0x28, 0xb5, 0x2f, 0xfd }, 4, ms_packed_zstd, "zstd -d" },
	{ "lz4", { 0x04, 0x22, 0x4d, 0x18 }, 4, ms_packed_lz4, "lz4 -d" },
	{ "xz", { 0xfd, '7', 'z', 'X', 'Z', 0 }, 6, ms_packed_xz, "unxz -k" },
	{ "gzip", { 0x1f, 0x8b }, 2, NULL, "gunzip -k" },
	{ "bzip2", { 'B', 'Z', 'h' }, 3, NULL, "bunzip2 -k" },
};

struct unpacking {
	const struct ms_core_packed *packed;
	const struct format *format;
	struct ms_worker worker;
	int to;
	uint64_t bytes;   /* so far */
	uint64_t written; /* of these, without zeros */
	uint64_t checked; /* so many were written when it was last asked how much is free */
	uint64_t packed_bytes;
	uint8_t head[HEAD_BYTES]; /* the first bytes, by which a core is known */
	size_t n_head;
	bool known;
	const char *folder;
	uint8_t piece[MS_PACKED_BYTES];
};

static const struct format *format_of(int fd)
{
	uint8_t magic[MOST_MAGIC] = { 0 };

	(void)!pread(fd, magic, sizeof(magic), 0);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (memcmp(magic, formats[i].magic, formats[i].n) == 0)
			return &formats[i];
	return NULL;
}

/* ---- where it is put ---- */

static int open_in(const char *folder)
{
	struct ms_ending ending;
	char path[PATH_MAX];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);

	if (fd >= 0 || errno == ENOENT || errno == EACCES)
		return fd;
	/* A file system without files that have no name: no signal ends us before it has none. */
	(void)snprintf(path, sizeof(path), "%s/memscan-XXXXXX", folder);
	ms_ending_hold(&ending);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		(void)unlink(path);
	ms_ending_allow(&ending);
	return fd;
}

static enum ms_status open_temporary(struct unpacking *u, struct ms_error *err)
{
	const char *const folders[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (!folders[i] || !*folders[i])
			continue;
		u->folder = folders[i];
		u->to = open_in(folders[i]);
		if (u->to >= 0)
			return MS_OK;
	}
	(void)ms_fail_sys(err, errno, "no file can be made in %s to decompress the core to",
	                  ms_file_end(u->folder, SHOWN));
	ms_advise(err, "set TMPDIR to a folder on a file system with room");
	return MS_E_SYS;
}

static enum ms_status no_room(const struct unpacking *u, int error, struct ms_error *err)
{
	(void)ms_fail_sys(err, error, "%s has no room for the decompressed core, after %llu MiB",
	                  ms_file_end(u->folder, SHOWN), (unsigned long long)(u->bytes >> 20));
	ms_advise(err,
	          "set TMPDIR to a folder on a file system with more, or decompress the core "
	          "by %s",
	          u->format->by_hand);
	return MS_E_SYS;
}

static enum ms_status grows_too_much(const struct unpacking *u, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "%s decompresses to more than %llu MiB, over %llu times its size, as a "
	              "decompression bomb does",
	              ms_file_end(u->packed->path, SHOWN), (unsigned long long)(u->written >> 20),
	              (unsigned long long)most_ratio);
	ms_advise(err, "if it is a core, decompress it by %s", u->format->by_hand);
	return MS_E_UNSUPPORTED;
}

/* Whether there is room for more, on the disk and by the length of the packed file. */
static enum ms_status check_room(struct unpacking *u, struct ms_error *err)
{
	uint64_t reserve;
	struct statvfs fs;

	if (u->written > least_most_bytes && u->written / most_ratio > u->packed_bytes)
		return grows_too_much(u, err);
	if (u->written - u->checked < check_bytes || fstatvfs(u->to, &fs) != 0)
		return MS_OK;
	u->checked = u->written;
	reserve = (uint64_t)fs.f_blocks * fs.f_frsize / reserve_part;
	reserve = reserve < most_reserve_bytes ? reserve : most_reserve_bytes;
	return (uint64_t)fs.f_bavail * fs.f_frsize < reserve ? no_room(u, ENOSPC, err) : MS_OK;
}

/* Pages of zeros become holes. False with errno. */
static bool put_piece(struct unpacking *u, size_t n)
{
	for (size_t at = 0; at < n;) {
		size_t len = MS_PAGE_BYTES - u->bytes % MS_PAGE_BYTES;
		ssize_t put;

		len = len < n - at ? len : n - at;
		if (!ms_is_zero(u->piece + at, len)) {
			put = pwrite(u->to, u->piece + at, len, (off_t)u->bytes);
			if (put < 0 && errno == EINTR)
				continue;
			if (put < 0)
				return false;
			len = (size_t)put;
			u->written += len;
		}
		u->bytes += len;
		at += len;
	}
	return true;
}

/* What is no core is not unpacked on. @last: there is no more */
static enum ms_status check_head(struct unpacking *u, const uint8_t *piece, size_t n, bool last,
                                 struct ms_error *err)
{
	size_t more = sizeof(u->head) - u->n_head;

	more = more < n ? more : n;
	if (u->known)
		return MS_OK;
	if (more)
		memcpy(u->head + u->n_head, piece, more);
	u->n_head += more;
	if (u->n_head < sizeof(u->head) && !last)
		return MS_OK;
	u->known = true;
	return ms_core_check(u->head, u->n_head, u->packed->path, err);
}

/* ---- listening to the worker ---- */

static bool get(struct unpacking *u, void *buf, size_t len)
{
	uint8_t *at = buf;

	while (len) {
		ssize_t n = ms_worker_read(&u->worker, at, len);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static enum ms_status take_piece(struct unpacking *u, size_t n, struct ms_error *err)
{
	enum ms_status st = check_head(u, u->piece, n, false, err);

	if (st)
		return st;
	if (!put_piece(u, n))
		return no_room(u, errno, err);
	ms_progress_tick(u->packed->progress, "decompressing");
	return check_room(u, err);
}

static bool is_late(const struct unpacking *u)
{
	return u->packed->deadline_ns && ms_now_ns() >= u->packed->deadline_ns;
}

/* All pieces; @ret: how it ended. */
static enum ms_status take_pieces(struct unpacking *u, enum ms_packed_said *ret,
                                  struct ms_error *err)
{
	struct ms_packed_record record;

	while (get(u, &record, sizeof(record)) && record.said < MS_PACKED_SAIDS &&
	       record.n <= MS_PACKED_BYTES) {
		enum ms_status st;

		*ret = (enum ms_packed_said)record.said;
		if (*ret != MS_PACKED_PIECE)
			return MS_OK;
		if (!get(u, u->piece, record.n))
			break;
		st = take_piece(u, record.n, err);
		if (st)
			return st;
	}
	return is_late(u) ? ms_core_late(err)
	                  : ms_fail(err, MS_E_DIED,
	                            "the process that decompresses the core ended early");
}

static enum ms_status judge(const struct unpacking *u, enum ms_packed_said said,
                            struct ms_error *err)
{
	const char *path = ms_file_end(u->packed->path, SHOWN);

	if (said == MS_PACKED_LARGE) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "%s takes more memory to decompress than memscan gives it", path);
		ms_advise(err, "decompress it first: %s", u->format->by_hand);
		return MS_E_UNSUPPORTED;
	}
	if (said != MS_PACKED_WHOLE && !u->bytes) {
		(void)ms_fail(err, MS_E_CORRUPT, "%s is damaged: it cannot be decompressed (%s)",
		              path, u->format->name);
		ms_advise(err, "get it anew, by coredumpctl dump -o FILE for one of systemd's");
		return MS_E_CORRUPT;
	}
	if (said != MS_PACKED_WHOLE)
		ms_note_add(u->packed->arena, u->packed->warnings,
		            "the compressed core %s after %llu MiB: what is behind that is missing",
		            said == MS_PACKED_CUT ? "ends" : "is damaged",
		            (unsigned long long)(u->bytes >> 20));
	return MS_OK;
}

static uint64_t limit_ns(const struct unpacking *u)
{
	const uint64_t most_ns = LIMIT_S * second_ns;
	uint64_t now_ns = ms_now_ns();

	if (!u->packed->deadline_ns || u->packed->deadline_ns > now_ns + most_ns)
		return most_ns;
	return u->packed->deadline_ns > now_ns ? u->packed->deadline_ns - now_ns : 0;
}

static enum ms_status unpack(struct unpacking *u, struct ms_error *err)
{
	struct ms_packed_job job = { u->packed->fd, u->format->unpack };
	const struct ms_worker_call call = {
		.title = "memscan-unpack",
		.work = ms_packed_work,
		.ctx = &job,
		.limit_ns = limit_ns(u),
		.keep = u->packed->fd,
	};
	enum ms_packed_said said = MS_PACKED_DAMAGED;
	enum ms_status st = open_temporary(u, err);

	if (!st)
		st = ms_worker_start(&call, &u->worker, err);
	if (st)
		return is_late(u) ? ms_core_late(err) : st;
	st = take_pieces(u, &said, err);
	(void)ms_worker_end(&u->worker, !st);
	if (!st)
		st = judge(u, said, err);
	if (!st)
		st = check_head(u, NULL, 0, true, err);
	if (!st && ftruncate(u->to, (off_t)u->bytes) != 0)
		st = no_room(u, errno, err);
	return st;
}

/* The core is as old as the file that it was packed in. */
static void copy_time(int from, int to)
{
	struct stat st;

	if (fstat(from, &st) == 0)
		(void)futimens(to, (const struct timespec[]){ st.st_atim, st.st_mtim });
}

static enum ms_status refuse(const struct format *format, const char *path, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s is compressed by %s, which memscan does not read",
	              ms_file_end(path, SHOWN), format->name);
	ms_advise(err, "decompress it first: %s", format->by_hand);
	return MS_E_UNSUPPORTED;
}

enum ms_status ms_core_unpack(const struct ms_core_packed *packed, int *ret_fd,
                              struct ms_error *err)
{
	const struct format *format = format_of(packed->fd);
	struct unpacking *u;
	struct stat st_packed;
	enum ms_status st;

	if (!format) {
		*ret_fd = packed->fd;
		return MS_OK;
	}
	u = ms_arena_alloc(packed->arena, sizeof(*u));
	if (!u || !format->unpack) {
		(void)close(packed->fd);
		return u ? refuse(format, packed->path, err)
		         : ms_fail(err, MS_E_NOMEM, "no memory to decompress the core");
	}
	u->packed = packed;
	u->format = format;
	u->packed_bytes = fstat(packed->fd, &st_packed) == 0 ? (uint64_t)st_packed.st_size : 0;
	u->to = -1;
	st = unpack(u, err);
	if (!st) {
		copy_time(packed->fd, u->to);
		*ret_fd = u->to;
	} else if (u->to >= 0) {
		(void)close(u->to);
	}
	(void)close(packed->fd);
	return st;
}
