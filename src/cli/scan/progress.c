/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static const uint64_t patience_ns = 500 * UINT64_C(1000000);

static const char erase[] = "\r\033[K";

void ms_progress_begin(struct ms_progress *progress, bool quiet)
{
	progress->wanted = !quiet && isatty(STDERR_FILENO);
	progress->shown = false;
	progress->began_ns = ms_now_ns();
}

void ms_progress_tick(struct ms_progress *progress, const char *phase)
{
	uint64_t passed = ms_now_ns() - progress->began_ns;

	if (!progress->wanted || passed < patience_ns)
		return;
	(void)dprintf(STDERR_FILENO, "%smemscan: %s, %.1f s", erase, phase, (double)passed / 1e9);
	progress->shown = true;
}

void ms_progress_end(struct ms_progress *progress)
{
	if (progress->shown)
		(void)dprintf(STDERR_FILENO, "%s", erase);
	progress->shown = false;
}
