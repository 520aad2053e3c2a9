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

/*
 * Copy @len bytes of @s to @ret as a valid, NUL-terminated UTF-8 string.
 *
 * A byte that belongs to no character, and a NUL, become U+FFFD; with
 * @printable control characters (C0, DEL, C1) become '?'. What does not fit
 * into @cap bytes is cut off between characters.
 *
 * Returns how many bytes of @s were used.
 */
size_t ms_utf8_clean(const char *s, size_t len, bool printable, char *ret, size_t cap);

#endif
