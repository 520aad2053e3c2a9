/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_FILES_H
#define MS_TARGET_FILES_H

/*
 * The table of files that the image of a clone shares with the target, and how the image leaves it.
 *
 * close_range() (Linux 5.9) does that by one call while the target stands. Before, the image takes
 * a table of its own (unshare) once the target runs again, and closes what is in it one by one:
 * until then, milliseconds, a file that the target closes is still open.
 */

#include "target/clone/inject.h"

/* False before Linux 5.9, and where a filter of our own hides what this kernel has. */
bool ms_files_leave_at_once(void);

/*
 * What can be known of it before the target is stopped: MS_E_UNSUPPORTED when it has more files
 * open than are closed one by one.
 */
ms_must_check enum ms_status ms_files_check(pid_t pid, struct ms_error *err);

/* Calls that the image makes for it. */
struct ms_call ms_files_call_close_range(void);
struct ms_call ms_files_call_unshare(void);
struct ms_call ms_files_call_close(int fd);

/*
 * Leave the table, and close every file one by one.
 *
 * @image: stopped, its deadline set
 * @buf:   MS_PROC_LIST_BYTES
 *
 * Returns false when the image was lost or some files are left open: it is to be ended then.
 */
bool ms_files_leave_each(struct ms_injection *image, char *buf);

#endif
