/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what prints the lines that another process sends (cli/lines.h), as the answer of
 * a process that was triggered.
 *
 *	fuzz: -max_len=4096
 *
 * The first byte of an input chooses the pieces that the rest comes in. What is printed
 * must be text that commands no terminal, must be UTF-8, and as many lines as came;
 * pieces must change nothing.
 */

#include <string.h>

#include "cli/lines.h"

#include "fuzz.h"

static char *print(const char *bytes, size_t len, size_t piece, size_t *ret_len)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, ret_len);
	struct ms_lines lines = { .to = to };

	require(to, "there is memory");
	for (size_t at = 0; at < len; at += piece)
		ms_lines_put(&lines, bytes + at, len - at < piece ? len - at : piece);
	ms_lines_end(&lines);
	require(!lines.failed && !fclose(to), "it is written");
	return text;
}

static size_t count_lines(const char *bytes, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += bytes[i] == '\n';
	return n;
}

/* How many bytes the character at @at has; 0: it is none. */
static size_t character(const uint8_t *at, size_t left)
{
	size_t n = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

	if (at[0] > 0xf4 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void check(const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		const uint8_t *at = (const uint8_t *)text + i;
		size_t n = character(at, len - i);

		require(n, "it is UTF-8");
		require(at[0] >= ' ' || at[0] == '\n' || at[0] == '\t', "nothing commands");
		require(at[0] != 0x7f && !(at[0] == 0xc2 && at[1] < 0xa0), "nor does this");
		i += n;
	}
}

/* Whether all of it can stay as it is: ASCII, and characters none of which is a control. */
static bool is_plain(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = character(at + i, len - i);
		uint8_t lead = at[i];

		if (!n ||
		    lead < (n == 1   ? ' '
		            : n == 2 ? 0xc3
		            : n == 3 ? 0xe3
		                     : 0xf1) ||
		    lead > (n == 1   ? '~'
		            : n == 2 ? 0xc3
		            : n == 3 ? 0xec
		                     : 0xf3))
			return false;
		i += n;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data + 1;
	size_t len;
	size_t other_len;
	char *text;
	char *other;

	if (!size)
		return -1;
	text = print(bytes, size - 1, 1 + (size_t)data[0], &len);
	other = print(bytes, size - 1, size, &other_len);
	require(len == other_len && !memcmp(text, other, len), "pieces change nothing");
	require(count_lines(bytes, size - 1) == count_lines(text, len), "lines stay lines");
	check(text, len);
	if (is_plain(data + 1, size - 1))
		require(len == size - 1 && !memcmp(text, bytes, len), "plain text stays");
	free(text);
	free(other);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	static const char mixed[] = "\3one\ntwo \033[31mred\033[0m\n"
				    "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xc2\x9b\n";
	char seed[2048];

	take(mixed, sizeof(mixed) - 1);
	for (size_t i = 0; i < sizeof(seed); i++)
		seed[i] = "\xe3\x81\x82"[i % 3];
	take(seed, sizeof(seed));
	/* A character where the line is cut. */
	memset(seed, 'a', sizeof(seed));
	memcpy(seed + 1 + 1021, "\xf1\x9f\x98\x80", 4);
	take(seed, sizeof(seed));
}
