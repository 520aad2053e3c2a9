/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_LSAN_H
#define MS_INPROC_ANNOTATE_LSAN_H

/*
 * LeakSanitizer's names, for programs annotated for it. What it would end the process
 * for, except leaks found by __lsan_do_leak_check(), is only told.
 *
 * Its options that mean something here, from the program's __lsan_default_options() and
 * then from LSAN_OPTIONS: exitcode, detect_leaks, leak_check_at_exit, suppressions,
 * use_unaligned. The last two hold for every search.
 */

#include <stdbool.h>

/* The program's __lsan_default_suppressions(): lines of "leak:PATTERN"; NULL for none. */
const char *ms_lsan_default_suppressions(void);

/* The file that the option suppressions names, or NULL. Lives as long as the process. */
const char *ms_lsan_suppressions_file(void);

/* Whether pointers at any byte offset are to be followed. */
bool ms_lsan_unaligned(void);

#endif
