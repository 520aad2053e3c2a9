/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_OPTIONS_H
#define MS_INPROC_ANNOTATE_OPTIONS_H

/*
 * Options as LeakSanitizer's run-time takes them: name=value, set apart by blanks, commas,
 * or colons; a value in quotes, single or double, may have these too.
 */

#include <stddef.h>

/*
 * Find the last option called @name in @text, NULL allowed, and copy its value to @value.
 *
 * Returns the value's length, 0 for an empty one; -1 when there is none, or when it does
 * not fit with its NUL, @value is then untouched.
 */
long ms_option_find(const char *text, const char *name, char *value, size_t size);

#endif
