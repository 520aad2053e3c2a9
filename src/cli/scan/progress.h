/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_PROGRESS_H
#define MS_CLI_PROGRESS_H

/*
 * The line that says what a long scan is at: on stderr, on a terminal only, only
 * past half a second, and gone at the end.
 */

#include <stdbool.h>
#include <stdint.h>

struct ms_progress {
	bool wanted;
	bool shown;
	uint64_t began_ns;
};

void ms_progress_begin(struct ms_progress *progress, bool quiet);

/* Say that @phase ("freezing", …) is going on; call some ten times a second. */
void ms_progress_tick(struct ms_progress *progress, const char *phase);

void ms_progress_end(struct ms_progress *progress);

#endif
