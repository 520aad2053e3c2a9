/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_UTF8_H
#define MS_REPORT_UTF8_H

/*
 * Names come from the scanned process: they can be any bytes, among them
 * sequences that command a terminal or that no JSON parser takes. Every writer
 * passes them through here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copy @len bytes of @s to @ret as a valid, NUL-terminated UTF-8 string.
 *
 * A byte that belongs to no character, and a NUL, become U+FFFD; with
 * @printable controls (C0, DEL, C1, bidirectional ones, line separators) become
 * '?'. What does not fit
 * into @cap bytes is cut off between characters.
 *
 * Returns how many bytes of @s were used.
 */
size_t ms_utf8_clean(const char *s, size_t len, bool printable, char *ret, size_t cap);

/* A control as above but for C0; length 0: none. */
struct ms_utf8_control {
	uint32_t code;
	size_t length; /* bytes */
};

/* How many bytes of @s stand before the first such control, which goes to @ret. */
size_t ms_utf8_plain(const char *s, size_t len, struct ms_utf8_control *ret);

#endif
