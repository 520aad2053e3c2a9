/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SCAN_THREADS_H
#define MS_SCAN_THREADS_H

#include "engine/report.h"

/* Fill in how the threads of @report's roots are called; those that run yet say so in /proc. */
void ms_name_threads(struct ms_report *report);

#endif
