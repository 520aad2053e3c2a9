/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/out/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum {
	LINE_BYTES = 2048,
	/* out of the way of programs that count on the lowest numbers, or on the highest */
	HIGHEST_FD = 1000,
	BELOW_LIMIT = 24,
};

static struct {
	int fd; /* 0: none */
	dev_t dev;
	ino_t ino;
} kept; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

void ms_say_init(void)
{
	struct rlimit limit = { HIGHEST_FD, HIGHEST_FD };
	struct stat st;
	int lowest = HIGHEST_FD;
	int fd;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < (rlim_t)HIGHEST_FD + BELOW_LIMIT)
		lowest = limit.rlim_cur > 2 * (rlim_t)BELOW_LIMIT
		                 ? (int)limit.rlim_cur - BELOW_LIMIT
		                 : 3;
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, lowest);
	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	kept.dev = st.st_dev;
	kept.ino = st.st_ino;
	kept.fd = fd;
}

/* The program may have closed it, and the number may be that of something else. */
static int log_fd(void)
{
	struct stat st;

	if (kept.fd && fstat(kept.fd, &st) == 0 && st.st_dev == kept.dev && st.st_ino == kept.ino)
		return kept.fd;
	return STDERR_FILENO;
}

/* One line to @line of LINE_BYTES, cut if need be; its length. */
__attribute__((format(printf, 3, 0))) static size_t make_line(char *line, const char *tag,
                                                              const char *fmt, va_list ap)
{
	int used = snprintf(line, LINE_BYTES, "%s: ", tag);
	size_t len;

	(void)vsnprintf(line + used, LINE_BYTES - (size_t)used, fmt, ap);
	len = strlen(line);
	if (len == LINE_BYTES - 1)
		len--;
	line[len] = '\n';
	return len + 1;
}

static void put_out(const char *text, size_t len)
{
	int saved = errno;

	(void)ms_fd_write_all(log_fd(), text, len);
	errno = saved;
}

void ms_say(const char *fmt, ...)
{
	char line[LINE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	put_out(line, make_line(line, "malloc_debug", fmt, ap));
	va_end(ap);
}

void ms_say_libc(const char *fmt, ...)
{
	char line[LINE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	put_out(line, make_line(line, "libc", fmt, ap));
	va_end(ap);
}

void ms_say_add(struct ms_say_batch *batch, const char *fmt, ...)
{
	va_list ap;

	if (sizeof(batch->text) - batch->used < LINE_BYTES)
		ms_say_flush(batch);
	va_start(ap, fmt);
	batch->used += make_line(batch->text + batch->used, "malloc_debug", fmt, ap);
	va_end(ap);
}

void ms_say_flush(struct ms_say_batch *batch)
{
	if (batch->used)
		put_out(batch->text, batch->used);
	batch->used = 0;
}
