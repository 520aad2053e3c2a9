/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_SCAN_OPTIONS_ROWS_H
#define MS_CLI_SCAN_OPTIONS_ROWS_H

/* Which options the commands have that scan, and what each takes. */

#include "cli/args.h"
#include "cli/scan/options.h"

/* What the commands say of themselves, by their use; without options. */
extern const struct ms_option_table ms_options_commands[];

/* All that one of them has; @ret_rows: where its options are put. */
struct ms_option_table ms_options_table(enum ms_scan_use use,
                                        struct ms_option ret_rows[MS_OPTIONS_MOST]);

/* Of --core, and of memscan core's word. */
bool ms_options_take_core(void *to, const char *arg, struct ms_error *err);

#endif
