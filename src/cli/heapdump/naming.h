/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_HEAPDUMP_NAMING_H
#define MS_CLI_HEAPDUMP_NAMING_H

#include "report/heapdump/view.h"
#include "sym/files.h"

/*
 * Name the places of @view from the files in @folders, and list the libraries that are in
 * none. Warns on stderr of files that are not those of the dump. Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_heapdump_name(struct ms_heapdump_view *view,
                                              const struct ms_symbol_folders *folders,
                                              struct ms_arena *arena, struct ms_error *err);

#endif
