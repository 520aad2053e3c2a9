/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SCAN_THREADS_H
#define MS_SCAN_THREADS_H

#include "engine/answer.h"

/* Fill in how the threads of @answer's roots are called; those that run yet say so in /proc. */
void ms_name_threads(struct ms_findings *answer);

#endif
