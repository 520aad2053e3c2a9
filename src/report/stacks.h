/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_STACKS_H
#define MS_REPORT_STACKS_H

/* Named stacks as Android's tools print them, for people and for scripts that read those. */

#include "engine/backtrace.h"
#include "report/writers.h"

/* As `debuggerd -b`; " at FILE:LINE" is ours. Returns false when the sink stopped it. */
bool ms_stacks_write(const struct ms_stack_dump *dump, struct ms_sink *sink);

#endif
