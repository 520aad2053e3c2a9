/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_OPTIONS_H
#define MS_INPROC_ANNOTATE_OPTIONS_H

/*
 * Options as LeakSanitizer's run-time takes them: name=value, set apart by blanks, commas,
 * or colons; a value in quotes, single or double, may have these too.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * Find the last option called @name in @text, NULL allowed, and copy its value to @value.
 *
 * Returns the value's length, 0 for an empty one; -1 when there is none, or when it does
 * not fit with its NUL, @value is then untouched.
 */
long ms_option_find(const char *text, const char *name, char *value, size_t size);

/*
 * What lsan.c has read of them before main(), for every search. Zeros in a static program that
 * has none of LeakSanitizer's names, for lsan.c is not in it.
 */
struct ms_lsan_options {
	const char *(*default_suppressions)(void); /* the program's; lines of "leak:PATTERN" */
	const char *suppressions_file;
	bool unaligned; /* pointers at any byte offset are to be followed */
};

extern struct ms_lsan_options
	ms_lsan; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

#endif
