/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_NAMES_LEAK_H
#define MS_INPROC_NAMES_LEAK_H

#include "engine/report.h"
#include "memunreachable/memunreachable.h"

/*
 * Make of @backtrace the one stack of @ret, named as this process has its code mapped now,
 * in memory of @arena. False without memory, or where /proc is not to be read.
 */
bool ms_names_of_backtrace(const struct UnreachableMemoryBacktrace *backtrace,
                           struct ms_arena *arena, struct ms_report *ret);

#endif
