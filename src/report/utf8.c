/* SPDX-License-Identifier: Apache-2.0 */
#include "report/utf8.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* A character: its code and how many bytes wrote it; length 0 when none did. */
struct character {
	uint32_t code;
	size_t length;
};

static size_t length_from_first(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

static bool continues(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

/* Overlong forms, surrogates and what lies beyond U+10FFFF are no characters (RFC 3629). */
static bool is_scalar(uint32_t code, size_t length)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };

	return code >= smallest[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

static struct character decode(const char *s, size_t len)
{
	static const unsigned char first_mask[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	const struct character none = { 0, 0 };
	size_t length = length_from_first((unsigned char)s[0]);
	uint32_t code;

	if (length == 0 || length > len)
		return none;
	code = (unsigned char)s[0] & first_mask[length];
	for (size_t i = 1; i < length; i++) {
		if (!continues((unsigned char)s[i]))
			return none;
		code = code << 6 | ((unsigned char)s[i] & 0x3f);
	}
	return is_scalar(code, length) ? (struct character){ code, length } : none;
}

/*
 * What commands a terminal, ends a line or turns the order of what is read: C0, DEL, C1,
 * the line and paragraph separators, and the bidirectional controls of Unicode's UAX 9.
 */
static bool is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
	       code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

size_t ms_utf8_clean(const char *s, size_t len, bool printable, char *ret, size_t cap)
{
	static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
	size_t used = 0;
	size_t out = 0;

	assert(cap > 0);
	while (used < len) {
		struct character c = decode(s + used, len - used);
		const char *from = s + used;
		size_t n = c.length;

		if (c.length == 0 || s[used] == '\0') {
			from = replacement;
			n = sizeof(replacement) - 1;
		} else if (printable && is_control(c.code)) {
			from = "?";
			n = 1;
		}
		if (out + n >= cap)
			break;
		memcpy(ret + out, from, n);
		out += n;
		used += c.length ? c.length : 1;
	}
	ret[out] = '\0';
	return used;
}

size_t ms_utf8_plain(const char *s, size_t len, struct ms_utf8_control *ret)
{
	size_t at = 0;

	*ret = (struct ms_utf8_control){ 0, 0 };
	while (at < len) {
		struct character c;

		if ((unsigned char)s[at] < 0x7f) { /* most bytes; JSON has no bare C0 */
			at++;
			continue;
		}
		c = decode(s + at, len - at);
		if (c.length && is_control(c.code)) {
			*ret = (struct ms_utf8_control){ c.code, c.length };
			break;
		}
		at += c.length ? c.length : 1;
	}
	return at;
}
