/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_NAMING_H
#define MS_CLI_NAMING_H

#include <sys/types.h>

#include "engine/names/suppressions.h"
#include "engine/report.h"

/*
 * Say which of @suppressions each of @asked's stacks matches: the first that matches a
 * name of any of its frames.
 *
 * @pid:      the process that was scanned
 * @asked:    its stacks, pcs and code are filled; from the sweeper, but in bounds
 * @verdicts: out; for each stack a suppression's number from 1 on, or 0
 *
 * False with the reason in @err.
 */
bool ms_naming_judge(pid_t pid, const struct ms_report *asked,
                     const struct ms_suppressions *suppressions, uint32_t *verdicts,
                     struct ms_error *err);

#endif
