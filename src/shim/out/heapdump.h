/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OUT_HEAPDUMP_H
#define MS_SHIM_OUT_HEAPDUMP_H

/* Android's native heap dump, v1.2. */

#include <stdbool.h>

/* Write it to the file of the options' prefix, this process and @suffix; that is logged. */
void ms_heapdump_write(const char *suffix);

/* Write it to the file @path, which is replaced; that is logged, too. False as below. */
bool ms_heapdump_file(const char *path);

/* Write it to @fd. False when that failed, or without memory. */
bool ms_heapdump_to(int fd);

#endif
