/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_FILE_H
#define MS_BASE_FILE_H

#include "base/status.h"
#include "base/vec.h"

struct ms_bytes MS_VEC(char);

/*
 * Read all of @path, which may be a pipe, to @ret in @arena; at most 64 MiB.
 *
 * Returns MS_E_SYS with the reason; without memory, too.
 */
ms_must_check enum ms_status ms_file_read(const char *path, struct ms_arena *arena,
                                          struct ms_bytes *ret, struct ms_error *err);

#endif
