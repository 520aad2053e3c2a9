/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lines.h"

#include <errno.h>
#include <string.h>

#include "report/utf8.h"

enum { LONGEST_CHARACTER = 4 };

static bool continues(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

/* How many bytes of the line do not belong to a character that goes on in the next piece. */
static size_t whole_characters(const struct ms_lines *lines)
{
	size_t n = lines->n;

	for (int i = 1; i < LONGEST_CHARACTER && n && continues(lines->line[n - 1]); i++)
		n--;
	return n > 1 ? n - 1 : lines->n;
}

static void note(struct ms_lines *lines, int result)
{
	if (result == EOF && !lines->failed)
		lines->failed = errno ? errno : EIO;
}

static void print(struct ms_lines *lines, size_t n)
{
	char clean[3 * sizeof(lines->line) + 1]; /* U+FFFD has three bytes */

	ms_utf8_clean(lines->line, n, true, clean, sizeof(clean));
	note(lines, fputs(clean, lines->to));
	lines->n -= n;
	memmove(lines->line, lines->line + n, lines->n);
}

void ms_lines_put(struct ms_lines *lines, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] == '\n') {
			print(lines, lines->n);
			note(lines, fputc('\n', lines->to));
			continue;
		}
		if (lines->n == sizeof(lines->line))
			print(lines, whole_characters(lines));
		lines->line[lines->n++] = bytes[i];
	}
}

int ms_lines_end(struct ms_lines *lines)
{
	print(lines, lines->n);
	note(lines, fflush(lines->to));
	return lines->failed;
}
