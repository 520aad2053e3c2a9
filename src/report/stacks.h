/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_STACKS_H
#define MS_REPORT_STACKS_H

/* Named stacks as Android's tools print them, for people and for scripts that read those. */

#include "engine/backtrace.h"
#include "report/writers.h"

/* As `debuggerd -b`. Returns false when the sink stopped it. */
bool ms_stacks_write(const struct ms_stack_dump *dump, struct ms_sink *sink);

/* One line of a backtrace, for frame @number; " at FILE:LINE" is ours. */
bool ms_frame_write(const struct ms_frame *frame, size_t number, struct ms_sink *sink);

#endif
