/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_SCAN_SUPPRESSIONS_H
#define MS_CLI_SCAN_SUPPRESSIONS_H

#include "cli/scan/options.h"
#include "engine/names/suppressions.h"

/*
 * Read every file of options->suppressions, in order, into @ret.
 *
 * Returns MS_OK, also when none was given; else what is wrong with which file is in
 * @err, with what to do about it.
 */
ms_must_check enum ms_status ms_suppressions_read(const struct ms_options *options,
                                                  struct ms_arena *arena,
                                                  struct ms_suppressions *ret,
                                                  struct ms_error *err);

#endif
