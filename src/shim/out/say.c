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
		lowest = limit.rlim_cur > 2 * BELOW_LIMIT ? (int)limit.rlim_cur - BELOW_LIMIT : 3;
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

__attribute__((format(printf, 2, 0))) static void say(const char *tag, const char *fmt, va_list ap)
{
	char line[LINE_BYTES];
	int saved = errno;
	int used = snprintf(line, sizeof(line), "%s: ", tag);
	size_t len;

	(void)vsnprintf(line + used, sizeof(line) - (size_t)used, fmt, ap);
	len = strlen(line);
	if (len == sizeof(line) - 1)
		len--;
	line[len] = '\n';
	(void)ms_fd_write_all(log_fd(), line, len + 1);
	errno = saved;
}

void ms_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("malloc_debug", fmt, ap);
	va_end(ap);
}

void ms_say_libc(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("libc", fmt, ap);
	va_end(ap);
}
