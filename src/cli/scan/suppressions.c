/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/suppressions.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, MOST = 64 * 1024 * 1024 };

struct content MS_VEC(char);

static enum ms_status unreadable(const char *file, int number, struct ms_error *err)
{
	enum ms_status st = ms_fail_sys(err, number, "cannot read suppressions from %.90s", file);

	ms_advise(err, "give --suppressions a file that can be read, or leave it away");
	return st;
}

/* Read on to the end: it may be a pipe, whose length nobody knows. */
static enum ms_status read_all(int fd, const char *file, struct ms_arena *arena,
                               struct content *ret, struct ms_error *err)
{
	for (;;) {
		ssize_t n;

		if (!ms_vec_reserve(arena, ret, ret->n + PIECE))
			return unreadable(file, ENOMEM, err);
		n = read(fd, ret->at + ret->n, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return unreadable(file, errno, err);
		if (n == 0)
			return MS_OK;
		ret->n += (size_t)n;
		if (ret->n > MOST)
			return unreadable(file, EFBIG, err);
	}
}

static enum ms_status read_file(const char *file, struct ms_arena *arena,
                                struct ms_suppressions *ret, struct ms_error *err)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct content content = { 0 };
	struct ms_suppression_file whole = { .path = file, .text = "" };
	enum ms_status st;

	if (fd < 0)
		return unreadable(file, errno, err);
	st = read_all(fd, file, arena, &content, err);
	(void)close(fd);
	if (st)
		return st;
	if (content.n) {
		whole.text = content.at;
		whole.len = content.n;
	}
	return ms_suppressions_parse(&whole, arena, ret, err);
}

enum ms_status ms_suppressions_read(const struct ms_options *options, struct ms_arena *arena,
                                    struct ms_suppressions *ret, struct ms_error *err)
{
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < options->n_suppressions && !st; i++)
		st = read_file(options->suppressions[i], arena, ret, err);
	return st;
}
