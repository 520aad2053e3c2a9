/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

#define TAG "libmemunreachable: "

enum { TAG_BYTES = sizeof(TAG) - 1 };

enum { PATIENCE_MS = 1000 };

/* A reader that has gone to sleep must not keep us, and with us the next search. */
static bool is_read(void)
{
	struct pollfd wait = { .fd = STDERR_FILENO, .events = POLLOUT };

	return poll(&wait, 1, PATIENCE_MS) > 0 && wait.revents & POLLOUT;
}

/* In one call, so that lines of several processes do not mix. */
static void write_line(const char *line, size_t len)
{
	char whole[TAG_BYTES + sizeof(((struct ms_log_lines *)NULL)->line) + 1];

	memcpy(whole, TAG, TAG_BYTES);
	memcpy(whole + TAG_BYTES, line, len);
	whole[TAG_BYTES + len] = '\n';
	if (is_read())
		(void)ms_fd_write_all(STDERR_FILENO, whole, TAG_BYTES + len + 1);
}

void ms_log(const char *fmt, ...)
{
	char line[sizeof(((struct ms_log_lines *)NULL)->line)];
	int kept = errno;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (len >= 0)
		write_line(line, strnlen(line, sizeof(line)));
	errno = kept;
}

/* Longer lines are broken, empty ones left out. */
static bool take(struct ms_sink *sink, const char *bytes, size_t len)
{
	struct ms_log_lines *lines = (struct ms_log_lines *)sink; /* its first member */

	for (size_t i = 0; i < len; i++) {
		bool full = lines->n == sizeof(lines->line);

		if (bytes[i] == '\n' || full)
			ms_log_end(lines);
		if (bytes[i] != '\n')
			lines->line[lines->n++] = bytes[i];
	}
	return true;
}

void ms_log_begin(struct ms_log_lines *lines)
{
	lines->sink = (struct ms_sink){ .write = take };
	lines->n = 0;
}

void ms_log_end(struct ms_log_lines *lines)
{
	if (lines->n)
		write_line(lines->line, lines->n);
	lines->n = 0;
}
